"""Small components that the tests of emission and simulation are about."""

from amaranth.hdl import Assert, EnableInserter, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out, connect, flipped

__all__ = ["Chain", "Gated", "Increment", "Peeking"]


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

    def __init__(self) -> None:
        super().__init__({"a": In(8), "b": Out(8)})
        self.inner = Signal(8)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.inner.eq(self.a + 1)
        m.d.sync += self.b.eq(self.inner)
        return m


class _Wrapped(wiring.Component):
    """A hidden one in another component."""

    def __init__(self) -> None:
        self.hidden = _Hidden()
        super().__init__({"a": In(8), "b": Out(8)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.hidden = self.hidden
        m.d.comb += [self.hidden.a.eq(self.a), self.b.eq(self.hidden.b)]
        return m


class Peeking(wiring.Component):
    """Reads a signal inside the second of two equal submodules, past their signatures.

    Members
    -------
    i : In(8)
    peek : Out(8), ``i + 1``
    late : Out(8), the same a cycle later

    Parameters
    ----------
    depth : how deep the signal lies: 1 in the submodule, 2 in a submodule of that
    """

    def __init__(self, *, depth: int) -> None:
        self.depth = depth
        super().__init__({"i": In(8), "peek": Out(8), "late": Out(8)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        parts = [_Wrapped() if self.depth == 2 else _Hidden() for _ in range(2)]
        m.submodules += parts
        m.d.comb += [part.a.eq(self.i) for part in parts]
        hidden = parts[1].hidden if self.depth == 2 else parts[1]
        m.d.comb += [self.peek.eq(hidden.inner), self.late.eq(parts[1].b)]
        return m


class Gated(wiring.Component):
    """Two counters; the second is held by ``enable``.

    Members
    -------
    enable : In(1)
    free, gated : Out(8), cycles since reset, and those of them with ``enable``
    """

    def __init__(self) -> None:
        super().__init__({"enable": In(1), "free": Out(8), "gated": Out(8)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.free = free = _Count()
        gated = _Count()
        m.submodules.gated = EnableInserter(self.enable)(gated)
        m.d.comb += [self.free.eq(free.value), self.gated.eq(gated.value)]
        return m


class _Count(wiring.Component):
    """Counts cycles."""

    def __init__(self) -> None:
        super().__init__({"value": Out(8)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.sync += self.value.eq(self.value + 1)
        return m
