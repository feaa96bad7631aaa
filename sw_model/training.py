"""The training loop: every rank walks the workload's program and issues collectives to a backend.

The loop does not know what carries a collective out (`sw_model.backend`). It owns compute time and
dependencies; the backend owns the clock. A duration of t ns is the nearest whole number of cycles,
each step by itself, so that all backends see the same compute.

What a rank's time is made of, exactly, without overlap or remainder::

    finish = compute + exposed + update

* *compute*: a pass of a layer is being computed;
* *exposed* communication: the rank computes nothing because a collective it waits for has not
  ended on this rank;
* *update*: the collective has ended, its weights are being updated, and the rank waits for them.

An iteration ends where the first compute of the next begins, the last where everything issued has
ended. So the wait for the first layer's gradients, which are the last to be issued, counts to the
iteration they come from; that for a later layer's gradients to the one that has to wait for them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import takewhile

from sw_model.backend import Backend, Completion
from sw_model.collective.plan import Collective
from sw_model.errors import DeadlockError
from sw_model.results import (
    CollectiveResult,
    Interval,
    LayerResult,
    RankResult,
    TrainingResult,
    union_length,
)
from sw_model.topology import Topology
from sw_model.workload.layers import Part, Pass, Workload
from sw_model.workload.program import iteration
from sw_model.workload.spans import collectives_of
from sw_model.workload.steps import Await, Compute, Issue, Step
from sw_model.workload.variation import Variation

__all__ = ["to_cycles", "train"]


def to_cycles(nanoseconds: int | Fraction, clock_hz: int) -> int:
    """The nearest whole number of cycles; a half goes up."""
    return int(nanoseconds * Fraction(clock_hz, 10**9) + Fraction(1, 2))


@dataclass
class _Entry:
    """A collective that at least one rank has entered. Entries are numbered in the order in which
    a rank enters them, which is the same for all."""

    collective: Collective
    iteration: int
    layer: int
    part: Part
    entered: dict[int, int] = field(default_factory=dict)
    ended: dict[int, int] = field(default_factory=dict)


@dataclass
class _Rank:
    """A walking rank. It is at its end (``finish``), waits for an entry (``waits_for``), or for a
    cycle (an alarm of the loop)."""

    rank: int
    steps: Iterator[tuple[int, Step | None]]
    entries: int = 0
    computed: int = 0  # passes begun
    pending: dict[tuple[int, Part, int], int] = field(default_factory=dict)
    waits_at: tuple[int, Await] | None = None
    waits_for: int | None = None
    waits_since: int = 0
    boundaries: list[int] = field(default_factory=list)
    finish: int | None = None


class _Loop:
    """One run. Everything that is due in a cycle happens before the backend goes on."""

    def __init__(
        self,
        workload: Workload,
        collectives: Mapping[tuple[int, Part], Collective],
        backend: Backend,
        iterations: int,
        clock_hz: int,
        variation: Variation,
    ) -> None:
        self.workload = workload
        self.collectives = collectives
        self.backend = backend
        self.clock_hz = clock_hz
        self.variation = variation
        self.start = backend.now
        programs: dict[int, tuple[Step, ...]] = {}  # by stage
        self.ranks = {}
        self.steps_total = 0
        for rank in backend.representatives:
            stage = workload.stage_of(rank)
            if stage not in programs:
                programs[stage] = iteration(workload, rank)
            self.ranks[rank] = _Rank(rank, _walk(programs[stage], iterations))
            self.steps_total += (len(programs[stage]) + 1) * iterations
        self.steps_done = 0
        self.entries: dict[int, _Entry] = {}
        self.numbers: dict[int, int] = {}  # of the backend -> of the entry
        self.entering: dict[int, list[int]] = {}  # entry -> ranks that enter it in this cycle
        self.alarms: list[tuple[int, int]] = []  # heap of (cycle, rank)
        self.intervals: list[Interval] = []

    async def run(self, progress: Callable[[float], object] | None) -> None:
        for rank in self.ranks.values():
            self._advance(rank)
        self._enter()
        while any(rank.finish is None for rank in self.ranks.values()):
            until = self.alarms[0][0] if self.alarms else None
            try:
                completions = await self.backend.wait(until)
            except DeadlockError as error:
                raise DeadlockError(f"{error}\n{self._blocked()}") from error
            if until is None and not completions:
                raise DeadlockError(f"nothing can happen any more\n{self._blocked()}")
            for completion in completions:
                self._complete(completion)
            while self.alarms and self.alarms[0][0] <= self.backend.now:
                self._advance(self.ranks[heapq.heappop(self.alarms)[1]])
            self._enter()
            if progress is not None:
                progress(min(1.0, self.steps_done / self.steps_total))

    def _advance(self, rank: _Rank) -> None:
        """Walk on from now until the rank has to wait for something, or is at its end."""
        now = self.backend.now
        for number, step in rank.steps:
            self.steps_done += 1
            if step is None:
                rank.boundaries.append(now)
            elif isinstance(step, Compute):
                nanoseconds = self.workload.layers[step.layer].compute_ns(step.part)
                factor = self.variation.factor(rank.rank, "pass", rank.computed)
                rank.computed += 1
                ready = now + to_cycles(nanoseconds * factor, self.clock_hz)
                if self._sleep("compute", rank, number, step, ready):
                    return
            elif isinstance(step, Issue):
                self._issue(rank, number, step)
            elif self._must_wait(rank, number, step):
                return
        rank.finish = now

    def _sleep(self, kind: str, rank: _Rank, number: int, step: Step, ready: int) -> bool:
        """Set an alarm for cycle ``ready``; False where it is not in the future."""
        if ready <= self.backend.now:
            return False
        self._interval(kind, rank.rank, number, step, self.backend.now, ready)
        heapq.heappush(self.alarms, (ready, rank.rank))
        return True

    def _issue(self, rank: _Rank, number: int, step: Issue) -> None:
        collective = self.collectives.get((step.layer, step.part))
        if collective is None:
            return
        entry = rank.entries
        rank.entries += 1
        rank.pending[step.layer, step.part, step.microbatch] = entry
        if entry not in self.entries:
            self.entries[entry] = _Entry(collective, number, step.layer, step.part)
        self.entries[entry].entered[rank.rank] = self.backend.now
        self.entering.setdefault(entry, []).append(rank.rank)

    def _enter(self) -> None:
        """Tell the backend, once for each collective, which ranks enter it in this cycle."""
        for entry, ranks in sorted(self.entering.items()):
            number = self.backend.issue(self.entries[entry].collective, sorted(ranks))
            if self.numbers.setdefault(number, entry) != entry:
                raise RuntimeError(
                    f"the backend gave number {number} to two collectives: "
                    f"{self.entries[self.numbers[number]].collective.name!r} and "
                    f"{self.entries[entry].collective.name!r}"
                )
        self.entering.clear()

    def _must_wait(self, rank: _Rank, number: int, step: Await) -> bool:
        entry = rank.pending.get((step.layer, step.part, step.microbatch))
        if entry is None:
            return False
        ended = self.entries[entry].ended.get(rank.rank)
        if ended is None:
            rank.waits_at, rank.waits_for, rank.waits_since = (
                (number, step),
                entry,
                self.backend.now,
            )
            return True
        return self._must_wait_for_update(rank, number, step, ended)

    def _must_wait_for_update(self, rank: _Rank, number: int, step: Await, ended: int) -> bool:
        if not step.update:
            return False
        entry = rank.pending.pop((step.layer, step.part, step.microbatch))
        if not _takes_part(self.entries[entry].collective, rank.rank):
            return False
        return self._sleep("update", rank, number, step, self._updated(rank, number, step, ended))

    def _updated(self, rank: _Rank, number: int, step: Await, ended: int) -> int:
        """The cycle in which the result of a collective that ended then may be used."""
        if step.part is not Pass.WEIGHT_GRADIENT:
            return ended
        nanoseconds = self.workload.layers[step.layer].update_ns
        factor = self.variation.factor(rank.rank, "update", number, step.layer)
        return ended + to_cycles(nanoseconds * factor, self.clock_hz)

    def _complete(self, completion: Completion) -> None:
        entry = self.numbers[completion.collective]
        done = self.entries[entry]
        rank = self.ranks[completion.rank]
        entered, now = done.entered[rank.rank], completion.cycle
        done.ended[rank.rank] = now
        where = Issue(done.layer, done.part)
        if _takes_part(done.collective, rank.rank):
            self._interval("communication", rank.rank, done.iteration, where, entered, now)
        if rank.waits_for != entry:
            return
        assert rank.waits_at is not None
        number, step = rank.waits_at
        self._interval("exposed", rank.rank, number, step, rank.waits_since, now)
        rank.waits_at = rank.waits_for = None
        if not self._must_wait_for_update(rank, number, step, now):
            heapq.heappush(self.alarms, (now, rank.rank))

    def _interval(
        self, kind: str, rank: int, number: int, step: Step, start: int, end: int
    ) -> None:
        if end > start:
            start, end = start - self.start, end - self.start
            self.intervals.append(Interval(kind, rank, number, step.layer, step.part, start, end))

    def _blocked(self) -> str:
        """A line for every rank that waits for a collective, with what is missing."""
        lines = []
        for rank in self.ranks.values():
            if rank.waits_for is None or rank.waits_at is None:
                continue
            entry = self.entries[rank.waits_for]
            missing = [other for other in self.ranks if other not in entry.entered]
            lines.append(
                f"rank {rank.rank}, iteration {rank.waits_at[0] + 1}, waits for the "
                f"{entry.collective.operation.value} {entry.collective.name!r} of "
                f"{entry.collective.elements} {entry.collective.data_type} elements, entered in "
                f"cycle {entry.entered[rank.rank]}"
                + (f", which ranks {missing} have not entered" if missing else "")
            )
        return "\n".join(lines)

    def result(self) -> TrainingResult:
        ranks = tuple(self._rank_result(rank) for rank in self.ranks.values())
        latest = max(ranks, key=lambda result: (result.finish, -result.rank))
        boundaries = [b - self.start for b in self.ranks[latest.rank].boundaries]
        return TrainingResult(
            total=latest.finish,
            iterations=tuple(
                end - start
                for start, end in zip(boundaries, [*boundaries[1:], latest.finish], strict=True)
            ),
            layers=self._layer_results(latest.rank),
            ranks=ranks,
            collectives=tuple(
                CollectiveResult(
                    number=number,
                    collective=entry.collective,
                    iteration=entry.iteration,
                    layer=entry.layer,
                    part=entry.part,
                    first_issue=min(entry.entered.values()) - self.start,
                    last_issue=max(entry.entered.values()) - self.start,
                    first_end=min(entry.ended.values()) - self.start,
                    last_end=max(entry.ended.values()) - self.start,
                )
                for number, entry in sorted(self.entries.items())
            ),
            intervals=tuple(self.intervals),
        )

    def _rank_result(self, rank: _Rank) -> RankResult:
        assert rank.finish is not None
        spent = {"compute": 0, "exposed": 0, "update": 0, "communication": 0}
        for interval in self.intervals:
            if interval.rank == rank.rank:
                spent[interval.kind] += interval.end - interval.start
        finish = rank.finish - self.start
        if finish != spent["compute"] + spent["exposed"] + spent["update"]:
            raise RuntimeError(f"the time of rank {rank.rank} does not add up: {finish}, {spent}")
        return RankResult(rank.rank, finish, spent["compute"], spent["exposed"], spent["update"])

    def _layer_results(self, rank: int) -> tuple[LayerResult, ...]:
        bars: dict[tuple[int, str], list[tuple[int, int]]] = {}
        for interval in self.intervals:
            if interval.rank == rank:
                key = (interval.layer, interval.kind)
                bars.setdefault(key, []).append((interval.start, interval.end))
        return tuple(
            LayerResult(
                name=layer.name,
                compute=union_length(bars.get((index, "compute"), ())),
                communication=union_length(bars.get((index, "communication"), ())),
                exposed=union_length(bars.get((index, "exposed"), ())),
                update=union_length(bars.get((index, "update"), ())),
                bytes=sum(
                    self.workload.times(part) * layer.communication(part).bytes
                    for part in Pass
                    if (index, part) in self.collectives
                ),
            )
            for index, layer in enumerate(self.workload.layers)
        )


def _takes_part(collective: Collective, rank: int) -> bool:
    """Whether a rank is in a group of a collective that names its groups; all are in the others."""
    return not collective.groups or any(rank in group for group in collective.groups)


def _walk(program: Sequence[Step], iterations: int) -> Iterator[tuple[int, Step | None]]:
    """All steps with the iteration that they count to; None marks where an iteration begins.

    What a program awaits before it does anything else counts to the iteration before. After the
    last, all collectives that may still run are awaited, in order of issue, and then all updates.
    """
    leading = list(takewhile(lambda step: isinstance(step, Await), program))
    for number in range(iterations):
        for step in leading:
            yield max(0, number - 1), step
        yield number, None
        for step in program[len(leading) :]:
            yield number, step
    for update in (False, True):
        for step in program:
            if isinstance(step, Issue):
                yield iterations - 1, Await(step.layer, step.part, update, step.microbatch)


async def train(
    workload: Workload,
    topology: Topology,
    backend: Backend,
    *,
    iterations: int,
    clock_hz: int,
    data_type: str = "fp16",
    variation: Variation = Variation(),  # noqa: B008
    progress: Callable[[float], object] | None = None,
) -> TrainingResult:
    """Run ``iterations`` of ``workload`` on ``backend``.

    Parameters
    ----------
    workload : scaled already, if it is to be (`Workload.scaled`)
    topology : tells which dims a collective spans
    backend : see there
    iterations : at least 1
    clock_hz : cycles of the backend in a second
    data_type : of the elements of every collective
    variation : of the compute and update times. The backend must simulate the ranks that it names,
        and with jitter all of them
    progress : called with the share of the steps done, 0 to 1

    Raises
    ------
    InputError
        where a payload is no whole number of elements
    DeadlockError
        where the backend cannot go on: names every blocked rank and what it waits for
    ValueError
        for wrong parameters
    """
    if iterations < 1:
        raise ValueError(f"iterations must be at least 1, not {iterations!r}")
    if clock_hz < 1:
        raise ValueError(f"clock_hz must be at least 1, not {clock_hz!r}")
    for rank, scale in variation.compute_scale.items():
        if scale != 1 and rank not in backend.representatives:
            raise ValueError(
                f"compute_scale must name ranks that the backend simulates, not rank {rank!r}"
            )
    collectives = collectives_of(workload, topology, data_type)
    loop = _Loop(workload, collectives, backend, iterations, clock_hz, variation)
    await loop.run(progress)
    return loop.result()
