"""A link that several classes share, message by message.

The RTL shares it packet by packet, and flit by flit where the packet on the wire lacks its next
flit. Here a message is not interrupted, and one of a higher class waits for its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from sw_model.endpoint.class_turns import ClassTurns
from sw_model.endpoint.op import NEVER, Op
from sw_model.endpoint.programs import Send
from sw_model.endpoint.timing import AceTiming
from sw_model.engine import EventKernel
from sw_model.fabric.gate import MessageGate
from sw_model.fabric.ring_link import RingLink

__all__ = ["SharedGate", "SharedPort", "SharedRingLink", "packets_of"]


def packets_of(flits: int, packet_flits: int) -> int:
    """Packets of a message of ``flits``, headers included, with at most ``packet_flits`` of payload
    in each."""
    return -(-flits // (packet_flits + 1))


class SharedGate(MessageGate):
    """The rate of a link for the messages of several classes."""

    __slots__ = ()

    def stretch(self, last: int) -> None:
        """See `MessageGate`; where another class has gone on meanwhile, it has used the gaps."""
        if last >= self._cycle:
            super().stretch(last)


class _Waiting(NamedTuple):
    """A message that waits for the link; ``held``: its sender's pipeline has taken all of it."""

    ready: int
    flits: int
    packets: int
    begin: Callable[[bool], None]
    held: bool


class SharedPort:
    """The transmitter of a link: one message at a time, of the class whose turn it is.

    Parameters
    ----------
    kernel : event kernel
    rate : flits per cycle
    timing : of the senders
    packet_flits : payload flits of a full packet
    """

    __slots__ = (
        "_due", "_near", "_packet_flits", "_run_ahead", "_waiting", "gate", "kernel", "turns",
    )  # fmt: skip

    def __init__(
        self, kernel: EventKernel, rate: Fraction, timing: AceTiming, packet_flits: int
    ) -> None:
        self.kernel = kernel
        self.gate = SharedGate(rate, timing.run_ahead)
        self.turns = ClassTurns()
        self._near = timing.transmit
        self._run_ahead = timing.run_ahead
        self._packet_flits = packet_flits
        self._waiting: dict[int, deque[_Waiting]] = {}
        self._due = NEVER

    def ask(
        self,
        lane: int,
        ready: int,
        flits: int,
        begin: Callable[[bool], None],
        take: Callable[[], None],
    ) -> None:
        """A class has a message whose header can leave from ``ready`` on. ``begin(held)`` lets it
        pass the gate, now or when its turn comes; ``take()`` is called before, and ``held`` set,
        where it must wait and the pipeline in front of the link takes all of it meanwhile."""
        packets = packets_of(flits, self._packet_flits)
        near = self.kernel.now + self._near  # nobody else can be there before
        if not self._waiting and self.gate.earliest <= ready <= near:
            self.turns.begin(lane, packets, ())
            begin(False)
            return
        queue = self._waiting.setdefault(lane, deque())
        held = sum(one.flits for one in queue) + flits <= self._run_ahead
        queue.append(_Waiting(ready, flits, packets, begin, held))
        self._look()
        if held:
            take()

    def _look(self) -> None:
        soonest = min(queue[0].ready for queue in self._waiting.values())
        cycle = max(soonest, self.gate.earliest, self.kernel.now)
        if cycle < self._due:
            self._due = cycle
            self.kernel.decide(cycle, self._choose, cycle)

    def _choose(self, cycle: int) -> None:
        if cycle != self._due:
            return
        self._due = NEVER
        able = [lane for lane, queue in self._waiting.items() if queue[0].ready <= cycle]
        if able and self.gate.earliest <= cycle:
            lane = self.turns.choose(able)
            queue = self._waiting[lane]
            message = queue.popleft()
            if not queue:
                del self._waiting[lane]
            self.turns.begin(lane, message.packets, able)
            message.begin(message.held)
        if self._waiting:
            self._look()


class SharedRingLink:
    """Outlet of one class towards a neighbour, over a port that others share.

    Parameters
    ----------
    link : as if it were alone
    port : which it shares
    lane : number of the class
    transmit : cycles from the choice of a message to its header at the link
    """

    __slots__ = ("_transmit", "lane", "link", "port")

    def __init__(self, link: RingLink, port: SharedPort, lane: int, transmit: int) -> None:
        self.link = link
        self.port = port
        self.lane = lane
        self._transmit = transmit
        link.gate = port.gate

    def begin(self, op: Op, send: Send, chosen: int) -> None:
        """See `RingLink`."""
        link = self.link
        if send.local:
            link.begin(op, send, chosen)
            return

        def begin(held: bool) -> None:
            second, last, free = link.times(op, send, chosen)
            if held:
                link.sender.left(op, last)
            else:
                link.sender.sent(op, last, free)
            link.deliver(op, send, second, last)

        self.port.ask(
            self.lane,
            chosen + self._transmit,
            send.flits,
            begin,
            lambda: link.sender.taken(op, chosen + send.flits),
        )
