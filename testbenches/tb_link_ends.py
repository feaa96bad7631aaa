"""LinkTransmitter, LinkReceiver and LinkDelay on their own, with the wire in the bench's hands.

One bench per component; the parameter ``part`` says which one the DUT is.
"""

from __future__ import annotations

from typing import Any

import cocotb

from testbenches import parameters, random_generator
from testbenches.bench import Bench, Part
from testbenches.pulses import PulseMonitor, PulseSource
from testbenches.streams import StreamMonitor, StreamSink, StreamSource, always, never

_PARAMETERS = parameters()
PART = _PARAMETERS.get("part", "delay")
CREDITS = _PARAMETERS.get("credits", 1)
LATENCY = _PARAMETERS.get("latency", 1)


class WireSource(Part):
    """Drives ``i`` of a wire: flits in given cycles.

    Attributes
    ----------
    flits : by cycle
    """

    def __init__(self, dut: Any, name: str):
        self.valid = getattr(dut, f"{name}__valid")
        self.flit = getattr(dut, f"{name}__flit")
        self.flits: dict[int, int] = {}
        self.valid.value = 0
        self.flit.value = 0

    def drive(self, cycle: int) -> None:
        """Put the flit of this cycle, if there is one."""
        self.valid.value = int(cycle in self.flits)
        self.flit.value = self.flits.get(cycle, cycle)


class WireMonitor(Part):
    """Records the flits on a wire by their cycle."""

    def __init__(self, dut: Any, name: str):
        self.valid = getattr(dut, f"{name}__valid")
        self.flit = getattr(dut, f"{name}__flit")
        self.flits: dict[int, int] = {}

    def sample(self, cycle: int) -> None:
        """Look at it."""
        if int(self.valid.value):
            self.flits[cycle] = int(self.flit.value)


@cocotb.test(skip=PART != "transmitter")
async def transmitter_never_sends_without_credit(dut: Any) -> None:
    """It stops behind its credits, and uses each further one in the cycle after it came."""
    bench = Bench(dut)
    source = bench.add(StreamSource(dut, "i"))
    credit = bench.add(PulseSource(dut.o__credit, {20, 30, 31, 50}))
    bench.add(PulseSource(dut.o__grant))
    wire = bench.add(WireMonitor(dut, "o"))
    await bench.reset()
    source.send(range(100))
    await bench.step(60)
    assert source.cycles == [*range(CREDITS), 21, 31, 32, 51]
    assert wire.flits == {cycle + 1: k for k, cycle in enumerate(source.cycles)}
    assert int(dut.sent.value) == CREDITS + 4
    assert int(dut.starved.value) == 60 - CREDITS - 4
    # Credits that come while nothing waits are kept.
    source.clear()
    await bench.step()
    credit.when = set(range(bench.cycle, bench.cycle + CREDITS))
    await bench.step(CREDITS + 3)
    source.send(range(100))
    await bench.step(2 * CREDITS + 5)
    assert len(source.cycles) == CREDITS


@cocotb.test(skip=PART != "transmitter")
async def transmitter_repeats_grants(dut: Any) -> None:
    """In the same cycle."""
    bench = Bench(dut)
    bench.add(StreamSource(dut, "i"))
    bench.add(PulseSource(dut.o__credit))
    grant = bench.add(PulseSource(dut.o__grant, {3, 4, 9}))
    granted = bench.add(PulseMonitor(dut.granted))
    await bench.reset()
    await bench.step(12)
    assert granted.cycles == grant.cycles == [3, 4, 9]


@cocotb.test(skip=PART != "receiver")
async def receiver_offers_and_returns(dut: Any) -> None:
    """Offer, credit and grant each one cycle later; full rate."""
    bench = Bench(dut)
    wire = bench.add(WireSource(dut, "i"))
    sink = bench.add(StreamSink(dut, "o"))
    bench.add(StreamMonitor(dut, "o"))
    credit = bench.add(PulseMonitor(dut.i__credit))
    grant = bench.add(PulseSource(dut.grant, {1, 2, 12}))
    returned = bench.add(PulseMonitor(dut.i__grant))
    await bench.reset()
    wire.flits = {cycle: 7 * cycle for cycle in (0, 5, *range(10, 40))}
    await bench.step(50)
    assert dict(zip(sink.cycles, sink.items, strict=True)) == {
        cycle + 1: flit for cycle, flit in wire.flits.items()
    }
    assert credit.cycles == [cycle + 1 for cycle in sink.cycles]
    assert returned.cycles == [cycle + 1 for cycle in grant.cycles]
    assert not int(dut.overrun.value)


@cocotb.test(skip=PART != "receiver")
async def receiver_drops_and_says_so(dut: Any) -> None:
    """The flit beyond its depth is lost, ``overrun`` stays until reset, the others come out."""
    bench = Bench(dut)
    wire = bench.add(WireSource(dut, "i"))
    sink = bench.add(StreamSink(dut, "o", stalls=always()))
    bench.add(PulseSource(dut.grant))
    await bench.reset()
    wire.flits = {cycle: cycle + 1 for cycle in range(CREDITS)}
    await bench.step(CREDITS + 3)
    assert not int(dut.overrun.value)
    wire.flits = {bench.cycle: 99}
    await bench.step(2)
    assert int(dut.overrun.value)
    sink.stalls = never()
    await bench.step(CREDITS + 5)
    assert sink.items == list(range(1, CREDITS + 1))
    assert int(dut.overrun.value)
    wire.flits = {}
    await bench.reset()
    await bench.step()
    assert not int(dut.overrun.value)


@cocotb.test(skip=PART != "delay")
async def delay_is_exact_both_ways(dut: Any) -> None:
    """Random flits, credits and grants, each exactly ``latency`` cycles later; reset loses them."""
    generator = random_generator("delay")
    for density in (0.1, 0.9, 1.0, 0.5):
        bench = Bench(dut)
        span = 3 * LATENCY + 60
        wire = bench.add(WireSource(dut, "i"))
        credit = bench.add(PulseSource(dut.o__credit))
        grant = bench.add(PulseSource(dut.o__grant))
        arrived = bench.add(WireMonitor(dut, "o"))
        credited = bench.add(PulseMonitor(dut.i__credit))
        granted = bench.add(PulseMonitor(dut.i__grant))

        def cycles(share: float, span: int = span) -> set[int]:
            return {c for c in range(span) if generator.random() < share}

        wire.flits = {c: generator.getrandbits(130) for c in cycles(density)}
        credit.when, grant.when = cycles(density), cycles(density / 2)
        # The last ones are under way when the next round begins with a reset.
        await bench.reset(cycles=1)
        await bench.step(span)
        for sent, came in (
            (sorted(wire.flits), sorted(arrived.flits)),
            (credit.cycles, credited.cycles),
            (grant.cycles, granted.cycles),
        ):
            assert came == [c + LATENCY for c in sent if c + LATENCY < span]
        assert all(wire.flits[c - LATENCY] == flit for c, flit in arrived.flits.items())
