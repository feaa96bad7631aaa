"""The read port shared by two users."""

import cocotb

from testbenches import random_generator, seed
from testbenches.ace_memories import MemoryReadPort
from testbenches.bench import Bench
from testbenches.streams import StreamMonitor, StreamSink, StreamSource, random_stalls


class _Arbiter:
    def __init__(self, dut, *, stalls=0.0):
        self.bench = Bench(dut)

        def pauses(number):
            return random_stalls(seed() + number, stalls)

        self.requests = [
            self.bench.add(StreamSource(dut, f"user__{n}__request", stalls=pauses(n)))
            for n in range(2)
        ]
        self.data = [
            self.bench.add(StreamSink(dut, f"user__{n}__data", stalls=pauses(2 + n)))
            for n in range(2)
        ]
        self.memory = self.bench.add(
            MemoryReadPort(
                dut,
                "memory",
                {a: 3 * a for a in range(10000)},
                latency=8,
                request_stalls=pauses(4),
                data_stalls=pauses(5),
            )
        )
        for name in ("memory__request", "memory__data", "user__0__data", "user__1__data"):
            self.bench.add(StreamMonitor(dut, name))

    def ask(self, user, bursts):
        self.requests[user].send(address | beats << 32 for address, beats in bursts)


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
    rng = random_generator("arbiter")
    await t.bench.reset()
    expected: list[list[int]] = [[], []]
    for _ in range(60):
        for user in range(2):
            address, beats = rng.randrange(9000), rng.randint(1, 20)
            t.ask(user, [(address, beats)])
            expected[user] += [3 * (address + i) for i in range(beats)]
    await t.bench.until(
        lambda: all(len(d.items) == len(e) for d, e in zip(t.data, expected, strict=True)),
        limit=20000,
        stuck="beats are missing",
    )
    assert [d.items for d in t.data] == expected
