"""The memory's write port shared by the RX DMAs: runs, turns, acknowledgements."""

import cocotb

from testbenches import parameters, random_generator, seed
from testbenches.ace_memories import MemoryWritePort
from testbenches.bench import Bench, Part
from testbenches.streams import StreamMonitor, StreamSource, always, never, random_stalls

_BOUND = 16
"""Runs of others that pass one that waits (docs/links.md)."""
_FLIT = 2


class _Acknowledgements(Part):
    """Cycles in which somebody's write was acknowledged, by user."""

    def __init__(self, dut, users):
        self.signals = [getattr(dut, f"user__{n}__acknowledged") for n in range(users)]
        self.port = dut.memory__acknowledged
        self.cycles: list[list[int]] = [[] for _ in range(users)]
        self.all = []

    def sample(self, cycle):
        seen = [number for number, signal in enumerate(self.signals) if int(signal.value)]
        assert len(seen) == int(self.port.value), cycle
        for number in seen:
            self.cycles[number].append(cycle)
            self.all.append(number)


class _Arbiter:
    """Flit k of user n has address ``1000 * n + k``; the lowest bytes of its data say it too."""

    def __init__(self, dut, *, stalls=0.0, latency=4):
        told = parameters()
        self.users, self.run, self.writes = told["users"], told["run"], told["writes"]
        self.bench = Bench(dut)

        def pauses(number):
            return random_stalls(seed() + number, stalls)

        self.sources = [
            self.bench.add(StreamSource(dut, f"user__{n}__request", stalls=pauses(n)))
            for n in range(self.users)
        ]
        self.memory = self.bench.add(
            MemoryWritePort(
                dut,
                "memory",
                {},
                flit_bytes=_FLIT,
                latency=latency,
                stalls=pauses(self.users),
            )
        )
        self.acknowledged = self.bench.add(_Acknowledgements(dut, self.users))
        for name in (*(f"user__{n}" for n in range(self.users)), "memory"):
            self.bench.add(StreamMonitor(dut, f"{name}__request"))
        self.sent = [0] * self.users

    def send(self, user, count):
        """``count`` flits more of a user."""
        for number in range(self.sent[user], self.sent[user] + count):
            address = 1000 * user + number
            strobe = number % 3 + 1
            self.sources[user].send([address | address << 32 | strobe << 32 + 8 * _FLIT])
        self.sent[user] += count

    def order(self):
        """Whose flits memory got."""
        return [address // 1000 for _, address, _, _ in self.memory.writes]

    def check(self):
        """Every flit once, in its user's order, unchanged, in the cycle in which it was taken; and
        every acknowledgement to whose flit it was."""
        for user in range(self.users):
            mine = [write for write in self.memory.writes if write[1] // 1000 == user]
            addresses = [1000 * user + number for number in range(self.sent[user])]
            assert [write[1] for write in mine] == addresses
            assert [write[2] for write in mine] == addresses
            assert [write[3] for write in mine] == [n % 3 + 1 for n in range(self.sent[user])]
            assert [write[0] for write in mine] == self.sources[user].cycles
        assert self.acknowledged.all == self.order()

    async def settle(self, limit=4000):
        """Until all is acknowledged."""
        await self.bench.until(
            lambda: len(self.acknowledged.all) == sum(self.sent), limit=limit, stuck="writes"
        )
        self.check()


@cocotb.test()
async def each_alone_at_a_flit_per_cycle(dut):
    """No latency in either direction; the end of a run costs nothing."""
    t = _Arbiter(dut, latency=4)
    await t.bench.reset()
    for user in range(t.users):
        first = t.bench.cycle
        t.send(user, 40)
        await t.bench.step(45)
        assert t.sources[user].cycles == list(range(first, first + 40))
        assert t.acknowledged.cycles[user] == list(range(first + 4, first + 44))
    t.check()


@cocotb.test()
async def all_together_in_runs(dut):
    """The lowest first, run by run, and the others in turn when 16 runs have passed them; a flit in
    every cycle."""
    t = _Arbiter(dut)
    await t.bench.reset()
    count = 30 * t.run
    for user in range(t.users):
        t.send(user, count)
    await t.settle()
    assert [write[0] for write in t.memory.writes] == list(range(count * t.users))
    others = list(range(1, t.users))
    turns = [0] * _BOUND + others + [0] * (_BOUND - len(others) + 1)
    runs = turns[:29]  # 30 runs each: nobody has ended before
    assert t.order()[: t.run * len(runs)] == [user for user in runs for _ in range(t.run)]


@cocotb.test()
async def a_run_is_not_interrupted_and_a_gap_ends_it(dut):
    """Whoever comes meanwhile waits for the end of the run, or for a cycle without a flit."""
    t = _Arbiter(dut)
    await t.bench.reset()
    last = t.users - 1
    t.send(last, t.run + 2)
    await t.bench.step()
    t.send(0, 3)
    await t.settle()
    assert t.order() == [last] * t.run + [0] * 3 + [last] * 2
    await t.bench.step(3)
    before = len(t.memory.writes)
    t.send(last, 1)
    await t.bench.step()  # the run has begun
    t.send(0, 1)
    await t.bench.step()  # and has a gap
    t.send(last, 1)
    await t.settle()
    assert t.order()[before:] == [last, 0, last]


@cocotb.test()
async def an_offered_flit_keeps_its_turn(dut):
    """The lowest does not displace what memory was offered and has not taken."""
    t = _Arbiter(dut)
    await t.bench.reset()
    last = t.users - 1
    t.memory.stalls = always()
    t.send(last, 1)
    await t.bench.step(3)
    t.send(0, 2)
    await t.bench.step(3)
    t.memory.stalls = never()
    await t.settle()
    assert t.order() == [last, 0, 0]


@cocotb.test()
async def no_more_writes_than_may_be_outstanding(dut):
    """What is more waits for an acknowledgement, and is taken in the cycle after it."""
    t = _Arbiter(dut, latency=50)
    await t.bench.reset()
    for user in range(t.users):
        t.send(user, t.writes)
    await t.bench.step(50)
    assert [write[0] for write in t.memory.writes] == list(range(t.writes))
    await t.settle()
    assert t.memory.most_outstanding == t.writes
    cycles = [write[0] for write in t.memory.writes]
    assert cycles[t.writes : 2 * t.writes] == [cycle + 51 for cycle in range(t.writes)]


@cocotb.test()
async def random_flits(dut):
    """The users and memory pause."""
    generator = random_generator("writes")
    t = _Arbiter(dut, stalls=0.4, latency=9)
    await t.bench.reset()
    for _ in range(30):
        for user in range(t.users):
            t.send(user, generator.randrange(12))
        await t.bench.step(generator.randrange(30))
    await t.settle()
