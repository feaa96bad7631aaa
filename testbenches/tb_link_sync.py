"""Both ends of a link, restarted at random, over channels of random delay."""

from collections import deque
from typing import Any

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge, Timer

from testbenches import random_generator
from testbenches.bench import Bench


class _Link:
    """The two channels: what is said arrives in order, after a while."""

    def __init__(self, dut, generator):
        self.dut = dut
        self.generator = generator
        self.bench = Bench(dut)
        # From end 0, from end 1: (cycle, message).
        self.ways: tuple[deque[Any], deque[Any]] = (deque(), deque())
        self.cycle = 0
        for end in range(2):
            for name in ("restart", "used", "received__valid", "received__payload", "send__ready"):
                self.port(end, name).value = 0

    def port(self, end, name):
        return getattr(self.dut, f"end__{end}__{name}")

    def read(self, end, name):
        return int(self.port(end, name).value)

    async def step(self, *, restart=(), used=()):
        """One cycle. A message is a sync, or None for traffic, which counts as use where it
        arrives."""
        for end in range(2):
            way = self.ways[1 - end]
            arrived = [way.popleft()[1]] if way and way[0][0] <= self.cycle else []
            traffic = arrived == [None]
            self.port(end, "received__valid").value = int(bool(arrived) and not traffic)
            self.port(end, "received__payload").value = 0 if traffic else sum(arrived)
            self.port(end, "restart").value = int(end in restart)
            ready = self.generator.random() < 0.7
            self.port(end, "send__ready").value = int(ready)
            await Timer(1, "step")
            up = self.read(end, "up")
            speaks = end in used and up
            self.port(end, "used").value = int(speaks or (traffic and up))
            if speaks:
                self.say(end, None)
        await FallingEdge(self.dut.clk)
        for end in range(2):
            if self.read(end, "send__valid") and self.read(end, "send__ready"):
                self.say(end, self.read(end, "send__payload"))
        await RisingEdge(self.dut.clk)
        await Timer(1, "step")
        self.cycle += 1

    def say(self, end, message):
        way = self.ways[end]
        earliest = way[-1][0] if way else 0
        way.append((max(earliest, self.cycle + self.generator.randrange(1, 9)), message))

    async def settle(self):
        for _ in range(80):
            await self.step()

    def state(self):
        return [(self.read(end, "up"), self.read(end, "lost")) for end in range(2)]

    def generation(self, end):
        return self.read(end, "send__payload") & 7

    def answer(self, end):
        return self.read(end, "send__payload") >> 4


@cocotb.test()
async def any_order_of_restarts(dut):
    """Unused ends come up after any restarts; then each knows the generation of the other."""
    link = _Link(dut, random_generator("link sync"))
    await link.bench.reset()
    await link.settle()
    assert link.state() == [(1, 0), (1, 0)]
    for _ in range(60):
        for _ in range(link.generator.randrange(1, 5)):
            restart = link.generator.choice(((0,), (1,), (0, 1)))
            await link.step(restart=restart)
            for _ in range(link.generator.randrange(12)):
                await link.step()
        await link.settle()
        assert link.state() == [(1, 0), (1, 0)]
        assert link.answer(0) == link.generation(1)
        assert link.answer(1) == link.generation(0)


@cocotb.test()
async def used_ends_must_be_restarted(dut):
    """An end that was used and hears of a reset is lost until it is reset, early or late."""
    link = _Link(dut, random_generator("link sync"))
    await link.bench.reset()
    await link.settle()
    for turn in range(40):
        first = turn % 2
        for _ in range(3):
            await link.step(used=(0, 1))
        await link.settle()
        await link.step(restart=(first,))
        for _ in range(link.generator.randrange(20)):
            await link.step(used=(1 - first,) if turn % 3 == 0 else ())
        if turn % 4 == 0:
            await link.settle()
            assert link.state()[1 - first] == (0, 1)
            assert link.state()[first][0] == 0
        await link.step(restart=(1 - first,))
        await link.settle()
        assert link.state() == [(1, 0), (1, 0)], turn
