"""Shares the memory's read port between descriptor fetch and TX DMA."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.memory_port import BEATS_BITS, MemoryReadSignature
from rtl.common.fifo import StreamFifo

__all__ = ["MemoryReadArbiter"]


class MemoryReadArbiter(wiring.Component):
    """Two users of one read port; bursts come back in the order of their requests.

    User 0 (descriptor fetch) goes first: it asks rarely, and everything waits for it. A request
    that was offered and not taken keeps its turn.

    Parameters
    ----------
    flit_bytes : of a beat
    bursts : bursts requested and not yet complete, of both users

    Members
    -------
    user : In(MemoryReadSignature) × 2
    memory : Out(MemoryReadSignature)

    Notes
    -----
    No latency in either direction. A user that does not take its data blocks the other: both must
    reserve the room before they ask.
    """

    def __init__(self, *, flit_bytes: int, bursts: int):
        if not isinstance(bursts, int) or bursts < 1:
            raise ValueError(f"bursts must be a positive integer, not {bursts!r}")
        self.flit_bytes = flit_bytes
        self.bursts = bursts
        signature = MemoryReadSignature(flit_bytes=flit_bytes)
        super().__init__({"user": In(signature).array(2), "memory": Out(signature)})

    def elaborate(self, platform):
        m = Module()
        owner_shape = data.StructLayout({"user": 1, "beats": BEATS_BITS})
        m.submodules.owners = owners = StreamFifo(shape=owner_shape, depth=self.bursts)

        chosen = Signal()
        kept = Signal()  # user 1 was offered and not taken
        out = self.memory.request
        m.d.comb += chosen.eq(kept | ~self.user[0].request.valid)
        m.d.sync += kept.eq(out.valid & ~out.ready & chosen)
        for number in range(2):
            request = self.user[number].request
            with m.If(chosen == number):
                m.d.comb += [
                    out.valid.eq(request.valid & owners.i.ready),
                    out.payload.eq(request.payload),
                    request.ready.eq(out.ready & owners.i.ready),
                ]
        m.d.comb += [
            owners.i.valid.eq(out.valid & out.ready),
            owners.i.payload.user.eq(chosen),
            owners.i.payload.beats.eq(out.payload.beats),
        ]

        back = self.memory.data
        count = Signal(BEATS_BITS)
        last = Signal()
        m.d.comb += last.eq(count + 1 == owners.o.payload.beats)
        for number in range(2):
            beat = self.user[number].data
            m.d.comb += beat.payload.eq(back.payload)
            with m.If(owners.o.valid & (owners.o.payload.user == number)):
                m.d.comb += [beat.valid.eq(back.valid), back.ready.eq(beat.ready)]
        with m.If(back.valid & back.ready):
            with m.If(last):
                m.d.comb += owners.o.ready.eq(1)
                m.d.sync += count.eq(0)
            with m.Else():
                m.d.sync += count.eq(count + 1)
        return m
