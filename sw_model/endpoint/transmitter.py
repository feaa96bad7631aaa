"""The transmit unit of one port of a dim engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sw_model.endpoint.op import NEVER, Lane, Op
from sw_model.endpoint.programs import Send

if TYPE_CHECKING:
    from sw_model.endpoint.dim_engine import DimEngine

__all__ = ["Outlet", "Transmitter"]

_COPY_SEEN = 2  # last flit at the link, to the choice of a message that waits for its copy


class Outlet(Protocol):
    """Where a transmit unit's messages go: a link to another endpoint, or an input of a FRED
    switch."""

    def begin(self, op: Op, send: Send, chosen: int) -> None:
        """A message was chosen in cycle ``chosen``. Calls `Transmitter.sent` once it is known
        when its last flit leaves, now or later."""


class Transmitter:
    """Chooses the messages of one port, of the oldest op that has one ready.

    Parameters
    ----------
    engine : the dim engine
    port : number of the port
    """

    __slots__ = ("_chase", "_next_step", "_wake", "engine", "free", "kernel", "outlet", "port")

    def __init__(self, engine: DimEngine, port: int) -> None:
        self.engine = engine
        self.port = port
        self.kernel = engine.kernel
        self.outlet: Outlet
        self.free = 0  # cycle from which it may choose
        self._wake = NEVER  # cycle in which it will look again
        self._next_step = engine.timing.next_step
        self._chase = engine.timing.chase

    def prepare(self, op: Op) -> None:
        """Find out from when on the next message of a started op may be chosen, if known."""
        lane = op.lanes[self.port]
        ready = lane.held
        send = lane.sends[lane.next]
        after = send.after
        if after >= 0:
            if send.copied or send.whole:
                written = self._waited(op, send)
            else:
                written = op.first[send.after_port][after] + self._chase
            if written >= NEVER:
                return
            if written > ready:
                ready = written
        granted = self.engine.granted
        if granted is not None:
            if op.number >= len(granted):
                return
            if granted[op.number] > ready:
                ready = granted[op.number]
        lane.ready = ready
        if self.free != NEVER:
            self.look(ready if ready > self.free else self.free)

    def _waited(self, op: Op, send: Send) -> int:
        """Cycle from which what a step waits for is there; `NEVER` if not known."""
        if send.copied:
            left = op.lanes[send.after_port].left
            return left[send.after] + _COPY_SEEN if send.after < len(left) else NEVER
        times = op.last if send.whole else op.first
        written = times[send.after_port][send.after]
        return written if written == NEVER else written + self.engine.timing.chase

    def look(self, cycle: int) -> None:
        """Choose a message in ``cycle``, unless an earlier look is due."""
        if cycle < self.kernel.now:
            cycle = self.kernel.now
        if cycle < self._wake:
            self._wake = cycle
            self.kernel.decide(cycle, self._choose, cycle)

    def _choose(self, cycle: int) -> None:
        """Begin the next message of the oldest op that has one ready. On a FRED dim no op passes an
        older one: all inputs of a switch send in one order."""
        if cycle != self._wake:
            return
        self._wake = NEVER
        soonest = NEVER
        engine, port = self.engine, self.port
        for op in engine.live if engine.granted is not None else self._in_order(cycle):
            lane = op.lanes[port]
            ready = lane.ready
            if ready <= cycle:
                lane.ready = NEVER
                lane.held = cycle + self._next_step
                send = lane.sends[lane.next]
                if not send.local:
                    engine.busy_flits += send.flits
                self.free = NEVER
                self.outlet.begin(op, send, cycle)
                return
            if ready < soonest:
                soonest = ready
        if soonest != NEVER:
            self.look(soonest)

    def _in_order(self, cycle: int) -> list[Op]:
        """On a FRED dim, the only op that may send: the oldest with messages left, but nothing
        behind an all-gather of which a message has not begun to arrive (docs/plan.md)."""
        for op in self.engine.live:
            lane = op.lanes[0]
            if lane.next < len(lane.sends):
                return [op]
            if len(op.first[0]) > len(lane.sends) and op.heard > cycle:
                if op.heard != NEVER:
                    self.look(op.heard)
                return []
        return []

    def sent(self, op: Op, last: int, free: int) -> None:
        """The last flit of the message chosen last leaves in cycle ``last``, and the unit chooses
        again from cycle ``free`` on."""
        self.free = free
        lane = op.lanes[self.port]
        step = len(lane.left)
        lane.left.append(last)
        if last > op.left:
            op.left = last
        lane.next += 1
        op.sending -= 1
        if lane.next < len(lane.sends):
            self.prepare(op)
        if self.engine.ports > 1:
            self.engine.copied(op, self.port, step)
        if not op.sending and not op.receiving:
            self.engine.finish(op)
        port = self.port
        soonest = min([other.lanes[port].ready for other in self.engine.live])
        if soonest != NEVER:
            self.look(soonest if soonest > free else free)

    def taken(self, op: Op, free: int) -> None:
        """The first half of `sent`, where a message must wait for the link and its pipeline takes
        all of it meanwhile: the unit chooses again from cycle ``free`` on."""
        self.free = free
        lane = op.lanes[self.port]
        lane.next += 1
        if lane.next < len(lane.sends):
            self.prepare(op)
        port = self.port
        soonest = min([other.lanes[port].ready for other in self.engine.live])
        if soonest != NEVER:
            self.look(soonest if soonest > free else free)

    def left(self, op: Op, last: int) -> None:
        """The second half: its last flit leaves in cycle ``last``."""
        lane = op.lanes[self.port]
        step = len(lane.left)
        lane.left.append(last)
        if last > op.left:
            op.left = last
        op.sending -= 1
        if self.engine.ports > 1:
            self.engine.copied(op, self.port, step)
        if not op.sending and not op.receiving:
            self.engine.finish(op)

    def waits(self, op: Op) -> str | None:
        """What the next message of an op waits for; None where there is none, or it moves."""
        lane: Lane = op.lanes[self.port]
        if lane.next >= len(lane.sends):
            return None
        engine, send = self.engine, lane.sends[lane.next]
        if self.free == NEVER:
            return "the link to take the rest of a message"
        if engine.granted is not None and op.number >= len(engine.granted):
            who = "the receiver's grant" if engine.ports == 1 else "all receivers' grants"
            return f"{who} of message {lane.next + 1} of {len(lane.sends)}"
        if send.after >= 0 and self._waited(op, send) == NEVER:
            if send.copied:
                return f"the copy of message {send.after + 1}"
            verb = "it needs whole" if send.whole else "it forwards"
            of = len(op.first[send.after_port])
            return f"message {send.after + 1} of {of}, which {verb}"
        return None
