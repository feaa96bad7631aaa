"""A collective that has its lanes to itself, without the fabric's queues.

What it does then depends on its plan alone. So it is worked out once for a plan; and where another
collective or message comes to its lanes meanwhile, up to that moment, to go on from there in the
fabric (`sw_model.replay.overlapped`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

__all__ = ["Progress", "TimedOp", "alone"]


@dataclass(frozen=True)
class TimedOp:
    """One op in ticks. ``memory`` is the time in which the endpoint's memory alone could move its
    bytes, where that is limited."""

    dim: int
    busy: int
    latency: int
    key: int
    memory: int = 0


Place = tuple[int, int]  # chunk, position


@dataclass
class Progress:
    """How far a collective has come.

    Attributes
    ----------
    end : of what has happened, in ticks since the start
    freed : when the last op left its dim
    busy : ticks of the ops begun on each dim, in all
    coming : (tick, whether a dim is freed, chunk and position) in the order of happening; else an
        op's latency is over
    waiting : ops in the order in which they have come to their dims
    left : chunks that have not ended
    """

    end: int = 0
    freed: int = 0
    busy: dict[int, int] = field(default_factory=dict)
    coming: list[tuple[int, bool, Place]] = field(default_factory=list)
    waiting: list[Place] = field(default_factory=list)
    left: int = 0


def alone(chunks: Sequence[Sequence[TimedOp]], until: int | None = None) -> Progress:
    """Carry out ``chunks`` from tick 0, all there from the start, one op of a dim at a time, by
    key and then in order of arrival: to the end, or up to tick ``until``, whose events are still
    to come."""
    events: list[tuple[int, int, bool, Place]] = []
    queues: dict[int, list[tuple[int, int, Place]]] = {}
    taken: set[int] = set()
    busy: dict[int, int] = {}
    serial = now = freed = 0
    left = len(chunks)

    def arrive(place: Place) -> None:
        nonlocal serial
        op = chunks[place[0]][place[1]]
        serial += 1
        heappush(queues.setdefault(op.dim, []), (op.key, serial, place))

    def start() -> None:
        nonlocal serial
        for dim in sorted(queues):
            if dim in taken or not queues[dim]:
                continue
            place = heappop(queues[dim])[2]
            op = chunks[place[0]][place[1]]
            taken.add(dim)
            busy[dim] = busy.get(dim, 0) + op.busy
            heappush(events, (now + op.busy, serial, True, place))
            serial += 1
            if op.latency:
                heappush(events, (now + op.busy + op.latency, serial, False, place))
                serial += 1

    def complete(place: Place) -> None:
        nonlocal left
        chunk, position = place
        if position + 1 < len(chunks[chunk]):
            arrive((chunk, position + 1))
        else:
            left -= 1

    for chunk in range(len(chunks)):
        arrive((chunk, 0))
    if until is None or until > 0:
        start()
    while events and (until is None or events[0][0] < until):
        now = events[0][0]
        while events and events[0][0] == now:
            _, _, frees, place = heappop(events)
            op = chunks[place[0]][place[1]]
            if frees:
                freed = now
                taken.discard(op.dim)
            if not frees or not op.latency:
                complete(place)
        start()
    waiting = sorted((entry[1], entry[2]) for queue in queues.values() for entry in queue)
    return Progress(
        end=now,
        freed=freed,
        busy=busy,
        coming=[(time, frees, place) for time, _, frees, place in sorted(events)],
        waiting=[place for _, place in waiting],
        left=left,
    )
