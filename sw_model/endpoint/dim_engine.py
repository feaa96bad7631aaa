"""A dim engine: contexts, and a transmit and a receive unit for each port, of one dim of one
endpoint.

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
from sw_model.endpoint.op import NEVER, Op
from sw_model.endpoint.programs import Record
from sw_model.endpoint.scoreboard import Scoreboard
from sw_model.endpoint.timing import AceTiming
from sw_model.endpoint.transmitter import Outlet, Transmitter
from sw_model.engine import EventKernel

__all__ = ["NEVER", "DimEngine", "Inlet", "Op"]


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
    ports : links out, and as many in
    on_end : called with (engine, op) at the end of every op, or None

    Attributes
    ----------
    live : ops that have started and not ended, oldest first
    granted : by op, cycle in which the grant of the last of its receivers arrives; None on a FRED
        dim
    """

    __slots__ = (
        "_accepted", "_arrived", "_contexts", "_due", "_early", "_grants", "_line", "_packet_flits",
        "_queue", "_startable", "busy_flits", "command", "contexts", "grant_to", "granted", "inlet",
        "kernel", "live", "on_end", "ports", "room", "scoreboard", "timing", "transmitters", "unit",
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
        ports: int = 1,
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
        self.inlet: Inlet
        # By port, where ops are granted: who sends to it, its port there, cycles to it.
        self.grant_to: list[tuple[DimEngine, int, int]] = []
        self.ports = ports
        self.busy_flits = 0
        self.transmitters = [Transmitter(self, port) for port in range(ports)]
        self.granted: list[int] | None = None
        self.live: list[Op] = []
        self._grants: list[list[int]] = [[] for _ in range(ports)]  # as granted, of each receiver
        self._queue: deque[Op] = deque()
        self._accepted = 0
        self._contexts: list[Op | None] = [None] * contexts
        # Their op has not started.
        self._early: deque[tuple[int, int, int, int, int, int]] = deque()
        # By port: messages that wait for others, and the cycle behind what is written.
        self._arrived: list[deque[tuple[Op, int, int, int, int, int]]] = [
            deque() for _ in range(ports)
        ]
        self._line = [0] * ports
        self._startable = 0  # cycle from which the next op may start
        self._due = NEVER  # cycle in which it will be tried
        self._packet_flits = packet_flits

    @property
    def outlet(self) -> Outlet:
        """Where the messages of the first port go."""
        return self.transmitters[0].outlet

    @outlet.setter
    def outlet(self, outlet: Outlet) -> None:
        self.transmitters[0].outlet = outlet

    @property
    def idle(self) -> bool:
        return not self._queue and not self.live

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
        self.live.append(op)
        op.start = start = cycle
        held = start + self.timing.first_step
        self._startable = start + 1
        for upstream, port, delay in self.grant_to:
            upstream.grant(port, start + delay)
        for transmitter, lane in zip(self.transmitters, op.lanes, strict=True):
            lane.held = held
            if lane.sends:
                transmitter.prepare(op)
        if not op.sending and not op.receiving:
            kernel.at(start + self.timing.received_end, self._end, op)
        if self._early:
            self._resume()
        if self._queue:
            self._try(self._startable)

    def _end(self, op: Op) -> None:
        record = op.record
        self._contexts[op.number % self.contexts] = None
        self.live.remove(op)
        self.scoreboard.fill(record.target)
        self.scoreboard.release(record.buffer)
        if self.on_end is not None:
            self.on_end(self, op)
        if self._queue:
            self._try(self.kernel.now)
        elif not self.live:
            self.command.became_idle()

    def finish(self, op: Op) -> None:
        """All messages of ``op`` have a known end."""
        timing = self.timing
        sent, received = op.left + timing.sent_end, op.written + timing.received_end
        self.kernel.at(sent if sent > received else received, self._end, op)

    # Transmit units

    def grant(self, port: int, cycle: int) -> None:
        """The receiver of a port's messages has started one more op; its grant can be seen here
        from ``cycle`` on. An op is granted when all receivers have started it."""
        granted = self.granted
        assert granted is not None
        number = len(granted)
        if self.ports > 1:
            self._grants[port].append(cycle)
            if any(len(cycles) <= number for cycles in self._grants):
                return
            cycle = max(cycles[number] for cycles in self._grants)
        granted.append(cycle)
        op = self._contexts[number % self.contexts]
        if op is not None and op.number == number:
            for transmitter, lane in zip(self.transmitters, op.lanes, strict=True):
                if lane.sends:
                    transmitter.prepare(op)

    def await_grants(self) -> None:
        """Messages of this dim wait for grants (where links lead from endpoint to endpoint)."""
        self.granted = []

    def sent(self, op: Op, last: int, free: int) -> None:
        """See `Transmitter.sent`, of the first port."""
        self.transmitters[0].sent(op, last, free)

    def copied(self, op: Op, port: int, step: int) -> None:
        """A send step of an op has a known end: some may wait for its copy."""
        for transmitter, lane in zip(self.transmitters, op.lanes, strict=True):
            if lane.ready == NEVER and lane.next < len(lane.sends):
                send = lane.sends[lane.next]
                if send.copied and (send.after_port, send.after) == (port, step):
                    transmitter.prepare(op)

    # Receive unit

    def message(
        self,
        number: int,
        step: int,
        first: int,
        last: int,
        flits: int,
        port: int = 0,
        *,
        header: int = NEVER,
    ) -> int:
        """A message for receive step ``step`` of op ``number``: its first and its last payload
        flit would be written in these cycles. FRED dims: ``header`` of its last packet, counted as
        if headers were written too.

        Returns
        -------
        int
            cycle in which its last flit is written; `NEVER` where its op has not started (FRED
            multicast): it waits, and all that follows behind it, and ``inlet.drained`` is called
            once that is known. Of no meaning on a dim of several ports.
        """
        op = self._contexts[number % self.contexts]
        if self._early or op is None or op.number != number:
            self._early.append((number, step, first, last, flits, header))
            return NEVER
        record = op.record.program
        assert record is not None
        if not record.ordered and (self.ports == 1 or not self._arrived[port]):
            # It may stand behind messages that have waited for their op.
            return self._received(op, port, step, first, last, flits, header)
        self._arrived[port].append((op, step, first, last, flits, header))
        self._in_order(port)
        return last

    def _in_order(self, port: int) -> None:
        """Take what has come to a port as far as what it must follow is there; then the others."""
        queue = self._arrived[port]
        taken = False
        while queue:
            op, step, first, last, flits, header = queue[0]
            assert op.record.program is not None
            wait = op.record.program.waits[port][step]
            if wait is not None:
                before = op.last[wait.port][wait.step]
                if before == NEVER:
                    break
                begun = before if wait.whole else op.first[wait.port][wait.step]
                first = max(first, begun + self.timing.receive)
                last = max(last, before + self.timing.receive)
            queue.popleft()
            self._received(op, port, step, first, last, flits, header)
            taken = True
        if taken:
            for other in range(self.ports):
                if other != port and self._arrived[other]:
                    self._in_order(other)

    def _received(
        self, op: Op, port: int, step: int, first: int, last: int, flits: int, header: int
    ) -> int:
        """A message is written in these cycles, or behind the one before it at this port.

        Returns
        -------
        int
            cycle in which its last flit is written
        """
        held = self._line[port] > first
        first = max(first, self._line[port])
        last = max(last, first + flits - 1)
        self._line[port] = last + 2  # a header follows
        op.first[port][step] = first
        op.last[port][step] = last
        op.receiving -= 1
        if self.granted is None:
            begun = header + 1
            if held:  # its flits follow at one a cycle
                before = (flits - 1) // self._packet_flits * self._packet_flits
                begun = last - (flits - 1 - before) if before else first
            begun -= self.timing.receive
            if begun > op.begun:
                op.begun = begun
            if not op.receiving:
                op.heard = op.begun
                transmitter = self.transmitters[0]
                if transmitter.free != NEVER:
                    transmitter.look(max(op.heard, transmitter.free))
        if last > op.written:
            op.written = last
        if op.sending:
            lanes = op.lanes
            for at, transmitter in enumerate(self.transmitters):
                lane = lanes[at]
                if lane.ready == NEVER and lane.next < len(lane.sends):
                    send = lane.sends[lane.next]
                    if send.after == step and send.after_port == port and not send.copied:
                        transmitter.prepare(op)
        elif not op.receiving:
            self.finish(op)
        return last

    def _resume(self) -> None:
        """Deliver messages that have waited for their op to start."""
        waiting, self._early = self._early, deque()
        soonest = self.kernel.now + 2 + self.timing.receive
        while waiting:
            number, step, first, last, flits, header = waiting[0]
            op = self._contexts[number % self.contexts]
            if op is None or op.number != number:
                break
            waiting.popleft()
            # What the link has buffered follows at one flit a cycle.
            first, header = max(first, soonest), max(header, soonest - 1)
            self.inlet.drained(self.message(number, step, first, last, flits, header=header))
        self._early = waiting

    # For the watchdog

    def waits(self) -> list[tuple[Op, str]]:
        """Every op that has started and not ended, and the next to start, with what each waits
        for."""
        out = [(op, self._wait_of(op)) for op in self.live]
        if self._queue:
            op = self._queue[0]
            out.append((op, self._start_wait_of(op)))
        return out

    def _wait_of(self, op: Op) -> str:
        for port, transmitter in enumerate(self.transmitters):
            cause = transmitter.waits(op)
            if cause is not None:
                return cause if self.ports == 1 else f"{cause}, at port {port}"
        missing = []
        for port, last in enumerate(op.last):
            steps = [step + 1 for step, cycle in enumerate(last) if cycle == NEVER]
            where = f" at port {port}" if self.ports > 1 else ""
            if steps:
                missing.append(f"messages {steps} of {len(last)} to arrive{where}")
        return ", ".join(missing) or "nothing"

    def _start_wait_of(self, op: Op) -> str:
        holder = self._contexts[op.number % self.contexts]
        if holder is not None:
            return f"the context that op {holder.number} has"
        record, fills = op.record, self.scoreboard.fills
        if fills[record.buffer] != record.epoch + 1:
            return f"fill {record.epoch + 1} of its source, buffer {record.buffer}"
        return f"release {record.target_epoch} of its destination, buffer {record.target}"
