"""The wires of a link between two chips."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.common.packet import flit_layout

__all__ = ["LinkWire"]


class LinkWire(wiring.Signature):
    """One direction of a link, seen from the side that sends flits.

    Parameters
    ----------
    flit_bytes : bytes of a flit

    Members
    -------
    valid : Out, a flit is on the wire in this cycle; nothing can refuse it
    flit : Out, the flit
    credit : In, pulse: the receiver has room for one more flit
    grant : In, pulse: the receiver has begun its next op (docs/plan.md)
    """

    def __init__(self, flit_bytes: int):
        self.flit_bytes = flit_bytes
        super().__init__(
            {
                "valid": Out(1),
                "flit": Out(flit_layout(flit_bytes)),
                "credit": In(1),
                "grant": In(1),
            }
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LinkWire) and other.flit_bytes == self.flit_bytes

    def __hash__(self) -> int:
        return hash((LinkWire, self.flit_bytes))

    def __repr__(self) -> str:
        return f"LinkWire({self.flit_bytes})"
