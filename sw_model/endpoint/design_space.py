"""How much SRAM and how many state machines an ACE engine needs (ACE, ISCA 2021).

An all-reduce on a torus of L x V x H has four phases: reduce-scatter on the local ring, all-reduce
on the vertical and on the horizontal ring, all-gather on the local ring. A chunk goes one way round
each ring: over one of the two links, for its bytes, and `steps` latencies longer until it is there.
All that time it keeps a state machine. By Little's law the network so asks for

    (payload rate / chunk) x (sum over the phases of link time and latencies)

state machines (`machines_needed`): 15.7 for 4 x 4 x 4 and 19.3 for 4 x 8 x 4, with 1 MiB live.

`simulate` runs it. Decided here: the SRAM has a partition for each phase and a terminal one, all of
them with room for the same number of chunks, as large as chunks are there; state machines are one
pool; a phase begins where a link, a state machine and room in the next partition are free, later
phases first, so nothing is held by what waits. Memory is read when the first partition has room,
and written from the last, each at the engine's share of the bandwidth.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heappop, heappush

__all__ = [
    "TORI",
    "Design",
    "TorusPlatform",
    "knee",
    "machines_needed",
    "simulate",
    "study",
]

_GB = 10**9
_PICOSECONDS = 10**12

#: Of the paper's evaluation: L, V, H.
TORI = ((4, 2, 2), (4, 4, 2), (4, 4, 4), (4, 8, 4))


@dataclass(frozen=True, kw_only=True)
class TorusPlatform:
    """The platform of the evaluation.

    Parameters
    ----------
    torus : NPUs on the local, the vertical and the horizontal ring
    local_rate, package_rate : bytes per second of one link; an NPU has two of each ring
    local_latency, package_latency : cycles of a step
    clock_hz : of these cycles
    chunk_bytes : of a chunk
    memory_bandwidth : bytes per second that the engine reads, and writes
    """

    torus: tuple[int, int, int] = (4, 4, 4)
    local_rate: Fraction = Fraction(200 * _GB)
    package_rate: Fraction = Fraction(25 * _GB)
    local_latency: int = 90
    package_latency: int = 500
    clock_hz: int = 1_245_000_000
    chunk_bytes: int = 64 * 2**10
    memory_bandwidth: Fraction = Fraction(128 * _GB)

    def __post_init__(self) -> None:
        if len(self.torus) != 3 or min(self.torus) < 2:
            raise ValueError(f"torus must be three sizes of at least 2, not {self.torus!r}")

    def phases(self) -> tuple[tuple[int, Fraction, Fraction, Fraction], ...]:
        """Of each phase: ring, seconds of a chunk on its link, seconds of its latencies, and the
        share of the chunk that the SRAM holds before it."""
        local, vertical, horizontal = self.torus
        shard = Fraction(1, local)

        def phase(
            ring: int, size: int, passes: int, share: Fraction, held: Fraction
        ) -> tuple[int, Fraction, Fraction, Fraction]:
            rate = self.package_rate if ring else self.local_rate
            step = Fraction(self.package_latency if ring else self.local_latency, self.clock_hz)
            sent = passes * Fraction(size - 1, size) * share * self.chunk_bytes
            return ring, sent / rate, passes * (size - 1) * step, held

        one = Fraction(1)
        return (
            phase(0, local, 1, one, one),
            phase(1, vertical, 2, shard, shard),
            phase(2, horizontal, 2, shard, shard),
            phase(0, local, 1, one, one),  # what it gathers must fit
        )

    @property
    def payload_rate(self) -> Fraction:
        """Payload bytes per second that the busiest ring lets through, over both of its links."""
        busy = [Fraction(0)] * 3
        for ring, time, _, _ in self.phases():
            busy[ring] += time
        return 2 * self.chunk_bytes / max(busy)


def machines_needed(platform: TorusPlatform) -> Fraction:
    """State machines that are busy on average where the network sets the pace: Little's law."""
    held = sum((time + latency for _, time, latency, _ in platform.phases()), Fraction(0))
    return platform.payload_rate / platform.chunk_bytes * held


@dataclass(frozen=True)
class Design:
    """What one engine came to.

    Attributes
    ----------
    sram_bytes, machines : the engine
    utilisation : of the busiest ring, between a quarter and three quarters of the chunks
    busy_machines : on average, in the same time
    """

    sram_bytes: int
    machines: int
    utilisation: float
    busy_machines: float


class _Engine:
    """One NPU stands for all; times are whole picoseconds."""

    def __init__(self, platform: TorusPlatform, sram_bytes: int, machines: int) -> None:
        phases = platform.phases()
        self.rings = [ring for ring, *_ in phases]
        self.link = [round(time * _PICOSECONDS) for _, time, _, _ in phases]
        self.after = [round(latency * _PICOSECONDS) for _, _, latency, _ in phases]
        self.memory = round(platform.chunk_bytes / platform.memory_bandwidth * _PICOSECONDS)
        # The terminal partition holds whole chunks.
        places = sum((held for *_, held in phases), Fraction(0)) + 1
        room = int(sram_bytes / (places * platform.chunk_bytes))
        self.room = [room] * (len(phases) + 1)
        self.machines = machines
        self.links = [2, 2, 2]
        self.waiting: list[deque[int]] = [deque() for _ in phases]
        self.finished: deque[int] = deque()
        self.reading = self.writing = False
        self.now = 0
        self.events: list[tuple[int, int, str, int, int]] = []
        self.serial = 0
        self.ends: list[int] = []
        self.held: list[tuple[int, int]] = []  # (begin, end) of each use of a state machine

    def at(self, time: int, what: str, phase: int, chunk: int) -> None:
        self.serial += 1
        heappush(self.events, (time, self.serial, what, phase, chunk))

    def begin(self, left: int) -> int:
        """Begin what can begin; the chunks that memory has yet to give."""
        if left and not self.reading and self.room[0]:
            self.reading = True
            self.room[0] -= 1
            self.at(self.now + self.memory, "read", 0, 0)
            left -= 1
        for phase in reversed(range(len(self.rings))):
            ring, queue = self.rings[phase], self.waiting[phase]
            while queue and self.machines and self.links[ring] and self.room[phase + 1]:
                chunk = queue.popleft()
                self.machines -= 1
                self.links[ring] -= 1
                self.room[phase + 1] -= 1
                sent = self.now + self.link[phase]
                self.at(sent, "sent", phase, chunk)
                self.at(sent + self.after[phase], "there", phase, chunk)
                self.held.append((self.now, sent + self.after[phase]))
        if self.finished and not self.writing:
            self.writing = True
            self.at(self.now + self.memory, "written", 0, self.finished.popleft())
        return left

    def happen(self, what: str, phase: int, chunk: int) -> None:
        if what == "read":
            self.reading = False
            self.waiting[0].append(chunk)
        elif what == "sent":
            self.links[self.rings[phase]] += 1
        elif what == "there":
            self.machines += 1
            self.room[phase] += 1
            if phase + 1 < len(self.waiting):
                self.waiting[phase + 1].append(chunk)
            else:
                self.finished.append(chunk)
        else:
            self.writing = False
            self.room[-1] += 1
            self.ends.append(self.now)


def simulate(
    platform: TorusPlatform, *, sram_bytes: int, machines: int, chunks: int = 384
) -> Design:
    """All-reduce ``chunks`` chunks on an engine.

    Raises
    ------
    ValueError
        where the SRAM has no room for a chunk in every partition, or there is no state machine.
    """
    if machines < 1:
        raise ValueError(f"machines must be at least 1, not {machines!r}")
    if chunks < 8:
        raise ValueError(f"chunks must be at least 8, not {chunks!r}")
    engine = _Engine(platform, sram_bytes, machines)
    if not engine.room[0]:
        raise ValueError(f"sram_bytes must hold a chunk in every partition, not {sram_bytes!r}")
    left = engine.begin(chunks)
    while engine.events:
        engine.now = engine.events[0][0]
        while engine.events and engine.events[0][0] == engine.now:
            _, _, what, phase, chunk = heappop(engine.events)
            engine.happen(what, phase, chunk)
        while True:
            before = left, engine.serial
            left = engine.begin(left)
            if before == (left, engine.serial):
                break
    begin, end = engine.ends[chunks // 4], engine.ends[3 * chunks // 4]
    rate = (3 * chunks // 4 - chunks // 4) * platform.chunk_bytes * _PICOSECONDS / (end - begin)
    inside = sum(max(0, min(end, e) - max(begin, b)) for b, e in engine.held)
    return Design(
        sram_bytes=sram_bytes,
        machines=machines,
        utilisation=float(rate / platform.payload_rate),
        busy_machines=inside / (end - begin),
    )


def study(
    platform: TorusPlatform, sram_bytes: Iterable[int], machines: Sequence[int]
) -> tuple[Design, ...]:
    """Every combination; the state machines change fastest."""
    return tuple(
        simulate(platform, sram_bytes=size, machines=count)
        for size in sram_bytes
        for count in machines
    )


def knee(found: Sequence[Design], share: float = 0.95) -> Design:
    """The smallest design, by SRAM and then by state machines, that reaches ``share`` of the best.

    Raises
    ------
    ValueError
        where there is none.
    """
    if not found:
        raise ValueError("found must have a design")
    best = max(design.utilisation for design in found)
    good = [design for design in found if design.utilisation >= share * best]
    return min(good, key=lambda design: (design.sram_bytes, design.machines))
