"""Fetch of descriptors: from a doorbell to a stream of records."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.layouts import RECORD_BYTES, RecordKind
from rtl.ace.memory_port import ADDRESS_BITS, MemoryReadSignature
from rtl.ace.parameters import check_positive
from rtl.common.fifo import StreamFifo
from rtl.common.front_fifo import FrontFifo

__all__ = ["RECORD_BITS", "DescriptorFetch"]

RECORD_BITS = 8 * RECORD_BYTES


class DescriptorFetch(wiring.Component):
    """Reads the records of a descriptor through a bounded window, one descriptor after another.

    Whole bursts are requested ahead while the window has room, so some records behind END are
    read and dropped. The next descriptor is begun when they have arrived. A descriptor of which a
    record before END may not be read, or is read with an error, is given up there: it ends, and
    ``fault`` is raised.

    Parameters
    ----------
    flit_bytes : a power of two; a record is one or two flits, or a flit holds several records
    doorbells : doorbell writes that may wait
    window : records fetched ahead, at least two bursts
    burst : records requested at a time, filling whole flits

    Members
    -------
    doorbell : In(stream of flit address)
    memory : Out(MemoryReadSignature)
    record : Out(stream of 256 bits)
        Without END.
    idle : Out(1)
        No descriptor is being read, none waits.
    ended : Out(1)
        An END was taken.
    taken : Out(1)
        A record, END included, was taken.
    fetched : Out(1)
        A beat arrived.
    forbidden : In(1)
        The burst that ``memory`` is about to ask for must not be read.
    failed : In(1)
        The beat that ``memory.data`` offers came with an error.
    fault : Out(1)

    Notes
    -----
    A doorbell in cycle t is requested in t + 2 if the unit is idle. A record is offered in the
    cycle after its last beat arrived. One record per ``RECORD_BYTES / flit_bytes`` cycles, at
    least one.

    Raises
    ------
    ValueError
        for parameters out of range.
    """

    def __init__(self, *, flit_bytes: int, doorbells: int, window: int, burst: int):
        per_flit = max(1, flit_bytes // RECORD_BYTES)
        if not isinstance(burst, int) or burst < 1 or burst % per_flit:
            raise ValueError(f"burst must be a positive multiple of {per_flit}, not {burst!r}")
        if not isinstance(window, int) or window < 2 * burst or window % per_flit:
            raise ValueError(
                f"window must be a multiple of {per_flit} and at least {2 * burst}, not {window!r}"
            )
        check_positive("doorbells", doorbells)
        self.flit_bytes = flit_bytes
        self.doorbells = doorbells
        self.window = window
        self.burst = burst
        super().__init__(
            {
                "doorbell": In(stream.Signature(unsigned(ADDRESS_BITS))),
                "memory": Out(MemoryReadSignature(flit_bytes=flit_bytes)),
                "record": Out(stream.Signature(unsigned(RECORD_BITS))),
                "idle": Out(1),
                "ended": Out(1),
                "taken": Out(1),
                "fetched": Out(1),
                "forbidden": In(1),
                "failed": In(1),
                "fault": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        window_beats = self.window * RECORD_BYTES // self.flit_bytes
        burst_beats = self.burst * RECORD_BYTES // self.flit_bytes
        m.submodules.doorbells = doorbells = StreamFifo(
            shape=unsigned(ADDRESS_BITS), depth=self.doorbells
        )
        beat = data.StructLayout({"data": unsigned(8 * self.flit_bytes), "bad": 1})
        m.submodules.beats = beats = FrontFifo(shape=beat, depth=window_beats)
        wiring.connect(m, wiring.flipped(self.doorbell), doorbells.i)
        m.d.comb += [
            beats.i.valid.eq(self.memory.data.valid),
            beats.i.payload.data.eq(self.memory.data.payload),
            beats.i.payload.bad.eq(self.failed),
            self.memory.data.ready.eq(beats.i.ready),
        ]

        active = Signal()
        ended = Signal()  # drop what is still under way
        address = Signal(ADDRESS_BITS)
        reserved = Signal(range(window_beats + 1))  # requested and still in the window
        request = self.memory.request
        m.d.comb += [
            request.payload.address.eq(address),
            request.payload.beats.eq(burst_beats),
            self.fetched.eq(self.memory.data.valid & self.memory.data.ready),
            self.idle.eq(~active & ~doorbells.o.valid),
            doorbells.o.ready.eq(~active),
        ]
        # A request once wanted stays; `wanted` is set with the room for it.
        accepted = Signal()
        offer = Signal()
        wanted = Signal()
        unread = Signal()  # nothing but what must not be read is left
        cancel = Signal()
        m.d.comb += [
            request.valid.eq(wanted & ~self.forbidden),
            unread.eq(wanted & self.forbidden & (reserved == burst_beats)),
            cancel.eq(unread | (wanted & self.forbidden & ended)),
            accepted.eq(request.valid & request.ready),
            offer.eq(
                active
                & ~ended
                & ~self.ended
                & (~wanted | accepted)
                & (reserved <= window_beats - burst_beats)
            ),
        ]
        with m.If(doorbells.o.valid & doorbells.o.ready):
            m.d.sync += [
                active.eq(1),
                address.eq(doorbells.o.payload),
                wanted.eq(1),
                reserved.eq(burst_beats),
            ]
        with m.Else():
            with m.If(accepted):
                m.d.sync += [address.eq(address + burst_beats), wanted.eq(offer)]
            with m.Elif(offer):
                m.d.sync += wanted.eq(1)
            with m.Elif(cancel):
                m.d.sync += wanted.eq(0)
            drop = beats.o.valid & beats.o.ready
            m.d.sync += reserved.eq(
                reserved + Mux(offer, burst_beats, 0) - Mux(cancel, burst_beats, 0) - drop
            )
            with m.If(ended & (reserved == 0)):
                m.d.sync += [active.eq(0), ended.eq(0)]
            with m.Elif(self.ended | unread):
                m.d.sync += ended.eq(1)

        bad = self._records(m, beats.o, ended)
        m.d.comb += self.fault.eq(bad | (unread & ~ended))
        return m

    def _records(self, m, beats, ended):
        """Beats to records, until END; whether one that must be taken now is bad."""
        whole = Signal()
        bad = Signal()
        record = Signal(RECORD_BITS)
        advance = Signal()
        is_end = Signal()
        m.d.comb += [
            is_end.eq((record[:4] == RecordKind.END) | bad),
            self.record.payload.eq(record),
            self.record.valid.eq(whole & ~is_end),
            self.ended.eq(whole & is_end),
            advance.eq(whole & (is_end | self.record.ready)),
            self.taken.eq(advance),
        ]
        if self.flit_bytes < RECORD_BYTES:
            second = Signal()
            first_half = Signal(8 * self.flit_bytes)
            first_bad = Signal()
            m.d.comb += [
                whole.eq(beats.valid & second & ~ended),
                bad.eq(first_bad | beats.payload.bad),
                record.eq(Cat(first_half, beats.payload.data)),
                beats.ready.eq(ended | ~second | advance),
            ]
            with m.If(ended):
                m.d.sync += second.eq(0)
            with m.Elif(beats.valid & beats.ready):
                m.d.sync += second.eq(~second)
                with m.If(~second):
                    m.d.sync += [first_half.eq(beats.payload.data), first_bad.eq(beats.payload.bad)]
        else:
            per_flit = self.flit_bytes // RECORD_BYTES
            place = Signal(range(per_flit))
            m.d.comb += [
                whole.eq(beats.valid & ~ended),
                bad.eq(beats.payload.bad),
                record.eq(beats.payload.data.word_select(place, RECORD_BITS)),
                beats.ready.eq(ended | (advance & (place == per_flit - 1))),
            ]
            with m.If(ended):
                m.d.sync += place.eq(0)
            with m.Elif(advance & ~is_end):
                m.d.sync += place.eq(place + 1)
        return whole & bad
