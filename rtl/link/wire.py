"""The wires of a link between two chips."""

from collections.abc import Sequence

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.common.packet import flit_layout

__all__ = ["LinkWire", "check_channels", "per_channel"]


def check_channels(channels: object) -> int:
    """Validate a number of virtual channels.

    Raises
    ------
    ValueError
        ``channels must be an integer in 1..16, not ...``
    """
    if not isinstance(channels, int) or not 1 <= channels <= 16:
        raise ValueError(f"channels must be an integer in 1..16, not {channels!r}")
    return channels


def per_channel(name: str, value: int | Sequence[int], channels: int) -> tuple[int, ...]:
    """A positive integer for every channel, from one that holds for all or from one for each.

    Raises
    ------
    ValueError
        naming ``name`` and what it must be.
    """
    if isinstance(value, Sequence):
        values = tuple(value)
        if len(values) != channels or not all(isinstance(n, int) and n > 0 for n in values):
            raise ValueError(
                f"{name} must be {channels} positive integers, one per channel, not {value!r}"
            )
        return values
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be a positive integer, not {value!r}")
    return (value,) * channels


class LinkWire(wiring.Signature):
    """One direction of a link, seen from the side that sends flits.

    Parameters
    ----------
    flit_bytes : bytes of a flit
    channels : virtual channels; with one there is no ``channel``

    Members
    -------
    valid : Out, a flit is on the wire in this cycle; nothing can refuse it
    flit : Out, the flit
    channel : Out, number of the flit's channel
    credit : In, pulse for each channel: the receiver has room for one more flit
    grant : In, pulse for each channel: the receiver has begun its next op (docs/plan.md)
    """

    def __init__(self, flit_bytes: int, channels: int = 1):
        self.flit_bytes = flit_bytes
        self.channels = check_channels(channels)
        number = {"channel": Out(range(channels))} if channels > 1 else {}
        super().__init__(
            {"valid": Out(1), "flit": Out(flit_layout(flit_bytes))}
            | number
            | {"credit": In(channels), "grant": In(channels)}
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LinkWire)
            and other.flit_bytes == self.flit_bytes
            and other.channels == self.channels
        )

    def __hash__(self) -> int:
        return hash((LinkWire, self.flit_bytes, self.channels))

    def __repr__(self) -> str:
        more = f", channels={self.channels}" if self.channels > 1 else ""
        return f"LinkWire({self.flit_bytes}{more})"
