"""The two ports of the engine to the NPU's memory."""

from amaranth.hdl import unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["ADDRESS_BITS", "BEATS_BITS", "MemoryReadSignature", "MemoryWriteSignature"]

ADDRESS_BITS = 32
"""Memory addresses count flits."""

BEATS_BITS = 9
"""A burst has 1 to 256 beats."""


class MemoryReadSignature(wiring.Signature):
    """Read port, seen from the engine.

    Members
    -------
    request : Out(stream of {address, beats})
        ``beats`` flits from flit ``address`` on; at least one.
    data : In(stream of 8 * flit_bytes bits)
        One beat per flit requested, in the order of the requests.
    """

    def __init__(self, *, flit_bytes: int):
        self.flit_bytes = flit_bytes
        request = data.StructLayout({"address": ADDRESS_BITS, "beats": BEATS_BITS})
        super().__init__(
            {
                "request": Out(stream.Signature(request)),
                "data": In(stream.Signature(unsigned(8 * flit_bytes))),
            }
        )


class MemoryWriteSignature(wiring.Signature):
    """Write port, seen from the engine.

    Members
    -------
    request : Out(stream of {address, data, strobe})
        One flit; ``strobe`` has one bit per byte.
    acknowledged : In(1)
        High for one cycle per flit whose write is done, in order.
    """

    def __init__(self, *, flit_bytes: int):
        self.flit_bytes = flit_bytes
        request = data.StructLayout(
            {"address": ADDRESS_BITS, "data": 8 * flit_bytes, "strobe": flit_bytes}
        )
        super().__init__({"request": Out(stream.Signature(request)), "acknowledged": In(1)})
