"""The minimal model: one collective on an endpoint that only its ports limit.

One server per dim, shared by all phases; an op holds it for its bytes, and the chunk is ready for
its next phase a latency later. Times are exact integers in a unit in which all of them are whole.
Ops that end together are handled in the order in which they started, all of them before anything
starts; then the dims start ops, the inner one first.

One endpoint stands for all, so the cost depends on chunks and phases, not on NPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from sw_model.schedule.execution import Intra

__all__ = ["Op", "Run", "run_minimal"]

#: (dim, time that its bytes hold the dim, further time until its chunk is ready).
Op = tuple[int, int, int]


@dataclass(frozen=True)
class Run:
    """What happened.

    Attributes
    ----------
    end : when the last chunk was ready
    busy : by dim, time that it was held
    orders : by dim, (chunk, phase) in the order in which they started
    """

    end: int
    busy: tuple[int, ...]
    orders: tuple[tuple[tuple[int, int], ...], ...]


def run_minimal(
    chunks: Sequence[Sequence[Op]],
    *,
    dims: int,
    intra: Intra,
    ranks: Sequence[Sequence[int]] | None = None,
) -> Run:
    """Run ``chunks``, all of which are ready at time 0 in their order.

    Parameters
    ----------
    chunks : the ops of each chunk, in order
    dims : of the topology
    intra : which of the ready ops of a dim starts
    ranks : in place of ``intra``, a number for every op of every chunk: the smallest starts first

    Returns
    -------
    Run
        ops that could start in either order do so in order of their arrival.
    """
    smallest_first = intra is Intra.SCF
    waiting: list[list[tuple[int, int, int]]] = [[] for _ in range(dims)]
    idle = [True] * dims
    busy = [0] * dims
    orders: list[list[tuple[int, int]]] = [[] for _ in range(dims)]
    at = [0] * len(chunks)
    events: list[tuple[int, int, int, int]] = []  # (time, start order, freed dim, ready chunk)
    arrivals = serial = now = 0

    for chunk, ops in enumerate(chunks):
        if ops:
            dim, time, _ = ops[0]
            key = ranks[chunk][0] if ranks is not None else time if smallest_first else 0
            arrivals += 1
            heappush(waiting[dim], (key, arrivals, chunk))
    while True:
        for dim in range(dims):
            if not (idle[dim] and waiting[dim]):
                continue
            chunk = heappop(waiting[dim])[2]
            phase = at[chunk]
            _, time, latency = chunks[chunk][phase]
            orders[dim].append((chunk, phase))
            idle[dim] = False
            busy[dim] += time
            serial += 1
            if latency:
                heappush(events, (now + time, serial, dim, -1))
                heappush(events, (now + time + latency, serial, -1, chunk))
            else:
                heappush(events, (now + time, serial, dim, chunk))
        if not events:
            break
        now = events[0][0]
        while events and events[0][0] == now:
            _, _, freed, chunk = heappop(events)
            if freed >= 0:
                idle[freed] = True
            if chunk < 0:
                continue
            at[chunk] += 1
            ops = chunks[chunk]
            if at[chunk] < len(ops):
                dim, time, _ = ops[at[chunk]]
                key = (
                    ranks[chunk][at[chunk]] if ranks is not None else time if smallest_first else 0
                )
                arrivals += 1
                heappush(waiting[dim], (key, arrivals, chunk))
    return Run(now, tuple(busy), tuple(tuple(order) for order in orders))
