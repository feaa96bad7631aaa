"""Credits and rate of an output port."""

from fractions import Fraction

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.link.transmitter import check_rate

__all__ = ["OutputAccount"]


class OutputAccount(wiring.Component):
    """Says when a packet may start towards an output, and when a flit may go.

    A packet reserves the credits of all its flits before the first of them leaves an input, so
    nothing behind the inputs ever waits. The rate is kept at the inputs too: the interconnect
    takes equally long for every flit, so the flits leave the output at the pace at which they
    were taken. The rate is counted as in :class:`~rtl.link.transmitter.LinkTransmitter`.

    A credit that arrives in cycle t and a reservation made in cycle t show in cycle t + 1.

    Parameters
    ----------
    credits : flits that the other end has room for at reset
    rate : flits per cycle, exact, above 0 and at most 1

    Members
    -------
    credit : pulse, the other end has room for one more flit
    reserve : credits taken in this cycle
    available : credits left
    go : a flit is taken in this cycle
    open : the rate lets a flit go

    Raises
    ------
    ValueError
        for parameters out of range.
    """

    def __init__(self, *, credits: int, rate: Fraction):
        if not isinstance(credits, int) or credits < 1:
            raise ValueError(f"credits must be a positive integer, not {credits!r}")
        self.credits = credits
        self.rate = check_rate(rate)
        super().__init__(
            {
                "credit": In(1),
                "reserve": In(range(credits + 1)),
                "available": Out(range(credits + 1), init=credits),
                "go": In(1),
                "open": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        with m.If(self.credit | (self.reserve != 0)):
            m.d.sync += self.available.eq(self.available + self.credit - self.reserve)

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
