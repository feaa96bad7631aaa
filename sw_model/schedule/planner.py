"""From a collective to its plan: chunks, their phases, and every order that an engine enforces.

The scheduler chooses the phases of each chunk; the planner then runs them once, coarsely, under the
limits of the engine (``sw_model.schedule.execution``), and writes down what it did: which buffer
each chunk has at each position, the order of ops on each dim, of loads and of stores. Every rank
enforces these orders, so whatever the timing, what this one execution could do the ranks can do
(the argument is in docs/plan.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from math import lcm
from typing import Protocol

from sw_model.collective.cost import phase_cost
from sw_model.collective.plan import ChunkPlan, Collective, CollectivePlan, Operation, Phase
from sw_model.collective.positions import largest_resident
from sw_model.errors import InputError, nearest
from sw_model.platform import Platform
from sw_model.schedule.baseline import Baseline
from sw_model.schedule.chunking import (
    Cut,
    Payload,
    chunks_note,
    largest_extent,
    with_article,
)
from sw_model.schedule.execution import Execution, Intra, Job, Stage, execute
from sw_model.schedule.limits import Limits, PlannerState
from sw_model.schedule.placed import placed_plan
from sw_model.schedule.themis import Themis
from sw_model.topology import DimKind, Topology

__all__ = ["BALANCED", "SCHEDULERS", "Scheduler", "plan_collective"]


class Scheduler(Protocol):
    """What chooses the phases of every chunk."""

    def schedule(
        self,
        operation: Operation,
        topology: Topology,
        dims: Sequence[int],
        sizes: Sequence[Fraction | int],
    ) -> list[tuple[Phase, ...]]:
        """Phases of every chunk; ``sizes`` in bytes, where each chunk is largest."""
        ...


#: Schedulers by name, with their defaults.
SCHEDULERS: dict[str, Scheduler] = {"baseline": Baseline(), "themis": Themis()}

#: The scheduler that chooses the sizes of chunks too (sw_model.schedule.balanced).
BALANCED = "balanced"


def plan_collective(
    collective: Collective,
    where: Platform | Topology,
    *,
    scheduler: str | Scheduler = "themis",
    intra: str | Intra = Intra.SCF,
    chunks: int = 64,
    quantum: int | None = None,
    state: PlannerState | None = None,
    limits: Limits | None = None,
    serial_latency: bool = False,
) -> CollectivePlan:
    """Plan one collective.

    Parameters
    ----------
    collective : what
    where : a platform, whose engines then set the limits and whose flit sets the quantum; or a
        topology alone, without limits and in elements
    scheduler : a name of :data:`SCHEDULERS`, "balanced", or a scheduler
    intra : "fifo" or "scf"; ``balanced`` chooses it itself
    chunks : at most so many, and more only where a chunk would not fit into the engine's buffers
    quantum : elements of a quantum
    state : of the class it runs in; advanced. A new one by default
    limits : in place of the platform's
    serial_latency : charge the step latency to the dim, instead of letting other ops use it then

    Returns
    -------
    CollectivePlan
        without chunks for an empty collective.

    Raises
    ------
    InputError
        for an unknown name, less than one chunk, dims that the topology does not have, a payload
        that is no whole flits per rank where it must be, buffers that hold no quantum.
    """
    platform = where if isinstance(where, Platform) else None
    topology = where.topology if isinstance(where, Platform) else where
    if platform is not None and platform.tree is not None:
        shape = partial(
            plan_collective,
            scheduler=scheduler,
            intra=intra,
            chunks=chunks,
            quantum=quantum or platform.engine.flit_bytes // collective.element_bytes,
            state=state,
            limits=limits or Limits.of(platform),
            serial_latency=serial_latency,
        )
        return placed_plan(collective, platform, shape)
    if collective.groups:
        raise InputError("groups must be on a network that is one tree of FRED switches")
    if limits is None:
        limits = Limits.of(platform) if platform is not None else Limits()
    if quantum is None:
        width = platform.engine.flit_bytes if platform is not None else collective.element_bytes
        quantum = width // collective.element_bytes
    chosen = _scheduler(scheduler)
    rule = _intra(intra)
    if not isinstance(chunks, int) or chunks < 1:
        raise InputError(f"chunks must be at least 1, not {chunks!r}")
    if not isinstance(quantum, int) or quantum < 1:
        raise InputError(f"quantum must be at least 1 element, not {quantum!r}")
    if any(d >= len(topology.dims) for d in collective.dims):
        raise InputError(
            f"dims must be among the {len(topology.dims)} dims of the topology, "
            f"not {collective.dims!r}"
        )
    payload = Payload(collective, topology, quantum)
    for name, place in (("root", collective.root), ("target", collective.target)):
        if place is not None and place >= payload.group:
            raise InputError(
                f"{name} must be a place in the group of {payload.group} ranks, not {place}"
            )
    state = PlannerState() if state is None else state
    clock = _Clock(topology, limits, quantum * collective.element_bytes, serial_latency)
    if chosen is None:
        proposal = _balanced(payload, chunks, limits, clock, state)
    else:
        proposal = Proposal(*_cut_and_schedule(payload, chosen, chunks, limits), rule)
    cuts, phases = proposal.cuts, proposal.phases
    plans = tuple(
        ChunkPlan(index, cut.quanta, phase, cut.offset, cut.extent)
        for index, (cut, phase) in enumerate(zip(cuts, phases, strict=True))
    )
    run = _execute(payload, proposal, limits, clock, state)
    notes: tuple[str, ...] = ()
    if len(cuts) < chunks and payload.extent and (chosen or payload.grains < chunks):
        notes = (chunks_note(len(cuts), chunks, "there is no more to cut"),)
    elif len(cuts) > chunks:
        notes = (chunks_note(len(cuts), chunks, "a chunk must fit into a buffer"),)
    return CollectivePlan(
        collective=collective,
        topology=topology,
        quantum=quantum,
        chunks=plans,
        loads=tuple(run.loads),
        ops=tuple(tuple(ops) for ops in run.ops),
        stores=tuple(run.stores),
        sequence=tuple(run.sequence),
        padding_bytes=_padding(payload),
        notes=notes,
        makespan_ps=-(-run.end * 10**12 // clock.unit),
    )


def _scheduler(scheduler: str | Scheduler) -> Scheduler | None:
    """The scheduler of a name; None for ``balanced``, which cuts the payload itself."""
    if not isinstance(scheduler, str):
        return scheduler
    if scheduler == BALANCED:
        return None
    if scheduler not in SCHEDULERS:
        known = [*SCHEDULERS, BALANCED]
        raise InputError(f"unknown scheduler {scheduler!r}{nearest(scheduler, known)}")
    return SCHEDULERS[scheduler]


@dataclass(frozen=True)
class Proposal:
    """Chunks, their phases, and what starts first on a dim: a rule, or a key for every op."""

    cuts: list[Cut]
    phases: list[tuple[Phase, ...]]
    intra: Intra
    keys: tuple[tuple[int, ...], ...] | None = None


def _execute(
    payload: Payload, proposal: Proposal, limits: Limits, clock: _Clock, state: PlannerState
) -> Execution:
    """Run a proposal under the limits; ``state`` advances."""
    last = max((len(p) for p in proposal.phases), default=0)
    buffers: list[int | None]
    if limits.buffers is None:
        buffers = [None] * (last + 1)
    else:
        buffers = [number for number, _ in limits.buffers]
    operation = payload.collective.operation
    made: dict[tuple, Job] = {}
    jobs = []
    for cut, phases in zip(proposal.cuts, proposal.phases, strict=True):
        key = (cut.quanta, cut.extent, id(phases))
        if key not in made:
            made[key] = clock.job(operation, phases, cut, len(buffers))
        jobs.append(made[key])
    if proposal.keys is not None:
        jobs = [job.keyed(keys) for job, keys in zip(jobs, proposal.keys, strict=True)]
    return execute(
        jobs,
        dims=len(payload.topology.dims),
        contexts=limits.contexts,
        buffers=buffers,
        intra=proposal.intra,
        state=state,
        read_latency=clock.of_ps(limits.read_latency_ps),
        write_latency=clock.of_ps(limits.write_latency_ps),
    )


def _balanced(
    payload: Payload, chunks: int, limits: Limits, clock: _Clock, state: PlannerState
) -> Proposal:
    """The best proposal under the limits, of what ``balanced`` finds without them and of the
    baseline and Themis at ``chunks``, half of it, and so on."""
    from sw_model.schedule.balanced import candidate_of

    proposals: list[Proposal] = []
    forced = False  # by buffers, to more chunks than wanted
    count = chunks
    while count and not forced:
        for scheduler in SCHEDULERS.values():
            cuts, phases = _cut_and_schedule(payload, scheduler, count, limits)
            proposals += [Proposal(cuts, phases, intra) for intra in Intra]
            forced |= len(cuts) > count
        count //= 2
    best = _quickest(proposals, payload, limits, clock, state)
    if forced and len(proposals) == len(SCHEDULERS) * len(Intra):
        return best
    most = None if limits.buffers is None else len(limits.buffers) - 1
    candidate = candidate_of(payload, chunks, most_phases=most, serial_latency=clock.serial_latency)
    room = _room(limits, payload.quantum * payload.collective.element_bytes)
    sizes = [dim.size for dim in payload.topology.dims]
    operation = payload.collective.operation
    pairs = zip(candidate.extents, candidate.phases, strict=True)
    if all(largest_extent(operation, p, sizes, room, e) == e for e, p in pairs):
        cuts = payload.cuts(candidate.extents)
        keys = candidate.ranks
        searched = Proposal(cuts, list(candidate.phases), candidate.intra, keys)
        best = _quickest([best, searched], payload, limits, clock, state)
    return best


def _quickest(
    proposals: Sequence[Proposal],
    payload: Payload,
    limits: Limits,
    clock: _Clock,
    state: PlannerState,
) -> Proposal:
    return min(
        proposals,
        key=lambda proposal: _execute(payload, proposal, limits, clock, state.copy()).end,
    )


def _room(limits: Limits, quantum_bytes: int) -> Callable[[int, int], int | None]:
    """See :func:`sw_model.schedule.chunking.largest_extent`."""

    def room(position: int, last: int) -> int | None:
        if limits.buffers is None:
            return None
        if last >= len(limits.buffers):
            raise InputError(
                f"a chunk of {last} phases needs {last + 1} partitions, "
                f"and the engine has {len(limits.buffers)}"
            )
        _, size = limits.buffers[_partition(position, last, len(limits.buffers))]
        return size // quantum_bytes

    return room


def _intra(intra: str | Intra) -> Intra:
    try:
        return Intra(intra)
    except ValueError:
        known = [rule.value for rule in Intra]
        raise InputError(f"unknown intra-dim order {intra!r}{nearest(str(intra), known)}") from None


def _padding(payload: Payload) -> int:
    """Bytes that fill the last flits of a rank's payload, or of all blocks of it."""
    if payload.ranged:
        elements = -payload.collective.elements % payload.quantum
    else:
        small, more = divmod(payload.blocks.elements, payload.group)
        elements = (payload.group - more) * (-small % payload.quantum)
        elements += more * (-(small + 1) % payload.quantum)
    return elements * payload.collective.element_bytes


def _cut_and_schedule(
    payload: Payload, scheduler: Scheduler, chunks: int, limits: Limits
) -> tuple[list[Cut], list[tuple[Phase, ...]]]:
    """Chunks, and phases of each, such that every chunk fits in the buffers on its way."""
    collective, topology = payload.collective, payload.topology
    operation = collective.operation
    quantum_bytes = payload.quantum * collective.element_bytes
    sizes = [dim.size for dim in topology.dims]

    room = _room(limits, quantum_bytes)
    limit: int | None = None
    grown = 1 if payload.ranged else payload.group
    while True:
        cuts = payload.cut(chunks, limit)
        largest = [cut.extent * grown * quantum_bytes for cut in cuts]
        phases = scheduler.schedule(operation, topology, collective.dims, largest)
        wanted = max((cut.extent for cut in cuts), default=0)
        distinct = {id(p): p for p in phases}.values()
        limit = min(
            (largest_extent(operation, p, sizes, room, wanted) for p in distinct), default=0
        )
        if limit == wanted:
            return cuts, phases
        if limit < 1:
            raise InputError(
                f"the engine's buffers are too small for one quantum of {quantum_bytes} bytes "
                f"per shard of {with_article(operation)} over {payload.group} ranks"
            )


def _partition(position: int, last: int, partitions: int) -> int:
    """The partition of a position: its own number, but the last position has the last one.

    A chunk without any phase is stored from where it was loaded.
    """
    return partitions - 1 if position == last and last > 0 else position


class _Clock:
    """Turns bytes and picoseconds into whole units of time, exactly.

    Attributes
    ----------
    unit : units in a second
    """

    def __init__(
        self, topology: Topology, limits: Limits, quantum_bytes: int, serial_latency: bool
    ) -> None:
        self.dims = topology.dims
        self.serial_latency = serial_latency
        self.memory = limits.memory_bandwidth
        per_quantum = [quantum_bytes / dim.bandwidth for dim in topology.dims]
        if self.memory is not None:
            per_quantum.append(quantum_bytes / self.memory)
        latencies = [dim.latency_ps for dim in topology.dims]
        latencies += [limits.read_latency_ps, limits.write_latency_ps, limits.step_ps]
        fractions = per_quantum + [Fraction(ps, 10**12) for ps in latencies]
        self.unit = lcm(*(f.denominator for f in fractions))
        self.quantum = [int(f * self.unit) for f in per_quantum]
        self.step = self.of_ps(limits.step_ps)

    def of_ps(self, ps: int) -> int:
        """A latency in units."""
        return int(Fraction(ps * self.unit, 10**12))

    def job(self, operation: Operation, phases: Sequence[Phase], cut: Cut, partitions: int) -> Job:
        """What the execution must know of a chunk."""
        sizes = [dim.size for dim in self.dims]
        resident = largest_resident(operation, phases, sizes, cut.extent)
        resident[0] = cut.quanta
        stages = []
        for position, phase in enumerate(phases):
            whole = resident[position]
            if phase.operation is Operation.ALL_GATHER:
                whole = resident[position + 1]
            elif phase.operation is Operation.ALL_TO_ALL:
                whole = cut.quanta  # what others' messages need in passing is not sent
            where = self.dims[phase.dim]
            cost = phase_cost(where, phase.operation, phase.algorithm, whole)
            port = _ceil(max(_ceil(cost.sent), _ceil(cost.received)) / cost.share)
            busy = port * self.quantum[phase.dim]
            latency = cost.steps * self.of_ps(where.latency_ps)
            if self.step and where.kind is DimKind.RING:
                latency += cost.steps * self.step + self.of_ps(where.latency_ps) + self.step
            if self.serial_latency:
                busy, latency = busy + latency, 0
            stages.append(Stage(phase.dim, busy, latency))
        last = len(phases)
        flit = self.quantum[-1] if self.memory is not None else 0
        return Job(
            stages=tuple(stages),
            partitions=tuple(_partition(p, last, partitions) for p in range(last + 1)),
            load=resident[0] * flit,
            store=resident[last] * flit,
        )


@lru_cache(maxsize=65536)
def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)
