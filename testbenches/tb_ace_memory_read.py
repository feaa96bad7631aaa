"""The read port shared by two users."""

import cocotb

from testbenches import random_generator
from testbenches.ace_read_arbiter import ReadArbiterBench
from testbenches.streams import StreamMonitor, random_stalls


class _Arbiter(ReadArbiterBench):
    def __init__(self, dut, *, stalls=0.0):
        super().__init__(dut, users=2, words=10000, latency=8, stalls=stalls, data_stalls=True)
        for name in ("user__0__data", "user__1__data"):
            self.bench.add(StreamMonitor(dut, name))


@cocotb.test()
async def bursts_of_both_back_to_back(dut):
    """No latency, no bubble; user 0 first."""
    t = _Arbiter(dut)
    await t.bench.reset()
    t.ask(1, [(100, 8), (108, 8)])
    t.ask(0, [(0, 4), (4, 4)])
    await t.bench.step(40)
    assert [(a, n) for _, a, n in t.memory.bursts] == [(0, 4), (4, 4), (100, 8), (108, 8)]
    assert [c for c, _, _ in t.memory.bursts] == [0, 1, 2, 3]
    assert t.memory.beats == list(range(8, 32))
    assert t.data[0].items == [3 * a for a in range(8)]
    assert t.data[1].items == [3 * a for a in range(100, 116)]
    assert t.data[1].cycles == list(range(16, 32))


@cocotb.test()
async def an_offered_request_keeps_its_turn(dut):
    """User 0 does not displace what memory was offered and has not taken."""
    t = _Arbiter(dut)
    await t.bench.reset()
    t.memory.request_stalls = random_stalls(0, 1.0)
    t.ask(1, [(100, 2)])
    await t.bench.step(3)
    t.ask(0, [(0, 2)])
    await t.bench.step(3)
    t.memory.request_stalls = random_stalls(0, 0.0)
    await t.bench.step(20)
    assert [a for _, a, _ in t.memory.bursts] == [100, 0]


@cocotb.test()
async def random_bursts(dut):
    """Stalls on all sides; everybody gets what it asked for, in order."""
    t = _Arbiter(dut, stalls=0.3)
    await t.random_bursts(random_generator("arbiter"), rounds=60, words=9000)
