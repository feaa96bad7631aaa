"""Two counters of which one is held by an enable."""

import cocotb
from cocotb.triggers import FallingEdge

from testbenches.bench import Bench


@cocotb.test()
async def the_enable_holds_one_only(dut):
    """Ten cycles, three of them enabled."""
    bench = Bench(dut)
    dut.enable.value = 0
    await bench.reset()
    await FallingEdge(dut.clk)
    start = int(dut.free.value), int(dut.gated.value)
    for cycle in range(10):
        dut.enable.value = int(cycle < 3)
        await FallingEdge(dut.clk)
    assert int(dut.free.value) - start[0] == 10
    assert int(dut.gated.value) - start[1] == 3
