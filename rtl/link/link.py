"""A whole link: transmitter, flight and receiver."""

from fractions import Fraction
from math import ceil

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.common.packet import flit_layout
from rtl.link.delay import LinkDelay
from rtl.link.receiver import LinkReceiver
from rtl.link.transmitter import COUNTER_BITS, LinkTransmitter, check_rate

__all__ = ["Link", "minimum_credits"]

_ROUND_TRIP = 4
"""Cycles from accepting a flit to using its credit again, beyond twice the latency: transmitter
register, buffer, credit register, credit counter."""


def minimum_credits(*, latency: int, rate: Fraction) -> int:
    """Fewest credits with which a link keeps its rate while the receiver's reader never waits.

    In the round trip of ``2 * latency + 4`` cycles ``rate`` flits per cycle leave, and each needs
    a credit of its own. With one less the rate falls to credits / round trip.
    """
    return ceil((2 * latency + _ROUND_TRIP) * check_rate(rate))


class Link(wiring.Component):
    """A link from stream to stream.

    Latency: a flit accepted in cycle t is offered from cycle t + ``latency`` + 2 on; a ``grant``
    in cycle t is ``granted`` in cycle t + ``latency`` + 1. Throughput: ``rate``, from
    :func:`minimum_credits` credits on. While ``o`` is stalled it accepts exactly ``credits``
    flits. See :class:`LinkTransmitter` for when flits leave.

    Parameters
    ----------
    flit_bytes : bytes of a flit
    rate : flits per cycle, exact, above 0 and at most 1
    latency : flight time in cycles, at least 1
    credits : flits that the receiver buffers; by default :func:`minimum_credits`

    Members
    -------
    i : flits to send
    o : flits received
    grant, granted : pulses from the receiving to the sending side
    sent, starved : counters of the transmitter
    overrun : a flit was lost; never set in a link with one number of credits

    Raises
    ------
    ValueError
        for parameters out of range.
    """

    def __init__(
        self, *, flit_bytes: int, rate: Fraction, latency: int, credits: int | None = None
    ):
        self._delay = LinkDelay(flit_bytes=flit_bytes, latency=latency)
        if credits is None:
            credits = minimum_credits(latency=latency, rate=rate)
        self._transmitter = LinkTransmitter(flit_bytes=flit_bytes, credits=credits, rate=rate)
        self._receiver = LinkReceiver(flit_bytes=flit_bytes, depth=credits)
        self.flit_bytes = flit_bytes
        self.rate = self._transmitter.rate
        self.latency = latency
        self.credits = credits
        super().__init__(
            {
                "i": In(stream.Signature(flit_layout(flit_bytes))),
                "o": Out(stream.Signature(flit_layout(flit_bytes))),
                "grant": In(1),
                "granted": Out(1),
                "sent": Out(COUNTER_BITS),
                "starved": Out(COUNTER_BITS),
                "overrun": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.transmitter = transmitter = self._transmitter
        m.submodules.delay = delay = self._delay
        m.submodules.receiver = receiver = self._receiver
        wiring.connect(m, wiring.flipped(self.i), transmitter.i)
        wiring.connect(m, transmitter.o, delay.i)
        wiring.connect(m, delay.o, receiver.i)
        wiring.connect(m, receiver.o, wiring.flipped(self.o))
        m.d.comb += [
            receiver.grant.eq(self.grant),
            self.granted.eq(transmitter.granted),
            self.sent.eq(transmitter.sent),
            self.starved.eq(transmitter.starved),
            self.overrun.eq(receiver.overrun),
        ]
        return m
