"""Both ends that one side of a link needs."""

from collections.abc import Sequence
from fractions import Fraction

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.common.packet import flit_layout
from rtl.link.receiver import LinkReceiver
from rtl.link.transmitter import COUNTER_BITS, STARVATION_BOUND, LinkTransmitter
from rtl.link.wire import LinkWire

__all__ = ["LinkPort"]


class LinkPort(wiring.Component):
    """A transmitter for one direction beside a receiver for the other: what a chip has at a link.

    Two of them, wired crosswise, are two links. Nothing is between the two halves: latency,
    throughput and buffering are those of :class:`LinkTransmitter` and :class:`LinkReceiver`.

    Parameters
    ----------
    flit_bytes : bytes of a flit
    credits : of the receiver at the other side
    depth : flits that the receiver here buffers, for each channel
    rate : flits per cycle, exact, above 0 and at most 1
    channels : virtual channels; with one, no member is an array
    starvation_bound : packets that may pass a waiting one of a lower channel

    Members
    -------
    i, o : flits to send, flits received; a stream for each channel
    transmit, receive : the two wires
    grant, granted : pulses to and from the other side, one bit for each channel
    sent, starved : counters of the transmitter
    overrun : a flit was lost, because the other side has more credits than ``depth``

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
        depth: int | Sequence[int],
        rate: Fraction,
        channels: int = 1,
        starvation_bound: int = STARVATION_BOUND,
    ):
        self._transmitter = LinkTransmitter(
            flit_bytes=flit_bytes,
            credits=credits,
            rate=rate,
            channels=channels,
            starvation_bound=starvation_bound,
        )
        self._receiver = LinkReceiver(flit_bytes=flit_bytes, depth=depth, channels=channels)
        self.flit_bytes = flit_bytes
        self.credits = credits
        self.depth = depth
        self.rate = self._transmitter.rate
        self.channels = channels
        self.starvation_bound = starvation_bound
        flits = stream.Signature(flit_layout(flit_bytes))

        def each(member):
            return member if channels == 1 else member.array(channels)

        super().__init__(
            {
                "i": each(In(flits)),
                "o": each(Out(flits)),
                "transmit": Out(LinkWire(flit_bytes, channels)),
                "receive": In(LinkWire(flit_bytes, channels)),
                "grant": In(channels),
                "granted": Out(channels),
                "sent": each(Out(COUNTER_BITS)),
                "starved": each(Out(COUNTER_BITS)),
                "overrun": Out(channels),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.transmitter = transmitter = self._transmitter
        m.submodules.receiver = receiver = self._receiver
        for c in range(self.channels):

            def of(member, c=c):
                return member if self.channels == 1 else member[c]

            connect(m, flipped(of(self.i)), of(transmitter.i))
            connect(m, of(receiver.o), flipped(of(self.o)))
            m.d.comb += [
                of(self.sent).eq(of(transmitter.sent)),
                of(self.starved).eq(of(transmitter.starved)),
            ]
        connect(m, transmitter.o, flipped(self.transmit))
        connect(m, flipped(self.receive), receiver.i)
        m.d.comb += [
            receiver.grant.eq(self.grant),
            self.granted.eq(transmitter.granted),
            self.overrun.eq(receiver.overrun),
        ]
        return m
