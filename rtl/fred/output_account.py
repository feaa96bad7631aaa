"""Credits and rate of an output port."""

from collections.abc import Sequence
from fractions import Fraction

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.link.transmitter import check_rate
from rtl.link.wire import check_channels, per_channel

__all__ = ["OutputAccount"]


class OutputAccount(wiring.Component):
    """Says when a packet may start towards an output, and when a flit may go.

    A packet reserves the credits of all its flits before the first of them leaves an input, so
    nothing behind the inputs ever waits. The rate is kept at the inputs too: the interconnect
    takes equally long for every flit, so the flits leave the output at the pace at which they
    were taken. The rate is counted as in :class:`~rtl.link.transmitter.LinkTransmitter`. With
    several channels each has its credits, and all share the rate.

    A credit that arrives in cycle t and a reservation made in cycle t show in cycle t + 1.

    Parameters
    ----------
    credits : flits that the other end has room for at reset, for each channel or for all alike
    rate : flits per cycle, exact, above 0 and at most 1
    channels : virtual channels; with one, ``reserve`` and ``available`` are no arrays

    Members
    -------
    credit : pulse for each channel, the other end has room for one more flit
    reserve : credits taken in this cycle, of each channel
    available : credits left, of each channel
    go : a flit is taken in this cycle
    open : the rate lets a flit go

    Raises
    ------
    ValueError
        for parameters out of range.
    """

    def __init__(self, *, credits: int | Sequence[int], rate: Fraction, channels: int = 1):
        self.channels = check_channels(channels)
        self._credits = per_channel("credits", credits, channels)
        self.credits = credits
        self.rate = check_rate(rate)
        most = max(self._credits)
        reserve = In(range(most + 1))
        if channels == 1:
            available = Out(range(most + 1))
        else:
            available = Out(range(most + 1)).array(channels)
            reserve = reserve.array(channels)
        super().__init__(
            {
                "credit": In(channels),
                "reserve": reserve,
                "available": available,
                "go": In(1),
                "open": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        if self.channels == 1:
            self._count(m, self.credit, self.reserve, self.available, self._credits[0])
        for c in range(self.channels if self.channels > 1 else 0):
            self._count(m, self.credit[c], self.reserve[c], self.available[c], self._credits[c])

        gain, cost = self.rate.numerator, self.rate.denominator
        if gain == cost:
            m.d.comb += self.open.eq(1)
            return m
        most = cost + gain - 1
        saved = Signal(range(most + 1), init=most)
        m.d.comb += self.open.eq(saved >= cost)
        with m.If(self.go):
            m.d.sync += saved.eq(saved - (cost - gain))
        with m.Elif(self.open):
            m.d.sync += saved.eq(most)
        with m.Else():
            m.d.sync += saved.eq(saved + gain)
        return m

    def _count(self, m: Module, credit: Value, reserve: Value, available: Value, most: int) -> None:
        # What is reserved comes late in its cycle, so it is counted in the next one.
        left = Signal.like(available, init=most, name="left", src_loc_at=1)
        taken = Signal.like(reserve, name="taken", init=0)
        m.d.comb += available.eq(left - taken)
        m.d.sync += [taken.eq(reserve), left.eq(left + credit - taken)]
