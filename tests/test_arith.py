"""rtl.arith: parameters, signatures and the pipeline of ReduceFlit."""

import re

import pytest
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.arith.adder import FloatAdder
from rtl.arith.compare import MinMax
from rtl.arith.formats import FLOAT_FORMATS
from rtl.arith.reduce import ReduceFlit, ReduceLane
from rtl.common.packet import DataType, Operator
from sim_top.simulator import simulate

FIRST_TYPES = {DataType.FP16, DataType.INT32}
ALL_TYPES = set(DataType)
SUM = {Operator.SUM}
ALL_OPERATORS = set(Operator)


def refuses(message):
    return pytest.raises(ValueError, match=f"^{re.escape(message)}$")


def test_signatures():
    reduce = ReduceFlit(flit_bytes=32, data_types=ALL_TYPES, operators=ALL_OPERATORS, depth=3)
    assert reduce.signature == wiring.Signature(
        {
            "a": In(256),
            "b": In(256),
            "data_type": In(3),
            "operator": In(2),
            "valid": In(1, init=1),
            "enable": In(1, init=1),
            "o": Out(256),
            "o_valid": Out(1),
        }
    )
    lane = ReduceLane(data_types=ALL_TYPES, operators=ALL_OPERATORS, depth=3)
    assert lane.signature == wiring.Signature(
        {
            "a": In(32),
            "b": In(32),
            "data_type": In(3),
            "operator": In(2),
            "load": In(3),
            "o": Out(32),
        }
    )
    adder = FloatAdder(data_types={DataType.FP16, DataType.BF16}, depth=2)
    assert adder.signature == wiring.Signature(
        {"a": In(16), "b": In(16), "data_type": In(3), "load": In(2), "o": Out(16)}
    )
    min_max = MinMax(data_types=ALL_TYPES)
    assert min_max.signature == wiring.Signature(
        {"a": In(32), "b": In(32), "data_type": In(3), "operator": In(2), "o": Out(32)}
    )


def test_parameters_are_kept():
    reduce = ReduceFlit(flit_bytes=16, data_types=FIRST_TYPES, operators=SUM, depth=4)
    assert (reduce.flit_bytes, reduce.data_types, reduce.operators, reduce.depth) == (
        16,
        frozenset(FIRST_TYPES),
        frozenset(SUM),
        4,
    )


def test_canonical_nans():
    assert [FLOAT_FORMATS[t].nan for t in sorted(FLOAT_FORMATS)] == [0x7E00, 0x7FC0, 0x7FC00000]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"flit_bytes": 18}, "flit_bytes must be a positive multiple of 4, not 18"),
        ({"flit_bytes": 0}, "flit_bytes must be a positive multiple of 4, not 0"),
        ({"data_types": set()}, "data_types must be a non-empty set of DataType, not set()"),
        ({"data_types": {0}}, "data_types must be a non-empty set of DataType, not {0}"),
        ({"operators": "sum"}, "operators must be a non-empty set of Operator, not 'sum'"),
        ({"depth": 0}, "depth must be an integer from 1 to 6, not 0"),
        ({"depth": 7}, "depth must be an integer from 1 to 6, not 7"),
    ],
)
def test_wrong_parameters(change, message):
    good = {"flit_bytes": 16, "data_types": FIRST_TYPES, "operators": SUM, "depth": 2}
    with refuses(message):
        ReduceFlit(**(good | change))
    if "flit_bytes" not in change:
        del good["flit_bytes"]
        with refuses(message):
            ReduceLane(**(good | change))


def test_wrong_parameters_of_the_adder():
    with refuses("depth must be an integer from 0 to 5, not 6"):
        FloatAdder(data_types={DataType.FP16}, depth=6)
    with refuses("data_types must be floating-point types, not [<DataType.INT32: 3>]"):
        FloatAdder(data_types={DataType.INT32}, depth=1)


def run(flit_bytes, data_types, operators, depth, simulator="icarus"):
    simulate(
        ReduceFlit(flit_bytes=flit_bytes, data_types=data_types, operators=operators, depth=depth),
        testbench="testbenches.tb_reduce_flit",
        simulator=simulator,
        parameters={
            "flit_bytes": flit_bytes,
            "depth": depth,
            "data_types": sorted(data_types),
            "operators": sorted(operators),
        },
    )


@pytest.mark.parametrize(
    ("data_types", "operators", "depth"),
    [
        (FIRST_TYPES, SUM, 1),
        (FIRST_TYPES, SUM, 4),
        (ALL_TYPES, ALL_OPERATORS, 3),
        ({DataType.BF16}, {Operator.MAX}, 2),
    ],
)
def test_pipeline(data_types, operators, depth):
    run(16, data_types, operators, depth)


@pytest.mark.full
@pytest.mark.parametrize("depth", range(1, 7))
@pytest.mark.parametrize("flit_bytes", [4, 32])
def test_pipeline_matrix(flit_bytes, depth):
    run(flit_bytes, ALL_TYPES, ALL_OPERATORS, depth)


@pytest.mark.full
@pytest.mark.parametrize("depth", [1, 3])
def test_verilator(depth):
    run(64, ALL_TYPES, ALL_OPERATORS, depth, "verilator")


@pytest.mark.full
@pytest.mark.parametrize("operators", [{o} for o in Operator] + [ALL_OPERATORS])
@pytest.mark.parametrize("data_types", [{t} for t in DataType] + [FIRST_TYPES, ALL_TYPES])
def test_subsets(data_types, operators):
    run(16, data_types, operators, 3)
