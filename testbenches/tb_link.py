"""Link: exact times, rates, credits, grants and reset, against the twin in the model.

Parameters: ``rate`` as [numerator, denominator], ``latency``, ``credits``.
"""

from __future__ import annotations

from collections import deque
from fractions import Fraction
from math import ceil
from typing import Any

import cocotb

from sw_model.endpoint.link import LINK_TIMING, RateGate, minimum_credits
from testbenches import parameters, random_generator, seed
from testbenches.bench import Bench, Part
from testbenches.pulses import PulseMonitor, PulseSource
from testbenches.streams import (
    StreamMonitor,
    StreamSink,
    StreamSource,
    always,
    bursty_stalls,
    never,
    random_stalls,
)

_PARAMETERS = parameters()
RATE = Fraction(*_PARAMETERS.get("rate", (1, 1)))
LATENCY = _PARAMETERS.get("latency", 1)
CREDITS = _PARAMETERS.get("credits", 1)
FLIT_BITS = _PARAMETERS.get("flit_bits", 130)
ENOUGH = minimum_credits(RATE, LATENCY) <= CREDITS


class CreditLedger(Part):
    """No more flits are between the two streams than the receiver has room for."""

    def __init__(self, source: StreamMonitor, sink: StreamMonitor):
        self.source, self.sink = source, sink
        self.most = 0

    def sample(self, cycle: int) -> None:
        """Count."""
        held = len(self.source.items) - len(self.sink.items)
        assert 0 <= held <= CREDITS, f"{held} flits under way in cycle {cycle}"
        self.most = max(self.most, held)


class TransmitterModel(Part):
    """Credits and rate, cycle by cycle: ``i.ready`` in every cycle, and the count of starving."""

    def __init__(self, dut: Any):
        self.dut = dut
        self.clear()

    def clear(self) -> None:
        """As after a reset."""
        self.most = RATE.numerator + RATE.denominator - 1
        self.saved = self.most
        self.credits = CREDITS
        self.coming: deque[int] = deque()
        self.starved = 0

    def sample(self, cycle: int) -> None:
        """Compare, then move on."""
        dut = self.dut
        while self.coming and self.coming[0] == cycle:
            self.coming.popleft()
            self.credits += 1
        rate_open = self.saved >= RATE.denominator
        ready = rate_open and self.credits > 0
        assert int(dut.i__ready.value) == ready, f"i.ready in cycle {cycle}"
        waits = int(dut.i__valid.value)
        if waits and ready:
            self.credits -= 1
            self.saved -= RATE.denominator
        self.saved = min(self.most, self.saved + RATE.numerator)
        self.starved += bool(waits and rate_open and not ready)
        if int(dut.o__valid.value) and int(dut.o__ready.value):
            back = LINK_TIMING.credit_return + LATENCY + LINK_TIMING.credit_use
            self.coming.append(cycle + back)


class LinkBench(Bench):
    """Wires only: source, sink, grant driver and monitors on all of them."""

    def __init__(self, dut: Any):
        super().__init__(dut)
        self.source = self.add(StreamSource(dut, "i"))
        self.sink = self.add(StreamSink(dut, "o"))
        self.grants = self.add(PulseSource(dut.grant))
        self.entered = self.add(StreamMonitor(dut, "i"))
        self.left = self.add(StreamMonitor(dut, "o"))
        self.granted = self.add(PulseMonitor(dut.granted))
        self.ledger = self.add(CreditLedger(self.entered, self.left))
        self.model = self.add(TransmitterModel(dut))

    async def deliver(self, count: int, *, limit: int) -> None:
        """Run until ``count`` flits have arrived, and compare them with what was sent."""
        await self.until(
            lambda: len(self.left.items) >= count, limit=limit, stuck=f"{count} flits to arrive"
        )
        assert self.left.items == self.entered.items[:count]
        assert not int(self.dut.overrun.value)
        assert int(self.dut.sent.value) == len(self.entered.items)
        assert int(self.dut.starved.value) == self.model.starved


def flits(count: int, purpose: str = "flits") -> list[int]:
    """Random flits."""
    generator = random_generator(purpose)
    return [generator.getrandbits(FLIT_BITS) for _ in range(count)]


def patience(count: int) -> int:
    """Cycles within which ``count`` flits must be through, stalls included."""
    slowest = min(RATE, Fraction(CREDITS, LINK_TIMING.round_trip(LATENCY)))
    return 10 * int(count / slowest) + 10 * LATENCY + 1000


@cocotb.test()
async def latency_is_exact(dut: Any) -> None:
    """A flit through an empty link is offered exactly latency + 2 cycles after its acceptance."""
    bench = LinkBench(dut)
    await bench.reset()
    bench.source.send(flits(1))
    await bench.deliver(1, limit=patience(1))
    assert bench.source.cycles == [0]
    assert bench.left.cycles == [LINK_TIMING.flit(LATENCY)]
    assert LINK_TIMING.flit(LATENCY) == LATENCY + 2


@cocotb.test()
async def departures_follow_the_rate(dut: Any) -> None:
    """With a random demand every flit is accepted in exactly the cycle that RateGate says."""
    if not ENOUGH:
        return
    bench = LinkBench(dut)
    bench.source.stalls = bursty_stalls(seed(), 2 * RATE.denominator + 3)
    await bench.reset()
    bench.source.send(flits(200))
    await bench.deliver(200, limit=patience(200))
    gate = RateGate(RATE)
    assert bench.source.cycles == [gate.depart(cycle) for cycle in bench.source.offers]
    assert bench.left.cycles == [c + LINK_TIMING.flit(LATENCY) for c in bench.source.cycles]


@cocotb.test()
async def throughput(dut: Any) -> None:
    """Full rate with the minimum of credits, and exactly credits per round trip with fewer."""
    round_trip = LINK_TIMING.round_trip(LATENCY)
    # Without enough credits each round trip loses a little; let three cycles be lost.
    loss = round_trip - CREDITS / RATE
    count = (3 if ENOUGH else max(3, ceil(3 / loss))) * CREDITS + 60
    bench = LinkBench(dut)
    await bench.reset()
    bench.source.send(flits(count))
    await bench.deliver(count, limit=patience(count))
    starved = int(dut.starved.value)
    if ENOUGH:
        first, last = RateGate(RATE).depart_many(0, count)
        assert (bench.source.cycles[0], bench.source.cycles[-1]) == (first, last)
        assert starved == 0
    else:
        gaps = [
            bench.source.cycles[k] - bench.source.cycles[k - CREDITS]
            for k in range(2 * CREDITS, count)
        ]
        assert min(gaps) >= round_trip
        if round_trip - CREDITS / RATE >= Fraction(1, 2):  # else settling takes too long
            assert max(gaps) == round_trip
        assert starved > 0
        assert bench.source.cycles[-1] > RateGate(RATE).depart_many(0, count)[1]


@cocotb.test()
async def accepts_exactly_its_credits_while_stalled(dut: Any) -> None:
    """No more, no fewer; and all come out afterwards."""
    bench = LinkBench(dut)
    bench.sink.stalls = always()
    await bench.reset()
    bench.source.send(flits(CREDITS + 5))
    wait = int(CREDITS / RATE) + 2 * LATENCY + 50
    await bench.step(wait)
    assert len(bench.source.cycles) == CREDITS
    assert int(dut.starved.value) > 0
    bench.sink.stalls = never()
    await bench.deliver(CREDITS + 5, limit=patience(CREDITS))
    # A credit is used exactly 2 + latency cycles after the flit that it stood for was taken.
    assert bench.source.cycles[CREDITS] == bench.left.cycles[0] + LATENCY + 2


@cocotb.test()
async def random_stalls_on_both_sides(dut: Any) -> None:
    """Nothing lost, doubled or reordered, credits conserved, grants exact meanwhile."""
    generator = random_generator("stalls")
    bench = LinkBench(dut)
    await bench.reset()
    sent = 0
    for _ in range(4):
        bench.source.stalls = random_stalls(generator.getrandbits(32), generator.random() * 0.9)
        bench.sink.stalls = bursty_stalls(generator.getrandbits(32), generator.randint(1, 20))
        bench.grants.when = random_stalls(generator.getrandbits(32), generator.choice((0.1, 0.9)))
        sent += 60
        bench.source.send(flits(60, f"round {sent}"))
        await bench.deliver(sent, limit=patience(60))
    bench.grants.when = ()
    await bench.step(2 * LATENCY + 4)
    assert bench.granted.cycles == [c + LINK_TIMING.grant(LATENCY) for c in bench.grants.cycles]

    # All credits are home again: stalled, it accepts exactly that many.
    bench.source.stalls, bench.sink.stalls = never(), always()
    bench.source.send(flits(CREDITS + 1, "last"))
    await bench.step(int(CREDITS / RATE) + 2 * LATENCY + 50)
    assert len(bench.source.cycles) == sent + CREDITS


@cocotb.test()
async def grants_come_back_exactly_delayed(dut: Any) -> None:
    """Single, and in a row, with nothing else on the link."""
    bench = LinkBench(dut)
    bench.grants.when = {0, 5, 6, 7, 20} | set(range(30, 40 + LATENCY))
    await bench.reset()
    await bench.step(60 + 3 * LATENCY)
    assert bench.granted.cycles == [c + LATENCY + 1 for c in sorted(bench.grants.when)]
    assert LINK_TIMING.grant(LATENCY) == LATENCY + 1


@cocotb.test()
async def reset_in_the_middle(dut: Any) -> None:
    """Flits, credits and grants under way are gone; afterwards the link is as new."""
    generator = random_generator("reset")
    bench = LinkBench(dut)
    await bench.reset()
    for _ in range(5):
        bench.source.send(flits(2 * CREDITS + 100))
        bench.sink.stalls = random_stalls(generator.getrandbits(32), 0.3)
        bench.grants.when = random_stalls(generator.getrandbits(32), 0.5)
        await bench.step(generator.randint(1, 3 * LATENCY + 20))
        for part in (bench.source, bench.sink, bench.entered, bench.left, bench.model):
            part.clear()
        dut.grant.value = 0
        bench.grants = PulseSource(dut.grant)
        bench.granted = PulseMonitor(dut.granted)
        bench.parts = [
            bench.source,
            bench.sink,
            bench.grants,
            bench.entered,
            bench.left,
            bench.granted,
            bench.ledger,
            bench.model,
        ]
        await bench.reset(cycles=1)
        bench.sink.stalls = always()
        await bench.step(2 * LATENCY + 10)
        assert not bench.granted.cycles
        assert not int(dut.o__valid.value)
        assert int(dut.sent.value) == 0
        bench.source.send(flits(CREDITS + 1))
        await bench.step(int(CREDITS / RATE) + 2 * LATENCY + 50)
        assert len(bench.source.cycles) == CREDITS
        bench.sink.stalls = never()
        await bench.deliver(CREDITS + 1, limit=patience(CREDITS))
