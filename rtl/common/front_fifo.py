"""A stream buffer whose oldest item stands in a register."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.common.fifo import StreamFifo

__all__ = ["FrontFifo", "front_queue"]


class FrontFifo(wiring.Component):
    """A :class:`~rtl.common.fifo.StreamFifo` with a register behind it, and no latency for it.

    For items on which much depends in the cycle in which they are offered: they come out of a
    register, not of a memory and a multiplexer. Latency, throughput and rules are those of the
    StreamFifo; while ``o`` is stalled it accepts exactly ``depth`` + 1 items.

    Parameters
    ----------
    shape : of an item
    depth : items that wait behind the oldest, at least 1

    Members
    -------
    i : items in
    o : items out, in order

    Raises
    ------
    ValueError
        for a depth out of range.
    """

    def __init__(self, *, shape, depth: int):
        self.queue = StreamFifo(shape=shape, depth=depth)
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.queue = queue = self.queue
        full = Signal()
        free = Signal()  # the register takes an item in this cycle, if there is one
        item = Value.cast(self.i.payload)
        front = Signal(len(item), reset_less=True)
        m.d.comb += [
            free.eq(~full | self.o.ready),
            self.i.ready.eq(queue.i.ready),
            # One that comes while nothing waits goes to the register directly.
            queue.i.valid.eq(self.i.valid & (~free | queue.o.valid)),
            queue.i.payload.eq(self.i.payload),
            queue.o.ready.eq(free),
            self.o.valid.eq(full),
            Value.cast(self.o.payload).eq(front),
        ]
        with m.If(free):
            m.d.sync += [
                full.eq(queue.o.valid | self.i.valid),
                front.eq(Mux(queue.o.valid, Value.cast(queue.o.payload), item)),
            ]
        return m


def front_queue(*, shape, depth: int) -> FrontFifo | StreamFifo:
    """A buffer of exactly ``depth`` items whose oldest comes out of a register; everything else as
    of the StreamFifo.

    Raises
    ------
    ValueError
        for a depth out of range.
    """
    if depth == 1:  # there a StreamFifo has nothing but that register
        return StreamFifo(shape=shape, depth=1)
    return FrontFifo(shape=shape, depth=depth - 1)
