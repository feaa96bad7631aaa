"""One collective from request to figures, whatever the scheduler and the semantics."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from sw_model.collective.plan import Operation, Phase
from sw_model.errors import InputError, nearest
from sw_model.schedule.chunking import chunks_note
from sw_model.schedule.execution import Intra
from sw_model.schedule.minimal import Run
from sw_model.schedule.single import Candidate, DimTraffic, Instance

__all__ = [
    "SCHEDULER_NAMES",
    "Outcome",
    "choose",
    "evaluate",
    "intra_of",
    "notes_of",
    "order_name",
]

#: What ``--scheduler`` knows.
SCHEDULER_NAMES = ("baseline", "themis", "balanced")


@dataclass(frozen=True)
class Outcome:
    """What became of a collective.

    Attributes
    ----------
    instance : what was asked
    time : of the whole, in seconds
    busy : by dim, seconds that it was held
    traffic : by dim
    orders : how many chunks went which way
    chunks : how many there were
    label : who scheduled it
    padding_bytes : carried beyond the payload by one NPU's chunks
    planning_seconds : of processor time that the scheduler took
    notes : what the user should be told
    """

    instance: Instance
    time: Fraction
    busy: tuple[Fraction, ...]
    traffic: tuple[DimTraffic, ...]
    orders: dict[str, int]
    chunks: int
    label: str
    padding_bytes: int = 0
    planning_seconds: float = 0.0
    notes: tuple[str, ...] = field(default=())

    @property
    def utilisation(self) -> float:
        """Ideal time over time; 1 where there is nothing to do."""
        return float(self.instance.ideal_seconds / self.time) if self.time else 1.0

    @property
    def bound_utilisation(self) -> float:
        """Bound over time; 1 where there is nothing to do."""
        return float(self.instance.bound_seconds / self.time) if self.time else 1.0

    def dim_utilisation(self, dim: int) -> float:
        """Bytes of the busier direction over what the dim could have moved in the time."""
        moved = max(self.traffic[dim].sent, self.traffic[dim].received)
        could = self.instance.topology.dims[dim].bandwidth * self.time
        return float(moved / could) if could else 0.0


def order_name(phases: tuple[Phase, ...]) -> str:
    """Phases for people: ``RS 1 2, AR 3, AG 2 1``, dims counted from 1."""
    short = {
        Operation.REDUCE_SCATTER: "RS",
        Operation.ALL_REDUCE: "AR",
        Operation.ALL_GATHER: "AG",
        Operation.ALL_TO_ALL: "A2A",
        Operation.BROADCAST: "BC",
        Operation.REDUCE: "RED",
        Operation.SEND: "SEND",
    }
    parts: list[str] = []
    for index, phase in enumerate(phases):
        if index == 0 or phases[index - 1].operation is not phase.operation:
            parts.append(short[phase.operation])
        parts[-1] += f" {phase.dim + 1}"
    return ", ".join(parts)


def intra_of(name: str) -> Intra:
    """The order within a dim that ``name`` stands for.

    Raises
    ------
    InputError
        for an unknown name.
    """
    known = [rule.value for rule in Intra]
    if name not in known:
        raise InputError(f"unknown intra-dim order {name!r}{nearest(name, known)}")
    return Intra(name)


def choose(
    instance: Instance,
    *,
    scheduler: str = "baseline",
    intra: str = "fifo",
    chunks: int = 64,
    initial_latency: bool = False,
    plan_seconds: float | None = None,
    progress: Callable[[float], object] | None = None,
) -> Candidate:
    """What a scheduler does with an instance.

    Parameters
    ----------
    scheduler : of :data:`SCHEDULER_NAMES`
    intra : "fifo" or "scf"; ``balanced`` chooses it itself
    chunks : at most
    initial_latency : of Themis
    plan_seconds : processor time that ``balanced`` may take, where not its default

    Raises
    ------
    InputError
        for an unknown name, or less than one chunk.
    """
    if scheduler not in SCHEDULER_NAMES:
        raise InputError(f"unknown scheduler {scheduler!r}{nearest(scheduler, SCHEDULER_NAMES)}")
    rule = intra_of(intra)
    if chunks < 1:
        raise InputError(f"chunks must be at least 1, not {chunks!r}")
    if scheduler == "baseline":
        return instance.baseline(chunks, rule)
    if scheduler == "themis":
        return instance.themis(chunks, rule, initial_latency=initial_latency)
    from sw_model.schedule.balanced import balance

    return balance(instance, chunks=chunks, seconds=plan_seconds, progress=progress)


def notes_of(instance: Instance, scheduler: str, count: int, chunks: int) -> tuple[str, ...]:
    """What a user should be told of a schedule of ``count`` chunks where ``chunks`` were asked for:
    that there is nothing to do, that they cannot be so many, that nothing could be searched."""
    notes: tuple[str, ...] = ()
    payload = instance.payload
    if payload.extent == 0:
        notes = ("the collective is empty and takes no time",)
    elif payload.group == 1:
        notes = ("the group has one rank: nothing is sent",)
    elif count < chunks and (scheduler != "balanced" or payload.grains < chunks):
        why = (
            f"a chunk is a multiple of the {payload.group} ranks in elements"
            if payload.grain > 1
            else "there are no more elements to cut"
        )
        notes = (chunks_note(count, chunks, why),)
    if scheduler == "balanced":
        from sw_model.schedule.native.library import library

        if library() is None:
            notes += ("there is no C++ compiler: the search was left out",)
    return notes


def evaluate(
    instance: Instance,
    *,
    scheduler: str = "baseline",
    intra: str = "fifo",
    chunks: int = 64,
    initial_latency: bool = False,
    plan_seconds: float | None = None,
    progress: Callable[[float], object] | None = None,
) -> Outcome:
    """Schedule and run; the arguments are those of :func:`choose`."""
    begun = time.process_time()
    candidate = choose(
        instance,
        scheduler=scheduler,
        intra=intra,
        chunks=chunks,
        initial_latency=initial_latency,
        plan_seconds=plan_seconds,
        progress=progress,
    )
    planning = time.process_time() - begun
    run: Run = instance.run(candidate)
    count = len(candidate.extents)
    label = scheduler if scheduler == "balanced" else f"{scheduler} {intra}"
    return Outcome(
        instance=instance,
        time=instance.seconds(run.end),
        busy=tuple(instance.seconds(units) for units in run.busy),
        traffic=instance.traffic(candidate),
        orders=dict(Counter(order_name(phases) for phases in candidate.phases)),
        chunks=count,
        label=label,
        padding_bytes=instance.padding_bytes(candidate.extents),
        planning_seconds=planning,
        notes=notes_of(instance, scheduler, count, chunks),
    )
