"""The link from one endpoint to another."""

from __future__ import annotations

from sw_model.endpoint.dim_engine import DimEngine, Op
from sw_model.endpoint.programs import Send
from sw_model.fabric.constants import FabricConstants
from sw_model.fabric.gate import MessageGate
from sw_model.platform import LinkParameters

__all__ = ["RingLink"]


class RingLink:
    """Outlet of a port towards a neighbour.

    Receivers take what was granted at once, so credits that cover the round trip never run out, and
    the future of a message is certain when it begins. Only a sum that must wait for another port's
    may hold a link up; that is taken to be shorter than the credits.

    Parameters
    ----------
    sender, receiver : the engines at both ends (the same one where one rank stands for all)
    port : of both
    link : rate and latency
    constants : pipeline depths
    """

    __slots__ = (
        "_chase", "_chase_last", "_flight", "_free", "_run_ahead", "_transmit", "gate", "port",
        "receiver", "sender",
    )  # fmt: skip

    def __init__(
        self,
        sender: DimEngine,
        receiver: DimEngine,
        link: LinkParameters,
        constants: FabricConstants,
        port: int = 0,
    ) -> None:
        timing = constants.ace
        self.sender = sender.transmitters[port]
        self.receiver = receiver
        self.port = port
        self.gate = MessageGate(link.rate, timing.run_ahead)
        self._flight = constants.link.flit(link.latency) + timing.receive
        self._transmit = timing.transmit
        self._chase = timing.chase
        self._chase_last = timing.chase_last
        self._run_ahead = timing.run_ahead
        self._free = 0  # cycle behind the last flit that has passed

    def begin(self, op: Op, send: Send, chosen: int) -> None:
        """A message begins; its last flit's fate is told to both ends at once."""
        if send.local:
            self._move(op, send.flits, chosen)
            return
        second, last, free = self.times(op, send, chosen)
        self.sender.sent(op, last, free)
        self.deliver(op, send, second, last)

    def times(self, op: Op, send: Send, chosen: int) -> tuple[int, int, int]:
        """Let a message pass: the cycles in which its second and its last flit leave, and from
        which on the sender chooses again."""
        flits = send.flits
        ready = chosen + self._transmit
        if ready < self._free:
            ready = self._free
        second, last, taken = self.gate.message(ready, flits)
        free = chosen + flits
        if send.after >= 0 and not send.whole:
            written = op.last[send.after_port][send.after]
            if written + self._chase_last > last:
                last = written + self._chase_last
                self.gate.stretch(last)
            if written + self._chase > free:
                free = written + self._chase
        if taken > free:
            free = taken
        self._free = last + 1
        return second, last, free

    def deliver(self, op: Op, send: Send, second: int, last: int) -> None:
        """Tell the receiver of it."""
        flight = self._flight
        self.receiver.message(
            op.number, send.step, second + flight, last + flight, send.flits - 1, self.port
        )

    def _move(self, op: Op, flits: int, chosen: int) -> None:
        """A step within the SRAM: it goes through the same pipeline, at a flit a cycle."""
        last = max(chosen + self._transmit, self._free) + flits - 1
        self._free = last + 1
        self.sender.sent(op, last, max(chosen + flits, last - self._run_ahead + 1))
