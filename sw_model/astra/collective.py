"""A single collective in ASTRA-sim's semantics: chunks, phases, and one queue for each dim.

All NPUs of a group do the same, so one stands for all: the cost does not depend on their number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import prod

from sw_model.astra.cost import Wire, phase_ns, suitable, wire_of
from sw_model.astra.system import AlgorithmName, AllReduceShape, SystemConfig
from sw_model.collective.plan import Operation
from sw_model.topology import DimKind, Topology

__all__ = [
    "AstraResult",
    "DimUse",
    "Phase",
    "Span",
    "chosen",
    "cut",
    "natural_algorithm",
    "phases_of",
    "run_collective",
    "run_phases",
]

_SUITS = {
    DimKind.RING: AlgorithmName.RING,
    DimKind.FULLY_CONNECTED: AlgorithmName.DIRECT,
    DimKind.SWITCH: AlgorithmName.HALVING_DOUBLING,
}


def natural_algorithm(kind: DimKind) -> AlgorithmName:
    """What suits a dim for which a system file names nothing."""
    return _SUITS.get(kind, AlgorithmName.RING)


@dataclass(frozen=True)
class Span:
    """One dim of a collective.

    Parameters
    ----------
    dim : index in the topology
    members : NPUs that take part on it, at least 2
    algorithm : one that can do the operation
    wire : what its messages cross
    """

    dim: int
    members: int
    algorithm: AlgorithmName
    wire: Wire


@dataclass(frozen=True)
class Phase:
    """One op of every chunk: ``duration`` ns, ``sent`` bytes by each NPU."""

    operation: Operation
    dim: int
    size: int
    duration: int
    sent: int


@dataclass(frozen=True)
class DimUse:
    """What one dim did: ``busy_ns`` with at least one op under way, ``bytes_per_npu`` sent."""

    busy_ns: int
    bytes_per_npu: int


@dataclass(frozen=True)
class AstraResult:
    """A finished collective.

    Attributes
    ----------
    time_ns : the last NPU's end
    dims : by index in the topology
    phases : of one chunk
    chunks : their number
    notes : where another algorithm was used than asked for
    """

    time_ns: int
    dims: tuple[DimUse, ...]
    phases: tuple[Phase, ...]
    chunks: int
    notes: tuple[str, ...] = ()


def cut(operation: Operation, size: int, splits: int, members: int) -> tuple[int, int]:
    """Bytes of a chunk, and the number of chunks; all are equal, the last one too."""
    size = max(1, size)
    chunk = max(1, size // splits)
    if operation is Operation.ALL_GATHER and chunk < members:
        return members, splits
    return chunk, -(-size // chunk)


def spans_of(
    operation: Operation,
    topology: Topology,
    system: SystemConfig,
    dims: Sequence[int],
    notes: list[str],
) -> tuple[Span, ...]:
    """The dims with more than one NPU, with their algorithms; says in ``notes`` where the asked-for
    algorithm cannot do it."""
    system.check_dims(len(topology.dims))
    wanted = system.algorithms.get(operation)
    spans = []
    for index in sorted(dims):
        dim = topology.dims[index]
        if dim.size == 1:
            continue
        asked = wanted[index] if wanted else natural_algorithm(dim.kind)
        used = chosen(asked, operation, dim.size, f"dim {index + 1}", notes)
        spans.append(Span(index, dim.size, used, wire_of(dim, used)))
    return tuple(spans)


def chosen(
    asked: AlgorithmName, operation: Operation, members: int, where: str, notes: list[str]
) -> AlgorithmName:
    """The suitable algorithm; a note where it is not what was asked for."""
    used = suitable(asked, operation, members)
    if used.value.lower() not in asked.value.lower():
        notes.append(
            f"{asked.value} cannot do {operation.value} over {members} NPUs on {where}: "
            f"{used.value} is used instead"
        )
    return used


def phases_of(
    operation: Operation, size: int, spans: Sequence[Span], system: SystemConfig
) -> tuple[Phase, ...]:
    """The phases of a chunk of ``size`` bytes."""
    order: list[tuple[Operation, Span]] = []
    RS, AG, AR = Operation.REDUCE_SCATTER, Operation.ALL_GATHER, Operation.ALL_REDUCE
    if operation is AG:
        order = [(AG, span) for span in reversed(spans)]
    elif operation is not AR or system.shape is AllReduceShape.FULL_PER_DIM:
        order = [(operation, span) for span in spans]
    elif spans:
        inner = spans[:-1]
        order = [(RS, span) for span in inner] + [(AR, spans[-1])]
        order += [(AG, span) for span in reversed(inner)]
    phases = []
    for kind, span in order:
        algorithm = suitable(span.algorithm, kind, span.members)
        duration = phase_ns(kind, algorithm, span.members, size, span.wire, system)
        phases.append(Phase(kind, span.dim, size, duration, _sent(kind, size, span)))
        if kind is RS:
            size //= span.members
        elif kind is AG:
            size *= span.members
    return tuple(phases)


def _sent(operation: Operation, size: int, span: Span) -> int:
    """Bytes that one NPU sends; what a ring's NPU passes on counts too."""
    others = span.members - 1
    if operation is Operation.ALL_GATHER:
        return others * size
    if operation is Operation.ALL_TO_ALL and span.algorithm is AlgorithmName.RING:
        return span.members * others // 2 * (size // span.members)
    if span.algorithm is AlgorithmName.DOUBLE_BINARY_TREE:
        return 2 * size
    return others * (size // span.members) * (2 if operation is Operation.ALL_REDUCE else 1)


def run_queues(
    phases: Sequence[Phase], chunks: int, active: int, dims: int
) -> tuple[int, tuple[int, ...]]:
    """All ``chunks`` through ``phases``, at most ``active`` ops at once on each dim, in order of
    arrival. Completions of one instant are handled one by one in the order of their starts: each
    frees its dim, queues the chunk on the next, and starts what can start on the freed dim, then on
    the next. Returns the end and each dim's busy time."""
    queues: list[deque[tuple[int, int]]] = [deque() for _ in range(dims)]
    running = [0] * dims
    busy, since = [0] * dims, [0] * dims
    events: list[tuple[int, int, int, int]] = []
    serial = now = 0

    def start(dim: int) -> None:
        nonlocal serial
        while queues[dim] and running[dim] < active:
            chunk, position = queues[dim].popleft()
            if running[dim] == 0:
                since[dim] = now
            running[dim] += 1
            serial += 1
            heappush(events, (now + phases[position].duration, serial, chunk, position))

    if not phases:
        return 0, tuple(busy)
    queues[phases[0].dim].extend((chunk, 0) for chunk in range(chunks))
    start(phases[0].dim)
    while events:
        now, _, chunk, position = heappop(events)
        freed = phases[position].dim
        running[freed] -= 1
        if running[freed] == 0:
            busy[freed] += now - since[freed]
        following = position + 1
        if following < len(phases):
            queues[phases[following].dim].append((chunk, following))
        start(freed)
        if following < len(phases):
            start(phases[following].dim)
    return now, tuple(busy)


def run_collective(
    operation: Operation,
    size_bytes: int,
    topology: Topology,
    system: SystemConfig,
    *,
    dims: Sequence[int] | None = None,
) -> AstraResult:
    """Time of one collective on an idle network.

    Parameters
    ----------
    size_bytes : the buffer of one rank; for an all-gather the shard of one rank
    dims : that it spans, all by default

    Raises
    ------
    InputError
        where the system's lists of algorithms do not fit the network.
    """
    if size_bytes < 0:
        raise ValueError(f"size_bytes must be at least 0, not {size_bytes!r}")
    notes: list[str] = []
    wanted = range(len(topology.dims)) if dims is None else dims
    spans = spans_of(operation, topology, system, wanted, notes)
    members = prod(span.members for span in spans)
    chunk, chunks = cut(operation, size_bytes, system.splits, members)
    phases = phases_of(operation, chunk, spans, system)
    return run_phases(phases, chunks, system, len(topology.dims), tuple(notes))


def run_phases(
    phases: tuple[Phase, ...],
    chunks: int,
    system: SystemConfig,
    dims: int,
    notes: tuple[str, ...] = (),
) -> AstraResult:
    """The result of `run_queues` with what each dim did."""
    end, busy = run_queues(phases, chunks, system.active_chunks, dims)
    sent = [chunks * sum(p.sent for p in phases if p.dim == dim) for dim in range(dims)]
    uses = tuple(DimUse(b, s) for b, s in zip(busy, sent, strict=True))
    return AstraResult(end, uses, phases, chunks, notes)
