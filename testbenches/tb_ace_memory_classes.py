"""The read port shared by two classes: descriptor fetch of both, then TX DMA of both."""

from __future__ import annotations

from itertools import pairwise

import cocotb

from testbenches import parameters, random_generator
from testbenches.ace_read_arbiter import ReadArbiterBench

_MP, _DP = 2, 3
_BEATS = 8
_BOUND = 16  # bursts that may pass one of a lower class


class _Arbiter(ReadArbiterBench):
    def __init__(self, dut, *, latency=20, stalls=0.0):
        super().__init__(dut, users=4, words=40000, latency=latency, stalls=stalls)

    def ask_for(self, user, bursts, beats=_BEATS):
        """Bursts of a user's own quarter of memory, one behind the other."""
        self.ask(user, [(10000 * user + n * beats, beats) for n in range(bursts)])

    @property
    def order(self):
        """The user of every burst."""
        return [address // 10000 for _, address, _ in self.memory.bursts]


@cocotb.test()
async def the_lower_class_alone_has_the_window(dut):
    """No more is under way than the window and a burst, and memory never waits for a request."""
    t = _Arbiter(dut)
    await t.bench.reset()
    t.ask_for(_DP, 20)
    await t.bench.step(20 * _BEATS + 40)
    assert t.memory.most_outstanding == parameters()["window"] + _BEATS
    assert t.memory.beats == list(range(20, 20 + 20 * _BEATS))


@cocotb.test()
async def the_higher_class_has_memory(dut):
    """Where both always ask, the higher one's bursts wait for what was under way, and for one of
    sixteen; none of the two has a share of its own."""
    t = _Arbiter(dut)
    await t.bench.reset()
    t.ask_for(_DP, 30)
    await t.bench.step(60)
    before = len(t.memory.bursts)
    assert 0 < before < 30, "the lower class must be in the middle of its requests"
    t.ask_for(_MP, 40)
    await t.bench.step(70 * _BEATS + 60)
    order = t.order[before:]
    period = [_MP] * _BOUND + [_DP]
    assert order[: 2 * len(period)] == 2 * period
    assert set(order[-20:]) == {_DP}
    assert all(b - a == 1 for a, b in pairwise(t.memory.beats)), "no bubble"


@cocotb.test()
async def descriptors_do_not_wait_for_the_window(dut):
    """They are asked for while payload may not be, and do not count."""
    t = _Arbiter(dut, latency=50)
    await t.bench.reset()
    t.ask_for(_MP, 20)
    await t.bench.step(20)
    full = len(t.memory.bursts)
    assert full * _BEATS == parameters()["window"] + _BEATS
    t.ask_for(1, 2)
    t.ask_for(0, 2)
    await t.bench.step(10)
    assert t.order[full:] == [0, 0, 1, 1]
    await t.bench.step(40)
    assert t.memory.most_outstanding == parameters()["window"] + 5 * _BEATS
    await t.bench.step(20 * _BEATS + 100)
    assert len(t.data[_MP].items) == 20 * _BEATS


@cocotb.test()
async def random_bursts_of_all(dut):
    """Stalls on all sides; everybody gets what it asked for, in order."""
    t = _Arbiter(dut, stalls=0.3)
    await t.random_bursts(random_generator("classes"), rounds=40, words=39000)
