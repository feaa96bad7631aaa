"""The link from one endpoint of a ring to the next."""

from __future__ import annotations

from sw_model.endpoint.dim_engine import DimEngine, Op
from sw_model.endpoint.programs import Send
from sw_model.fabric.constants import FabricConstants
from sw_model.fabric.gate import MessageGate
from sw_model.platform import LinkParameters

__all__ = ["RingLink"]


class RingLink:
    """Outlet of a dim engine towards its ring neighbour.

    Receivers on a ring never wait (every message was granted), so credits that cover the round
    trip never run out, and the future of a message is certain when it begins.

    Parameters
    ----------
    sender, receiver : the engines at both ends (the same one where one rank stands for all)
    link : rate and latency
    constants : pipeline depths
    """

    __slots__ = ("_chase", "_chase_last", "_flight", "_transmit", "gate", "receiver", "sender")

    def __init__(
        self,
        sender: DimEngine,
        receiver: DimEngine,
        link: LinkParameters,
        constants: FabricConstants,
    ) -> None:
        timing = constants.ace
        self.sender = sender
        self.receiver = receiver
        self.gate = MessageGate(link.rate, timing.run_ahead)
        self._flight = constants.link.flit(link.latency) + timing.receive
        self._transmit = timing.transmit
        self._chase = timing.chase
        self._chase_last = timing.chase_last

    def begin(self, op: Op, send: Send, chosen: int) -> None:
        """A message begins; its last flit's fate is told to both ends at once."""
        flits = send.flits
        second, last, taken = self.gate.message(chosen + self._transmit, flits)
        free = chosen + flits
        if send.after >= 0:
            written = op.last[send.after]
            if written + self._chase_last > last:
                last = written + self._chase_last
                self.gate.stretch(last)
            if written + self._chase > free:
                free = written + self._chase
        if taken > free:
            free = taken
        self.sender.sent(op, last, free)
        flight = self._flight
        self.receiver.message(op.number, send.step, second + flight, last + flight, flits - 1)
