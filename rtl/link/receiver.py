"""The receiving end of a link: the buffers that the credits stand for."""

from collections.abc import Sequence

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.common.fifo import StreamFifo
from rtl.common.packet import flit_layout
from rtl.link.wire import LinkWire, check_channels, per_channel

__all__ = ["LinkReceiver"]


class LinkReceiver(wiring.Component):
    """Buffers flits from the wire and returns a credit for each that is taken.

    Each channel has a buffer of its own: a channel that is not read holds up no other.

    Latency: a flit on the wire in cycle t is offered from cycle t + 1 on. A flit taken in cycle t
    returns its credit on the wire in cycle t + 1, and so does ``grant``. Throughput: one flit per
    cycle, of every channel. Buffering: exactly ``depth`` flits.

    A flit that finds no room is dropped, and ``overrun`` then stays high until reset: the other
    end has more credits than ``depth``.

    Parameters
    ----------
    flit_bytes : bytes of a flit
    depth : flits buffered, the credits of the other end; with several channels one number for
        each, or one that holds for all
    channels : virtual channels; with one, ``o`` is no array

    Members
    -------
    i : the wire
    o : flits received, a stream for each channel
    grant : pulse for each channel to send back; one in every cycle is possible
    overrun : a flit of the channel was lost

    Raises
    ------
    ValueError
        for parameters out of range.
    """

    def __init__(self, *, flit_bytes: int, depth: int | Sequence[int], channels: int = 1):
        self.flit_bytes = flit_bytes
        self.depth = depth
        self.channels = check_channels(channels)
        flit = flit_layout(flit_bytes)
        self._buffers = [
            StreamFifo(shape=flit, depth=places) for places in per_channel("depth", depth, channels)
        ]
        flits = Out(stream.Signature(flit))
        super().__init__(
            {
                "i": In(LinkWire(flit_bytes, channels)),
                "o": flits if channels == 1 else flits.array(channels),
                "grant": In(channels),
                "overrun": Out(channels),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        several = self.channels > 1
        credit, grant = Signal(self.channels), Signal(self.channels)
        m.d.comb += [self.i.credit.eq(credit), self.i.grant.eq(grant)]
        m.d.sync += grant.eq(self.grant)
        for c, buffer in enumerate(self._buffers):
            m.submodules[f"buffer_{c}" if several else "buffer"] = buffer
            o = self.o[c] if several else self.o
            mine = self.i.channel == c if several else 1
            m.d.comb += [
                buffer.i.valid.eq(self.i.valid & mine),
                buffer.i.payload.eq(self.i.flit),
            ]
            wiring.connect(m, buffer.o, wiring.flipped(o))
            m.d.sync += credit[c].eq(o.valid & o.ready)
            with m.If(buffer.i.valid & ~buffer.i.ready):
                m.d.sync += self.overrun[c].eq(1)
        return m
