"""``balanced``: the schedule that comes closest to the bound with at most C chunks.

Three steps, all judged by the minimal model itself:

1. The baseline and Themis, with either initial load, first in first out and smallest first, at
   every number of chunks up to C. So the result is never worse than any of them.
2. The shares of the linear program (``sw_model.schedule.bound``), cut into C pieces.
3. A search from the best of these: orders, sizes, sequence and priority within a dim of every
   chunk (``native/search.cpp``). Sizes are whole grains, so that all shards are whole elements.

The budget of the search is counted in simulated ops and its random numbers have a fixed seed: every
rank, and every run, finds the same schedule. Only where processor time runs out first does it
depend on the machine, and then it says so (`Search.late`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from sw_model.collective.cost import algorithm_of
from sw_model.collective.plan import Algorithm, Collective, Operation
from sw_model.schedule.chunking import Payload
from sw_model.schedule.execution import Intra
from sw_model.schedule.native.library import Found, Library, library
from sw_model.schedule.phases import Turn
from sw_model.schedule.single import Candidate, Instance
from sw_model.schedule.starts import Ways, given_start, made_starts
from sw_model.topology import Topology

__all__ = ["DEFAULT_BUDGET", "DEFAULT_SECONDS", "balance", "candidate_of"]

#: Ops that a search simulates unless told otherwise, and the processor time after which it stops
#: in any case.
DEFAULT_BUDGET = 9_000_000
DEFAULT_SECONDS = 0.7
#: Ops per second of ``seconds``, where a user gives those.
_OPS_PER_SECOND = 16_000_000
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
    if native is None or end == 0 or not _free(instance):
        return best
    ways = Ways(instance, most_phases)
    starts = [given_start(ways, best, chunks), *made_starts(ways, instance, chunks)]
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
        scatters=ways.scatters,
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


def _free(instance: Instance) -> bool:
    """Whether orders can be chosen: where a dim is visited with the same bytes in any order they
    need not, and a double binary tree fixes where every chunk turns."""
    trees = Algorithm.DOUBLE_BINARY_TREE in instance.algorithms
    return instance.operation.reorders and not trees


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
        Collective(
            asked.operation,
            asked.elements,
            asked.data_type,
            dims=tuple(range(len(dims))),
            root=asked.root,
            target=asked.target,
        ),
        Topology(dims),
        tuple(algorithm_of(dim, asked.operation) for dim in dims),
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
    # What the dims of the baseline's order have to do at the least, however it is cut.
    active = tuple(k for k, dim in enumerate(instance.topology.dims) if dim.size > 1)
    scatters = instance.operation is not Operation.ALL_GATHER
    gathers = instance.operation is not Operation.REDUCE_SCATTER
    order = (active if scatters else (), active[::-1] if gathers else ())
    loads = instance.costs.loads(order) if _free(instance) else [Fraction(0)]
    floor = max(loads) * instance.largest_bytes * instance.unit
    latencies = any(dim.latency_ps for dim in instance.topology.dims)
    for count in range(1, chunks + 1):
        levelled = instance.themis(count)
        if levelled.extents in seen:
            continue
        seen.add(levelled.extents)
        candidates = [("themis", levelled)]
        if latencies:
            other = instance.themis(count, initial_latency=True)
            if other.phases != levelled.phases:
                candidates.append(("themis", other))
        if best is None or floor < least:
            candidates.append(("baseline", instance.baseline(count)))
        for name, candidate in candidates:
            ops = [
                instance.ops(e, p) for e, p in zip(candidate.extents, candidate.phases, strict=True)
            ]
            for intra in (Intra.SCF, Intra.FIFO):
                if native is not None and sum(o[1] + o[2] for c in ops for o in c) < _LARGEST:
                    end = native.run(ops, dims, intra is Intra.SCF)
                else:
                    end = instance.run(replace(candidate, intra=intra)).end
                if best is None or end < least:
                    origin = f"{name} {intra.value}, {len(ops)} chunks"
                    best, least = replace(candidate, intra=intra, origin=origin), end
    assert best is not None
    return best, least


def _candidate(ways: Ways, instance: Instance, found: Found) -> Candidate:
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
