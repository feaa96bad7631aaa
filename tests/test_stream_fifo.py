"""rtl.common.fifo."""

import re

import pytest
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.common.fifo import StreamFifo
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


@pytest.mark.full
@pytest.mark.parametrize("depth", [1, 2, 3, 4, 7, 8, 16])
def test_fifo_matrix(depth):
    run(depth, 130)


@pytest.mark.full
@pytest.mark.parametrize("depth", [1, 5])
def test_verilator(depth):
    run(depth, 130, "verilator")
