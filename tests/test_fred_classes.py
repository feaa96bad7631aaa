"""rtl.fred.switch with a channel for each class."""

import re
from fractions import Fraction

import pytest

from rtl.common.packet import DataType, Operator, TrafficClass
from rtl.fred.errors import error_layout
from rtl.fred.switch import FredSwitch, check_classes
from rtl.link.wire import LinkWire
from sim_top.simulator import simulate

MP, PP, DP, CONTROL = TrafficClass
GOOD = {
    "ports": 4,
    "middle_copies": 3,
    "flit_bytes": 16,
    "packet_bytes": 64,
    "data_types": frozenset({DataType.FP16, DataType.INT32}),
    "operators": frozenset({Operator.SUM}),
    "adder_depth": 2,
    "configurations": 5,
    "input_depth": (24, 20, 16),
    "output_credits": (40, 30, 50),
    "classes": (MP, PP, DP),
    "starvation_bound": 3,
}


def run(testbench="fred_classes", simulator="icarus", testcase=None, ops=40, **changes):
    options = GOOD | changes
    rate = options.get("rate", Fraction(1))
    simulate(
        FredSwitch(**options),
        testbench=f"testbenches.tb_{testbench}",
        testcase=testcase,
        simulator=simulator,
        timeout_seconds=1200,
        parameters={
            **{key: value for key, value in options.items() if isinstance(value, int | tuple)},
            "classes": [c.name.lower() for c in options["classes"]],
            "data_types": [t.name.lower() for t in sorted(options["data_types"])],
            "operators": [o.name.lower() for o in sorted(options["operators"])],
            "ops": ops,
            "rate": [rate.numerator, rate.denominator],
        },
    )


def test_signature():
    switch = FredSwitch(**GOOD)
    members = dict(switch.signature.members)
    assert members["o"].signature == members["i"].signature == LinkWire(16, 3)
    assert members["errors"].shape == error_layout(4, 3)
    assert [(name, field.width) for name, field in error_layout(4, 3)] == [
        ("unloaded", 12), ("stranger", 12), ("kind", 12), ("length", 12), ("framing", 12),
        ("misaligned", 12), ("route", 4), ("overrun", 12),
    ]  # fmt: skip
    assert members["waiting"].shape == members["missing"].shape == 12
    assert (switch.channels, switch.data_channels, switch.has_control) == (3, 3, False)
    full = FredSwitch(**(GOOD | {"classes": (MP, PP, DP, CONTROL), "input_depth": 24,
                                 "output_credits": 40, "control_bytes": 48}))  # fmt: skip
    assert (full.channels, full.data_channels, full.has_control) == (4, 3, True)
    assert full.control_bytes == 48


@pytest.mark.parametrize(
    ("classes", "named"),
    [
        ((), "()"),
        ((DP, MP), "dp+mp"),
        ((MP, MP), "mp+mp"),
        ((CONTROL,), "control"),
        ((0, 2), "(0, 2)"),
        ("mp", "'mp'"),
    ],
)
def test_wrong_classes(classes, named):
    text = (
        f"classes must be traffic classes in falling priority, one for data at least, not {named}"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        check_classes(classes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"output_credits": (40, 4, 50)},
            "output_credits must be at least the 5 flits of a packet in every data channel, "
            "not (40, 4, 50)",
        ),
        (
            {"output_credits": (40, 50)},
            "output_credits must be 3 positive integers, one per channel, not (40, 50)",
        ),
        (
            {"input_depth": (1, 2)},
            "input_depth must be 3 positive integers, one per channel, not (1, 2)",
        ),
        (
            {"control_bytes": 24},
            "control_bytes must be a multiple of flit_bytes in 16..65535, not 24",
        ),
        ({"starvation_bound": 0}, "starvation_bound must be a positive integer, not 0"),
    ],
)
def test_wrong_parameters(change, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        FredSwitch(**(GOOD | change))


PARTS = ("fred_classes", "fred_class_errors", "fred_class_traffic")


@pytest.mark.parametrize("testbench", PARTS)
def test_three_classes(testbench):
    run(testbench)


@pytest.mark.full
def test_all_data_types_and_operators():
    run(
        "fred_class_traffic",
        testcase="random_traffic_of_all_classes_under_stalls",
        data_types=frozenset(DataType),
        operators=frozenset(Operator),
        classes=(MP, DP),
        input_depth=24,
        output_credits=40,
    )


@pytest.mark.full
def test_reset_of_a_switch_with_one_channel():
    run(
        "fred_class_traffic",
        testcase="reset_in_the_middle",
        classes=(DP,),
        input_depth=24,
        output_credits=40,
    )


@pytest.mark.full
def test_a_bound_of_one_starves_nobody():
    run(testcase="no_class_starves_whatever_the_bound", starvation_bound=1)


@pytest.mark.full
@pytest.mark.parametrize("testbench", PARTS)
def test_two_classes_and_control_on_verilator(testbench):
    run(
        testbench,
        simulator="verilator",
        classes=(MP, DP, CONTROL),
        ports=5,
        middle_copies=2,
        starvation_bound=2,
    )


CONTROL_OPTIONS = {
    "classes": (DP, CONTROL),
    "input_depth": 24,
    "output_credits": (40, 10),
    "control_bytes": 128,
}


def test_control():
    run("fred_control", **CONTROL_OPTIONS)


@pytest.mark.full
def test_control_on_links_of_a_rational_rate():
    run(
        "fred_control",
        testcase="a_slow_output_shares_its_rate",
        rate=Fraction(3, 5),
        **CONTROL_OPTIONS,
    )
