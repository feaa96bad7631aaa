"""The sending end of a link: credits and rate."""

from fractions import Fraction

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.common.packet import flit_layout
from rtl.link.wire import LinkWire

__all__ = ["COUNTER_BITS", "LinkTransmitter", "check_rate"]

COUNTER_BITS = 32
"""Width of the traffic counters, which wrap."""


def check_rate(rate: object) -> Fraction:
    """Validate a link's rate in flits per cycle.

    Raises
    ------
    ValueError
        unless it is exact, above 0 and at most 1.
    """
    if not isinstance(rate, int | Fraction) or not 0 < rate <= 1:
        raise ValueError(f"rate must be a Fraction above 0 and at most 1, not {rate!r}")
    return Fraction(rate)


class LinkTransmitter(wiring.Component):
    """Puts flits on the wire: never without a credit, never faster than the rate.

    Rate: with ``rate`` = n/d in lowest terms, an accumulator starts at its maximum d + n - 1. A
    flit may leave when it is at least d. In every cycle it gains n, up to the maximum, and a
    leaving flit takes d. So after an idle time a flit leaves at once, and the k-th one after it,
    if all wait, floor(k·d/n) cycles later. ``sw_model.endpoint.link.RateGate`` is its twin.

    Latency: a flit accepted in cycle t is on the wire in cycle t + 1, out of registers. A credit
    on the wire in cycle t can be used in cycle t + 1. ``granted`` repeats ``o.grant`` in the same
    cycle. Throughput: ``rate``. No buffering. ``i.ready`` depends on registers only.

    Parameters
    ----------
    flit_bytes : bytes of a flit
    credits : flits that the receiver has room for at reset, at least 1
    rate : flits per cycle, exact, above 0 and at most 1

    Members
    -------
    i : flits to send
    o : the wire
    granted : pulse, a grant has come back
    sent : flits accepted since reset
    starved : cycles since reset in which a flit waited for nothing but a credit

    Raises
    ------
    ValueError
        for parameters out of range.
    """

    def __init__(self, *, flit_bytes: int, credits: int, rate: Fraction):
        if not isinstance(credits, int) or credits < 1:
            raise ValueError(f"credits must be a positive integer, not {credits!r}")
        self.flit_bytes = flit_bytes
        self.credits = credits
        self.rate = check_rate(rate)
        super().__init__(
            {
                "i": In(stream.Signature(flit_layout(flit_bytes))),
                "o": Out(LinkWire(flit_bytes)),
                "granted": Out(1),
                "sent": Out(COUNTER_BITS),
                "starved": Out(COUNTER_BITS),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        credits = Signal(range(self.credits + 1), init=self.credits)
        take = Signal()
        rate_open = self._gate(m, take)
        m.d.comb += [
            self.i.ready.eq(rate_open & credits.any()),
            take.eq(self.i.valid & self.i.ready),
            self.granted.eq(self.o.grant),
        ]
        with m.If(take != self.o.credit):
            m.d.sync += credits.eq(Mux(take, credits - 1, credits + 1))

        flit = Signal(flit_layout(self.flit_bytes), reset_less=True)
        valid = Signal()
        m.d.sync += valid.eq(take)
        with m.If(take):
            m.d.sync += [flit.eq(self.i.payload), self.sent.eq(self.sent + 1)]
        m.d.comb += [self.o.valid.eq(valid), self.o.flit.eq(flit)]

        with m.If(self.i.valid & rate_open & ~credits.any()):
            m.d.sync += self.starved.eq(self.starved + 1)
        return m

    def _gate(self, m: Module, take: Signal) -> Signal:
        """Whether the rate lets a flit leave in this cycle."""
        gain, cost = self.rate.numerator, self.rate.denominator
        rate_open = Signal()
        if gain == cost:
            m.d.comb += rate_open.eq(1)
            return rate_open
        most = cost + gain - 1
        saved = Signal(range(most + 1), init=most)
        m.d.comb += rate_open.eq(saved >= cost)
        with m.If(take):
            m.d.sync += saved.eq(saved - (cost - gain))
        with m.Elif(rate_open):
            m.d.sync += saved.eq(most)
        with m.Else():
            m.d.sync += saved.eq(saved + gain)
        return rate_open
