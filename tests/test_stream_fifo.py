"""rtl.common.fifo, rtl.common.front_fifo."""

import re

import pytest
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.common.fifo import StreamFifo
from rtl.common.front_fifo import FrontFifo
from sim_top.simulator import simulate


def run(depth, width=9, simulator="icarus"):
    simulate(
        StreamFifo(shape=width, depth=depth),
        testbench="testbenches.tb_stream_fifo",
        simulator=simulator,
        parameters={"depth": depth, "width": width},
    )


def test_signature():
    assert StreamFifo(shape=8, depth=5).signature == wiring.Signature(
        {"i": In(stream.Signature(8)), "o": Out(stream.Signature(8)), "level": Out(range(6))}
    )


@pytest.mark.parametrize("depth", [0, -1, 2.0])
def test_wrong_depth(depth):
    message = f"depth must be a positive integer, not {depth!r}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        StreamFifo(shape=8, depth=depth)


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_fifo(depth):
    run(depth)


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_a_register_in_front_holds_one_more_and_costs_no_latency(depth):
    """It is a StreamFifo one deeper, but for its level."""
    simulate(
        FrontFifo(shape=9, depth=depth),
        testbench="testbenches.tb_stream_fifo",
        simulator="icarus",
        parameters={"depth": depth + 1, "width": 9, "level": False},
    )


@pytest.mark.full
@pytest.mark.parametrize("depth", [1, 2, 3, 4, 7, 8, 16])
def test_fifo_matrix(depth):
    run(depth, 130)


@pytest.mark.full
@pytest.mark.parametrize("depth", [1, 5])
def test_verilator(depth):
    run(depth, 130, "verilator")
