"""The read port shared by two classes: descriptor fetch of both, then TX DMA of both."""

from __future__ import annotations

from itertools import pairwise

import cocotb

from testbenches import parameters, random_generator, seed
from testbenches.ace_memories import MemoryReadPort
from testbenches.bench import Bench
from testbenches.streams import StreamMonitor, StreamSink, StreamSource, random_stalls

_MP, _DP = 2, 3
_BEATS = 8
_BOUND = 16  # bursts that may pass one of a lower class


class _Arbiter:
    def __init__(self, dut, *, latency=20, stalls=0.0):
        self.bench = Bench(dut)
        users = range(4)

        def pauses(number):
            return random_stalls(seed() + number, stalls)

        self.requests = [
            self.bench.add(StreamSource(dut, f"user__{n}__request", stalls=pauses(n)))
            for n in users
        ]
        self.data = [self.bench.add(StreamSink(dut, f"user__{n}__data")) for n in users]
        self.memory = self.bench.add(
            MemoryReadPort(
                dut,
                "memory",
                {a: 3 * a for a in range(40000)},
                latency=latency,
                request_stalls=pauses(4),
                data_stalls=pauses(5),
            )
        )
        for name in ("memory__request", "memory__data"):
            self.bench.add(StreamMonitor(dut, name))

    def ask(self, user, bursts, beats=_BEATS):
        """Bursts of a user's own tenth of memory, one behind the other."""
        first = 10000 * user
        self.requests[user].send(first + n * beats | beats << 32 for n in range(bursts))

    @property
    def order(self):
        """The user of every burst."""
        return [address // 10000 for _, address, _ in self.memory.bursts]


@cocotb.test()
async def the_lower_class_alone_has_the_window(dut):
    """No more is under way than the window and a burst, and memory never waits for a request."""
    t = _Arbiter(dut)
    await t.bench.reset()
    t.ask(_DP, 20)
    await t.bench.step(20 * _BEATS + 40)
    assert t.memory.most_outstanding == parameters()["window"] + _BEATS
    assert t.memory.beats == list(range(20, 20 + 20 * _BEATS))


@cocotb.test()
async def the_higher_class_has_memory(dut):
    """Where both always ask, the higher one's bursts wait for what was under way, and for one of
    sixteen; none of the two has a share of its own."""
    t = _Arbiter(dut)
    await t.bench.reset()
    t.ask(_DP, 30)
    await t.bench.step(60)
    before = len(t.memory.bursts)
    assert 0 < before < 30, "the lower class must be in the middle of its requests"
    t.ask(_MP, 40)
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
    t.ask(_MP, 20)
    await t.bench.step(20)
    full = len(t.memory.bursts)
    assert full * _BEATS == parameters()["window"] + _BEATS
    t.ask(1, 2)
    t.ask(0, 2)
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
    rng = random_generator("classes")
    await t.bench.reset()
    expected: list[list[int]] = [[] for _ in range(4)]
    for _ in range(40):
        for user in range(4):
            address, beats = rng.randrange(39000), rng.randint(1, 20)
            t.requests[user].send([address | beats << 32])
            expected[user] += [3 * (address + i) for i in range(beats)]
    await t.bench.until(
        lambda: all(len(d.items) == len(e) for d, e in zip(t.data, expected, strict=True)),
        limit=20000,
        stuck="beats are missing",
    )
    assert [d.items for d in t.data] == expected
