"""What runs found: plain data between whoever runs something and the reports.

Times are whole cycles from the start of the run; `to_ns` converts them where they leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from sw_model.collective.plan import Collective
from sw_model.schedule.joint_bound import NO_BOUND, JointBound
from sw_model.workload.layers import Part

__all__ = [
    "CollectiveResult",
    "CosimResult",
    "Crosscheck",
    "CrosscheckCase",
    "DimBar",
    "DimResult",
    "Interval",
    "LayerResult",
    "RankResult",
    "RunResult",
    "TrainingResult",
    "to_ns",
    "union_length",
]


@dataclass(frozen=True)
class Interval:
    """A bar of the timeline, [start, end) in cycles.

    ``kind`` is "compute", "communication" (from issue to end), "exposed" or "update".
    """

    kind: str
    rank: int
    iteration: int
    layer: int
    part: Part
    start: int
    end: int


@dataclass(frozen=True)
class CollectiveResult:
    """One collective: what it was, and when its ranks entered it and were done."""

    number: int
    collective: Collective
    iteration: int
    layer: int
    part: Part
    first_issue: int
    last_issue: int
    first_end: int
    last_end: int

    @property
    def cycles(self) -> int:
        """From the entry of the last rank to the end of the last."""
        return self.last_end - self.last_issue


@dataclass(frozen=True)
class LayerResult:
    """One layer over all iterations on the latest rank, in cycles.

    ``communication`` is the union of its collectives' times; ``bytes`` its payload in one
    iteration.
    """

    name: str
    compute: int
    communication: int
    exposed: int
    update: int
    bytes: int


@dataclass(frozen=True)
class RankResult:
    """One representative, in cycles; ``finish == compute + exposed + update``."""

    rank: int
    finish: int
    compute: int
    exposed: int
    update: int


@dataclass(frozen=True)
class TrainingResult:
    """A finished run. ``total``, ``iterations`` and ``layers`` are of the latest rank."""

    total: int
    iterations: tuple[int, ...]
    layers: tuple[LayerResult, ...]
    ranks: tuple[RankResult, ...]
    collectives: tuple[CollectiveResult, ...]
    intervals: tuple[Interval, ...] = field(repr=False)

    @property
    def latest(self) -> RankResult:
        """The rank that finishes last; of several, the lowest."""
        return max(self.ranks, key=lambda result: (result.finish, -result.rank))


@dataclass(frozen=True)
class DimResult:
    """What one dim did in a run.

    Attributes
    ----------
    name : "dim 1" is the innermost
    kind, size : of the dim
    bandwidth : bytes per second and NPU, one direction
    busy : cycles in which an op was under way on it, of the busiest NPU
    bytes_per_npu : sent by the NPU that sent most, in whole flits; headers left out
    """

    name: str
    kind: str
    size: int
    bandwidth: Fraction
    busy: int
    bytes_per_npu: int

    def utilisation(self, cycles: int, clock_hz: int) -> float:
        """Bytes over what the bandwidth could have carried in ``cycles``; 0 for no time."""
        if cycles == 0:
            return 0.0
        return float(self.bytes_per_npu * clock_hz / (self.bandwidth * cycles))


@dataclass(frozen=True)
class DimBar:
    """Dim number ``dim`` (from 0) was busy in cycles [start, end)."""

    dim: int
    start: int
    end: int


@dataclass(frozen=True)
class RunResult:
    """A workload that ran on a backend.

    Attributes
    ----------
    label : for columns and titles, such as "themis" or "rtl"
    training : what the training loop found
    dims : innermost first
    npus : of the network; ``training.ranks`` are those that were simulated
    clock_hz : of the cycles
    activity : of the dims, for the timeline
    bound : no schedule of all the collectives is done sooner
    layer_bounds : of each layer's collectives, over all iterations
    interrupted_packets : by class and higher class, packets of the one between whose flits some of
        the other left an NPU; None where that was not counted
    overtaken_packets : likewise, packets that were ready at the link of an NPU or at a switch and
        let some of the other go first, once for every place
    """

    label: str
    training: TrainingResult
    dims: tuple[DimResult, ...]
    npus: int
    clock_hz: int
    activity: tuple[DimBar, ...] = field(default=(), repr=False)
    bound: JointBound = NO_BOUND
    layer_bounds: tuple[JointBound, ...] = ()
    interrupted_packets: Mapping[str, Mapping[str, int]] | None = None
    overtaken_packets: Mapping[str, Mapping[str, int]] | None = None


@dataclass(frozen=True)
class CrosscheckCase:
    """One collective, or one run, on the RTL and on the TLM.

    Attributes
    ----------
    name : what ran
    data_ok : the RTL's result is bit for bit that of the NumPy replay
    counters_ok : all traffic counters are the TLM's
    rtl_cycles, tlm_cycles : durations
    notes : what differs, for people
    timed : whether the durations are compared: not where memories refuse at random, which the
        TLM cannot know
    bank_collisions : cycles for which the busiest rank's SRAM refused requests on the RTL; None
        where that was not counted for this case alone
    packet_cycles : of one full packet, where collectives of other classes ran at the same time: a
        single cycle decides which of two packets goes first, and the other waits for all of it
        (docs/tlm.md); else 0
    one_chunk : it is a collective of one chunk
    """

    name: str
    data_ok: bool
    counters_ok: bool
    rtl_cycles: int
    tlm_cycles: int
    notes: tuple[str, ...] = ()
    timed: bool = True
    bank_collisions: int | None = None
    packet_cycles: int = 0
    one_chunk: bool = False

    @property
    def unrefused(self) -> bool:
        """Whether it was alone, and neither memory nor a bank of SRAM has refused it anything."""
        return self.timed and self.bank_collisions == 0

    @property
    def uncontended(self) -> bool:
        """Whether it was one chunk besides. Its durations must be the same."""
        return self.unrefused and self.one_chunk

    @property
    def error(self) -> float:
        """Signed error of the TLM's duration, relative to the RTL's."""
        if self.rtl_cycles == 0:
            return 0.0 if self.tlm_cycles == 0 else float("inf")
        return self.tlm_cycles / self.rtl_cycles - 1


@dataclass(frozen=True)
class Crosscheck:
    """All cases, and the bounds on their error that make the check pass.

    Attributes
    ----------
    cases : what ran
    bound : largest relative error of one case
    slack : cycles by which a case may always be off, for those of a few hundred cycles; one beside
        other classes also by a packet
    mean_bound : largest mean of the relative errors without their signs
    """

    cases: tuple[CrosscheckCase, ...]
    bound: float = 0.03
    slack: int = 8
    mean_bound: float = 0.01

    @property
    def timed(self) -> tuple[CrosscheckCase, ...]:
        """The cases whose durations are compared."""
        return tuple(case for case in self.cases if case.timed)

    @property
    def max_error(self) -> float:
        """Largest error, either way; 0 without cases."""
        return max((abs(case.error) for case in self.timed), default=0.0)

    @property
    def mean_error(self) -> float:
        """Mean error without its sign; 0 without cases."""
        return sum(abs(case.error) for case in self.timed) / max(1, len(self.timed))

    @property
    def by_packet(self) -> tuple[CrosscheckCase, ...]:
        """The cases that only a packet of another class excuses: those beside others whose cycles
        are out of the bound that holds for all."""
        return tuple(case for case in self.timed if case.packet_cycles and not self._near(case))

    def _near(self, case: CrosscheckCase) -> bool:
        difference = abs(case.tlm_cycles - case.rtl_cycles)
        return difference <= max(self.bound * case.rtl_cycles, self.slack)

    def passes(self, case: CrosscheckCase) -> bool:
        """Whether ``case`` is right in data and counters and within the bound, which is 0 where
        it is uncontended."""
        difference = abs(case.tlm_cycles - case.rtl_cycles)
        near = not difference if case.uncontended else self._near(case)
        near = near or difference <= case.packet_cycles
        return case.data_ok and case.counters_ok and (near or not case.timed)

    @property
    def ok(self) -> bool:
        """Whether there are cases, all of them pass, and the mean error is small."""
        within = self.mean_error <= self.mean_bound
        return bool(self.cases) and within and all(self.passes(case) for case in self.cases)


@dataclass(frozen=True)
class CosimResult:
    """A workload with the RTL in the loop.

    Attributes
    ----------
    full_size : the TLM at full size, one run a schedule; the last is the experiment's own
    scale : of payloads and compute times in what follows
    tlm, rtl : the same runs on both
    crosscheck : collective by collective
    cycles_simulated : of the RTL, in the experiment's own run; the rest of that run only computed
    seconds : wall time of that simulation
    """

    full_size: tuple[RunResult, ...]
    scale: Fraction
    tlm: tuple[RunResult, ...]
    rtl: tuple[RunResult, ...]
    crosscheck: Crosscheck
    cycles_simulated: int
    seconds: float


def to_ns(cycles: int | Fraction, clock_hz: int) -> float:
    """Nanoseconds, rounded to a picosecond."""
    return round(float(cycles * Fraction(10**9, clock_hz)), 3)


def union_length(intervals: Iterable[tuple[int, int]]) -> int:
    """Cycles that are in at least one of the half-open ``intervals``."""
    total = 0
    reached: int | None = None
    for start, end in sorted(intervals):
        if reached is not None:
            start = max(start, reached)
        if end > start:
            total += end - start
            reached = end
    return total
