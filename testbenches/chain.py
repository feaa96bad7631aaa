"""Small components that the tests of emission and simulation are about."""

from amaranth.hdl import Assert, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out, connect, flipped

__all__ = ["Chain", "Increment", "Peeking"]


class Increment(wiring.Component):
    """Adds ``amount`` modulo 256 to each item, behind a queue of four.

    Members
    -------
    i, o : streams of 8 bits
    offset : In(8), added as well
    count : Out(8), items accepted, modulo 256
    """

    def __init__(self, *, amount: int, limit: int | None = None) -> None:
        self.amount = amount
        self.limit = limit
        super().__init__(
            {
                "i": In(stream.Signature(8)),
                "o": Out(stream.Signature(8)),
                "offset": In(8),
                "count": Out(8),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.queue = queue = SyncFIFOBuffered(width=8, depth=4)
        m.d.comb += [
            queue.w_data.eq(self.i.payload + self.amount + self.offset),
            queue.w_en.eq(self.i.valid),
            self.i.ready.eq(queue.w_rdy),
            self.o.payload.eq(queue.r_data),
            self.o.valid.eq(queue.r_rdy),
            queue.r_en.eq(self.o.ready),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += self.count.eq(self.count + 1)
        if self.limit is not None:
            m.d.sync += Assert(self.count < self.limit, "the count reached its limit")
        return m


class Chain(wiring.Component):
    """Increments in a row, each with its number as a constant offset.

    Members
    -------
    i, o : streams of 8 bits
    """

    def __init__(self, amounts: list[int], *, limit: int | None = None) -> None:
        self.amounts = amounts
        self.limit = limit
        super().__init__({"i": In(stream.Signature(8)), "o": Out(stream.Signature(8))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        before = flipped(self.i)
        for number, amount in enumerate(self.amounts):
            stage = Increment(amount=amount, limit=self.limit)
            m.submodules[f"stage_{number}"] = stage
            m.d.comb += stage.offset.eq(number)
            connect(m, before, stage.i)
            before = stage.o
        connect(m, before, flipped(self.o))
        return m


class _Hidden(wiring.Component):
    """Has an inner signal that its parent reads although the signature does not tell of it."""

    a: In(8)
    b: Out(8)

    def __init__(self) -> None:
        super().__init__()
        self.inner = Signal(8)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.inner.eq(self.a + 1)
        m.d.sync += self.b.eq(self.inner)
        return m


class Peeking(wiring.Component):
    """Reads a signal inside its submodule: ``peek`` is ``i + 1``, ``late`` that a cycle later."""

    i: In(8)
    peek: Out(8)
    late: Out(8)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.hidden = hidden = _Hidden()
        m.d.comb += [hidden.a.eq(self.i), self.peek.eq(hidden.inner), self.late.eq(hidden.b)]
        return m
