"""The classes of one dim, or of one DMA, on one port of the SRAM."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.parameters import check_positive
from rtl.ace.sram import SRAM_READ_LATENCY, SramReadSignature, SramWriteSignature
from rtl.common.turns import Turns
from rtl.link.transmitter import STARVATION_BOUND

__all__ = ["SramReadShare", "SramWriteShare"]


class SramReadShare(wiring.Component):
    """Several readers on one read port. Of those that ask, the lowest goes first, with the
    starvation bound of the links, here counted in flits. So it is flits that the priority of
    classes orders, not packets: what a transmitter does not read it does not send, and a packet
    of a lower class that lacks its next flit leaves the wire to others.

    Parameters
    ----------
    users : how many
    address_bits, flit_bytes : of the SRAM

    Members
    -------
    user : In(SramReadSignature) × users
    port : Out(SramReadSignature)

    Notes
    -----
    No latency in either direction.
    """

    def __init__(self, *, users: int, address_bits: int, flit_bytes: int):
        check_positive("users", users)
        self.users = users
        port = SramReadSignature(address_bits=address_bits, flit_bytes=flit_bytes)
        super().__init__({"user": In(port).array(users), "port": Out(port)})

    def elaborate(self, platform):
        m = Module()
        turn = _choose(m, self.user, self.port)
        whose = turn
        for stage in range(SRAM_READ_LATENCY):
            behind = Signal(self.users, name=f"whose_{stage}")
            m.d.sync += behind.eq(whose)
            whose = behind
        for number, user in enumerate(self.user):
            m.d.comb += [
                user.valid.eq(self.port.valid & whose[number]),
                user.data.eq(self.port.data),
            ]
        return m


class SramWriteShare(wiring.Component):
    """Several writers on one write port; see :class:`SramReadShare`.

    Parameters
    ----------
    users : how many
    address_bits, flit_bytes : of the SRAM

    Members
    -------
    user : In(SramWriteSignature) × users
    port : Out(SramWriteSignature)

    Notes
    -----
    No latency.
    """

    def __init__(self, *, users: int, address_bits: int, flit_bytes: int):
        check_positive("users", users)
        self.users = users
        port = SramWriteSignature(address_bits=address_bits, flit_bytes=flit_bytes)
        super().__init__({"user": In(port).array(users), "port": Out(port)})

    def elaborate(self, platform):
        m = Module()
        _choose(m, self.user, self.port)
        return m


def _choose(m, users, port):
    """Join the requests of ``users`` to ``port``; whose is offered."""
    m.submodules.turns = turns = Turns(askers=len(users), bound=STARVATION_BOUND)
    m.d.comb += [
        turns.asks.eq(Cat(user.request.valid for user in users)),
        turns.offered.eq(port.request.valid),
        turns.taken.eq(port.request.valid & port.request.ready),
        port.request.valid.eq(turns.asks.any()),
    ]
    for number, user in enumerate(users):
        with m.If(turns.turn[number]):
            m.d.comb += [
                port.request.payload.eq(user.request.payload),
                user.request.ready.eq(port.request.ready),
            ]
    return turns.turn
