"""What a FRED switch keeps of its errors."""

from amaranth.hdl import Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["ErrorKeeper", "error_layout"]

ERROR_COUNTER_BITS = 16
PACKET_FAULTS = ("unloaded", "stranger", "kind", "length", "framing")


def error_layout(ports: int, channels: int = 1) -> data.StructLayout:
    """What has gone wrong since reset or ``clear``: for each kind one bit for every input at which
    it did, channel after channel and port after port (bit ``channel * ports + port``).

    Members
    -------
    unloaded, stranger, kind, length, framing : as ``PacketFault``
    misaligned : packets of one flow did not agree and were thrown away
    route : output ports (one bit each) that heard a flit unasked, or did not hear theirs: the
        modes of the configuration do not carry its flows
    overrun : the sender had more credits than this input has buffer
    """
    kinds = (*PACKET_FAULTS, "misaligned", "route", "overrun")
    return data.StructLayout(
        {kind: unsigned(ports if kind == "route" else ports * channels) for kind in kinds}
    )


class ErrorKeeper(wiring.Component):
    """Sticky bits and counters. What happens in a cycle shows two cycles later.

    Parameters
    ----------
    ports, channels : of the switch

    Members
    -------
    new : In, errors of this cycle
    clear : In, forget the sticky bits
    errors : Out, sticky
    error : Out, some error is set
    count : Out, cycles with a new error, for each kind; they stop at their maximum
    """

    def __init__(self, *, ports: int, channels: int = 1):
        self.ports = ports
        self.channels = channels
        layout = error_layout(ports, channels)
        super().__init__(
            {
                "new": In(layout),
                "clear": In(1),
                "errors": Out(layout),
                "error": Out(1),
                "count": Out(data.ArrayLayout(ERROR_COUNTER_BITS, len(layout.members))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        errors = Value.cast(self.errors)
        happened = Signal.like(self.new)  # some errors are known late in their cycle
        m.d.comb += self.error.eq(errors.any())
        m.d.sync += [
            Value.cast(happened).eq(Value.cast(self.new)),
            errors.eq(Mux(self.clear, 0, errors) | Value.cast(happened)),
        ]
        for kind, name in enumerate(error_layout(self.ports, self.channels).members):
            count = self.count[kind]
            # An overrun lasts until reset.
            new = happened[name] & (~self.errors[name] if name == "overrun" else ~0)
            with m.If(new.any() & ~count.all()):
                m.d.sync += count.eq(count + 1)
        return m
