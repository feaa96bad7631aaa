"""Lanes, and the ops that wait for them.

Every NPU has a lane in and a lane out of each dim. Lanes are given in order; whoever waits for a
lane keeps it from those behind, so that nothing starves, and nothing is held while it waits, so
that nothing deadlocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import chain

from sw_model.engine import EventKernel
from sw_model.replay.fabric import Done
from sw_model.replay.plans import TimedOp

__all__ = ["Going", "Lane", "LaneQueues", "Lanes", "Order", "Waiting"]

Lane = tuple[int, int, bool]  # dim, colour, outwards
Lanes = tuple[Lane, ...]
Order = tuple[int, int, int, int]  # precedence, priority, time of entry, node


@dataclass
class Going:
    """A collective or message under way."""

    order: Order
    colours_out: tuple[int, ...]
    colours_in: tuple[int, ...]
    left: int
    done: Done
    lanes: dict[int, Lanes]


@dataclass
class Waiting:
    """An op in the queue of its lanes. ``sent`` is called when it leaves them."""

    going: Going
    lanes: Lanes
    chunk: tuple[TimedOp, ...]
    position: int
    sent: Done | None = None


class LaneQueues:
    """Has the ops of whatever is under way take their lanes in turn.

    Parameters
    ----------
    dims : how many there are
    """

    def __init__(self, dims: int) -> None:
        self.kernel = EventKernel()
        self.queues: list[dict[Lanes, list[tuple[Order, int, int, Waiting]]]] = [
            {} for _ in range(dims)
        ]
        self.taken: set[Lane] = set()
        self.arrivals = 0
        self.asked_at = -1
        self.busy: dict[Lane, int] = {}  # ticks
        self.users: dict[Lane, int] = {}  # collectives and messages under way

    def _able(self, waiting: Waiting) -> bool:
        """Whether the endpoints let an op begin whose lanes are free."""
        return True

    def _leave(self, going: Going) -> None:
        for lane in chain.from_iterable(going.lanes.values()):
            self.users[lane] -= 1

    def _arrive(
        self, going: Going, chunk: tuple[TimedOp, ...], position: int, sent: Done | None = None
    ) -> None:
        op = chunk[position]
        lanes = going.lanes.get(op.dim)
        if lanes is None:
            lanes = tuple((op.dim, colour, True) for colour in going.colours_out)
            lanes += tuple((op.dim, colour, False) for colour in going.colours_in)
            going.lanes[op.dim] = lanes
        self.arrivals += 1
        waiting = Waiting(going, lanes, chunk, position, sent)
        queue = self.queues[op.dim].setdefault(lanes, [])
        heappush(queue, (going.order, op.key, self.arrivals, waiting))
        self._ask()

    def _ask(self) -> None:
        """Have what can start started, once everything of this instant has happened."""
        if self.asked_at != self.kernel.now:
            self.asked_at = self.kernel.now
            self.kernel.decide(self.kernel.now, self._start)

    def _start(self, _: object) -> None:
        self.asked_at = -1
        kept: set[Lane] = set()
        able: list[tuple[int, Lanes]] = []
        heads = [
            (queue[0][:3], dim, lanes)
            for dim, queues in enumerate(self.queues)
            for lanes, queue in queues.items()
        ]
        if len(heads) > 1:
            heads.sort()
        for _, dim, lanes in heads:
            free = self.taken.isdisjoint(lanes) and kept.isdisjoint(lanes)
            if free and self._able(self.queues[dim][lanes][0][3]):
                able.append((dim, lanes))
            kept.update(lanes)
        # No two of them share a lane; the inner dims start first.
        if len(able) > 1:
            able.sort(key=lambda start: start[0])
        for dim, lanes in able:
            queue = self.queues[dim][lanes]
            waiting = heappop(queue)[3]
            if not queue:
                del self.queues[dim][lanes]
            self._begin(waiting)

    def _begin(self, waiting: Waiting) -> None:
        op = waiting.chunk[waiting.position]
        self.taken.update(waiting.lanes)
        for lane in waiting.lanes:
            self.busy[lane] = self.busy.get(lane, 0) + op.busy
        self.kernel.after(op.busy, self._free, waiting)
        if op.latency:
            self.kernel.after(op.busy + op.latency, self._complete, waiting)

    def _free(self, waiting: Waiting) -> None:
        self.taken.difference_update(waiting.lanes)
        if waiting.sent is not None:
            waiting.sent()
        if not waiting.chunk[waiting.position].latency:
            self._complete(waiting)
        self._ask()

    def _complete(self, waiting: Waiting) -> None:
        following = waiting.position + 1
        if following < len(waiting.chunk):
            self._arrive(waiting.going, waiting.chunk, following)
            return
        waiting.going.left -= 1
        if waiting.going.left == 0:
            self._leave(waiting.going)
            waiting.going.done()
