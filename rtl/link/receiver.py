"""The receiving end of a link: the buffer that the credits stand for."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.common.fifo import StreamFifo
from rtl.common.packet import flit_layout
from rtl.link.wire import LinkWire

__all__ = ["LinkReceiver"]


class LinkReceiver(wiring.Component):
    """Buffers flits from the wire and returns a credit for each that is taken.

    Latency: a flit on the wire in cycle t is offered from cycle t + 1 on. A flit taken in cycle t
    returns its credit on the wire in cycle t + 1, and so does ``grant``. Throughput: one flit per
    cycle. Buffering: exactly ``depth`` flits.

    A flit that finds no room is dropped, and ``overrun`` then stays high until reset: the other
    end has more credits than ``depth``.

    Parameters
    ----------
    flit_bytes : bytes of a flit
    depth : flits buffered, the credits of the other end

    Members
    -------
    i : the wire
    o : flits received
    grant : pulse to send back; one in every cycle is possible
    overrun : a flit was lost

    Raises
    ------
    ValueError
        for parameters out of range.
    """

    def __init__(self, *, flit_bytes: int, depth: int):
        self.flit_bytes = flit_bytes
        self.depth = depth
        self._buffer = StreamFifo(shape=flit_layout(flit_bytes), depth=depth)
        super().__init__(
            {
                "i": In(LinkWire(flit_bytes)),
                "o": Out(stream.Signature(flit_layout(flit_bytes))),
                "grant": In(1),
                "overrun": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.buffer = buffer = self._buffer
        credit, grant = Signal(), Signal()
        m.d.comb += [
            buffer.i.valid.eq(self.i.valid),
            buffer.i.payload.eq(self.i.flit),
            self.i.credit.eq(credit),
            self.i.grant.eq(grant),
        ]
        wiring.connect(m, buffer.o, wiring.flipped(self.o))
        m.d.sync += [credit.eq(self.o.valid & self.o.ready), grant.eq(self.grant)]
        with m.If(self.i.valid & ~buffer.i.ready):
            m.d.sync += self.overrun.eq(1)
        return m
