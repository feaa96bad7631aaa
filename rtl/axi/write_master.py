"""AXI4 writes for the engine's write port."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.memory_port import ADDRESS_BITS, BEATS_BITS, MemoryWriteSignature
from rtl.axi.parameters import AxiParameters
from rtl.axi.read_master import beats_to_boundary
from rtl.axi.signatures import AxiWriteSignature, Burst
from rtl.common.fifo import StreamFifo

__all__ = ["AxiWriteMaster"]


class AxiWriteMaster(wiring.Component):
    """Gathers flits for consecutive addresses into INCR bursts.

    A burst is closed when it has ``burst_beats`` beats, ends at a 4 KiB boundary, the next flit
    does not continue it, or no flit has come for ``gather_cycles``. Only a closed burst is
    requested, so that all its data is here: W never waits for the engine. Bytes that are not to be
    written have their strobe low. All bursts carry one ID, so responses come in order.

    Parameters
    ----------
    flit_bytes : of a beat
    axi : attributes and limits

    Members
    -------
    port : In(MemoryWriteSignature)
        ``acknowledged`` once per flit of every burst that is answered.
    axi : Out(AxiWriteSignature)
    failed : Out(1)
        The flit that ``port.acknowledged`` counts now was answered with SLVERR or DECERR.
    halt : In(1)
        Request no burst but the one that is already offered; send the data of those requested.
    drained : Out(1)
        No burst is offered or outstanding.

    Notes
    -----
    A flit of a full burst leaves at the earliest 3 cycles after the burst's last one came. One
    flit per cycle, in and out, at the same time. Holds ``2 * burst_beats`` flits.
    """

    def __init__(self, *, flit_bytes: int, axi: AxiParameters):
        self.flit_bytes = flit_bytes
        self.parameters = axi
        super().__init__(
            {
                "port": In(MemoryWriteSignature(flit_bytes=flit_bytes)),
                "axi": Out(
                    AxiWriteSignature(
                        address_bits=axi.address_bits, data_bytes=flit_bytes, id_bits=axi.id_bits
                    )
                ),
                "failed": Out(1),
                "halt": In(1),
                "drained": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        p = self.parameters
        bus = self.axi
        closed = self._gather(m)
        shift = self.flit_bytes.bit_length() - 1

        # Requests: AW, then beats wait for W, and W's bursts for B.
        m.submodules.sending = sending = StreamFifo(shape=BEATS_BITS, depth=p.writes)
        m.submodules.answers = answers = StreamFifo(shape=BEATS_BITS, depth=p.writes)
        offered = Signal()
        taken = Signal()
        m.d.comb += [
            bus.awid.eq(p.write_id),
            bus.awaddr.eq((closed.payload.address << shift)[: p.address_bits]),
            bus.awlen.eq(closed.payload.beats - 1),
            bus.awsize.eq(shift),
            bus.awburst.eq(Burst.INCR),
            bus.awcache.eq(p.cache),
            bus.awprot.eq(p.prot),
            bus.awqos.eq(p.qos),
            bus.awvalid.eq(
                closed.valid & sending.i.ready & answers.i.ready & (~self.halt | offered)
            ),
            taken.eq(bus.awvalid & bus.awready),
            closed.ready.eq(taken),
            sending.i.valid.eq(taken),
            sending.i.payload.eq(closed.payload.beats),
            answers.i.valid.eq(taken),
            answers.i.payload.eq(closed.payload.beats),
        ]
        m.d.sync += offered.eq(bus.awvalid & ~bus.awready)

        # Data.
        beat = Signal(BEATS_BITS)
        flit = m.submodules.flits.o
        m.d.comb += [
            bus.wdata.eq(flit.payload.data),
            bus.wstrb.eq(flit.payload.strobe),
            bus.wlast.eq(beat + 1 == sending.o.payload),
            bus.wvalid.eq(flit.valid & sending.o.valid),
            flit.ready.eq(bus.wready & sending.o.valid),
            sending.o.ready.eq(bus.wvalid & bus.wready & bus.wlast),
        ]
        with m.If(bus.wvalid & bus.wready):
            m.d.sync += beat.eq(Mux(bus.wlast, 0, beat + 1))

        # Responses: one acknowledgement per flit.
        unacknowledged = Signal(BEATS_BITS)
        m.d.comb += [
            bus.bready.eq(unacknowledged <= 1),
            answers.o.ready.eq(bus.bvalid & bus.bready),
            self.port.acknowledged.eq(unacknowledged != 0),
            self.drained.eq(~answers.o.valid & ~bus.awvalid),
        ]
        with m.If(bus.bvalid & bus.bready):
            m.d.sync += [unacknowledged.eq(answers.o.payload), self.failed.eq(bus.bresp[1])]
        with m.Elif(unacknowledged != 0):
            m.d.sync += unacknowledged.eq(unacknowledged - 1)
        return m

    def _gather(self, m):
        """Flits to a buffer, and the bursts they make up: a stream of {address, beats}."""
        p = self.parameters
        flit_shape = data.StructLayout({"data": 8 * self.flit_bytes, "strobe": self.flit_bytes})
        burst_shape = data.StructLayout({"address": ADDRESS_BITS, "beats": BEATS_BITS})
        m.submodules.flits = flits = StreamFifo(shape=flit_shape, depth=2 * p.burst_beats)
        m.submodules.closed = closed = StreamFifo(shape=burst_shape, depth=2 * p.burst_beats)
        request = self.port.request
        taken = Signal()
        m.d.comb += [
            request.ready.eq(flits.i.ready),
            taken.eq(request.valid & flits.i.ready),
            flits.i.valid.eq(request.valid),
            flits.i.payload.data.eq(request.payload.data),
            flits.i.payload.strobe.eq(request.payload.strobe),
        ]

        # The open burst. `most` is the length at which it must be closed.
        first = Signal(ADDRESS_BITS)
        beats = Signal(BEATS_BITS)
        most = Signal(BEATS_BITS)
        quiet = Signal(range(p.gather_cycles + 1))
        full = Signal()
        continues = Signal()
        close = Signal()
        m.d.comb += [
            full.eq(beats == most),
            continues.eq(request.payload.address == (first + beats)[:ADDRESS_BITS]),
            close.eq((beats != 0) & (full | (taken & ~continues) | (quiet == p.gather_cycles))),
            # There is room: every burst waiting has a flit of its own in the buffer.
            closed.i.valid.eq(close),
            closed.i.payload.address.eq(first),
            closed.i.payload.beats.eq(beats),
        ]
        with m.If(taken):
            m.d.sync += quiet.eq(0)
            with m.If(close | (beats == 0)):
                m.d.sync += [
                    first.eq(request.payload.address),
                    beats.eq(1),
                    most.eq(
                        beats_to_boundary(
                            m, request.payload.address, self.flit_bytes, p.burst_beats
                        )
                    ),
                ]
            with m.Else():
                m.d.sync += beats.eq(beats + 1)
        with m.Else():
            with m.If(close):
                m.d.sync += beats.eq(0)
            with m.Elif(quiet != p.gather_cycles):
                m.d.sync += quiet.eq(quiet + 1)
        return closed.o
