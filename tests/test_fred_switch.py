"""rtl.fred.switch: the whole switch through its wires."""

import re
from fractions import Fraction

import pytest

from rtl.common.packet import DataType, Operator, TrafficClass
from rtl.fred.configuration import Refusal, entry_layout
from rtl.fred.errors import error_layout
from rtl.fred.switch import FredSwitch
from rtl.link.wire import LinkWire
from sim_top.emission import emit_systemverilog
from sim_top.simulator import simulate
from sw_model.fred.table import CLASS_CODES, OPERATOR_CODES, TYPE_CODES, entry_bits
from sw_model.fred.timing import FredTiming

GOOD = {
    "ports": 4,
    "middle_copies": 3,
    "flit_bytes": 16,
    "packet_bytes": 64,
    "data_types": frozenset({DataType.FP16, DataType.INT32}),
    "operators": frozenset({Operator.SUM}),
    "adder_depth": 2,
    "configurations": 5,
    "input_depth": 24,
    "output_credits": 40,
}


def run(simulator="icarus", testcase=None, ops=40, **changes):
    options = GOOD | changes
    simulate(
        FredSwitch(**options),
        testbench="testbenches.tb_fred_switch",
        testcase=testcase,
        simulator=simulator,
        parameters={
            **{key: value for key, value in options.items() if isinstance(value, int)},
            "data_types": [t.name.lower() for t in sorted(options["data_types"])],
            "ops": ops,
            "rate": [
                options.get("rate", Fraction(1)).numerator,
                options.get("rate", Fraction(1)).denominator,
            ],
        },
    )


def test_signature():
    switch = FredSwitch(**GOOD)
    members = dict(switch.signature.members)
    assert list(members) == [
        "i", "o", "configure", "configured", "refusal", "errors", "error", "error_count", "clear",
        "received", "sent", "switchovers", "waiting", "missing", "idle",
    ]  # fmt: skip
    assert members["o"].signature == LinkWire(16)
    assert members["i"].dimensions == members["o"].dimensions == (4,)
    for name, value in GOOD.items():
        assert getattr(switch, name) == value
    assert switch.rate == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ports": 1}, "ports must be an integer in 2..64, not 1"),
        ({"middle_copies": 1}, "middle_copies must be an integer of at least 2, not 1"),
        ({"flit_bytes": 24}, "flit_bytes must be a power of two of at least 16, not 24"),
        ({"configurations": 0}, "configurations must be an integer in 1..4096, not 0"),
        ({"configurations": 4097}, "configurations must be an integer in 1..4096, not 4097"),
        (
            {"packet_bytes": 72},
            "packet_bytes must be a multiple of flit_bytes in 16..65535, not 72",
        ),
        ({"output_credits": 4}, "output_credits must be at least the 5 flits of a packet, not 4"),
        ({"input_depth": 0}, "input_depth must be a positive integer, not 0"),
        (
            {"rate": Fraction(3, 2)},
            "rate must be a Fraction above 0 and at most 1, not Fraction(3, 2)",
        ),
    ],
)
def test_wrong_parameters(change, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        FredSwitch(**(GOOD | change))


def test_an_entry_is_that_of_the_model():
    for ports in (2, 3, 4, 5, 8, 12):
        assert entry_layout(ports, 3).size == entry_bits(ports, 3)
    assert {t.name.lower(): t.value for t in DataType} == TYPE_CODES
    assert {o.name.lower(): o.value for o in Operator} == OPERATOR_CODES
    assert {c.name.lower(): c.value for c in TrafficClass} == CLASS_CODES


def test_one_shared_channel_needs_no_more_than_one_matcher():
    one = emit_systemverilog(FredSwitch(**GOOD), name="dut")
    classes = (TrafficClass.MP, TrafficClass.DP, TrafficClass.CONTROL)
    three = emit_systemverilog(FredSwitch(**(GOOD | {"classes": classes})), name="dut")
    for text, matchers, channels, crossbars in ((one, 1, 4, 0), (three, 2, 12, 1)):
        assert text.count("  flow_matcher matcher_") == matchers
        assert text.count("  input_channel") == channels
        assert text.count("  control_crossbar crossbar ") == crossbars
    assert "__channel" not in one


@pytest.mark.parametrize("ports", [2, 3, 4, 5, 8])
def test_latency_is_that_of_the_timing_model(ports):
    for adder_depth in (1, 4):
        switch = FredSwitch(**(GOOD | {"ports": ports, "adder_depth": adder_depth}))
        levels = (ports - 1).bit_length()
        assert switch.latency == FredTiming(adder_depth=adder_depth).latency(ports)
        assert switch.latency == 4 + levels * (adder_depth + 2)


def test_error_kinds_and_refusals():
    assert list(error_layout(4).members) == [
        "unloaded", "stranger", "kind", "length", "framing", "misaligned", "route", "overrun",
    ]  # fmt: skip
    assert [refusal.name for refusal in Refusal] == [
        "NONE", "INDEX", "MODE", "FLOW", "KIND", "BUSY",
    ]  # fmt: skip


def test_four_ports():
    run()


def test_links_of_a_rational_rate():
    run(testcase="a_slow_output_paces_its_flow_and_no_other", rate=Fraction(3, 5))


def test_five_ports_with_two_copies_on_verilator():
    run("verilator", ports=5, middle_copies=2)


@pytest.mark.full
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
@pytest.mark.parametrize(
    ("ports", "copies", "adder_depth"), [(2, 2, 1), (3, 3, 1), (4, 2, 3), (8, 3, 2), (11, 3, 2)]
)
def test_other_sizes(ports, copies, adder_depth, simulator):
    testcase = None if ports > 3 else "random_traffic_under_stalls_on_both_sides"
    run(
        simulator,
        testcase,
        200,
        ports=ports,
        middle_copies=copies,
        adder_depth=adder_depth,
        output_credits=64,
    )
