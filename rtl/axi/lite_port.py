"""AXI4-Lite to single register accesses."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.axi.signatures import AxiLiteSignature, Response

__all__ = ["AxiLitePort", "RegisterAccess"]


class RegisterAccess(wiring.Signature):
    """Reads and writes of 32-bit registers, one of each at a time, seen from the port.

    Members
    -------
    read, write : Out(1)
        An access begins, for one cycle. Its address, and what is written, stand from then on until
        the next one of its kind begins. Reads and writes know nothing of each other.
    read_address, write_address : Out
        In bytes, a multiple of 4.
    write_data : Out(32)
    read_done, write_done : In(1)
        For one cycle, one or more cycles later: it is over.
    read_data : In(32)
        With ``read_done``.
    read_refused, write_refused : In(1)
        With ``read_done``, ``write_done``: answer SLVERR.
    """

    def __init__(self, *, address_bits: int):
        super().__init__(
            {
                "read": Out(1),
                "write": Out(1),
                "read_address": Out(address_bits),
                "write_address": Out(address_bits),
                "write_data": Out(32),
                "read_done": In(1),
                "write_done": In(1),
                "read_data": In(32),
                "read_refused": In(1),
                "write_refused": In(1),
            }
        )


class AxiLitePort(wiring.Component):
    """Subordinate end of an AXI4-Lite port.

    Registers are written whole: a write with a byte strobe low is answered with SLVERR and does
    nothing. An access is never held back by the engine: only by the one before it in its direction,
    until its response has been taken. AxPROT is not looked at.

    Parameters
    ----------
    address_bits : of the register space

    Members
    -------
    axi : In(AxiLiteSignature)
    access : Out(RegisterAccess)

    Notes
    -----
    An access taken in cycle t begins in t + 1; the response stands one cycle after the access is
    over. One read and one write under way at a time, the next taken when the response is, so one
    in 3 cycles besides what the access takes. All outputs come from registers, or from two of them.
    """

    def __init__(self, *, address_bits: int):
        self.address_bits = address_bits
        super().__init__(
            {
                "axi": In(AxiLiteSignature(address_bits=address_bits)),
                "access": Out(RegisterAccess(address_bits=address_bits)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bus = self.axi
        access = self.access
        reading, writing = Signal(), Signal()  # from the address to the response's handshake
        partial = Signal()  # the write has a strobe low
        read, write = Signal(), Signal()
        m.d.comb += [
            bus.arready.eq(~reading),
            read.eq(bus.arvalid & ~reading),
            write.eq(bus.awvalid & bus.wvalid & ~writing),
            bus.awready.eq(write),
            bus.wready.eq(write),
        ]
        m.d.sync += [access.read.eq(read), access.write.eq(write & bus.wstrb.all())]
        m.d.sync += partial.eq(write & ~bus.wstrb.all())
        with m.If(read):
            m.d.sync += [reading.eq(1), access.read_address.eq(bus.araddr & ~3)]
        with m.If(write):
            m.d.sync += [
                writing.eq(1),
                access.write_address.eq(bus.awaddr & ~3),
                access.write_data.eq(bus.wdata),
            ]
        with m.If(access.read_done):
            m.d.sync += [
                bus.rvalid.eq(1),
                bus.rdata.eq(access.read_data),
                bus.rresp.eq(Mux(access.read_refused, Response.SLVERR, Response.OKAY)),
            ]
        with m.Elif(bus.rvalid & bus.rready):
            m.d.sync += [bus.rvalid.eq(0), reading.eq(0)]
        with m.If(access.write_done | partial):
            m.d.sync += [
                bus.bvalid.eq(1),
                bus.bresp.eq(Mux(partial | access.write_refused, Response.SLVERR, Response.OKAY)),
            ]
        with m.Elif(bus.bvalid & bus.bready):
            m.d.sync += [bus.bvalid.eq(0), writing.eq(0)]
        return m
