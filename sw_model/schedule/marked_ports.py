"""A dim of several ports in the model of ``sw_model.schedule.marked_graph``: one class at one rank.

Every port has a transmitter, a link with room for a few messages at its end, and a receiver. A
receiver writes its messages in order, and may have to wait with one until another port has brought
what it adds to; meanwhile its link fills up, and then the transmitter at the other end is held.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sw_model.collective.plan import CollectivePlan
from sw_model.collective.steps import rank_steps
from sw_model.endpoint.port_steps import PortProgram, PortSend, Wait, port_program

if TYPE_CHECKING:
    from sw_model.schedule.marked_engine import Engine, Slot
    from sw_model.schedule.marked_graph import Model

__all__ = ["OpPorts", "PortDim", "op_ports"]


@dataclass
class OpPorts:
    """How far an op is at each port.

    Attributes
    ----------
    program : its steps
    next : send steps that have left
    begun, received : messages that are being written, or were; and that were
    """

    program: PortProgram
    next: list[int] = field(init=False)
    begun: list[int] = field(init=False)
    received: list[int] = field(init=False)

    def __post_init__(self) -> None:
        ports = range(len(self.program.sends))
        self.next = [0 for _ in ports]
        self.begun = [0 for _ in ports]
        self.received = [0 for _ in ports]

    def may_begin(self, wait: Wait | None) -> bool:
        """Whether what a step waits for has begun, or ended where it needs all of it."""
        if wait is None:
            return True
        done = self.next if wait.sent else self.received if wait.whole else self.begun
        return done[wait.port] > wait.step

    def may_end(self, wait: Wait | None) -> bool:
        """Whether it has ended."""
        if wait is None:
            return True
        return (self.next if wait.sent else self.received)[wait.port] > wait.step


def op_ports(plan: CollectivePlan, chunk: int, phase: int, dim: int, rank: int) -> OpPorts:
    """The ports of an op that has not begun."""
    steps = rank_steps(plan, chunk, phase, rank)
    place = plan.topology.coordinates(rank)[dim]
    return OpPorts(port_program(steps, plan.topology.dims[dim], place, dim))


class PortDim:
    """The ports of one dim of one class at one rank."""

    def __init__(self, model: Model, engine: Engine, dim: int, ports: int) -> None:
        self.model = model
        self.engine = engine
        self.dim = dim
        self.ports = ports
        self.granted = [0] * ports
        self.sending: list[Slot | None] = [None] * ports
        self.ready = [False] * ports  # the message that is sent lacks nothing but what holds it
        self.room = [model.rules.switch_slots] * ports  # at the other end
        self.inbox: list[deque[Slot]] = [deque() for _ in range(ports)]
        self.writing = [False] * ports
        self.written = [False] * ports  # but for what its message follows

    def peer(self, port: int, way: int) -> PortDim:
        """Whom a port sends to (1), or hears (-1)."""
        group = self.model.peers[self.engine.rank][self.dim]
        place = group.index(self.engine.rank) + way * (port + 1)
        engines = self.model.engines[group[place % len(group)]]
        return engines[self.engine.name].port_dims[self.dim]

    def started(self) -> None:
        """An op has started: grant it to all who send here."""
        count = self.engine.count[self.dim]
        for port in range(self.ports):
            self.model.post(self._latency(), self.peer(port, -1).grant, port, count)
        self.look()

    def grant(self, port: int, count: int) -> None:
        self.granted[port] = count
        self.look()

    def look(self) -> None:
        """Begin and end whatever can be."""
        for port in range(self.ports):
            self._transmit(port)
            self._leave(port)
            self._accept(port)
            self._end(port)

    # Transmitters.

    def _transmit(self, port: int) -> None:
        if self.sending[port] is not None:
            return
        rules = self.model.rules
        for slot in self.engine.live[self.dim]:
            at = slot.ports
            assert at is not None
            if at.next[port] == len(at.program.sends[port]):
                continue
            if rules.grants and slot.number >= min(self.granted):
                continue
            if at.may_begin(at.program.sends[port][at.next[port]].wait):
                self.sending[port] = slot
                self.model.later(self.engine.rank, self._sent, port)
                return

    def _sent(self, port: int) -> None:
        self.ready[port] = True
        self.look()

    def _step(self, port: int) -> tuple[Slot, OpPorts, PortSend]:
        slot = self.sending[port]
        assert slot is not None
        assert slot.ports is not None
        return slot, slot.ports, slot.ports.program.sends[port][slot.ports.next[port]]

    def _leave(self, port: int) -> None:
        """The last flit leaves, where what it follows is there and the link takes it."""
        if not self.ready[port]:
            return
        slot, at, step = self._step(port)
        if not at.may_end(step.wait) or not (step.local or self.room[port]):
            return
        self.ready[port] = False
        self.sending[port] = None
        at.next[port] += 1
        slot.next += 1
        if not step.local:
            self.room[port] -= 1
            self.model.post(self._latency(), self.peer(port, 1).arrive, port, slot.key)
        self.engine.end(slot)
        self.look()

    # Receivers.

    def arrive(self, port: int, key: tuple[int, int, int]) -> None:
        slot = self.engine.named[self.dim][key]
        if self.model.rules.grants and self.model.agree:
            assert slot.started, f"rank {self.engine.rank}: an ungranted message"
        self.inbox[port].append(slot)
        self.look()

    def _wait(self, port: int) -> tuple[OpPorts, Wait | None]:
        at = self.inbox[port][0].ports
        assert at is not None
        return at, at.program.receives[port][at.received[port]].wait

    def _accept(self, port: int) -> None:
        """Begin to write the oldest message, where what it follows has begun."""
        if self.writing[port] or not self.inbox[port] or not self.inbox[port][0].started:
            return
        at, wait = self._wait(port)
        if at.may_begin(wait):
            self.writing[port] = True
            at.begun[port] += 1
            self.model.later(self.engine.rank, self._wrote, port)
            self.look()

    def _wrote(self, port: int) -> None:
        self.written[port] = True
        self.look()

    def _end(self, port: int) -> None:
        if not self.written[port]:
            return
        at, wait = self._wait(port)
        if not at.may_end(wait):
            return
        slot = self.inbox[port].popleft()
        self.writing[port] = self.written[port] = False
        at.received[port] += 1
        slot.received += 1
        self.model.post(self._latency(), self.peer(port, -1).returned, port)
        self.engine.end(slot)
        self.look()

    def returned(self, port: int) -> None:
        """The other end has room for one more message."""
        self.room[port] += 1
        self.look()

    def _latency(self) -> int:
        return self.model.latency[self.engine.rank][self.dim]
