"""`StreamFifo` is a queue."""

from __future__ import annotations

from amaranth.hdl import Array, Assert, Cover, Module, Mux, Signal
from amaranth.lib.wiring import In

from rtl.common.fifo import StreamFifo
from testbenches.formal.property import Property

__all__ = ["FifoIsAQueue"]


class FifoIsAQueue(Property):
    """The buffer offers exactly what was put in, in order, and follows the stream rules.

    A plain shift register, which nobody would build, is the queue that it is compared with in
    every cycle: readiness, validity, the item, the level. So nothing is lost, doubled or
    overtaken, exactly ``depth`` items are held, and an item that is offered stays until it is
    taken. The inputs are free; whatever the reader and the writer do, also a writer that breaks
    the stream rules, is covered.

    Parameters
    ----------
    fifo : of at least one place, with items of a few bits
    """

    def __init__(self, fifo: StreamFifo):
        self.fifo = fifo
        super().__init__({"valid": In(1), "item": In(fifo.shape), "ready": In(1)})

    def state(self, m: Module) -> None:
        m.submodules.fifo = fifo = self.fifo
        depth = fifo.depth
        queue = Array(Signal(fifo.shape, name=f"queue_{place}") for place in range(depth))
        count = Signal(range(depth + 1))
        push, pop = self.valid & (count != depth), self.ready & (count != 0)
        after_pop = Signal.like(count)
        m.d.comb += [
            fifo.i.valid.eq(self.valid),
            fifo.i.payload.eq(self.item),
            fifo.o.ready.eq(self.ready),
            after_pop.eq(count - pop),
        ]
        m.d.sync += count.eq(after_pop + push)
        for place in range(depth):
            kept = Mux(pop, queue[place + 1], queue[place]) if place + 1 < depth else queue[place]
            m.d.sync += queue[place].eq(Mux(push & (after_pop == place), self.item, kept))

        m.d.comb += [
            Assert(fifo.i.ready == (count != depth)),
            Assert(fifo.o.valid == (count != 0)),
            Assert(fifo.level == count),
            Assert((count == 0) | (fifo.o.payload == queue[0])),
            Cover((count == depth) & pop & self.valid),
        ]
        stalled = self.was(m, fifo.o.valid & ~fifo.o.ready, "stalled")
        offered = self.was(m, fifo.o.payload, "offered")
        m.d.comb += Assert(~stalled | (fifo.o.valid & (fifo.o.payload == offered)))
        if depth > 1:
            self._inside(m, queue, count)

    def _inside(self, m: Module, queue: Array, count: Signal) -> None:
        """What the induction must know: where the items stand in the memory."""
        depth = self.fifo.depth
        write_at = self.probe(m, "fifo.write_at", (depth - 1).bit_length())
        read_at = self.probe(m, "fifo.read_at", (depth - 1).bit_length())
        words = Array(
            self.probe(m, f"fifo.store[{place}]", self.fifo.shape) for place in range(depth)
        )
        m.d.comb += [
            Assert(count <= depth),
            Assert(read_at < depth),
            Assert(write_at == (read_at + count) % depth),
        ]
        for place in range(1, depth):
            m.d.comb += Assert(
                (count <= place) | (words[(read_at + place) % depth] == queue[place])
            )
