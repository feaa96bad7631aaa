"""AXI4 reads for the engine's read port."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.memory_port import ADDRESS_BITS, BEATS_BITS, MemoryReadSignature
from rtl.axi.parameters import AxiParameters
from rtl.axi.signatures import BOUNDARY, AxiReadSignature, Burst

__all__ = ["AxiReadMaster", "beats_to_boundary"]


class AxiReadMaster(wiring.Component):
    """Turns requests of up to 256 flits into INCR bursts of whole flits.

    A request is cut where a burst would exceed ``burst_beats`` or cross a 4 KiB boundary. All
    bursts carry one ID, so their data comes back in order. Narrow and unaligned transfers do not
    occur: a beat is a flit, and every address is a multiple of it.

    Parameters
    ----------
    flit_bytes : of a beat
    axi : attributes and limits

    Members
    -------
    port : In(MemoryReadSignature)
    axi : Out(AxiReadSignature)
    failed : Out(1)
        The beat that ``port.data`` offers came with SLVERR or DECERR.
    halt : In(1)
        Begin no burst but the one that is already offered; take and drop all data.
    drained : Out(1)
        No burst is offered or outstanding.

    Notes
    -----
    No latency for data; one cycle from a request to its first burst. One beat per cycle. A request
    in its last burst gives way to the next without a bubble.
    """

    def __init__(self, *, flit_bytes: int, axi: AxiParameters):
        self.flit_bytes = flit_bytes
        self.parameters = axi
        super().__init__(
            {
                "port": In(MemoryReadSignature(flit_bytes=flit_bytes)),
                "axi": Out(
                    AxiReadSignature(
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
        shift = self.flit_bytes.bit_length() - 1

        # The request at work.
        address = Signal(ADDRESS_BITS)
        remaining = Signal(BEATS_BITS)
        beats = Signal(BEATS_BITS)
        limit = Signal(BEATS_BITS)
        m.d.comb += [
            limit.eq(beats_to_boundary(m, address, self.flit_bytes, p.burst_beats)),
            beats.eq(Mux(remaining < limit, remaining, limit)),
        ]
        outstanding = Signal(range(p.reads + 1))
        offered = Signal()  # a burst was offered and not taken: it stays
        taken = Signal()
        ended = Signal()
        last_burst = Signal()
        request = self.port.request
        m.d.comb += [
            bus.arid.eq(p.read_id),
            bus.araddr.eq((address << shift)[: p.address_bits]),
            bus.arlen.eq(beats - 1),
            bus.arsize.eq(shift),
            bus.arburst.eq(Burst.INCR),
            bus.arcache.eq(p.cache),
            bus.arprot.eq(p.prot),
            bus.arqos.eq(p.qos),
            bus.arvalid.eq((remaining != 0) & (outstanding != p.reads) & (~self.halt | offered)),
            taken.eq(bus.arvalid & bus.arready),
            last_burst.eq(beats == remaining),
            ended.eq(bus.rvalid & bus.rready & bus.rlast),
            request.ready.eq(~self.halt & ((remaining == 0) | (taken & last_burst))),
        ]
        m.d.sync += [
            offered.eq(bus.arvalid & ~bus.arready),
            outstanding.eq(outstanding + taken - ended),
        ]
        with m.If(request.valid & request.ready):
            m.d.sync += [
                address.eq(request.payload.address),
                remaining.eq(request.payload.beats),
            ]
        with m.Elif(taken):
            m.d.sync += [address.eq(address + beats), remaining.eq(remaining - beats)]

        m.d.comb += [
            self.port.data.payload.eq(bus.rdata),
            self.port.data.valid.eq(bus.rvalid & ~self.halt),
            bus.rready.eq(self.port.data.ready | self.halt),
            self.failed.eq(bus.rvalid & bus.rresp[1]),
            self.drained.eq((outstanding == 0) & ~bus.arvalid),
        ]
        return m


def beats_to_boundary(m, address, flit_bytes, most):
    """Beats from flit ``address`` to the end of its 4 KiB, at most ``most``: a value."""
    per_page = BOUNDARY // flit_bytes
    left = Signal(range(per_page + 1), name="beats_in_page")
    m.d.comb += left.eq(per_page - address[: per_page.bit_length() - 1])
    return Mux(left < most, left, most)
