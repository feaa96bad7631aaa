"""What a run of the training loop found, in cycles from its start."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sw_model.collective.plan import Collective
from sw_model.workload.layers import Pass

__all__ = [
    "CollectiveResult",
    "Interval",
    "LayerResult",
    "RankResult",
    "TrainingResult",
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
    part: Pass
    start: int
    end: int


@dataclass(frozen=True)
class CollectiveResult:
    """One collective: what it was, and when its ranks entered it and were done."""

    number: int
    collective: Collective
    iteration: int
    layer: int
    part: Pass
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
