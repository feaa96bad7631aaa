"""The FRED switch: links, input channels, scheduler, configurations and the interconnect."""

from collections.abc import Sequence
from fractions import Fraction

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.common.packet import DataType, Operator, TrafficClass
from rtl.fred.configuration import (
    ConfigurationMemory,
    Refusal,
    check_entries,
    request_layout,
)
from rtl.fred.control_path import ControlCrossbar, ControlDestination
from rtl.fred.errors import PACKET_FAULTS, ErrorKeeper, error_layout
from rtl.fred.input_channel import InputChannel, check_packet_bytes, packet_flits
from rtl.fred.interconnect import FredInterconnect, delayed
from rtl.fred.matcher import any_of
from rtl.fred.output_account import OutputAccount
from rtl.fred.scheduler import FlowScheduler
from rtl.link.receiver import LinkReceiver
from rtl.link.transmitter import COUNTER_BITS, STARVATION_BOUND, check_starvation_bound
from rtl.link.wire import LinkWire, per_channel

__all__ = ["FredSwitch", "check_classes"]


def check_classes(classes: object) -> tuple[TrafficClass, ...]:
    """Validate the classes that have a channel of their own.

    Raises
    ------
    ValueError
        ``classes must be traffic classes in falling priority, one for data at least, not ...``
    """
    if (
        not isinstance(classes, Sequence)
        or not classes
        or not all(isinstance(c, TrafficClass) for c in classes)
        or list(classes) != sorted(set(classes))
        or classes[0] == TrafficClass.CONTROL
    ):
        raise ValueError(
            "classes must be traffic classes in falling priority, one for data at least, "
            f"not {_named(classes)}"
        )
    return tuple(classes)


def _named(classes: object) -> str:
    """What was given for classes, for a message: their names where they are classes."""
    if isinstance(classes, Sequence) and classes:
        names = [c.name.lower() for c in classes if isinstance(c, TrafficClass)]
        if len(names) == len(classes):
            return "+".join(names)
    return repr(classes)


class FredSwitch(wiring.Component):
    """FRED_m(P) with links, buffers and control.

    Packets carry the index of a configuration. The inputs of a flow start together and go flit
    by flit, so inside nothing waits (docs/fred.md).

    Latency: the header on the wire of the last input of a flow in cycle t is on the wires of its
    outputs in cycle t + ``latency``, where ``latency = 4 + ceil(log2 P) * (adder_depth + 2)``,
    if the ports are free, credits are there and no other configuration goes on; in the same
    configuration as the flow before or in another. A control packet takes one cycle less, if
    its output is free. Throughput: one flit per port and cycle, with no gap between packets that
    arrive in time, in the same configuration or class or in another.

    Parameters
    ----------
    ports, middle_copies : P (2 to 64) and m (at least 2)
    flit_bytes, packet_bytes : bytes of a flit, most payload bytes of a packet
    data_types, operators : what the adders can do
    adder_depth : register levels of an adder, 1 to 6
    configurations : entries of the configuration memory, 1 to 4096
    input_depth : flits that an input port buffers: the credits of the sender; with several
        channels one number for each, or one that holds for all
    output_credits : flits that the receiver behind an output port buffers, likewise; at least a
        packet of data
    rate : flits per cycle of the output links, exact
    classes : the classes that have a channel of their own on all links, in falling priority; with
        ``CONTROL`` among them, its packets have a way past the interconnect. None for one channel
        that the data classes share
    control_bytes : most payload bytes of a control packet; by default ``packet_bytes``
    starvation_bound : packets that may pass a ready one of a lower class

    Members
    -------
    i : wires into the switch
    o : wires out of the switch
    configure : entries to load, see :class:`ConfigurationMemory`
    configured, refusal : pulse when one has been dealt with, and why it was not loaded
    errors : see :func:`~rtl.fred.errors.error_layout`; sticky
    error : Out, some error is set
    error_count : Out, cycles with a new error, for each kind; they stop at their maximum
    clear : In, forget the errors
    received, sent : flits in and out of each port
    switchovers : changes of the active configuration
    waiting, missing : for a watchdog, bit ``channel * P + port``: inputs whose packet waits for
        other inputs, and those other inputs
    idle : no packet is held

    Raises
    ------
    ValueError
        for parameters out of range.
    """

    def __init__(
        self,
        *,
        ports: int,
        middle_copies: int,
        flit_bytes: int,
        packet_bytes: int,
        data_types: frozenset[DataType],
        operators: frozenset[Operator],
        adder_depth: int,
        configurations: int,
        input_depth: int | Sequence[int],
        output_credits: int | Sequence[int],
        rate: Fraction = Fraction(1),
        classes: Sequence[TrafficClass] | None = None,
        control_bytes: int | None = None,
        starvation_bound: int = STARVATION_BOUND,
    ):
        self.classes = None if classes is None else check_classes(classes)
        self.channels = 1 if classes is None else len(classes)
        self.has_control = classes is not None and classes[-1] == TrafficClass.CONTROL
        self.data_channels = self.channels - self.has_control
        own = None if self.classes is None else self.classes[: self.data_channels]
        self._interconnect = FredInterconnect(
            ports=ports,
            middle_copies=middle_copies,
            flit_bytes=flit_bytes,
            data_types=data_types,
            operators=operators,
            adder_depth=adder_depth,
        )
        self._memory = ConfigurationMemory(
            ports=ports,
            middle_copies=middle_copies,
            entries=check_entries(configurations),
            data_types=data_types,
            operators=operators,
            classes=own,
        )
        most_flits = packet_flits(check_packet_bytes(packet_bytes, flit_bytes), flit_bytes)
        control_bytes = packet_bytes if control_bytes is None else control_bytes
        control_flits = packet_flits(
            check_packet_bytes(control_bytes, flit_bytes, "control_bytes"), flit_bytes
        )
        if isinstance(output_credits, int) and output_credits < most_flits:
            raise ValueError(
                f"output_credits must be at least the {most_flits} flits of a packet, "
                f"not {output_credits!r}"
            )
        credits = per_channel("output_credits", output_credits, self.channels)
        depths = per_channel("input_depth", input_depth, self.channels)
        data_credits = credits[: self.data_channels]
        if min(data_credits) < most_flits:
            raise ValueError(
                f"output_credits must be at least the {most_flits} flits of a packet in every "
                f"data channel, not {output_credits!r}"
            )
        # With one channel the account takes a number, else one for each.
        reserved = data_credits if self.data_channels > 1 else data_credits[0]
        self._accounts = [
            OutputAccount(credits=reserved, rate=rate, channels=self.data_channels)
            for _ in range(ports)
        ]
        self._receivers = [
            LinkReceiver(flit_bytes=flit_bytes, depth=depths, channels=self.channels)
            for _ in range(ports)
        ]
        self._scheduler = FlowScheduler(
            ports=ports,
            most_flits=most_flits,
            credits=max(data_credits),
            channels=self.data_channels,
            starvation_bound=check_starvation_bound(starvation_bound),
        )
        self._crossbar = None
        if self.has_control:
            self._crossbar = ControlCrossbar(
                ports=ports,
                flit_bytes=flit_bytes,
                most_flits=control_flits,
                credits=credits[-1],
                delay=self._interconnect.latency,
                starvation_bound=starvation_bound,
            )
        self.ports = ports
        self.middle_copies = middle_copies
        self.flit_bytes = flit_bytes
        self.packet_bytes = packet_bytes
        self.data_types = frozenset(data_types)
        self.operators = frozenset(operators)
        self.adder_depth = adder_depth
        self.configurations = configurations
        self.input_depth = input_depth
        self.output_credits = output_credits
        self.rate = self._accounts[0].rate
        self.control_bytes = control_bytes
        self.starvation_bound = starvation_bound
        errors = ErrorKeeper(ports=ports, channels=self.channels)
        inputs = ports * self.data_channels
        super().__init__(
            {
                "i": In(LinkWire(flit_bytes, self.channels)).array(ports),
                "o": Out(LinkWire(flit_bytes, self.channels)).array(ports),
                "configure": In(stream.Signature(request_layout(ports, middle_copies))),
                "configured": Out(1),
                "refusal": Out(Refusal),
                "errors": Out(error_layout(ports, self.channels)),
                "error": Out(1),
                "error_count": errors.signature.members["count"],
                "clear": In(1),
                "received": Out(data.ArrayLayout(COUNTER_BITS, ports)),
                "sent": Out(data.ArrayLayout(COUNTER_BITS, ports)),
                "switchovers": Out(COUNTER_BITS),
                "waiting": Out(inputs),
                "missing": Out(inputs),
                "idle": Out(1),
            }
        )
        self._errors = errors

    @property
    def latency(self) -> int:
        """Cycles from a header on the last input wire of a flow to that on its output wires."""
        return 5 + self._interconnect.latency

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.interconnect = self._interconnect
        m.submodules.memory = store = self._memory
        m.submodules.scheduler = scheduler = self._scheduler
        m.submodules.errors = errors = self._errors
        if self.has_control:
            m.submodules.crossbar = self._crossbar
        empty = Signal(self.ports * self.channels)  # inputs that hold nothing
        idle = Signal(self.channels)
        m.d.comb += [
            errors.clear.eq(self.clear),
            self.errors.eq(errors.errors),
            self.error.eq(errors.error),
            self.error_count.eq(errors.count),
            errors.new.misaligned.eq(scheduler.misaligned),
            store.idle.eq(idle[: self.data_channels]),
            store.index.eq(scheduler.configuration),
            store.activate.eq(scheduler.started),
            self._interconnect.modes.eq(store.modes),
            self.configured.eq(store.done),
            self.refusal.eq(store.refusal),
            self.idle.eq(idle.all()),
            self.waiting.eq(scheduler.waiting),
            self.missing.eq(scheduler.missing),
        ]
        wiring.connect(m, wiring.flipped(self.configure), store.configure)
        for c in range(self.channels):
            control = c == self.data_channels
            under_way_ends = self._crossbar.idle if control else scheduler.idle[c]
            own = empty[c * self.ports : (c + 1) * self.ports]
            m.d.comb += idle[c].eq(own.all() & under_way_ends)
        switched = Signal()  # late in its cycle
        m.d.sync += switched.eq(scheduler.switched)
        with m.If(switched):
            m.d.sync += self.switchovers.eq(self.switchovers + 1)
        for port in range(self.ports):
            self._input(m, port, empty)
        self._outputs(m)
        return m

    def _input(self, m: Module, port: int, empty: Signal) -> None:
        """A port's link buffers and channels, and its way into the interconnect."""
        receiver, scheduler = self._receivers[port], self._scheduler
        m.submodules[f"receiver_{port}"] = receiver
        wiring.connect(m, wiring.flipped(self.i[port]), receiver.i)
        lane = self._interconnect.i[port]
        m.d.comb += [
            lane.data_type.eq(scheduler.data_type[port]),
            lane.operator.eq(scheduler.operator[port]),
        ]
        forward, entering = [], 0
        for c in range(self.channels):
            place = c * self.ports + port
            control = c == self.data_channels
            channel = InputChannel(
                ports=self.ports,
                flit_bytes=self.flit_bytes,
                packet_bytes=self.control_bytes if control else self.packet_bytes,
                traffic_class=None if self.classes is None else self.classes[c],
            )
            m.submodules[f"channel_{port}" if c == 0 else f"channel_{port}_{c}"] = channel
            offered = receiver.o[c] if self.channels > 1 else receiver.o
            wiring.connect(m, offered, channel.i)
            m.d.comb += [
                empty[place].eq(channel.empty & ~offered.valid),
                self._errors.new.overrun[place].eq(receiver.overrun[c]),
                *(self._errors.new[name][place].eq(channel.fault[name]) for name in PACKET_FAULTS),
            ]
            if control:
                destination = ControlDestination(ports=self.ports, port=port)
                m.submodules[f"destination_{port}"] = destination
                wiring.connect(m, channel.packet, self._crossbar.packet[port])
                wiring.connect(m, channel.flits, self._crossbar.flits[port])
                m.d.comb += [
                    destination.index.eq(channel.lookup_index),
                    channel.membership.eq(destination.membership),
                ]
                continue
            wiring.connect(m, channel.packet, scheduler.packet[place])
            m.d.comb += [
                self._memory.lookup[place].index.eq(channel.lookup_index),
                channel.membership.eq(self._memory.lookup[place].membership),
                scheduler.flit_valid[place].eq(channel.flits.valid),
                channel.flits.ready.eq(scheduler.go[place]),
            ]
            forward.append(scheduler.forward[place])
            flit = channel.flits.payload.as_value()
            # Chosen by a register: an adder comes behind it, and which flits go is known late.
            mine = Const(1) if self.data_channels == 1 else scheduler.moving[place]
            entering = entering | Mux(mine, flit, 0)
        m.d.comb += [lane.valid.eq(Cat(forward).any()), lane.flit.as_value().eq(entering)]
        with m.If(self.i[port].valid):
            m.d.sync += self.received[port].eq(self.received[port] + 1)

    def _outputs(self, m: Module) -> None:
        """Credits and rate of the outputs, what they are to hear, and the flits on the wires."""
        scheduler, crossbar = self._scheduler, self._crossbar
        latency = self._interconnect.latency
        leaving = Signal(self.ports)  # a data flit is on its way to the port
        channels = range(self.data_channels)
        m.d.comb += leaving.eq(
            any_of(scheduler.leave[c * self.ports : (c + 1) * self.ports] for c in channels)
        )
        # One bit for each channel and port, as ``leave``; control behind the data channels.
        gone = Cat(scheduler.leave, crossbar.go) if self.has_control else scheduler.leave
        going = Signal(self.ports * self.channels)
        m.d.comb += going.eq(gone)
        arrives = delayed(m, going, latency, "expected")
        for port, account in enumerate(self._accounts):
            m.submodules[f"account_{port}"] = account
            lane, wire = self._interconnect.o[port], self.o[port]
            expected = Cat(arrives[c * self.ports + port] for c in channels).any()
            takes, claim = leaving[port], Const(0)
            if self.has_control:
                takes, claim = takes | crossbar.go[port], crossbar.claim[port]
            m.d.comb += [
                account.credit.eq(wire.credit[: self.data_channels]),
                account.go.eq(takes),
                scheduler.open[port].eq(account.open & ~claim),
                wire.valid.eq(lane.valid & expected),
                wire.flit.eq(lane.flit),
                self._errors.new.route[port].eq(lane.valid != expected),
            ]
            for c in channels:
                place = c * self.ports + port
                reserve, available = (
                    (account.reserve[c], account.available[c])
                    if self.data_channels > 1
                    else (account.reserve, account.available)
                )
                m.d.comb += [
                    reserve.eq(scheduler.reserve[place]),
                    scheduler.available[place].eq(available),
                ]
            if self.channels > 1:
                for c in range(self.channels):
                    with m.If(arrives[c * self.ports + port]):
                        m.d.comb += wire.channel.eq(c)
            if self.has_control:
                self._control_output(m, port, arrives)
            with m.If(wire.valid):
                m.d.sync += self.sent[port].eq(self.sent[port] + 1)

    def _control_output(self, m: Module, port: int, arrives: Signal) -> None:
        """The control channel of an output port."""
        crossbar, account, wire = self._crossbar, self._accounts[port], self.o[port]
        slot = arrives[self.data_channels * self.ports + port]
        reserved = self._scheduler.reserve
        m.d.comb += [
            crossbar.credit[port].eq(wire.credit[self.data_channels]),
            crossbar.open[port].eq(account.open),
            crossbar.data[port].eq(
                any_of(
                    self._scheduler.leave[c * self.ports + port] for c in range(self.data_channels)
                )
            ),
            crossbar.started[port].eq(
                any_of(reserved[c * self.ports + port].any() for c in range(self.data_channels))
            ),
            crossbar.slot[port].eq(slot),
        ]
        with m.If(slot):
            m.d.comb += [wire.valid.eq(1), wire.flit.eq(crossbar.o[port])]
