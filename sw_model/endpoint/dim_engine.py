"""A dim engine: contexts, transmit unit and receive unit of one dim of one endpoint.

Messages are simulated as a whole. Of a message only three cycles matter: when its header, its
first payload flit and its last flit are somewhere; rates, pipelines and chasing keep the flits
between in order. What is certain about the future is passed on at once, so that most of it costs
no event of its own: a receiver learns of a message when it begins to leave, and a sender that
will be allowed to begin in cycle t asks again in cycle t.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from sw_model.endpoint.command import CommandUnit
from sw_model.endpoint.programs import Record, Send
from sw_model.endpoint.scoreboard import Scoreboard
from sw_model.endpoint.timing import AceTiming
from sw_model.engine import EventKernel

__all__ = ["NEVER", "DimEngine", "Inlet", "Op", "Outlet"]

NEVER = 1 << 62
"""A cycle that is not known yet."""


class Op:
    """One op of one rank, from its record to its end.

    Attributes
    ----------
    number : on its dim, since reset
    begun : FRED dims: cycle from which on the last packet of every known message is arriving
    heard : the same once all its messages are known
    held : cycle from which its next send step is known to the transmit unit
    ready : cycle from which its next send step may be chosen
    first, last : by receive step, cycles in which its first and last flit are written
    left : cycle in which the last flit sent so far leaves
    """

    __slots__ = (
        "begun", "collective", "first", "heard", "held", "last", "left", "next", "number", "ready",
        "receiving", "record", "sends", "start", "written",
    )  # fmt: skip

    def __init__(self, number: int, record: Record, collective: Any) -> None:
        program = record.program
        assert program is not None
        self.number = number
        self.record = record
        self.collective = collective
        self.sends = program.sends
        self.next = 0
        self.receiving = program.receives  # receive steps whose end is not known
        self.ready = NEVER
        self.held = NEVER
        self.start = NEVER
        self.begun = 0
        self.heard = NEVER
        self.first = [NEVER] * program.receives
        self.last = [NEVER] * program.receives
        self.left = 0
        self.written = 0


class Outlet(Protocol):
    """Where a transmit unit's messages go: a ring neighbour, or an input of a FRED switch."""

    def begin(self, op: Op, send: Send, chosen: int) -> None:
        """A message was chosen in cycle ``chosen``. Calls `DimEngine.sent` once it is known when
        its last flit leaves, now or later."""


class Inlet(Protocol):
    """Where messages come from that may have to wait for their op: an output of a FRED switch."""

    def drained(self, last: int) -> None:
        """The oldest message that had to wait is written up to its last flit in this cycle."""


class DimEngine:
    """One dim of one endpoint.

    Parameters
    ----------
    kernel, scoreboard : shared
    timing : pipeline depths
    unit : number of its record queue
    contexts : ops under way at most
    depth : of its record queue
    packet_flits : payload flits of a full packet
    on_end : called with (engine, op) at the end of every op, or None
    """

    __slots__ = (
        "_accepted", "_contexts", "_due", "_early", "_free", "_granted", "_live", "_next_step",
        "_packet_flits", "_queue", "_startable", "_wake", "busy_flits", "command", "contexts",
        "grant_to", "inlet", "kernel", "on_end", "outlet", "room", "scoreboard", "timing", "unit",
    )  # fmt: skip

    def __init__(
        self,
        kernel: EventKernel,
        scoreboard: Scoreboard,
        timing: AceTiming,
        *,
        unit: int,
        contexts: int,
        depth: int,
        packet_flits: int,
        on_end: Callable[[DimEngine, Op], None] | None = None,
    ) -> None:
        self.kernel = kernel
        self.scoreboard = scoreboard
        self.timing = timing
        self.unit = unit
        self.contexts = contexts
        self.room = depth
        self.on_end = on_end
        self.command: CommandUnit
        self.outlet: Outlet
        self.inlet: Inlet
        self.grant_to: tuple[DimEngine, int] | None = None  # ring: upstream, and cycles to it
        self.busy_flits = 0
        self._queue: deque[Op] = deque()
        self._accepted = 0
        self._contexts: list[Op | None] = [None] * contexts
        self._live: list[Op] = []  # started and not ended, oldest first
        self._granted: list[int] | None = None  # ring: by op, cycle in which its grant arrives
        self._free = 0  # cycle from which the transmit unit may choose
        self._wake = NEVER  # cycle in which it will look again
        self._early: deque[tuple[int, int, int, int, int]] = deque()  # their op has not started
        self._startable = 0  # cycle from which the next op may start
        self._due = NEVER  # cycle in which it will be tried
        self._next_step = timing.next_step
        self._packet_flits = packet_flits

    @property
    def idle(self) -> bool:
        return not self._queue and not self._live

    # Start and end of ops

    def accept(self, record: Record, collective: Any) -> None:
        """An op record enters the queue."""
        self._queue.append(Op(self._accepted, record, collective))
        self._accepted += 1
        if len(self._queue) == 1:
            self._try(self.kernel.now + 1)

    def _try(self, cycle: int) -> None:
        """Try to start an op in ``cycle``, unless an earlier try is due."""
        if cycle < self._startable:
            cycle = self._startable
        if cycle < self._due:
            self._due = cycle
            self.kernel.decide(cycle, self._start, cycle)

    def _retry(self, _: Any) -> None:
        self._try(self.kernel.now)

    def _start(self, cycle: int) -> None:
        """Start the op at the head if everything it needs is there (docs/plan.md)."""
        if cycle != self._due:
            return
        self._due = NEVER
        if not self._queue:
            return
        op = self._queue[0]
        kernel, context, record = self.kernel, op.number % self.contexts, op.record
        if (
            self._contexts[context] is not None
            or not self.scoreboard.filled(record.buffer, record.epoch, self._retry)
            or not self.scoreboard.free(record.target, record.target_epoch, self._retry)
        ):
            return
        self._queue.popleft()
        self.room += 1
        self.command.made_room(self.unit)
        self._contexts[context] = op
        self._live.append(op)
        op.start = start = cycle
        op.held = start + self.timing.first_step
        self._startable = start + 1
        if self.grant_to is not None:
            upstream, delay = self.grant_to
            upstream.grant(start + delay)
        if op.sends:
            self._prepare(op)
        elif not op.receiving:
            kernel.at(start + self.timing.received_end, self._end, op)
        if self._early:
            self._resume()
        if self._queue:
            self._try(self._startable)

    def _end(self, op: Op) -> None:
        record = op.record
        self._contexts[op.number % self.contexts] = None
        self._live.remove(op)
        self.scoreboard.fill(record.target)
        self.scoreboard.release(record.buffer)
        if self.on_end is not None:
            self.on_end(self, op)
        if self._queue:
            self._try(self.kernel.now)
        elif not self._live:
            self.command.became_idle()

    def _finish(self, op: Op) -> None:
        """All messages of ``op`` have a known end."""
        timing = self.timing
        sent, received = op.left + timing.sent_end, op.written + timing.received_end
        self.kernel.at(sent if sent > received else received, self._end, op)

    # Transmit unit

    def grant(self, cycle: int) -> None:
        """The receiver of this dim's messages has started one more op; its grant can be seen
        here from ``cycle`` on."""
        granted = self._granted
        assert granted is not None
        number = len(granted)
        granted.append(cycle)
        op = self._contexts[number % self.contexts]
        if op is not None and op.number == number and op.sends:
            self._prepare(op)

    def await_grants(self) -> None:
        """Messages of this dim wait for grants (rings)."""
        self._granted = []

    def _prepare(self, op: Op) -> None:
        """Find out from when on the next message of a started op may be chosen, if known."""
        ready = op.held
        after = op.sends[op.next].after
        if after >= 0:
            written = op.first[after]
            if written == NEVER:
                return
            written += self.timing.chase
            if written > ready:
                ready = written
        granted = self._granted
        if granted is not None:
            if op.number >= len(granted):
                return
            if granted[op.number] > ready:
                ready = granted[op.number]
        op.ready = ready
        if self._free != NEVER:
            self._look(ready if ready > self._free else self._free)

    def _look(self, cycle: int) -> None:
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
        for op in self._live if self._granted is not None else self._in_order(cycle):
            ready = op.ready
            if ready <= cycle:
                op.ready = NEVER
                op.held = cycle + self._next_step
                send = op.sends[op.next]
                self.busy_flits += send.flits
                self._free = NEVER
                self.outlet.begin(op, send, cycle)
                return
            if ready < soonest:
                soonest = ready
        if soonest != NEVER:
            self._look(soonest)

    def _in_order(self, cycle: int) -> list[Op]:
        """On a FRED dim, the only op that may send: the oldest with messages left, but nothing
        behind an all-gather of which a message has not begun to arrive (docs/plan.md)."""
        for op in self._live:
            if op.next < len(op.sends):
                return [op]
            if len(op.first) > len(op.sends) and op.heard > cycle:
                if op.heard != NEVER:
                    self._look(op.heard)
                return []
        return []

    def sent(self, op: Op, last: int, free: int) -> None:
        """The last flit of the message chosen last leaves in cycle ``last``, and the transmit
        unit chooses again from cycle ``free`` on."""
        self._free = free
        op.left = last
        op.next += 1
        if op.next < len(op.sends):
            self._prepare(op)
        elif not op.receiving:
            self._finish(op)
        soonest = min([op.ready for op in self._live])
        if soonest != NEVER:
            self._look(soonest if soonest > free else free)

    # Receive unit

    def message(self, number: int, step: int, first: int, last: int, flits: int) -> int:
        """A message for receive step ``step`` of op ``number``: its first and its last payload
        flit would be written in these cycles.

        Returns
        -------
        int
            cycle in which its last flit is written; `NEVER` where its op has not started (FRED
            multicast): it waits, and all that follows behind it, and ``inlet.drained`` is called
            once that is known.
        """
        op = self._contexts[number % self.contexts]
        if self._early or op is None or op.number != number:
            self._early.append((number, step, first, last, flits))
            return NEVER
        op.first[step] = first
        op.last[step] = last
        op.receiving -= 1
        if self._granted is None:
            # A header is one flit ahead of the first payload flit of its packet.
            before = (flits - 1) // self._packet_flits * self._packet_flits
            begun = (last - (flits - 1 - before) if before else first) - self.timing.receive
            if begun > op.begun:
                op.begun = begun
            if not op.receiving:
                op.heard = op.begun
                if self._free != NEVER:
                    self._look(op.heard if op.heard > self._free else self._free)
        if last > op.written:
            op.written = last
        if op.next < len(op.sends):
            if op.ready == NEVER and op.sends[op.next].after == step:
                self._prepare(op)
        elif not op.receiving:
            self._finish(op)
        return last

    def _resume(self) -> None:
        """Deliver messages that have waited for their op to start."""
        waiting, self._early = self._early, deque()
        soonest = self.kernel.now + 2 + self.timing.receive
        while waiting:
            number, step, first, last, flits = waiting[0]
            op = self._contexts[number % self.contexts]
            if op is None or op.number != number:
                break
            waiting.popleft()
            # What the link has buffered follows at one flit a cycle.
            first = max(first, soonest)
            last = max(last, first + flits - 1)
            soonest = last + 1
            self.message(number, step, first, last, flits)
            self.inlet.drained(last)
        self._early = waiting

    # For the watchdog

    def waits(self) -> list[tuple[Op, str]]:
        """Every op that has started and not ended, and the next to start, with what each waits
        for."""
        out = [(op, self._wait_of(op)) for op in self._live]
        if self._queue:
            op = self._queue[0]
            out.append((op, self._start_wait_of(op)))
        return out

    def _wait_of(self, op: Op) -> str:
        if op.next < len(op.sends):
            after = op.sends[op.next].after
            if self._free == NEVER:
                return "the link to take the rest of a message"
            if self._granted is not None and op.number >= len(self._granted):
                return f"the receiver's grant of message {op.next + 1} of {len(op.sends)}"
            if after >= 0 and op.first[after] == NEVER:
                return f"message {after + 1} of {len(op.first)}, which it forwards"
        missing = [step + 1 for step, cycle in enumerate(op.last) if cycle == NEVER]
        if missing:
            return f"messages {missing} of {len(op.last)} to arrive"
        return "nothing"

    def _start_wait_of(self, op: Op) -> str:
        holder = self._contexts[op.number % self.contexts]
        if holder is not None:
            return f"the context that op {holder.number} has"
        record, fills = op.record, self.scoreboard.fills
        if fills[record.buffer] != record.epoch + 1:
            return f"fill {record.epoch + 1} of its source, buffer {record.buffer}"
        return f"release {record.target_epoch} of its destination, buffer {record.target}"
