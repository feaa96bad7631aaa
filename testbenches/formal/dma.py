"""The DMA engines touch no byte that their records do not name."""

from __future__ import annotations

from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In

from rtl.ace.layouts import Load, Store
from rtl.ace.rx_dma import STORE_BUFFER, RxDma
from rtl.ace.tx_dma import TxDma
from rtl.axi.read_master import AxiReadMaster
from rtl.axi.signatures import BOUNDARY
from rtl.axi.write_master import AxiWriteMaster
from testbenches.formal.property import Property

__all__ = ["RxDmaStaysInside", "TxDmaStaysInside", "WriteMasterStaysInside"]

_FLIT_BITS = 32  # of a flit's address in memory
_LENGTH_BITS = 20


class _Watched(Property):
    """A DMA with free records, and one byte that none of them names.

    The byte is free, but the same in every cycle; so what holds of it holds of every byte outside
    ``[base, base + length)`` of the records. A record is well formed: ``shift`` and ``last_bytes``
    lie within a flit, and it ends within memory and within the SRAM (the record guard has seen to
    both). Everything around the DMA does as it likes: buffers, memory, SRAM, collectives that are
    given up in any cycle.

    Parameters
    ----------
    dma : with queues of one place for an induction
    """

    layout: type[data.Struct]

    def __init__(self, dma: TxDma | RxDma, inputs: dict):
        self.dma = dma
        self.flit_bytes: int = dma.flit_bytes
        self.byte_bits = (dma.flit_bytes - 1).bit_length()
        free = {
            "record": In(self.layout),
            "valid": In(1),
            "free": In(1),
            "void": In(1),
            "byte": In(_FLIT_BITS + self.byte_bits),
            "place": In(dma.address_bits),
        }
        super().__init__(free | inputs)

    def watched(self, m: Module) -> None:
        """The byte of memory and the flit of SRAM that no record may name stay the same."""
        begun = Signal()
        m.d.sync += begun.eq(1)
        for name in ("byte", "place"):
            before = self.was(m, getattr(self, name), f"{name}_before")
            m.d.comb += Assume(~begun | (getattr(self, name) == before))

    def bytes_of(self, record: data.View) -> tuple[Value, Value]:
        """First byte in memory, and the one behind the last (base and length of the record)."""
        first = Cat(record.shift[: self.byte_bits], record.memory_address)
        size = (record.length - 1) * self.flit_bytes + record.last_bytes
        return first, Mux(record.length == 0, first, (first + size)[: len(first) + 1])

    def flits_of(self, record: data.View) -> Value:
        """How many flits of memory hold one of its bytes."""
        size = (record.length - 1) * self.flit_bytes + record.last_bytes + record.shift
        flits = (size + self.flit_bytes - 1) >> self.byte_bits
        return Mux(record.length == 0, 0, flits)[: _LENGTH_BITS + 1]

    def well_formed(self, record: data.View) -> Value:
        """What the guard and the layout promise."""
        return (
            (record.shift < self.flit_bytes)
            & (record.last_bytes >= 1)
            & (record.last_bytes <= self.flit_bytes)
            & (record.length < (1 << _LENGTH_BITS) - 1)
            & (record.memory_address + self.flits_of(record) <= 1 << _FLIT_BITS)
            & (record.sram_address + record.length <= 1 << self.dma.address_bits)
        )

    def covers_place(self, record: data.View) -> Value:
        """It names the watched flit of SRAM."""
        place = self.place
        return (place >= record.sram_address) & (place < record.sram_address + record.length)

    def kept(self, m: Module, path: str) -> data.View:
        """The record in a queue of one place."""
        return self.layout(self.probe(m, path, self.layout.as_shape().size))


class TxDmaStaysInside(_Watched):
    """No burst reads a flit of memory in which no LOAD has a byte, and no flit of SRAM is written
    that no LOAD names.

    Checked where the DMA asks and, with ``master``, at every AXI burst, which also stays within
    its 4 KiB and its ``burst_beats``.

    Parameters
    ----------
    dma : the TX DMA
    master : the AXI master behind it, or None
    inside : also state what an induction must know; for queues of one place
    """

    layout = Load

    def __init__(self, dma: TxDma, master: AxiReadMaster | None = None, *, inside: bool = False):
        self.master = master
        self.inside = inside
        data_bits = 8 * dma.flit_bytes
        super().__init__(
            dma,
            {"asked": In(1), "beat": In(1), "last": In(1), "data": In(data_bits), "written": In(1)},
        )

    def state(self, m: Module) -> None:
        m.submodules.dma = dma = self.dma
        self.watched(m)
        flit = self.byte[self.byte_bits :]
        accepted = dma.load.valid & dma.load.ready
        request = dma.memory.request
        write = dma.write.request
        m.d.comb += [
            dma.load.valid.eq(self.valid),
            dma.load.payload.eq(self.record),
            dma.freed.ok.eq(self.free),
            dma.query.void.eq(self.void),
            write.ready.eq(self.written),
            Assume(
                ~accepted
                | (
                    self.well_formed(self.record)
                    & ~_covers(self.record.memory_address, self.flits_of(self.record), flit)
                    & ~self.covers_place(self.record)
                )
            ),
            Assert(~request.valid | ~_covers(request.payload.address, request.payload.beats, flit)),
            Assert(
                ~request.valid
                | ((request.payload.beats != 0) & (request.payload.beats <= dma.burst_beats))
            ),
            Assert(~write.valid | (write.payload.address != self.place)),
        ]
        m.d.comb += [
            Cover(request.valid & (request.payload.beats == dma.burst_beats)),
            Cover(write.valid & write.ready & (write.payload.address + 1 == self.place)),
        ]
        if self.master is None:
            m.d.comb += [
                request.ready.eq(self.asked),
                dma.memory.data.valid.eq(self.beat),
                dma.memory.data.payload.eq(self.data),
            ]
        else:
            self._axi(m, flit)
        if self.inside:
            self._state_inside(m, flit)

    def _axi(self, m: Module, flit: Value) -> None:
        m.submodules.master = master = self.master
        assert master is not None
        bus = master.axi
        first = bus.araddr[self.byte_bits :]
        in_page = bus.araddr[: (BOUNDARY - 1).bit_length()]
        m.d.comb += [
            *_joined(self.dma.memory, master.port),
            bus.arready.eq(self.asked),
            bus.rvalid.eq(self.beat),
            bus.rlast.eq(self.last),
            bus.rdata.eq(self.data),
            Assert(~bus.arvalid | ~_covers(first, bus.arlen + 1, flit)),
            Assert(~bus.arvalid | (bus.araddr[: self.byte_bits] == 0)),
            Assert(~bus.arvalid | (in_page + ((bus.arlen + 1) << self.byte_bits) <= BOUNDARY)),
            Assert(~bus.arvalid | (bus.arlen < master.parameters.burst_beats)),
            Cover(bus.arvalid & bus.arready & (bus.arlen + 1 == master.parameters.burst_beats)),
        ]

    def _state_inside(self, m: Module, flit: Value) -> None:
        """The record at work is a good one, and what is asked for and written is part of it."""
        held = self.probe(m, "dma.queue.level", 1)
        record = self.kept(m, "dma.queue.arrived")
        flying = self.probe(m, "dma.flight.level", 1)
        loading = self.kept(m, "dma.flight.arrived")
        begun = self.probe(m, "dma.begun", 1)
        following = self.probe(m, "dma.next_address", _FLIT_BITS)
        left = self.probe(m, "dma.left", _LENGTH_BITS)
        index = self.probe(m, "dma.index", _LENGTH_BITS)
        place = self.probe(m, "dma.following", _LENGTH_BITS)
        more = self.flits_of(record) - record.length
        end = record.memory_address + self.flits_of(record)
        m.d.comb += [
            Assert(~held | self.well_formed(record)),
            Assert(~held | ~_covers(record.memory_address, self.flits_of(record), flit)),
            Assert(~held | ~self.covers_place(record)),
            Assert(~begun | held),
            Assert(
                ~begun
                | (
                    (left <= record.length)
                    & (left + more != 0)
                    & (following >= record.memory_address)
                    & (following + left + more == end)
                )
            ),
            Assert(~flying | ~self.covers_place(loading)),
            Assert(~flying | (loading.sram_address + loading.length <= 1 << self.dma.address_bits)),
            Assert(Mux(flying, (index == 0) | (index < loading.length), index == 0)),
            Assert(place == (index + 1)[:_LENGTH_BITS]),
        ]
        if self.master is not None:
            address = self.probe(m, "master.address", _FLIT_BITS)
            remaining = self.probe(m, "master.remaining", 9)
            m.d.comb += [
                Assert(address + remaining <= 1 << _FLIT_BITS),
                Assert(~_covers(address, remaining, flit)),
            ]


class RxDmaStaysInside(_Watched):
    """No byte of memory is written that no STORE names, and no flit of SRAM is read that none
    names.

    Parameters
    ----------
    dma : the RX DMA
    inside : also state what an induction must know; for a queue of one place
    """

    layout = Store

    def __init__(self, dma: RxDma, *, inside: bool = False):
        self.inside = inside
        free = ("asked", "read", "answered", "completed")
        super().__init__(dma, {name: In(1) for name in free})

    def state(self, m: Module) -> None:
        m.submodules.dma = dma = self.dma
        self.watched(m)
        accepted = dma.store.valid & dma.store.ready
        request = dma.memory.request
        first, end = self.bytes_of(self.record)
        m.d.comb += [
            dma.store.valid.eq(self.valid),
            dma.store.payload.eq(self.record),
            dma.filled.ok.eq(self.free),
            dma.query.void.eq(self.void),
            dma.read.request.ready.eq(self.read),
            dma.completion.ready.eq(self.completed),
            dma.memory.acknowledged.eq(self.answered),
            request.ready.eq(self.asked),
            Assume(
                ~accepted
                | (
                    self.well_formed(self.record)
                    & ~((self.byte >= first) & (self.byte < end))
                    & ~self.covers_place(self.record)
                )
            ),
            Assert(
                ~request.valid
                | ~_writes(request.payload.address, request.payload.strobe, self.byte)
            ),
            Assert(~dma.read.request.valid | (dma.read.request.payload != self.place)),
            Cover(request.valid & (request.payload.strobe != (1 << self.flit_bytes) - 1)),
        ]
        if self.inside:
            self._state_inside(m)

    def _state_inside(self, m: Module) -> None:
        """The record at work is a good one, and so is every token that has been made of one."""
        held = self.probe(m, "dma.queue.level", 1)
        record = self.kept(m, "dma.queue.arrived")
        index = self.probe(m, "dma.index", _LENGTH_BITS)
        begin, end = self.bytes_of(record)
        m.d.comb += [
            Assert(~held | self.well_formed(record)),
            Assert(~held | ~((self.byte >= begin) & (self.byte < end))),
            Assert(~held | ~self.covers_place(record)),
            Assert(Mux(held, (index == 0) | (index < self.flits_of(record)), index == 0)),
            Assert(self.probe(m, "dma.following", _LENGTH_BITS) == (index + 1)[:_LENGTH_BITS]),
        ]
        bits = self.byte_bits
        tag = data.StructLayout(
            {"address": _FLIT_BITS, "begin": bits, "end": bits + 1, "shift": bits}
        )
        within, flit = self.byte[:bits], self.byte[bits:]
        for place in range(STORE_BUFFER):
            word = data.View(tag, self.probe(m, f"dma.reader.tags[{place}]", tag.size))
            inside = (word.address == flit) & (word.begin <= within) & (word.end > within)
            m.d.comb += Assert(~inside)


class WriteMasterStaysInside(Property):
    """No beat of a burst writes a byte that no request of the DMA has written.

    Every burst begins at a whole flit and stays within its 4 KiB and its ``burst_beats``, and W
    has exactly the beats that AW has asked for. The requests are free, and so is the byte, which
    is the same in every cycle. With :class:`RxDmaStaysInside`, which shows what the DMA's requests
    write, that holds of the records too.

    Parameters
    ----------
    master : the AXI master behind an RX DMA
    """

    def __init__(self, master: AxiWriteMaster):
        self.master = master
        self.byte_bits = (master.flit_bytes - 1).bit_length()
        bits = {
            "valid": 1,
            "address": _FLIT_BITS,
            "strobe": master.flit_bytes,
            "byte": _FLIT_BITS + self.byte_bits,
            **dict.fromkeys(("asked", "sent", "answered", "halt"), 1),
        }
        super().__init__({name: In(width) for name, width in bits.items()})

    def state(self, m: Module) -> None:
        """Bursts are numbered as they are asked for, and beats go to the oldest that has some
        left: here a plain list of its own."""
        m.submodules.master = master = self.master
        bus, request = master.axi, master.port.request
        bursts = 1 << master.parameters.writes.bit_length()
        flits = [Signal(_FLIT_BITS, name=f"burst_{k}") for k in range(bursts)]
        beats = [Signal(9, name=f"beats_{k}") for k in range(bursts)]
        asked, sent = (Signal(range(bursts), name=name) for name in ("newest", "oldest"))
        beat = Signal(9)
        in_page = bus.awaddr[: (BOUNDARY - 1).bit_length()]
        here, left = Signal(_FLIT_BITS), Signal(9)
        taken, moved, begun = Signal(), Signal(), Signal()
        byte_before = self.was(m, self.byte, "byte_before")
        m.d.sync += begun.eq(1)
        m.d.comb += [
            Assume(~begun | (self.byte == byte_before)),
            Assume(~request.valid | ~_writes(self.address, self.strobe, self.byte)),
            request.valid.eq(self.valid),
            request.payload.address.eq(self.address),
            request.payload.strobe.eq(self.strobe),
            master.halt.eq(self.halt),
            bus.awready.eq(self.asked),
            bus.wready.eq(self.sent),
            bus.bvalid.eq(self.answered),
            taken.eq(bus.awvalid & bus.awready),
            moved.eq(bus.wvalid & bus.wready),
            Assert(~bus.awvalid | (bus.awaddr[: self.byte_bits] == 0)),
            Assert(~bus.awvalid | (in_page + ((bus.awlen + 1) << self.byte_bits) <= BOUNDARY)),
            Assert(~bus.awvalid | (bus.awlen < master.parameters.burst_beats)),
            Assert(~bus.wvalid | (asked != sent)),
            Assert(~bus.wvalid | ~_writes((here + beat)[:_FLIT_BITS], bus.wstrb, self.byte)),
            Assert(~bus.wvalid | (bus.wlast == (beat + 1 == left))),
            Cover(moved & bus.wlast & (beat == master.parameters.burst_beats - 1)),
            Cover(moved & bus.wlast & (sent == 1)),
        ]
        for k in range(bursts):
            with m.If(taken & (asked == k)):
                m.d.sync += [
                    flits[k].eq(bus.awaddr[self.byte_bits :]),
                    beats[k].eq(bus.awlen + 1),
                    asked.eq(asked + 1),
                ]
            with m.If(sent == k):
                m.d.comb += [here.eq(flits[k]), left.eq(beats[k])]
        with m.If(moved):
            m.d.sync += beat.eq(Mux(bus.wlast, 0, beat + 1))
            with m.If(bus.wlast):
                m.d.sync += sent.eq(sent + 1)


def _covers(first: Value, count: Value, watched: Value) -> Value:
    """``watched`` is one of ``count`` from ``first`` on; sums keep all their bits."""
    return (watched >= first) & (watched < first + count)


def _writes(flit: Value, strobe: Value, byte: Value) -> Value:
    """A flit with these strobes has the byte."""
    bits = (len(strobe) - 1).bit_length()
    return (flit == byte[bits:]) & strobe.bit_select(byte[:bits], 1)


def _joined(port, other) -> list:
    """Statements that connect the read port of the DMA to the one of a master."""
    return [
        other.request.valid.eq(port.request.valid),
        other.request.payload.eq(port.request.payload),
        port.request.ready.eq(other.request.ready),
        port.data.valid.eq(other.data.valid),
        port.data.payload.eq(other.data.payload),
        other.data.ready.eq(port.data.ready),
    ]
