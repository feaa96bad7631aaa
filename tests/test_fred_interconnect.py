"""rtl.fred.interconnect against the model: structure, latency, and what it computes."""

import re

import pytest
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.common.packet import DataType, Operator
from rtl.fred.interconnect import FredInterconnect
from rtl.fred.micro_switch import lane_layout
from rtl.fred.modes import modes_layout
from sim_top.simulator import simulate
from sw_model.fred.construction import construct
from sw_model.fred.timing import FredTiming

TYPES = frozenset({DataType.FP16, DataType.INT32})


def build(ports, copies, **options):
    defaults = {
        "flit_bytes": 16,
        "data_types": TYPES,
        "operators": frozenset({Operator.SUM}),
        "adder_depth": 2,
    }
    return FredInterconnect(ports=ports, middle_copies=copies, **(defaults | options))


def run(ports, copies, flows, simulator="icarus", **options):
    dut = build(ports, copies, **options)
    simulate(
        dut,
        testbench="testbenches.tb_fred_interconnect",
        simulator=simulator,
        parameters={
            "ports": ports,
            "middle_copies": copies,
            "flit_bytes": dut.flit_bytes,
            "latency": FredTiming(adder_depth=dut.adder_depth).interconnect(ports),
            "data_types": [t.name.lower() for t in sorted(dut.data_types)],
            "flows": flows,
        },
    )


def test_signature():
    lane = lane_layout(16)
    dut = build(5, 3)
    assert dut.signature == wiring.Signature(
        {
            "i": In(lane).array(5),
            "modes": In(modes_layout(5, 3)),
            "o": Out(lane).array(5),
        }
    )
    assert (dut.ports, dut.middle_copies, dut.flit_bytes, dut.adder_depth) == (5, 3, 16, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ports": 1}, "ports must be an integer in 2..64, not 1"),
        ({"ports": 65}, "ports must be an integer in 2..64, not 65"),
        ({"middle_copies": 1}, "middle_copies must be an integer of at least 2, not 1"),
        ({"flit_bytes": 8}, "flit_bytes must be a power of two of at least 16, not 8"),
    ],
)
def test_wrong_parameters(change, message):
    good = {
        "ports": 4,
        "middle_copies": 2,
        "flit_bytes": 16,
        "data_types": TYPES,
        "operators": frozenset({Operator.SUM}),
        "adder_depth": 2,
    }
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        FredInterconnect(**(good | change))


def count_micro_switches(layout):
    """Micro-switches of a modes layout: an edge mode or a centre mode each."""
    members = layout.members
    if "centre" in members:
        return 1
    edges = members["inputs"].length + members["outputs"].length
    return edges + members["middle"].length * count_micro_switches(members["middle"].elem_shape)


@pytest.mark.parametrize("copies", [2, 3])
@pytest.mark.parametrize("ports", [*range(2, 17), 20])
def test_structure_is_that_of_the_model(ports, copies):
    layout = modes_layout(ports, copies)
    assert layout.size == construct(ports, copies).mode_bits
    assert count_micro_switches(layout) == construct(ports, copies).count


@pytest.mark.parametrize("adder_depth", [1, 2, 3, 6])
def test_latency_is_that_of_the_timing_model(adder_depth):
    timing = FredTiming(adder_depth=adder_depth)
    for ports in range(2, 65):
        dut = build(ports, 2, adder_depth=adder_depth)
        assert dut.latency == timing.interconnect(ports)


@pytest.mark.parametrize("copies", [2, 3])
def test_every_routable_flow_set_of_four_ports(copies):
    run(4, copies, "all")


@pytest.mark.parametrize(("ports", "copies"), [(2, 2), (3, 2), (5, 3)])
def test_small_and_odd_sizes(ports, copies):
    run(ports, copies, "all" if ports < 4 else 200, adder_depth=1)


def test_eight_ports():
    run(8, 3, 120)


def test_on_verilator():
    run(4, 3, 300, simulator="verilator")


@pytest.mark.full
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
@pytest.mark.parametrize("copies", [2, 3])
@pytest.mark.parametrize("ports", [3, 5, 6, 7, 8, 11, 12, 16])
def test_flow_sets_of_many_sizes(ports, copies, simulator):
    run(ports, copies, 400, simulator=simulator, adder_depth=3)


@pytest.mark.full
@pytest.mark.parametrize("ports", [33, 64])
def test_the_largest_sizes(ports):
    run(ports, 2, 20, data_types=frozenset({DataType.INT32}))
