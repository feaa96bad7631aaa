"""The flight time of a link."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from rtl.link.wire import LinkWire

__all__ = ["LinkDelay"]


class LinkDelay(wiring.Component):
    """Delays both directions of a wire by a number of cycles.

    A model of the medium: it belongs to a simulated platform or to a retimed on-die wire. Its
    cost in simulation does not grow with ``latency``: what is under way lies in circular memories
    that are touched only where a flit comes or goes.

    Latency: exactly ``latency`` cycles, each way, for each pulse and flit. Reset loses what is
    under way, in both directions.

    Parameters
    ----------
    flit_bytes : bytes of a flit
    latency : cycles, at least 1
    channels : virtual channels

    Members
    -------
    i : wire from the transmitter
    o : wire to the receiver

    Raises
    ------
    ValueError
        for parameters out of range.
    """

    def __init__(self, *, flit_bytes: int, latency: int, channels: int = 1):
        if not isinstance(latency, int) or latency < 1:
            raise ValueError(f"latency must be a positive integer, not {latency!r}")
        self.flit_bytes = flit_bytes
        self.latency = latency
        self.channels = channels
        wire = LinkWire(flit_bytes, channels)
        super().__init__({"i": In(wire), "o": Out(wire)})

    def elaborate(self, platform) -> Module:
        m = Module()
        pulses = Cat(self.i.valid, self.o.credit, self.o.grant)
        # Pulses come out of their memory one cycle early, so that a flit is read only where
        # there is one.
        early = self._delay_pulses(m, pulses, self.latency - 1)
        late = Signal(len(pulses))
        m.d.sync += late.eq(early)
        m.d.comb += Cat(self.o.valid, self.i.credit, self.i.grant).eq(late)
        coming, going = self._flit(self.i), self._flit(self.o)
        flit = Signal(len(coming), reset_less=True)
        if self.latency <= 2:
            m.d.comb += going.eq(flit)
        if self.latency == 1:
            with m.If(self.i.valid):
                m.d.sync += flit.eq(coming)
        elif self.latency == 2:
            held = Signal.like(flit, reset_less=True)
            with m.If(self.i.valid):
                m.d.sync += held.eq(coming)
            with m.If(early[0]):
                m.d.sync += flit.eq(held)
        else:
            self._delay_flits(m, coming, going, early[0])
        return m

    def _flit(self, wire: wiring.PureInterface) -> Value:
        """What goes along with ``valid``: the flit, and its channel where there are several."""
        flit = Value.cast(wire.flit)
        return Cat(flit, wire.channel) if self.channels > 1 else flit

    def _delay_flits(self, m: Module, coming: Value, going: Value, due: Value) -> None:
        """A memory of ``latency - 1`` places, read in the cycle after ``due``."""
        places = self.latency - 1
        m.submodules.flits = flits = memory.Memory(shape=len(coming), depth=places, init=[])
        at = self._counter(m, places, "flit_at")
        write, read = flits.write_port(), flits.read_port(domain="sync")
        m.d.comb += [
            write.addr.eq(at),
            write.data.eq(coming),
            write.en.eq(self.i.valid),
            read.addr.eq(at),
            read.en.eq(due),
            going.eq(read.data),
        ]

    def _delay_pulses(self, m: Module, pulses: Value, cycles: int) -> Value:
        """``pulses`` behind ``cycles`` cycles; no pulse from before a reset survives it."""
        if cycles <= 2:
            for stage in range(cycles):
                register = Signal(len(pulses), name=f"pulses_{stage}")
                m.d.sync += register.eq(pulses)
                pulses = register
            return pulses
        places = cycles - 1
        m.submodules.pulses = store = memory.Memory(shape=len(pulses), depth=places, init=[])
        at = self._counter(m, places, "pulse_at")
        write, read = store.write_port(), store.read_port(domain="sync")
        round_over, fresh = Signal(), Signal()
        with m.If(at == places - 1):
            m.d.sync += round_over.eq(1)
        m.d.sync += fresh.eq(round_over)
        m.d.comb += [
            write.addr.eq(at),
            write.data.eq(pulses),
            write.en.eq(1),
            read.addr.eq(at),
            read.en.eq(1),
        ]
        return Mux(fresh, read.data, 0)

    def _counter(self, m: Module, places: int, name: str) -> Signal:
        at = Signal(range(places), name=name)
        m.d.sync += at.eq(Mux(at == places - 1, 0, at + 1))
        return at
