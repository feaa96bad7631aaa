"""Credits: a buffer never overflows while they are respected, and none is lost."""

from __future__ import annotations

from amaranth.hdl import Assert, Assume, Cover, Module, Signal
from amaranth.lib.wiring import In

from rtl.link.receiver import LinkReceiver
from testbenches.formal.property import Property

__all__ = ["ReceiverReturnsCredits"]


class ReceiverReturnsCredits(Property):
    """Towards any sender that respects its credits the input buffer loses no flit, and each credit
    comes back.

    In every cycle the sender's credits, the flits in the buffer and the credit on its way back
    are together ``depth``. So ``overrun`` stays low, and once the buffer is empty the sender has
    all its credits again. Sender and reader do otherwise as they like.

    Parameters
    ----------
    receiver : with one channel
    """

    def __init__(self, receiver: LinkReceiver):
        self.receiver = receiver
        super().__init__({"send": In(1), "read": In(1)})

    def state(self, m: Module) -> None:
        m.submodules.receiver = receiver = self.receiver
        depth = receiver.depth
        credits = Signal(range(depth + 1), init=depth)
        level = self.probe(m, "receiver.buffer.level", depth.bit_length())
        m.d.sync += credits.eq(credits - self.send + receiver.i.credit)
        m.d.comb += [
            receiver.i.valid.eq(self.send),
            receiver.o.ready.eq(self.read),
            Assume(~self.send | (credits != 0)),
            Assert(credits + level + receiver.i.credit == depth),
            Assert(~receiver.overrun),
            Assert(receiver.o.valid == (level != 0)),
            Cover((level == depth) & (credits == 0)),
        ]
        emptied = Signal()
        m.d.sync += emptied.eq(emptied | (level == depth))
        m.d.comb += Cover(emptied & (credits == depth))
