"""Readers, or writers, that share one port of the SRAM."""

from typing import Any

import cocotb

from rtl.ace.sram import SRAM_READ_LATENCY
from testbenches import parameters, random_generator, seed
from testbenches.ace_memories import SramReadPort, SramReadUser, SramWritePort
from testbenches.bench import Bench
from testbenches.streams import StreamMonitor, StreamSource, always, never, random_stalls

_BOUND = 16
"""Flits of others that pass one that waits (docs/links.md)."""


class _Share:
    """Flit ``a`` holds ``7 * a`` where the port is read; accepted are (cycle, user, word)."""

    def __init__(self, dut, *, stalls=0.0):
        told = parameters()
        self.reads, self.users = told["kind"] == "read", told["users"]
        self.bits = told["address_bits"]
        self.bench = Bench(dut)

        def pauses(number):
            return random_stalls(seed() + number, stalls)

        self.sources: list[Any] = []
        for n in range(self.users):
            if self.reads:
                self.sources.append(SramReadUser(dut, f"user__{n}", stalls=pauses(n)))
            else:
                self.sources.append(StreamSource(dut, f"user__{n}__request", stalls=pauses(n)))
            self.bench.add(self.sources[-1])
        slow = pauses(self.users)
        self.port: Any
        if self.reads:
            memory = {a: 7 * a for a in range(1 << self.bits)}
            self.port = SramReadPort(dut, "port", memory, stalls=slow)
        else:
            self.port = SramWritePort(dut, "port", {}, address_bits=self.bits, stalls=slow)
        self.bench.add(self.port)
        for name in (*(f"user__{n}" for n in range(self.users)), "port"):
            self.bench.add(StreamMonitor(dut, f"{name}__request"))

    def send(self, user, addresses):
        """Ask to read, or to write ``1000 * user`` and the place in the row."""
        if self.reads:
            self.sources[user].queue.extend(addresses)
        else:
            words = enumerate(addresses)
            self.sources[user].send(a | (1000 * user + n) << self.bits for n, a in words)

    def accepted(self, user):
        """Cycles in which a user's requests were taken."""
        source = self.sources[user]
        return [cycle for cycle, _ in source.accepted] if self.reads else source.cycles

    def order(self):
        """Whose flits the port took, one after another: each of them in a cycle of one user's."""
        by_cycle = {cycle: n for n in range(self.users) for cycle in self.accepted(n)}
        assert sorted(by_cycle) == self.port.cycles
        return [by_cycle[cycle] for cycle in self.port.cycles]

    def check(self, asked):
        """Everybody's flits, each once, in order, and answers when they are due."""
        passed = self.order()
        for user, addresses in asked.items():
            if self.reads:
                took = [a for a, n in zip(self.port.addresses, passed, strict=True) if n == user]
                assert took == addresses
                due = [c + SRAM_READ_LATENCY for c in self.accepted(user)]
                values = [7 * a for a in addresses]
                assert self.sources[user].answers == list(zip(due, values, strict=True))
            else:
                took = [w for w, n in zip(self.port.writes, passed, strict=True) if n == user]
                assert took == [(a, 1000 * user + n) for n, a in enumerate(addresses)]


@cocotb.test()
async def each_alone_at_a_flit_per_cycle(dut):
    """No latency in either direction, whoever it is."""
    t = _Share(dut)
    await t.bench.reset()
    asked = {}
    for user in range(t.users):
        asked[user] = list(range(8 * user, 8 * user + 40))
        t.send(user, asked[user])
        await t.bench.step(40 + SRAM_READ_LATENCY)
    for user in range(t.users):
        first = user * (40 + SRAM_READ_LATENCY)
        assert t.accepted(user) == list(range(first, first + 40))
    await t.bench.step(2)
    t.check(asked)


@cocotb.test()
async def all_together_at_a_flit_per_cycle(dut):
    """The lowest first, and the others in turn when 16 flits have passed them; no bubble."""
    t = _Share(dut)
    await t.bench.reset()
    asked = {user: list(range(60)) for user in range(t.users)}
    for user, addresses in asked.items():
        t.send(user, addresses)
    await t.bench.step(60 * t.users + SRAM_READ_LATENCY)
    assert t.port.cycles == list(range(60 * t.users))
    others = list(range(1, t.users))
    turns = [0] * _BOUND + others + ([0] * (_BOUND - len(others) + 1) + others) * 3
    assert t.order()[:60] == turns[:60]
    t.check(asked)


@cocotb.test()
async def an_offered_request_keeps_its_turn(dut):
    """The lowest does not displace what the port was offered and has not taken."""
    t = _Share(dut)
    await t.bench.reset()
    last = t.users - 1
    t.port.stalls = always()
    t.send(last, [3])
    await t.bench.step(3)
    for user in range(last):
        t.send(user, [1, 2])
    await t.bench.step(3)
    t.port.stalls = never()
    await t.bench.step(2 * t.users + SRAM_READ_LATENCY)
    assert t.order() == [last] + [user for user in range(last) for _ in range(2)]


@cocotb.test()
async def random_flits(dut):
    """The users and the port pause."""
    generator = random_generator("share")
    t = _Share(dut, stalls=0.4)
    await t.bench.reset()
    asked = {n: [generator.randrange(1 << t.bits) for _ in range(300)] for n in range(t.users)}
    for user, addresses in asked.items():
        t.send(user, addresses)
    await t.bench.until(
        lambda: len(t.port.cycles) == 300 * t.users, limit=5000, stuck="flits are missing"
    )
    await t.bench.step(SRAM_READ_LATENCY)
    t.check(asked)
