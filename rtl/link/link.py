"""A whole link: transmitter, flight and receiver."""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.link.delay import LinkDelay
from rtl.link.receiver import LinkReceiver
from rtl.link.transmitter import STARVATION_BOUND, LinkTransmitter, check_rate

__all__ = ["Link", "minimum_credits"]

_ROUND_TRIP = 4
"""Cycles from accepting a flit to using its credit again, beyond twice the latency: transmitter
register, buffer, credit register, credit counter."""


def minimum_credits(*, latency: int, rate: Fraction) -> int:
    """Fewest credits with which a link keeps its rate while the receiver's reader never waits.

    In the round trip of ``2 * latency + 4`` cycles ``rate`` flits per cycle leave, and each needs
    a credit of its own. With one less the rate falls to credits / round trip. With several
    channels, each needs as many to use the whole link alone.
    """
    return ceil((2 * latency + _ROUND_TRIP) * check_rate(rate))


class Link(wiring.Component):
    """A link from stream to stream.

    Latency: a flit accepted in cycle t is offered from cycle t + ``latency`` + 2 on; a ``grant``
    in cycle t is ``granted`` in cycle t + ``latency`` + 1. Throughput: ``rate``, shared by the
    channels; a channel with :func:`minimum_credits` credits can use all of it. While ``o`` of a
    channel is stalled it accepts exactly its ``credits`` flits, and the others go on. See
    :class:`LinkTransmitter` for when flits leave, and of which channel.

    Parameters
    ----------
    flit_bytes : bytes of a flit
    rate : flits per cycle, exact, above 0 and at most 1
    latency : flight time in cycles, at least 1
    credits : flits that the receiver buffers, for each channel or for all alike; by default
        :func:`minimum_credits`
    channels : virtual channels, lowest number first; with one, no member is an array
    starvation_bound : packets that may pass a waiting one of a lower channel

    Members
    -------
    i : flits to send, a stream for each channel
    o : flits received, a stream for each channel
    grant, granted : pulses from the receiving to the sending side, one bit for each channel
    sent, starved : counters of the transmitter
    overrun : a flit was lost; never set in a link with one number of credits

    Raises
    ------
    ValueError
        for parameters out of range.
    """

    def __init__(
        self,
        *,
        flit_bytes: int,
        rate: Fraction,
        latency: int,
        credits: int | Sequence[int] | None = None,
        channels: int = 1,
        starvation_bound: int = STARVATION_BOUND,
    ):
        self._delay = LinkDelay(flit_bytes=flit_bytes, latency=latency, channels=channels)
        if credits is None:
            credits = minimum_credits(latency=latency, rate=rate)
        self._transmitter = LinkTransmitter(
            flit_bytes=flit_bytes,
            credits=credits,
            rate=rate,
            channels=channels,
            starvation_bound=starvation_bound,
        )
        self._receiver = LinkReceiver(flit_bytes=flit_bytes, depth=credits, channels=channels)
        self.flit_bytes = flit_bytes
        self.rate = self._transmitter.rate
        self.latency = latency
        self.credits = credits
        self.channels = channels
        sender, receiver = self._transmitter.signature.members, self._receiver.signature.members
        super().__init__(
            {
                "i": sender["i"],
                "o": receiver["o"],
                "grant": In(channels),
                "granted": Out(channels),
                "sent": sender["sent"],
                "starved": sender["starved"],
                "overrun": Out(channels),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.transmitter = transmitter = self._transmitter
        m.submodules.delay = delay = self._delay
        m.submodules.receiver = receiver = self._receiver
        wiring.connect(m, transmitter.o, delay.i)
        wiring.connect(m, delay.o, receiver.i)
        m.d.comb += [
            receiver.grant.eq(self.grant),
            self.granted.eq(transmitter.granted),
            self.overrun.eq(receiver.overrun),
        ]
        for outer, inner in zip(self._each(self.i), self._each(transmitter.i), strict=True):
            wiring.connect(m, wiring.flipped(outer), inner)
        for inner, outer in zip(self._each(receiver.o), self._each(self.o), strict=True):
            wiring.connect(m, inner, wiring.flipped(outer))
        for name in ("sent", "starved"):
            inner, outer = getattr(transmitter, name), getattr(self, name)
            m.d.comb += [o.eq(i) for i, o in zip(self._each(inner), self._each(outer), strict=True)]
        return m

    def _each(self, member) -> list:
        """The members of the channels."""
        return list(member) if self.channels > 1 else [member]
