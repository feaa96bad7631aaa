"""Link with virtual channels: whose turn it is in every cycle, and that no channel holds another.

Parameters: ``rate`` as [numerator, denominator], ``latency``, ``credits`` (one number for each
channel), ``starvation_bound``, ``flit_bits``.
"""

from __future__ import annotations

from collections import deque
from fractions import Fraction
from itertools import pairwise
from typing import Any

import cocotb

from sw_model.endpoint.link import LINK_TIMING, RateGate, minimum_credits
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
RATE = Fraction(*_PARAMETERS.get("rate", (1, 1)))
LATENCY = _PARAMETERS.get("latency", 1)
CREDITS: list[int] = _PARAMETERS.get("credits", [1])
CHANNELS = len(CREDITS)
BOUND = _PARAMETERS.get("starvation_bound", 1)
FLIT_BITS = _PARAMETERS.get("flit_bits", 130)
ENOUGH = [c for c in range(CHANNELS) if CREDITS[c] >= minimum_credits(RATE, LATENCY)]
LAST = 1 << (FLIT_BITS - 1)


class TurnModel(Part):
    """Credits, rate and turns, cycle by cycle, on sets and lists.

    Attributes
    ----------
    order : the channel of every flit accepted, in order
    cycles : and when
    starved : by channel
    """

    def __init__(self, dut: Any):
        self.dut = dut
        self.clear()

    def clear(self) -> None:
        """As after a reset."""
        self.most = RATE.numerator + RATE.denominator - 1
        self.saved = self.most
        self.credits = list(CREDITS)
        self.coming: deque[tuple[int, int]] = deque()
        self.within: set[int] = set()
        self.passed = [0] * CHANNELS
        self.served = CHANNELS  # the last channel that was due
        self.order: list[int] = []
        self.cycles: list[int] = []
        self.starved = [0] * CHANNELS

    def expected(self, offers: list[int]) -> int | None:
        """The channel whose flit goes."""
        able = [c for c in offers if self.credits[c]]
        if not able or self.saved < RATE.denominator:
            return None
        within = [c for c in able if c in self.within]
        due = [c for c in able if self.passed[c] == BOUND]
        in_turn = [c for c in due if c > self.served]
        return (within or in_turn or due or able)[0]

    def sample(self, cycle: int) -> None:
        """Compare, then move on."""
        dut = self.dut
        while self.coming and self.coming[0][0] == cycle:
            self.credits[self.coming.popleft()[1]] += 1
        offers = [c for c in range(CHANNELS) if int(getattr(dut, f"i__{c}__valid").value)]
        taken = [c for c in offers if int(getattr(dut, f"i__{c}__ready").value)]
        goes = self.expected(offers)
        assert taken == ([] if goes is None else [goes]), (
            f"in cycle {cycle} channels {taken} of {offers} went, not {goes}"
        )
        if goes is None:
            if self.saved >= RATE.denominator:
                for c in offers:
                    self.starved[c] += 1
        else:
            if goes not in self.within:
                for c in offers:
                    if c != goes and c not in self.within and self.credits[c]:
                        self.passed[c] = min(BOUND, self.passed[c] + 1)
                if self.passed[goes] == BOUND:
                    self.served = goes
                self.passed[goes] = 0
            last = int(getattr(dut, f"i__{goes}__payload").value) & LAST
            (self.within.discard if last else self.within.add)(goes)
            self.credits[goes] -= 1
            self.saved -= RATE.denominator
            self.order.append(goes)
            self.cycles.append(cycle)
        self.saved = min(self.most, self.saved + RATE.numerator)
        back = LINK_TIMING.credit_return + LATENCY + LINK_TIMING.credit_use
        for c in range(CHANNELS):
            o = f"o__{c}__"
            if int(getattr(dut, o + "valid").value) and int(getattr(dut, o + "ready").value):
                self.coming.append((cycle + back, c))


class WordMonitor(Part):
    """Records the cycles in which each bit of an output is high."""

    def __init__(self, signal: Any, bits: int):
        self.signal = signal
        self.cycles: list[list[int]] = [[] for _ in range(bits)]

    def sample(self, cycle: int) -> None:
        """Look at it."""
        value = int(self.signal.value)
        for bit, cycles in enumerate(self.cycles):
            if value >> bit & 1:
                cycles.append(cycle)


class WordSource(Part):
    """Drives each bit of an input in cycles of its own."""

    def __init__(self, signal: Any, when: list[set[int]]):
        self.signal = signal
        self.when = when
        signal.value = 0

    def drive(self, cycle: int) -> None:
        """Set the word of this cycle."""
        self.signal.value = sum((cycle in when) << bit for bit, when in enumerate(self.when))


class ChannelBench(Bench):
    """Source, sink and monitors on every channel, and the model of turns."""

    def __init__(self, dut: Any):
        super().__init__(dut)
        channels = range(CHANNELS)
        self.sources = [self.add(StreamSource(dut, f"i__{c}")) for c in channels]
        self.sinks = [self.add(StreamSink(dut, f"o__{c}")) for c in channels]
        dut.grant.value = 0
        self.entered = [self.add(StreamMonitor(dut, f"i__{c}")) for c in channels]
        self.left = [self.add(StreamMonitor(dut, f"o__{c}")) for c in channels]
        self.model = self.add(TurnModel(dut))

    async def begin(self, cycles: int = 1) -> None:
        """Reset, with nothing sent and no stalls; what was under way is lost."""
        for monitor in (*self.entered, *self.left):
            monitor.clear()
        for source, sink in zip(self.sources, self.sinks, strict=True):
            source.clear()
            sink.clear()
            source.stalls, sink.stalls = never(), never()
        self.model.clear()
        await self.reset(cycles)

    async def deliver(self, counts: list[int], *, limit: int = 20_000) -> None:
        """Run until so many flits of each channel have arrived; compare them with those sent."""
        await self.until(
            lambda: all(len(m.items) >= n for m, n in zip(self.left, counts, strict=True)),
            limit=limit,
            stuck=f"{counts} flits to arrive",
        )
        for c in range(CHANNELS):
            assert self.left[c].items == self.entered[c].items[: counts[c]], f"channel {c}"
            assert int(getattr(self.dut, f"sent__{c}").value) == len(self.entered[c].items)
            assert int(getattr(self.dut, f"starved__{c}").value) == self.model.starved[c]
        assert int(self.dut.overrun.value) == 0


def packets(count: int, length: int, purpose: str = "flits") -> list[int]:
    """Flits of packets with random data; each flit's last bit says whether it ends one."""
    generator = random_generator(purpose)
    return [
        generator.getrandbits(FLIT_BITS - 1) | (LAST if k % length == length - 1 else 0)
        for k in range(count * length)
    ]


@cocotb.test()
async def each_channel_alone_has_the_whole_link(dut: Any) -> None:
    """Exact latency, and the full rate from the minimum of credits on."""
    bench = ChannelBench(dut)
    for c in range(CHANNELS):
        await bench.begin()
        bench.sources[c].send(packets(20, 5))
        await bench.deliver([100 if k == c else 0 for k in range(CHANNELS)])
        sent, came = bench.sources[c].cycles, bench.left[c].cycles
        assert sent[0] == 0
        assert came == [cycle + LATENCY + 2 for cycle in sent]
        if c in ENOUGH:
            gate = RateGate(RATE)
            assert sent == [gate.depart(0) for _ in range(100)]


@cocotb.test()
async def packets_stay_in_one_piece_and_share_the_exact_rate(dut: Any) -> None:
    """All channels that have enough credits wait with packets all the time."""
    bench = ChannelBench(dut)
    await bench.reset()
    length = 4
    for c in ENOUGH:
        bench.sources[c].send(packets(30, length, f"channel {c}"))
    await bench.deliver([30 * length if c in ENOUGH else 0 for c in range(CHANNELS)])
    order = bench.model.order
    assert all(len(set(order[k : k + length])) == 1 for k in range(0, len(order), length))
    gate = RateGate(RATE)
    assert bench.model.cycles == [gate.depart(0) for _ in order]
    if len(ENOUGH) > 1:
        # The lowest number first; every other one once in BOUND packets of others.
        begun = order[::length]
        assert begun[: BOUND + 1] == [ENOUGH[0]] * BOUND + [ENOUGH[1]]


@cocotb.test()
async def no_channel_starves_whatever_the_bound(dut: Any) -> None:
    """All have packets all the time: N, and one of each other channel that is due, pass."""
    bench = ChannelBench(dut)
    await bench.reset()
    count = 24
    for c in ENOUGH:
        bench.sources[c].send(packets(count, 2, f"channel {c}"))
    await bench.deliver([2 * count if c in ENOUGH else 0 for c in range(CHANNELS)])
    begun = bench.model.order[::2]
    for c in ENOUGH:
        places = [-1, *(k for k, other in enumerate(begun) if other == c)]
        assert max(b - a - 1 for a, b in pairwise(places)) <= BOUND + len(ENOUGH) - 1


@cocotb.test()
async def a_stalled_channel_holds_no_other(dut: Any) -> None:
    """It accepts exactly its credits, in the middle of a packet, and the others go on."""
    bench = ChannelBench(dut)
    for stalled in range(CHANNELS):
        await bench.begin()
        bench.sinks[stalled].stalls = always()
        bench.sources[stalled].send(packets(1, CREDITS[stalled] + 7))
        others = [c for c in range(CHANNELS) if c != stalled]
        for c in others:
            bench.sources[c].send(packets(10, 6, f"channel {c}"))
        await bench.deliver([60 if c in others else 0 for c in range(CHANNELS)])
        await bench.step(int(CREDITS[stalled] / RATE) + 5)
        assert len(bench.sources[stalled].cycles) == CREDITS[stalled]
        bench.sinks[stalled].stalls = never()
        await bench.deliver([60 if c in others else CREDITS[c] + 7 for c in range(CHANNELS)])


@cocotb.test()
async def a_packet_without_its_next_flit_lets_others_go(dut: Any) -> None:
    """And goes on as soon as it has it, before the other begins another packet."""
    if len(ENOUGH) < 2:
        return
    bench = ChannelBench(dut)
    low, high = ENOUGH[-1], ENOUGH[0]
    bench.sources[low].stalls = stall_pattern([False, False, *[True] * 30])
    await bench.reset()
    bench.sources[low].send(packets(1, 6))
    bench.sources[high].stalls = stall_pattern([True])
    bench.sources[high].send(packets(40, 3, "high"))
    await bench.deliver([6 if c == low else 120 if c == high else 0 for c in range(CHANNELS)])
    order = bench.model.order
    back = order.index(low, 2)
    assert order[:2] == [low, low if RATE == 1 else order[1]]
    assert set(order[2:back]) == {high}
    assert len(order[2:back]) >= 3


@cocotb.test()
async def random_stalls_everywhere(dut: Any) -> None:
    """Nothing lost, doubled or moved to another channel; every grant exactly in time."""
    generator = random_generator("stalls")
    bench = ChannelBench(dut)
    span = 4000
    when = [{t for t in range(span) if generator.random() < 0.3} for _ in range(CHANNELS)]
    bench.add(WordSource(dut.grant, when))
    granted = bench.add(WordMonitor(dut.granted, CHANNELS))
    await bench.reset()
    sent = [0] * CHANNELS
    for number in range(5):
        for c in range(CHANNELS):
            bits = generator.getrandbits(32)
            bench.sources[c].stalls = generator.choice(
                (never(), random_stalls(bits, generator.random() * 0.9))
            )
            bench.sinks[c].stalls = bursty_stalls(bits, generator.randint(1, 20))
            for _ in range(generator.randint(0, 10)):
                length = generator.randint(1, 12)
                bench.sources[c].send(packets(1, length, f"{number}/{c}/{sent[c]}"))
                sent[c] += length
        await bench.deliver(sent)
    end = bench.cycle
    for c in range(CHANNELS):
        assert granted.cycles[c] == [
            t + LATENCY + 1 for t in sorted(when[c]) if t + LATENCY < end - 1
        ]


@cocotb.test()
async def reset_in_the_middle(dut: Any) -> None:
    """Flits, credits and packets under way are gone; afterwards the link is as new."""
    generator = random_generator("reset")
    bench = ChannelBench(dut)
    for _ in range(4):
        await bench.begin()
        for c in range(CHANNELS):
            bench.sources[c].send(packets(20, 7, f"channel {c}"))
            bench.sinks[c].stalls = random_stalls(generator.getrandbits(32), 0.5)
        await bench.step(generator.randint(2, 3 * LATENCY + 20))
        await bench.begin()
        for sink in bench.sinks:
            sink.stalls = always()
        await bench.step()
        assert not any(int(getattr(dut, f"sent__{c}").value) for c in range(CHANNELS))
        for c in range(CHANNELS):
            bench.sources[c].send(packets(1, CREDITS[c] + 3, f"again {c}"))
        await bench.step(int(sum(CREDITS) / RATE) + 2 * LATENCY + 20)
        assert [len(source.cycles) for source in bench.sources] == CREDITS
        for sink in bench.sinks:
            sink.stalls = never()
        await bench.deliver([n + 3 for n in CREDITS])
