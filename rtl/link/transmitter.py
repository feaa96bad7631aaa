"""The sending end of a link: credits, rate, and whose turn it is."""

from collections.abc import Sequence
from fractions import Fraction

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.common.packet import flit_layout
from rtl.link.wire import LinkWire, check_channels, per_channel

__all__ = [
    "COUNTER_BITS",
    "STARVATION_BOUND",
    "LinkTransmitter",
    "check_rate",
    "check_starvation_bound",
]

COUNTER_BITS = 32
"""Width of the traffic counters, which wrap."""

STARVATION_BOUND = 16
"""Packets that may pass one of a lower class, by default (decided here)."""


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


def check_starvation_bound(bound: object) -> int:
    """Validate the number of packets that may pass one of a lower class.

    Raises
    ------
    ValueError
        ``starvation_bound must be a positive integer, not ...``
    """
    if not isinstance(bound, int) or bound < 1:
        raise ValueError(f"starvation_bound must be a positive integer, not {bound!r}")
    return bound


class LinkTransmitter(wiring.Component):
    """Puts flits on the wire: never without a credit, never faster than the rate.

    Rate: with ``rate`` = n/d in lowest terms, an accumulator starts at its maximum d + n - 1. A
    flit may leave when it is at least d. In every cycle it gains n, up to the maximum, and a
    leaving flit takes d. So after an idle time a flit leaves at once, and the k-th one after it,
    if all wait, floor(k·d/n) cycles later. ``sw_model.endpoint.link.RateGate`` is its twin. The
    channels share it.

    Channels: each has its credits. In every cycle in which the rate lets a flit leave, one leaves
    if any channel has a flit and a credit for it. Which one, in this order: a channel in the
    middle of a packet, so that packets stay in one piece where they can; one that has waited for
    ``starvation_bound`` packets of others to begin since it could have begun its own, these in
    turn; the lowest number. So ``starvation_bound + channels - 1`` packets pass a channel at most.
    A packet that lacks a flit or a credit holds nothing: others use the wire meanwhile.

    Latency: a flit accepted in cycle t is on the wire in cycle t + 1, out of registers. A credit
    on the wire in cycle t can be used in cycle t + 1. ``granted`` repeats ``o.grant`` in the same
    cycle. Throughput: ``rate``. No buffering. ``i.ready`` depends on registers only, with several
    channels also on ``valid`` of the others.

    Parameters
    ----------
    flit_bytes : bytes of a flit
    credits : flits that the receiver has room for at reset, at least 1; with several channels
        one number for each, or one that holds for all
    rate : flits per cycle, exact, above 0 and at most 1
    channels : virtual channels; with one, ``i``, ``sent`` and ``starved`` are no arrays
    starvation_bound : packets that may pass a waiting one of a lower channel, at least 1

    Members
    -------
    i : flits to send, a stream for each channel
    o : the wire
    granted : pulse for each channel, a grant has come back
    sent : flits accepted since reset, of each channel
    starved : cycles since reset in which a flit of a channel waited, without a credit, while the
        rate let one leave and no other channel did

    Raises
    ------
    ValueError
        for parameters out of range.
    """

    def __init__(
        self,
        *,
        flit_bytes: int,
        credits: int | Sequence[int],
        rate: Fraction,
        channels: int = 1,
        starvation_bound: int = STARVATION_BOUND,
    ):
        self.channels = check_channels(channels)
        self._credits = per_channel("credits", credits, channels)
        self.flit_bytes = flit_bytes
        self.credits = credits
        self.rate = check_rate(rate)
        self.starvation_bound = check_starvation_bound(starvation_bound)
        flits = In(stream.Signature(flit_layout(flit_bytes)))
        counter = Out(COUNTER_BITS)
        super().__init__(
            {
                "i": flits if channels == 1 else flits.array(channels),
                "o": Out(LinkWire(flit_bytes, channels)),
                "granted": Out(channels),
                "sent": counter if channels == 1 else counter.array(channels),
                "starved": counter if channels == 1 else counter.array(channels),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        several = self.channels > 1
        streams = self.i if several else [self.i]
        sent = self.sent if several else [self.sent]
        starved = self.starved if several else [self.starved]
        taken = Signal()
        rate_open = self._gate(m, taken)
        take = Signal(self.channels)
        funded = Signal(self.channels)
        turn = self._turns(m, streams, funded, take) if several else Const(1)
        m.d.comb += [
            self.granted.eq(self.o.grant),
            taken.eq(take.any()),
        ]
        flit = Signal(flit_layout(self.flit_bytes), reset_less=True)
        valid = Signal()
        m.d.sync += valid.eq(taken)
        m.d.comb += [self.o.valid.eq(valid), self.o.flit.eq(flit)]
        for c, offered in enumerate(streams):
            credits = Signal(
                range(self._credits[c] + 1),
                init=self._credits[c],
                name=f"credits_{c}" if several else "credits",
            )
            m.d.comb += [
                funded[c].eq(credits.any()),
                offered.ready.eq(rate_open & funded[c] & turn[c]),
                take[c].eq(offered.valid & offered.ready),
            ]
            with m.If(take[c] != self.o.credit[c]):
                m.d.sync += credits.eq(Mux(take[c], credits - 1, credits + 1))
            with m.If(take[c]):
                m.d.sync += [flit.eq(offered.payload), sent[c].eq(sent[c] + 1)]
            with m.If(offered.valid & rate_open & ~funded[c] & ~taken):
                m.d.sync += starved[c].eq(starved[c] + 1)
        if several:
            number = Signal(range(self.channels), reset_less=True)
            m.d.comb += self.o.channel.eq(number)
            for c in range(self.channels):
                with m.If(take[c]):
                    m.d.sync += number.eq(c)
        return m

    def _turns(self, m: Module, streams, funded: Signal, take: Signal) -> Signal:
        """One bit per channel: if it has a flit and a credit, it goes before all others."""
        width = self.channels
        able, within, urgent = Signal(width), Signal(width), Signal(width)
        candidates, turn = Signal(width), Signal(width)
        m.d.comb += able.eq(Cat(offered.valid for offered in streams) & funded)
        for c, offered in enumerate(streams):
            with m.If(take[c]):
                m.d.sync += within[c].eq(~offered.payload.last)
        begins = Signal(width)
        # Urgent channels come in turn, or two of them would keep out all others.
        due, behind = Signal(width), Signal(width)
        m.d.comb += [
            begins.eq(take & ~within),
            due.eq(able & urgent),
        ]
        for c in range(width):
            passed = Signal(range(self.starvation_bound + 1), name=f"passed_{c}")
            m.d.comb += urgent[c].eq(passed == self.starvation_bound)
            with m.If(begins[c]):
                m.d.sync += passed.eq(0)
            with m.Elif(begins.any() & able[c] & ~within[c] & ~urgent[c]):
                m.d.sync += passed.eq(passed + 1)
            with m.If(begins[c] & urgent[c]):
                m.d.sync += behind.eq(((1 << width) - 1) & ~((2 << c) - 1))
        with m.If((able & within).any()):
            m.d.comb += candidates.eq(able & within)
        with m.Elif(due.any()):
            m.d.comb += candidates.eq(Mux((due & behind).any(), due & behind, due))
        with m.Else():
            m.d.comb += candidates.eq(able)
        m.d.comb += turn.eq(candidates & -candidates)
        return turn

    def _gate(self, m: Module, taken: Signal) -> Signal:
        """Whether the rate lets a flit leave in this cycle."""
        gain, cost = self.rate.numerator, self.rate.denominator
        rate_open = Signal()
        if gain == cost:
            m.d.comb += rate_open.eq(1)
            return rate_open
        most = cost + gain - 1
        saved = Signal(range(most + 1), init=most)
        m.d.comb += rate_open.eq(saved >= cost)
        with m.If(taken):
            m.d.sync += saved.eq(saved - (cost - gain))
        with m.Elif(rate_open):
            m.d.sync += saved.eq(most)
        with m.Else():
            m.d.sync += saved.eq(saved + gain)
        return rate_open
