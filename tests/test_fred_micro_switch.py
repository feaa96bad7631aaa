"""rtl.fred.micro_switch: R, D, RD and the odd port's pair."""

import re

import pytest
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.common.packet import DataType, Operator
from rtl.fred.micro_switch import (
    Demultiplexer,
    DistributeSwitch,
    Multiplexer,
    ReduceDistributeSwitch,
    ReduceSwitch,
    lane_layout,
)
from rtl.fred.modes import CentreMode, edge_mode, way_shape
from sim_top.simulator import simulate
from sw_model.fred import modes as model
from sw_model.fred.timing import FredTiming

TYPES = frozenset({DataType.FP16, DataType.INT32})
SUM = frozenset({Operator.SUM})


def build(kind, copies=3, adder_depth=2, flit_bytes=16, data_types=TYPES, operators=SUM):
    size = {"middle_copies": copies, "flit_bytes": flit_bytes}
    adder = {
        "flit_bytes": flit_bytes,
        "data_types": data_types,
        "operators": operators,
        "adder_depth": adder_depth,
    }
    return {
        "R": lambda: ReduceSwitch(middle_copies=copies, **adder),
        "D": lambda: DistributeSwitch(**size),
        "RD": lambda: ReduceDistributeSwitch(**adder),
        "demux": lambda: Demultiplexer(adder_depth=adder_depth, **size),
        "mux": lambda: Multiplexer(**size),
    }[kind]()


def run(kind, copies=3, cycles=400, simulator="icarus", **options):
    dut = build(kind, copies, **options)
    simulate(
        dut,
        testbench="testbenches.tb_fred_micro_switch",
        simulator=simulator,
        parameters={
            "kind": kind,
            "middle_copies": copies,
            "flit_bytes": dut.flit_bytes,
            "latency": dut.latency,
            "data_types": [t.name.lower() for t in sorted(options.get("data_types", TYPES))],
            "operators": [o.name.lower() for o in sorted(options.get("operators", SUM))],
            "cycles": cycles,
        },
    )


def test_signatures():
    lane = lane_layout(16)
    expected = {
        "R": {"i": In(lane).array(2), "mode": In(edge_mode(3)), "o": Out(lane).array(3)},
        "D": {"i": In(lane).array(3), "mode": In(edge_mode(3)), "o": Out(lane).array(2)},
        "RD": {"i": In(lane).array(2), "mode": In(CentreMode), "o": Out(lane).array(2)},
        "demux": {"i": In(lane), "mode": In(way_shape(3)), "o": Out(lane).array(3)},
        "mux": {"i": In(lane).array(3), "mode": In(way_shape(3)), "o": Out(lane)},
    }
    for kind, members in expected.items():
        assert build(kind).signature == wiring.Signature(members)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        *(
            (kind, {"copies": 1}, "middle_copies must be an integer of at least 2, not 1")
            for kind in ("R", "D", "demux", "mux")
        ),
        ("D", {"flit_bytes": 24}, "flit_bytes must be a power of two of at least 16, not 24"),
    ],
)
def test_wrong_parameters(kind, options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        build(kind, **options)


def test_codes_are_those_of_the_model():
    assert {mode.name: mode.value for mode in CentreMode} == {
        mode.name: mode.value for mode in model.CentreMode
    }
    for copies in range(2, 9):
        assert way_shape(copies).width == model.edge_side_bits(copies)


@pytest.mark.parametrize("adder_depth", [1, 2, 4])
def test_latency_is_that_of_the_timing_model(adder_depth):
    timing = FredTiming(adder_depth=adder_depth)
    for kind in ("R", "RD", "demux"):
        assert build(kind, adder_depth=adder_depth).latency == timing.reducing_stage
    for kind in ("D", "mux"):
        assert build(kind, adder_depth=adder_depth).latency == timing.distributing_stage


@pytest.mark.parametrize(
    ("kind", "copies"), [("R", 2), ("R", 3), ("D", 3), ("demux", 3), ("mux", 3)]
)
def test_edge_switches_in_every_mode(kind, copies):
    run(kind, copies)


@pytest.mark.parametrize(
    "adder_depth", [1, *(pytest.param(d, marks=pytest.mark.full) for d in (2, 3, 6))]
)
def test_the_centre_in_every_mode(adder_depth):
    run("RD", adder_depth=adder_depth)


@pytest.mark.full
def test_the_centre_on_verilator():
    run("RD", simulator="verilator")


@pytest.mark.full
@pytest.mark.parametrize("adder_depth", [1, 2, 6])
@pytest.mark.parametrize("kind", ["R", "RD"])
def test_all_types_and_operators(kind, adder_depth):
    run(
        kind,
        adder_depth=adder_depth,
        data_types=frozenset(DataType),
        operators=frozenset(Operator),
        cycles=4000,
    )


@pytest.mark.full
@pytest.mark.parametrize("copies", [2, 5])
@pytest.mark.parametrize("kind", ["R", "D", "demux", "mux"])
def test_other_numbers_of_copies(kind, copies):
    run(kind, copies, cycles=3000)
