"""The FRED switch: links, input channels, scheduler, configurations and the interconnect."""

from fractions import Fraction

from amaranth.hdl import Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.common.packet import DataType, Operator
from rtl.fred.configuration import (
    ConfigurationMemory,
    Refusal,
    check_entries,
    request_layout,
)
from rtl.fred.input_channel import InputChannel, check_packet_bytes, packet_flits
from rtl.fred.interconnect import FredInterconnect, delayed
from rtl.fred.output_account import OutputAccount
from rtl.fred.scheduler import FlowScheduler
from rtl.link.receiver import LinkReceiver
from rtl.link.transmitter import COUNTER_BITS
from rtl.link.wire import LinkWire

__all__ = ["FredSwitch", "error_layout"]

ERROR_COUNTER_BITS = 16


def error_layout(ports: int) -> data.StructLayout:
    """What has gone wrong since reset or ``clear``: for each kind, the input ports (one bit
    each) at which it did; ``route`` and ``overrun`` as told.

    Members
    -------
    unloaded, stranger, kind, length, framing : as ``PacketFault``
    misaligned : packets of one flow did not agree and were thrown away
    route : output ports that heard a flit unasked, or did not hear theirs: the modes of the
        configuration do not carry its flows
    overrun : the sender had more credits than this port has buffer
    """
    names = ("unloaded", "stranger", "kind", "length", "framing", "misaligned", "route", "overrun")
    return data.StructLayout({name: unsigned(ports) for name in names})


class FredSwitch(wiring.Component):
    """FRED_m(P) with links, buffers and control.

    Packets carry the index of a configuration. The inputs of a flow start together and go flit
    by flit, so inside nothing waits (docs/fred.md).

    Latency: the header on the wire of the last input of a flow in cycle t is on the wires of its
    outputs in cycle t + ``latency``, where ``latency = 4 + ceil(log2 P) * (adder_depth + 2)``,
    if the ports are free, credits are there and no other configuration goes on; in the same
    configuration as the flow before or in another. Throughput: one flit per port and cycle, with
    no gap between packets that arrive in time, in the same configuration or in another.

    Parameters
    ----------
    ports, middle_copies : P (2 to 64) and m (at least 2)
    flit_bytes, packet_bytes : bytes of a flit, most payload bytes of a packet
    data_types, operators : what the adders can do
    adder_depth : register levels of an adder, 1 to 6
    configurations : entries of the configuration memory, 1 to 4096
    input_depth : flits that an input port buffers: the credits of the sender
    output_credits : flits that the receiver behind an output port buffers; at least a packet
    rate : flits per cycle of the output links, exact

    Members
    -------
    i : wires into the switch
    o : wires out of the switch
    configure : entries to load, see :class:`ConfigurationMemory`
    configured, refusal : pulse when one has been dealt with, and why it was not loaded
    errors : see :func:`error_layout`; sticky
    error : Out, some error is set
    error_count : Out, cycles with a new error, for each kind; they stop at their maximum
    clear : In, forget the errors
    received, sent : flits in and out of each port
    switchovers : changes of the active configuration
    waiting, missing : for a watchdog: inputs whose packet waits for other inputs, and those other
        inputs
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
        input_depth: int,
        output_credits: int,
        rate: Fraction = Fraction(1),
    ):
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
        )
        most_flits = packet_flits(check_packet_bytes(packet_bytes, flit_bytes), flit_bytes)
        if not isinstance(output_credits, int) or output_credits < most_flits:
            raise ValueError(
                f"output_credits must be at least the {most_flits} flits of a packet, "
                f"not {output_credits!r}"
            )
        self._accounts = [OutputAccount(credits=output_credits, rate=rate) for _ in range(ports)]
        self._receivers = [
            LinkReceiver(flit_bytes=flit_bytes, depth=input_depth) for _ in range(ports)
        ]
        self._scheduler = FlowScheduler(ports=ports, most_flits=most_flits, credits=output_credits)
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
        kinds = len(error_layout(ports).members)
        super().__init__(
            {
                "i": In(LinkWire(flit_bytes)).array(ports),
                "o": Out(LinkWire(flit_bytes)).array(ports),
                "configure": In(stream.Signature(request_layout(ports, middle_copies))),
                "configured": Out(1),
                "refusal": Out(Refusal),
                "errors": Out(error_layout(ports)),
                "error": Out(1),
                "error_count": Out(data.ArrayLayout(ERROR_COUNTER_BITS, kinds)),
                "clear": In(1),
                "received": Out(data.ArrayLayout(COUNTER_BITS, ports)),
                "sent": Out(data.ArrayLayout(COUNTER_BITS, ports)),
                "switchovers": Out(COUNTER_BITS),
                "waiting": Out(ports),
                "missing": Out(ports),
                "idle": Out(1),
            }
        )

    @property
    def latency(self) -> int:
        """Cycles from a header on the last input wire of a flow to that on its output wires."""
        return 5 + self._interconnect.latency

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.interconnect = interconnect = self._interconnect
        m.submodules.memory = store = self._memory
        m.submodules.scheduler = scheduler = self._scheduler
        new_errors = Signal(error_layout(self.ports))
        empty = Signal(self.ports)

        wiring.connect(m, wiring.flipped(self.configure), store.configure)
        m.d.comb += [
            store.idle.eq(self.idle),
            store.index.eq(scheduler.configuration),
            interconnect.modes.eq(store.modes),
            self.configured.eq(store.done),
            self.refusal.eq(store.refusal),
            self.idle.eq(empty.all() & scheduler.idle),
            self.waiting.eq(scheduler.waiting),
            self.missing.eq(scheduler.missing),
        ]
        with m.If(scheduler.switched):
            m.d.sync += self.switchovers.eq(self.switchovers + 1)

        for port, receiver in enumerate(self._receivers):
            channel = InputChannel(
                ports=self.ports, flit_bytes=self.flit_bytes, packet_bytes=self.packet_bytes
            )
            m.submodules[f"receiver_{port}"] = receiver
            m.submodules[f"channel_{port}"] = channel
            wiring.connect(m, wiring.flipped(self.i[port]), receiver.i)
            wiring.connect(m, receiver.o, channel.i)
            wiring.connect(m, channel.packet, scheduler.packet[port])
            lane = interconnect.i[port]
            m.d.comb += [
                store.lookup[port].index.eq(channel.lookup_index),
                channel.membership.eq(store.lookup[port].membership),
                scheduler.flit_valid[port].eq(channel.flits.valid),
                channel.flits.ready.eq(scheduler.go[port]),
                lane.valid.eq(scheduler.forward[port]),
                lane.flit.eq(channel.flits.payload),
                lane.data_type.eq(scheduler.data_type[port]),
                lane.operator.eq(scheduler.operator[port]),
                empty[port].eq(channel.empty & ~receiver.o.valid),
                new_errors.overrun[port].eq(receiver.overrun),
                *(
                    new_errors[name][port].eq(channel.fault[name])
                    for name in ("unloaded", "stranger", "kind", "length", "framing")
                ),
            ]
            with m.If(self.i[port].valid):
                m.d.sync += self.received[port].eq(self.received[port] + 1)
        m.d.comb += new_errors.misaligned.eq(scheduler.misaligned)

        expected = delayed(m, scheduler.leave, interconnect.latency, "expected")
        for port, account in enumerate(self._accounts):
            m.submodules[f"account_{port}"] = account
            lane = interconnect.o[port]
            m.d.comb += [
                account.credit.eq(self.o[port].credit),
                account.reserve.eq(scheduler.reserve[port]),
                account.go.eq(scheduler.leave[port]),
                scheduler.available[port].eq(account.available),
                scheduler.open[port].eq(account.open),
                self.o[port].valid.eq(lane.valid & expected[port]),
                self.o[port].flit.eq(lane.flit),
                new_errors.route[port].eq(lane.valid != expected[port]),
            ]
            with m.If(self.o[port].valid):
                m.d.sync += self.sent[port].eq(self.sent[port] + 1)
        self._keep_errors(m, new_errors)
        return m

    def _keep_errors(self, m: Module, new_errors: data.View) -> None:
        """Sticky bits and counters."""
        m.d.comb += self.error.eq(Value.cast(self.errors).any())
        m.d.sync += Value.cast(self.errors).eq(
            Mux(self.clear, 0, Value.cast(self.errors)) | Value.cast(new_errors)
        )
        for kind, name in enumerate(error_layout(self.ports).members):
            count = self.error_count[kind]
            new = new_errors[name] & (~self.errors[name] if name == "overrun" else ~0)
            with m.If(new.any() & ~count.all()):
                m.d.sync += count.eq(count + 1)
