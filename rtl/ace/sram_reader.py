"""In-order reading of the SRAM with a small buffer behind it."""

from amaranth.hdl import Module, ShapeLike, Signal, unsigned
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.sram import SRAM_READ_LATENCY, SramReadSignature

__all__ = ["SRAM_READER_LATENCY", "SramReader"]

SRAM_READER_LATENCY = SRAM_READ_LATENCY + 1
"""Cycles from a token accepted at ``i`` to the same token at ``o``."""


class SramReader(wiring.Component):
    """Turns a stream of tokens, some of which need a flit of SRAM, into the same stream with data.

    A token without a read (``read`` = 0) passes through the same stages, so tokens keep their
    order: the transmitter sends its headers this way, the receiver what needs no operand.

    Parameters
    ----------
    tag_shape : what a token carries along
    depth : tokens held, a power of two of at least 4
    address_bits, flit_bytes : of the SRAM

    Members
    -------
    i : In(stream of {read, address, tag})
        ``ready`` depends on ``read`` and ``valid`` of the same cycle.
    o : Out(stream of {data, tag})
        ``data`` is meaningless where ``read`` was 0.
    port : Out(SramReadSignature)

    Notes
    -----
    Latency :data:`SRAM_READER_LATENCY` cycles; throughput one token per cycle. While ``o`` is
    stalled exactly ``depth`` tokens are accepted.

    Raises
    ------
    ValueError
        ``depth must be a power of two of at least 4, not ...``
    """

    def __init__(self, *, tag_shape: ShapeLike, depth: int, address_bits: int, flit_bytes: int):
        if not isinstance(depth, int) or depth < 4 or depth & (depth - 1):
            raise ValueError(f"depth must be a power of two of at least 4, not {depth!r}")
        self.tag_shape = tag_shape
        self.depth = depth
        self.address_bits = address_bits
        self.flit_bytes = flit_bytes
        token = data.StructLayout({"read": 1, "address": address_bits, "tag": tag_shape})
        result = data.StructLayout({"data": 8 * flit_bytes, "tag": tag_shape})
        super().__init__(
            {
                "i": In(stream.Signature(token)),
                "o": Out(stream.Signature(result)),
                "port": Out(SramReadSignature(address_bits=address_bits, flit_bytes=flit_bytes)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.tags = tags = memory.Memory(shape=self.tag_shape, depth=self.depth, init=[])
        m.submodules.flits = flits = memory.Memory(
            shape=unsigned(8 * self.flit_bytes), depth=self.depth, init=[]
        )
        tag_write, tag_read = tags.write_port(), tags.read_port(domain="comb")
        flit_write, flit_read = flits.write_port(), flits.read_port(domain="comb")

        accept = Signal()
        take = Signal()
        room = Signal()
        held = Signal(range(self.depth + 1))  # from acceptance to o
        arrived = Signal(range(self.depth + 1))  # at o
        newest = Signal(range(self.depth))
        filling = Signal(range(self.depth))
        oldest = Signal(range(self.depth))
        arriving = Signal(SRAM_READ_LATENCY)

        m.d.comb += [
            room.eq(held != self.depth),
            self.port.request.valid.eq(self.i.valid & self.i.payload.read & room),
            self.port.request.payload.eq(self.i.payload.address),
            self.i.ready.eq(room & (~self.i.payload.read | self.port.request.ready)),
            accept.eq(self.i.valid & self.i.ready),
            tag_write.addr.eq(newest),
            tag_write.data.eq(self.i.payload.tag),
            tag_write.en.eq(accept),
            flit_write.addr.eq(filling),
            flit_write.data.eq(self.port.data),
            flit_write.en.eq(self.port.valid),
            self.o.valid.eq(arrived != 0),
            tag_read.addr.eq(oldest),
            flit_read.addr.eq(oldest),
            self.o.payload.tag.eq(tag_read.data),
            self.o.payload.data.eq(flit_read.data),
            take.eq(self.o.valid & self.o.ready),
        ]
        m.d.sync += [
            arriving.eq(arriving.shift_left(1) | accept),
            newest.eq(newest + accept),
            filling.eq(filling + arriving[-1]),
            oldest.eq(oldest + take),
            held.eq(held + accept - take),
            arrived.eq(arrived + arriving[-1] - take),
        ]
        return m
