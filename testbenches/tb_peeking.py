"""A component whose parent reads a signal inside it."""

import cocotb
from cocotb.triggers import FallingEdge

from testbenches.bench import Bench


@cocotb.test()
async def the_inner_signal_arrives(dut):
    """Combinational and registered view of the same sum."""
    bench = Bench(dut)
    dut.i.value = 0
    await bench.reset()
    for value in (0, 7, 255):
        dut.i.value = value
        await FallingEdge(dut.clk)
        assert int(dut.peek.value) == (value + 1) % 256
        await FallingEdge(dut.clk)
        assert int(dut.late.value) == (value + 1) % 256
