"""A stream buffer of exact capacity and latency."""

from amaranth.hdl import Module, Mux, Shape, Signal, Value
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["StreamFifo"]


SMALL = 16
"""Items that are kept in flip-flops rather than in a memory."""


class StreamFifo(wiring.Component):
    """First-in first-out buffer between two streams.

    Latency: what is accepted in cycle t is offered from cycle t + 1 on, if it is the oldest.
    Throughput: one item per cycle, at every fill level but "full" (``i.ready`` does not look at
    ``o.ready``, so a full buffer takes the next item one cycle after giving one). While ``o`` is
    stalled it accepts exactly ``depth`` items. All outputs but the item itself depend on
    registers only; the item comes out of a 2:1 multiplexer behind two registers.

    The oldest item always stands in an output register: one that arrives as the only item goes
    there directly, any other by way of a one-read-one-write memory. The memory never reads and
    writes one address in one cycle.

    Parameters
    ----------
    shape : of an item
    depth : items it holds, at least 1

    Members
    -------
    i : items in
    o : items out, in order
    level : items held

    Raises
    ------
    ValueError
        for a depth out of range.
    """

    def __init__(self, *, shape, depth: int):
        if not isinstance(depth, int) or depth < 1:
            raise ValueError(f"depth must be a positive integer, not {depth!r}")
        self.shape = shape
        self.depth = depth
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "level": Out(range(depth + 1)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        level = Signal(range(self.depth + 1))
        push, pop, direct = Signal(), Signal(), Signal()
        alone = Signal()  # an item that comes now is the oldest as soon as it is in
        item = Value.cast(self.i.payload)
        m.d.comb += [
            self.level.eq(level),
            self.i.ready.eq(level != self.depth),
            self.o.valid.eq(level != 0),
            push.eq(self.i.valid & self.i.ready),
            pop.eq(self.o.valid & self.o.ready),
            alone.eq((level == 0) | (pop & (level == 1))),
            direct.eq(push & alone),
        ]
        # An item may come late in a cycle, so it only chooses between what is known by then.
        without, within = Mux(pop, level - 1, level), Mux(pop, level, level + 1)
        m.d.sync += level.eq(Mux(push, within, without))

        arrived = Signal(len(item), reset_less=True)
        with m.If(alone):
            m.d.sync += arrived.eq(item)
        if self.depth == 1:
            m.d.comb += Value.cast(self.o.payload).eq(arrived)
            return m

        m.submodules.store = store = memory.Memory(
            shape=Shape.cast(self.shape).width, depth=self.depth, init=[]
        )
        write, read = store.write_port(), store.read_port(domain="sync")
        write_at = Signal(range(self.depth))
        read_at = Signal(range(self.depth))
        came_directly = Signal()
        m.d.comb += [
            write.addr.eq(write_at),
            write.data.eq(item),
            # In a small buffer the free place is written whether an item comes or not, so that
            # the enable of its many flip-flops does not hang on ``i.valid``.
            write.en.eq(self.i.ready if self.depth <= SMALL else push & (level != 0)),
            read.addr.eq(self._following(read_at)),
            read.en.eq(self.o.ready & (level > 1)),
            Value.cast(self.o.payload).eq(Mux(came_directly, arrived, read.data)),
        ]
        with m.If(push):
            m.d.sync += write_at.eq(self._following(write_at))
        with m.If(pop):
            m.d.sync += read_at.eq(self._following(read_at))
        with m.If(direct | pop):
            m.d.sync += came_directly.eq(direct)
        return m

    def _following(self, place: Signal) -> Value:
        """The place behind ``place``."""
        if self.depth & (self.depth - 1) == 0:
            return (place + 1)[: len(place)]
        return Mux(place == self.depth - 1, 0, place + 1)
