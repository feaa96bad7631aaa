"""The planner's execution: a coarse simulation of one endpoint that fixes every order.

All endpoints do the same, so one stands for all, and cost does not depend on the number of ranks.
It respects the engine's limits (docs/plan.md): contexts, buffers of
each partition, one op's bytes at a time on each dim, DMA. Times are exact integers.

An op that starts holds its context and its destination until its end, and never waits for
anything that another op holds: so the execution cannot stop before everything is stored, as long
as an op that cannot start does not stand in the way of one that can. For this reason an op is
chosen among those whose destination has room.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from sw_model.collective.plan import BufferUse, LoadSlot, OpSlot, StoreSlot
from sw_model.schedule.limits import PlannerState

__all__ = ["Execution", "Intra", "Job", "Stage", "execute"]


class Intra(enum.Enum):
    """Which of the ops that could start on a dim does (Themis, intra-dimension scheduling)."""

    FIFO = "fifo"  # the one that was ready first
    SCF = "scf"  # the smallest; of equals the one that was ready first


@dataclass(frozen=True)
class Stage:
    """One phase of a chunk as the execution sees it.

    Attributes
    ----------
    dim : where
    busy : time that its bytes hold the dim's port
    latency : further time until it is complete
    key : in place of the rule within a dim: of the ready ops, the smallest key starts first
    """

    dim: int
    busy: int
    latency: int
    key: int | None = None


@dataclass(frozen=True)
class Job:
    """A chunk as the execution sees it.

    Attributes
    ----------
    stages : one per phase
    partitions : one per position
    load, store : time on the DMA engines
    """

    stages: tuple[Stage, ...]
    partitions: tuple[int, ...]
    load: int
    store: int

    def keyed(self, keys: Sequence[int]) -> Job:
        """The same with a key for every stage."""
        stages = zip(self.stages, keys, strict=True)
        return replace(self, stages=tuple(replace(stage, key=key) for stage, key in stages))


@dataclass
class Execution:
    """What the execution fixed; the fields are those of a ``CollectivePlan``.

    ``end`` is when the last write-back was complete, in the unit of the jobs' times.
    """

    loads: list[LoadSlot]
    ops: list[list[OpSlot]]
    stores: list[StoreSlot]
    sequence: list[tuple]
    end: int


_PORT, _OP, _LOADER, _LOADED, _STORER, _STORED = range(6)


def execute(
    jobs: Sequence[Job],
    *,
    dims: int,
    contexts: int | Sequence[int] | None,
    buffers: Sequence[int | None],
    intra: Intra,
    state: PlannerState,
    read_latency: int = 0,
    write_latency: int = 0,
) -> Execution:
    """Run ``jobs``, admitted in their order, from time 0 with an idle endpoint.

    Parameters
    ----------
    dims : of the topology
    contexts : ops under way per dim, of all or by dim, None for any number
    buffers : by partition, how many there are, None for any number
    state : which buffers are free in which order; advanced

    Notes
    -----
    Events of one time are handled in the order of the starts that caused them, all of them before
    anything starts.
    """
    out = Execution([], [[] for _ in range(dims)], [], [], 0)
    if not jobs:
        return out
    for partition, number in enumerate(buffers):
        if partition not in state.free:
            state.free[partition] = deque(range(number or 0))
            state.uses[partition] = [0] * (number or 0)
    free, uses = state.free, state.uses
    unlimited = [number is None for number in buffers]
    most = [contexts] * dims if contexts is None or isinstance(contexts, int) else contexts
    smallest_first = intra is Intra.SCF

    count = len(jobs)
    held: list[BufferUse] = [None] * count  # type: ignore[list-item]
    at = [0] * count  # position of the chunk, or the phase that it is in
    # Ready ops of a dim, apart by the partition that they go to: (priority, arrival, chunk).
    ready: list[dict[int, list[tuple[int, int, int]]]] = [{} for _ in range(dims)]
    port_idle = [True] * dims
    ends: list[deque[int]] = [deque() for _ in range(dims)]  # ends of the last ``contexts`` ops
    finished: deque[int] = deque()
    next_load, loader_idle, storer_idle = 0, True, True
    arrivals = serial = now = 0
    events: list[tuple[int, int, int, int, BufferUse | None]] = []

    def reserve(partition: int) -> BufferUse:
        queue = free[partition]
        if queue:
            number = queue.popleft()
        else:
            number = len(uses[partition])
            uses[partition].append(0)
        epoch = uses[partition][number]
        uses[partition][number] = epoch + 1
        return BufferUse(partition, number, epoch)

    def arrive(chunk: int) -> None:
        nonlocal arrivals
        job, position = jobs[chunk], at[chunk]
        if position == len(job.stages):
            finished.append(chunk)
            return
        stage = job.stages[position]
        arrivals += 1
        key = stage.busy if smallest_first else 0
        entry = (key if stage.key is None else stage.key, arrivals, chunk)
        heappush(ready[stage.dim].setdefault(job.partitions[position + 1], []), entry)

    def post(time: int, kind: int, index: int, released: BufferUse | None = None) -> None:
        nonlocal serial
        serial += 1
        heappush(events, (time, serial, kind, index, released))

    def start_store() -> bool:
        nonlocal storer_idle
        if not (storer_idle and finished):
            return False
        chunk = finished.popleft()
        out.sequence.append(("store", len(out.stores)))
        out.stores.append(StoreSlot(chunk, held[chunk]))
        storer_idle = False
        done = now + jobs[chunk].store
        post(done, _STORER, chunk)
        post(done + write_latency, _STORED, chunk, held[chunk])
        return True

    def start_op(dim: int) -> bool:
        if not port_idle[dim]:
            return False
        best = None
        for partition, queue in ready[dim].items():
            if not queue or not (free[partition] or unlimited[partition]):
                continue
            if best is None or queue[0] < best[0]:
                best = (queue[0], partition)
        if best is None:
            return False
        if contexts is not None and len(ends[dim]) == most[dim]:
            if ends[dim][0] > now:
                return False  # the event of that context's end comes back here
            ends[dim].popleft()
        (_, _, chunk), partition = best
        heappop(ready[dim][partition])
        stage = jobs[chunk].stages[at[chunk]]
        source, destination = held[chunk], reserve(partition)
        out.sequence.append(("op", dim, len(out.ops[dim])))
        out.ops[dim].append(OpSlot(chunk, at[chunk], source, destination))
        held[chunk] = destination
        port_idle[dim] = False
        end = now + stage.busy + stage.latency
        if contexts is not None:
            # A context is the engine's op number modulo their number: it is free when *that* op
            # has ended, so ends never overtake.
            ends[dim].append(end)
        post(now + stage.busy, _PORT, dim)
        post(end, _OP, chunk, source)
        return True

    def start_load() -> bool:
        nonlocal next_load, loader_idle
        if not loader_idle or next_load == count:
            return False
        partition = jobs[next_load].partitions[0]
        if not (free[partition] or unlimited[partition]):
            return False
        held[next_load] = reserve(partition)
        out.sequence.append(("load", len(out.loads)))
        out.loads.append(LoadSlot(next_load, held[next_load]))
        time = jobs[next_load].load
        if time or read_latency:
            loader_idle = False
            post(now + time, _LOADER, next_load)
            post(now + time + read_latency, _LOADED, next_load)
        else:
            arrive(next_load)
        next_load += 1
        return True

    while True:
        started = True
        while started:
            while start_load():
                pass
            started = start_store()
            for dim in range(dims):
                started |= start_op(dim)
        if not events:
            break
        now = events[0][0]
        while events and events[0][0] == now:
            _, _, kind, index, released = heappop(events)
            if released is not None:
                free[released.partition].append(released.buffer)
            if kind == _PORT:
                port_idle[index] = True
            elif kind == _OP:
                at[index] += 1
                arrive(index)
            elif kind == _LOADED:
                arrive(index)
            elif kind == _LOADER:
                loader_idle = True
            elif kind == _STORER:
                storer_idle = True
    out.end = now
    stored = len(out.stores)
    assert stored == count, f"the planner's execution stopped after {stored} of {count} chunks"
    return out
