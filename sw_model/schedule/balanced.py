"""``balanced``: the schedule that comes closest to the bound with at most C chunks.

Three steps, all judged by the minimal model itself:

1. The baseline and Themis, first in first out and smallest first, at every number of chunks up to
   C. So the result is never worse than any of them.
2. The shares of the linear program (``sw_model.schedule.bound``), cut into C pieces.
3. A search from the best of these: orders, sizes, sequence and priority within a dim of every
   chunk (``native/search.cpp``). Sizes are whole grains, so that all shards are whole elements.

The budget of the search is counted in simulated ops and its random numbers have a fixed seed: every
rank, and every run, finds the same schedule. Only where processor time runs out first does it
depend on the machine, and then it says so (`Search.late`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, permutations, product

from sw_model.collective.plan import Collective, Operation, Phase
from sw_model.collective.traffic import default_algorithm
from sw_model.schedule.bound import Column, Order
from sw_model.schedule.chunking import Payload
from sw_model.schedule.execution import Intra
from sw_model.schedule.native.library import Found, Library, library
from sw_model.schedule.phases import Turn, build_phases
from sw_model.schedule.single import Candidate, Instance
from sw_model.topology import Topology

__all__ = ["DEFAULT_BUDGET", "DEFAULT_SECONDS", "balance", "candidate_of"]

#: Ops that a search simulates unless told otherwise, and the processor time after which it stops
#: in any case.
DEFAULT_BUDGET = 6_000_000
DEFAULT_SECONDS = 0.6
#: Ops per second of ``seconds``, where a user gives those.
_OPS_PER_SECOND = 100_000_000
_ORDERS = 600
_SEED = 1
_LARGEST = 2**62


def balance(
    instance: Instance,
    *,
    chunks: int,
    seconds: float | None = None,
    budget: int | None = None,
    most_phases: int | None = None,
    progress: Callable[[float], object] | None = None,
) -> Candidate:
    """The best schedule of at most ``chunks`` chunks that was found.

    Parameters
    ----------
    seconds : of processor time for the search; by default a budget that takes less than half a
        second
    budget : in simulated ops, in place of the default
    most_phases : of a chunk, in the search, where an engine has partitions for no more
    """
    native = library()
    best, end = _best_of(instance, chunks, native)
    if native is None or end == 0 or not instance.operation.reorders:
        return best  # every dim is visited with the same bytes in any order
    ways = _Ways(instance, most_phases)
    starts = [_start(ways, best, chunks)]
    for backwards in (False, True):
        pieces = _pieces(ways, instance, chunks, backwards)
        if pieces is not None:
            starts.append(pieces)
    grains = -(-instance.payload.extent // instance.grain)
    if max(sum(o[1] for o in ops) for ops in ways.ops) * (grains + chunks) >= _LARGEST:
        return best  # times that do not fit into 64 bits
    if seconds is None:
        limit, ops = DEFAULT_SECONDS, budget or DEFAULT_BUDGET
    else:
        limit, ops = seconds, budget or int(seconds * _OPS_PER_SECOND)
    target = int(instance.bound_seconds * instance.unit * 100002 / 100000)
    found = native.search(
        dims=len(instance.topology.dims),
        orders=ways.ops,
        starts=starts,
        budget=ops,
        seconds=limit,
        seed=_SEED,
        target=target,
        serial=instance.serial_latency,
        progress=progress,
    )
    candidate = _candidate(ways, instance, found)
    return candidate if instance.run(candidate).end < end else best


def candidate_of(
    payload: Payload, chunks: int, *, most_phases: int | None, serial_latency: bool = False
) -> Candidate:
    """What `balance` finds for a payload that is planned for engines, where every turning point is
    one phase. Equal payloads are searched once in a process."""
    topology = payload.topology
    dims = tuple(
        dim if d in payload.collective.dims else replace(dim, size=1)
        for d, dim in enumerate(topology.dims)
    )
    asked = payload.collective
    instance = Instance(
        Collective(asked.operation, asked.elements, asked.data_type, dims=tuple(range(len(dims)))),
        Topology(dims),
        tuple(default_algorithm(dim.kind) for dim in dims),
        turn=Turn.MERGED,
        serial_latency=serial_latency,
        quantum=payload.quantum,
    )
    return _remembered(instance, chunks, most_phases)


@lru_cache(maxsize=256)
def _remembered(instance: Instance, chunks: int, most_phases: int | None) -> Candidate:
    budget = DEFAULT_BUDGET // 4
    return balance(instance, chunks=chunks, budget=budget, most_phases=most_phases)


def _best_of(instance: Instance, chunks: int, native: Library | None) -> tuple[Candidate, int]:
    """The best of baseline and Themis at every number of chunks, fewest chunks first."""
    best: Candidate | None = None
    least = 0
    seen: set[tuple[int, ...]] = set()
    dims = len(instance.topology.dims)
    for count in range(1, chunks + 1):
        fixed = instance.baseline(count)
        if fixed.extents in seen:
            continue
        seen.add(fixed.extents)
        levelled = instance.themis(count)
        for candidate in (levelled, fixed):
            ops = [
                instance.ops(e, p) for e, p in zip(candidate.extents, candidate.phases, strict=True)
            ]
            for intra in (Intra.SCF, Intra.FIFO):
                if native is not None and sum(o[1] + o[2] for c in ops for o in c) < _LARGEST:
                    end = native.run(ops, dims, intra is Intra.SCF)
                else:
                    end = instance.run(replace(candidate, intra=intra)).end
                if best is None or end < least:
                    name = "baseline" if candidate is fixed else "themis"
                    origin = f"{name} {intra.value}, {len(ops)} chunks"
                    best, least = replace(candidate, intra=intra, origin=origin), end
    assert best is not None
    return best, least


@dataclass
class _Ways:
    """The orders that chunks may take, numbered.

    Attributes
    ----------
    phases : of each order
    ops : of each order, for one grain
    number : of the phases
    """

    phases: list[tuple[Phase, ...]]
    ops: list[tuple[tuple[int, int, int], ...]]
    number: dict[tuple[Phase, ...], int]

    def __init__(self, instance: Instance, most_phases: int | None = None) -> None:
        self.instance = instance
        self.overlapped = replace(instance, serial_latency=False)
        self.most_phases = most_phases
        self.phases, self.ops, self.number = [], [], {}
        for order in islice(_orders(instance), _ORDERS):
            phases = self.phases_of(order)
            if self.allows(phases):
                self.of(phases)

    def allows(self, phases: tuple[Phase, ...]) -> bool:
        """Whether they are not too many."""
        return self.most_phases is None or len(phases) <= self.most_phases

    def phases_of(self, order: Order) -> tuple[Phase, ...]:
        """Phases of an order of dims."""
        return build_phases(
            self.instance.operation,
            self.instance.topology,
            scatter=order[0],
            gather=order[1],
            turn=self.instance.turn,
            algorithms=self.instance.algorithms,
        )

    def of(self, phases: tuple[Phase, ...]) -> int:
        """The number of an order, which is new where it was not known."""
        found = self.number.get(phases)
        if found is None:
            found = self.number[phases] = len(self.phases)
            self.phases.append(phases)
            self.ops.append(self.overlapped.ops(self.instance.grain, phases))
        return found


def _orders(instance: Instance) -> Iterator[Order]:
    """Those of the bound first, then mirrored ones, then all; of five dims and more a sample."""
    dims = [k for k, dim in enumerate(instance.topology.dims) if dim.size > 1]
    for column in instance.bound.columns:
        yield column.order
    scatters = instance.operation is not Operation.ALL_GATHER
    gathers = instance.operation is not Operation.REDUCE_SCATTER
    if len(dims) > 4:
        rng = random.Random(_SEED)
        while True:
            scatter, gather = (tuple(rng.sample(dims, len(dims))) for _ in range(2))
            if not (scatters and gathers):
                yield (scatter, ()) if scatters else ((), gather)
            else:
                yield scatter, scatter[::-1] if rng.random() < 0.5 else gather
    if not (scatters and gathers):
        for order in permutations(dims):
            yield (order, ()) if scatters else ((), order)
        return
    for order in permutations(dims):
        yield order, order[::-1]
    yield from product(permutations(dims), permutations(dims))


Start = tuple[list[int], list[int], list[list[float]]]


def _start(ways: _Ways, candidate: Candidate, chunks: int) -> Start:
    """A candidate as a start of the search, its last chunk rounded up to whole grains."""
    grain = ways.instance.grain
    order = [ways.of(phases) for phases in candidate.phases]
    size = [-(-extent // grain) for extent in candidate.extents]
    factor = 1.0 if candidate.intra is Intra.SCF else 0.0
    empty = chunks - len(order)
    return (
        order + [0] * empty,
        size + [0] * empty,
        [[factor] * len(phases) for phases in candidate.phases] + [[1.0]] * empty,
    )


def _pieces(ways: _Ways, instance: Instance, chunks: int, backwards: bool) -> Start | None:
    """The shares of the linear program, cut into equal pieces and interleaved."""
    columns = list(instance.bound.columns)[:chunks]
    grains = -(-instance.payload.extent // instance.grain)
    if not columns or grains < chunks:
        return None
    if not all(ways.allows(ways.phases_of(column.order)) for column in columns):
        return None
    counts = _counts(columns, chunks)
    pieces: list[tuple[float, int, int]] = []  # (place, order, grains)
    left = grains
    for column, count in zip(columns, counts, strict=True):
        whole = min(left, round(column.share * grains))
        if column is columns[-1]:
            whole = left
        left -= whole
        number = ways.of(ways.phases_of(column.order))
        for i in range(count):
            size = whole * (i + 1) // count - whole * i // count
            pieces.append(((i + 0.5) / count, number, size))
    pieces.sort(key=lambda piece: (-piece[0] if backwards else piece[0], piece[1]))
    empty = chunks - len(pieces)
    return (
        [number for _, number, _ in pieces] + [0] * empty,
        [size for _, _, size in pieces] + [0] * empty,
        [[1.0] * len(ways.phases[number]) for _, number, _ in pieces] + [[1.0]] * empty,
    )


def _counts(columns: list[Column], chunks: int) -> list[int]:
    """How many of the chunks each column gets: at least one, otherwise by its share."""
    counts = [1] * len(columns)
    for _ in range(chunks - len(columns)):
        most = max(range(len(columns)), key=lambda i: columns[i].share / counts[i])
        counts[most] += 1
    return counts


def _candidate(ways: _Ways, instance: Instance, found: Found) -> Candidate:
    """What a search found, as a candidate: keys become dense numbers, and the last chunk gives back
    what rounding added."""
    stride = max(len(ops) for ops in ways.ops)
    dense = {key: i for i, key in enumerate(sorted(set(found.key)))}
    extents, phases, ranks = [], [], []
    left = instance.payload.extent
    for chunk, (order, size) in enumerate(zip(found.order, found.size, strict=True)):
        extent = min(left, size * instance.grain)
        if extent == 0:
            continue
        left -= extent
        extents.append(extent)
        phases.append(ways.phases[order])
        first = chunk * stride
        ranks.append(tuple(dense[found.key[first + s]] for s in range(len(ways.phases[order]))))
    return Candidate(
        extents=tuple(extents),
        phases=tuple(phases),
        intra=Intra.SCF,
        ranks=tuple(ranks),
        origin=f"search, {found.judged} schedules" + (", out of time" if found.late else ""),
    )


def measure(instance: Instance, chunks: int, seconds: float | None = None) -> tuple[float, float]:
    """Share of the bound that ``balanced`` reaches, and the processor time it took."""
    begun = time.process_time()
    candidate = balance(instance, chunks=chunks, seconds=seconds)
    spent = time.process_time() - begun
    end = instance.seconds(instance.run(candidate).end)
    return float(instance.bound_seconds / end), spent
