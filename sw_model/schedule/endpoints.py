"""One collective on endpoints that are not ideal: time under their limits, and memory traffic.

A *baseline* endpoint communicates on cores out of main memory: ops share its memory bandwidth
(`sw_model.schedule.shared`). An engine (ACE) has its own SRAM, contexts and DMA: the planner
executes the collective under these limits (docs/plan.md). The capacities are those of the paper:
4 MiB of SRAM in equal partitions, 16 state machines divided among the dims as these need them
(`sw_model.endpoint.state_machines`), chunks of at most 64 KiB.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sw_model.collective.cost import algorithms_of
from sw_model.collective.memory_traffic import (
    MemoryTraffic,
    baseline_phase,
    engine_traffic,
)
from sw_model.collective.plan import Operation, Phase
from sw_model.endpoint.kinds import EndpointKind
from sw_model.endpoint.state_machines import divide_machines
from sw_model.errors import InputError
from sw_model.schedule.execution import Intra
from sw_model.schedule.limits import Limits
from sw_model.schedule.minimal import Run
from sw_model.schedule.outcome import Outcome, choose, notes_of, order_name
from sw_model.schedule.phases import Turn
from sw_model.schedule.planner import plan_collective
from sw_model.schedule.shared import run_shared
from sw_model.schedule.single import Candidate, DimTraffic, Instance
from sw_model.schedule.themis import Themis
from sw_model.topology import Dim

__all__ = [
    "CHUNK_BYTES",
    "MACHINES",
    "MESSAGE_BYTES",
    "SRAM_BYTES",
    "MemoryUse",
    "evaluate_endpoint",
    "paper_limits",
    "phase_memory",
]

#: The paper's engine.
SRAM_BYTES = 4 * 2**20
MACHINES = 16
CHUNK_BYTES = 64 * 2**10
MESSAGE_BYTES = 8 * 2**10


@dataclass(frozen=True)
class MemoryUse:
    """What one NPU's main memory carried.

    Attributes
    ----------
    exact : bytes
    per_payload : bytes read per payload byte by the steady-state rule; None where there is none
    """

    exact: MemoryTraffic
    per_payload: Fraction | None


def paper_limits(kind: EndpointKind, dims: Sequence[Dim], operation: Operation) -> Limits:
    """The paper's engine, for collectives over ``dims``; those of one NPU do not count."""
    active = sum(dim.size > 1 for dim in dims)
    phases = max(1, 2 * active - 1 if operation is Operation.ALL_REDUCE else active)
    buffers = SRAM_BYTES // ((phases + 1) * CHUNK_BYTES)
    return Limits(
        contexts=divide_machines(dims, MACHINES, CHUNK_BYTES),
        buffers=((max(1, buffers), CHUNK_BYTES),) * (phases + 1),
        memory_bandwidth=kind.memory_bandwidth,
    )


def evaluate_endpoint(
    instance: Instance,
    kind: EndpointKind,
    *,
    scheduler: str = "baseline",
    intra: str = "fifo",
    chunks: int = 64,
    initial_latency: bool = False,
    plan_seconds: float | None = None,
) -> tuple[Outcome, MemoryUse]:
    """As :func:`sw_model.schedule.outcome.evaluate`, on a baseline endpoint or an engine.

    Raises
    ------
    InputError
        as there; for an engine also for algorithms that are not its dims' own.
    """
    if kind.memory_bandwidth is None:
        raise ValueError(f"kind must have a memory bandwidth, not {kind!r}")
    if kind.engine:
        return _engine(instance, kind, scheduler, intra, chunks, initial_latency)
    candidate = choose(
        instance,
        scheduler=scheduler,
        intra=intra,
        chunks=chunks,
        initial_latency=initial_latency,
        plan_seconds=plan_seconds,
    )
    run = _run_from_memory(instance, candidate, kind.memory_bandwidth)
    if scheduler == "balanced":
        # It was found without the memory's limit: here the others may be as good or better.
        for other in _simple(instance, chunks):
            found = _run_from_memory(instance, other, kind.memory_bandwidth)
            if found.end < run.end:
                candidate, run = other, found
    total = MemoryTraffic(Fraction(0), Fraction(0))
    for extent, phases in zip(candidate.extents, candidate.phases, strict=True):
        for moved in phase_memory(instance, extent, phases):
            total += moved
    outcome = Outcome(
        instance=instance,
        time=instance.seconds(run.end),
        busy=tuple(instance.seconds(units) for units in run.busy),
        traffic=instance.traffic(candidate),
        orders=dict(Counter(order_name(phases) for phases in candidate.phases)),
        chunks=len(candidate.extents),
        label=f"{scheduler} {intra}, {kind.name}",
        padding_bytes=instance.padding_bytes(candidate.extents),
        notes=notes_of(instance, scheduler, len(candidate.extents), chunks),
    )
    return outcome, MemoryUse(total, _steady(instance, candidate))


def _simple(instance: Instance, chunks: int) -> Iterator[Candidate]:
    """Baseline and Themis at ``chunks``, half of it, and so on."""
    while chunks:
        for rule in Intra:
            yield instance.baseline(chunks, rule)
            yield instance.themis(chunks, rule)
        chunks //= 2


def phase_memory(
    instance: Instance, extent: int, phases: tuple[Phase, ...]
) -> Iterator[MemoryTraffic]:
    """Bytes of every phase of a chunk."""
    for phase, whole in zip(phases, instance.resident(extent, phases), strict=True):
        size = instance.topology.dims[phase.dim].size
        payload = whole * instance.quantum_bytes
        yield baseline_phase(phase.operation, phase.algorithm, size, payload)


def _run_from_memory(instance: Instance, candidate: Candidate, bandwidth: Fraction) -> Run:
    rate = instance.unit / bandwidth
    chunks = list(zip(candidate.extents, candidate.phases, strict=True))
    return run_shared(
        [instance.ops(extent, phases) for extent, phases in chunks],
        [
            [_ceil(max(m.reads, m.writes) * rate) for m in phase_memory(instance, extent, phases)]
            for extent, phases in chunks
        ],
        dims=len(instance.topology.dims),
        intra=candidate.intra,
        ranks=candidate.ranks,
    )


def _steady(instance: Instance, candidate: Candidate) -> Fraction | None:
    """Reads per payload byte: two for every byte that a reduce-scatter sends, one for others."""
    payload = instance.collective.elements * instance.collective.element_bytes
    if not payload:
        return None
    sent = Fraction(sum(t.sent for t in instance.traffic(candidate)), payload)
    return {
        Operation.ALL_REDUCE: sent * 3 / 2,
        Operation.REDUCE_SCATTER: sent * 2,
    }.get(instance.operation, sent)


def _engine(
    instance: Instance,
    kind: EndpointKind,
    scheduler: str,
    intra: str,
    chunks: int,
    initial_latency: bool,
) -> tuple[Outcome, MemoryUse]:
    topology = instance.topology
    if instance.algorithms != algorithms_of(topology.dims, instance.operation, None):
        raise InputError("--algorithm must be left out with --endpoint ace: it runs the dims' own")
    merged = replace(instance, turn=Turn.MERGED)
    plan = plan_collective(
        instance.collective,
        topology,
        scheduler=Themis(initial_latency=True)
        if scheduler == "themis" and initial_latency
        else scheduler,
        intra=intra,
        chunks=chunks,
        quantum=1,
        limits=paper_limits(kind, topology.dims, instance.operation),
        serial_latency=instance.serial_latency,
    )
    candidate = Candidate(
        tuple(chunk.extent for chunk in plan.chunks),
        tuple(chunk.phases for chunk in plan.chunks),
        Intra.FIFO,
    )
    busy = [0] * len(topology.dims)
    for extent, phases in zip(candidate.extents, candidate.phases, strict=True):
        for dim, units, _ in merged.ops(extent, phases):
            busy[dim] += units
    payload = instance.collective.elements * instance.collective.element_bytes
    moved = engine_traffic(instance.operation, instance.payload.group, payload)
    outcome = Outcome(
        instance=instance,
        time=Fraction(plan.makespan_ps, 10**12),
        busy=tuple(merged.seconds(units) for units in busy),
        traffic=tuple(DimTraffic(t.sent, t.received) for t in merged.traffic(candidate)),
        orders=dict(Counter(order_name(phases) for phases in candidate.phases)),
        chunks=len(plan.chunks),
        label=f"{scheduler} {intra}, {kind.name}",
        padding_bytes=merged.padding_bytes(candidate.extents),
        notes=plan.notes or notes_of(instance, scheduler, chunks, chunks),
    )
    return outcome, MemoryUse(moved, Fraction(moved.reads, payload) if payload else None)


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)
