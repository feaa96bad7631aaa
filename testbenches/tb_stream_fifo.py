"""StreamFifo: latency, throughput, capacity, order. Parameters: ``depth``, ``width``, ``level``
(whether it tells its level)."""

from __future__ import annotations

from collections import deque
from typing import Any

import cocotb

from testbenches import parameters, random_generator
from testbenches.bench import Bench, Part
from testbenches.streams import (
    StreamMonitor,
    StreamSink,
    StreamSource,
    always,
    bursty_stalls,
    never,
    random_stalls,
    stall_pattern,
)

_PARAMETERS = parameters()
DEPTH = _PARAMETERS.get("depth", 1)
WIDTH = _PARAMETERS.get("width", 8)
LEVEL = _PARAMETERS.get("level", True)


class FifoModel(Part):
    """What both ports must show in every cycle, given what the other side did before."""

    def __init__(self, dut: Any):
        self.dut = dut
        self.held: deque[int] = deque()

    def sample(self, cycle: int) -> None:
        """Compare all outputs, then move on."""
        dut = self.dut
        level = len(self.held)
        if LEVEL:
            assert int(dut.level.value) == level, f"level {dut.level.value} in cycle {cycle}"
        assert int(dut.i__ready.value) == (level < DEPTH), f"i.ready in cycle {cycle}"
        assert int(dut.o__valid.value) == (level > 0), f"o.valid in cycle {cycle}"
        if level:
            assert int(dut.o__payload.value) == self.held[0], f"item in cycle {cycle}"
        if level and int(dut.o__ready.value):
            self.held.popleft()
        if int(dut.i__valid.value) and level < DEPTH:
            self.held.append(int(dut.i__payload.value))


class FifoBench(Bench):
    """Source, sink, rule monitors and the model."""

    def __init__(self, dut: Any):
        super().__init__(dut)
        self.source = self.add(StreamSource(dut, "i"))
        self.sink = self.add(StreamSink(dut, "o"))
        self.entered = self.add(StreamMonitor(dut, "i"))
        self.left = self.add(StreamMonitor(dut, "o"))
        self.model = self.add(FifoModel(dut))

    def send(self, count: int) -> None:
        """Queue random items."""
        generator = random_generator(f"items {len(self.entered.items)}")
        self.source.send(generator.getrandbits(WIDTH) for _ in range(count))


@cocotb.test()
async def latency_and_throughput(dut: Any) -> None:
    """One cycle, and one item per cycle (one per two cycles if it holds only one)."""
    bench = FifoBench(dut)
    await bench.reset()
    bench.send(50)
    await bench.step(110)
    step = 1 if DEPTH > 1 else 2
    assert bench.entered.cycles == [step * k for k in range(50)]
    assert bench.left.cycles == [step * k + 1 for k in range(50)]


@cocotb.test()
async def accepts_exactly_depth_while_stalled(dut: Any) -> None:
    """Then full rate again at once, without bubble, from full to empty."""
    bench = FifoBench(dut)
    bench.sink.stalls = always()
    await bench.reset()
    bench.send(2 * DEPTH + 3)
    await bench.step(DEPTH + 5)
    assert bench.entered.cycles == list(range(DEPTH))
    bench.sink.stalls = never()
    await bench.step(4 * DEPTH + 10)
    step = 1 if DEPTH > 1 else 2
    assert bench.left.cycles == [DEPTH + 5 + step * k for k in range(2 * DEPTH + 3)]


@cocotb.test()
async def each_level_with_each_move(dut: Any) -> None:
    """At every fill level: put, take, both, neither, in every order of two."""
    bench = FifoBench(dut)
    await bench.reset()
    moves = [(put, take) for put in (False, True) for take in (False, True)]
    for level in range(DEPTH + 1):
        for first in moves:
            for second in moves:
                bench.source.stalls, bench.sink.stalls = never(), never()
                await bench.until(
                    lambda: bench.source.idle and not bench.model.held, limit=99, stuck="drain"
                )
                bench.sink.stalls = always()
                bench.send(level)
                await bench.until(lambda: bench.source.idle, limit=99, stuck="fill")
                bench.source.stalls = stall_pattern([not first[0], not second[0]], then=True)
                bench.sink.stalls = stall_pattern([not first[1], not second[1]], then=True)
                bench.send(first[0] + second[0])
                await bench.step(3)


@cocotb.test()
async def random_stalls_on_both_sides(dut: Any) -> None:
    """Against the model in every cycle; with a reset in the middle."""
    generator = random_generator("stalls")
    bench = FifoBench(dut)
    for _ in range(6):
        await bench.reset(cycles=1)
        for part in (bench.source, bench.sink, bench.entered, bench.left):
            part.clear()
        bench.model.held.clear()
        bench.source.stalls = random_stalls(generator.getrandbits(32), generator.random() * 0.8)
        bench.sink.stalls = bursty_stalls(generator.getrandbits(32), generator.randint(1, 12))
        bench.send(150)
        await bench.step(generator.randint(100, 200))
        assert bench.left.items == bench.entered.items[: len(bench.left.items)]
