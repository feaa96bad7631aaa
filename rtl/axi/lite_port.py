"""AXI4-Lite to single register accesses."""

from amaranth.hdl import Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.axi.signatures import AxiLiteSignature, Response

__all__ = ["AxiLitePort", "RegisterAccess"]


class RegisterAccess(wiring.Signature):
    """Reads and writes of 32-bit registers, seen from the port.

    Members
    -------
    read, write : Out(1)
        An access in this cycle; both at once are possible.
    read_address, write_address : Out
        In bytes, a multiple of 4.
    write_data : Out(32)
    read_data : In(32)
        Of this cycle's read, in the same cycle.
    read_refused, write_refused : In(1)
        In the same cycle: answer SLVERR.
    """

    def __init__(self, *, address_bits: int):
        super().__init__(
            {
                "read": Out(1),
                "write": Out(1),
                "read_address": Out(address_bits),
                "write_address": Out(address_bits),
                "write_data": Out(32),
                "read_data": In(32),
                "read_refused": In(1),
                "write_refused": In(1),
            }
        )


class AxiLitePort(wiring.Component):
    """Subordinate end of an AXI4-Lite port.

    Registers are written whole: a write with a byte strobe low is answered with SLVERR and does
    nothing. An access is never held back, whatever the engine does: only a response that is not
    taken holds back the next access of its direction. AxPROT is not looked at.

    Parameters
    ----------
    address_bits : of the register space

    Members
    -------
    axi : In(AxiLiteSignature)
    access : Out(RegisterAccess)

    Notes
    -----
    The response stands one cycle after its access. One read and one write per cycle.
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
        whole = bus.wstrb.all()
        write = bus.awvalid & bus.wvalid & (~bus.bvalid | bus.bready)
        read = bus.arvalid & (~bus.rvalid | bus.rready)
        m.d.comb += [
            bus.awready.eq(write),
            bus.wready.eq(write),
            access.write.eq(write & whole),
            access.write_address.eq(bus.awaddr & ~3),
            access.write_data.eq(bus.wdata),
            bus.arready.eq(read),
            access.read.eq(read),
            access.read_address.eq(bus.araddr & ~3),
        ]
        with m.If(write):
            m.d.sync += [
                bus.bvalid.eq(1),
                bus.bresp.eq(Mux(whole & ~access.write_refused, Response.OKAY, Response.SLVERR)),
            ]
        with m.Elif(bus.bready):
            m.d.sync += bus.bvalid.eq(0)
        with m.If(read):
            m.d.sync += [
                bus.rvalid.eq(1),
                bus.rdata.eq(access.read_data),
                bus.rresp.eq(Mux(access.read_refused, Response.SLVERR, Response.OKAY)),
            ]
        with m.Elif(bus.rready):
            m.d.sync += bus.rvalid.eq(0)
        return m
