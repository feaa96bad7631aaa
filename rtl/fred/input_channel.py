"""One class channel of an input port: framing, header lookup, and the flits behind them."""

from amaranth.hdl import Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.common.fifo import StreamFifo
from rtl.common.packet import PacketHeader, TrafficClass, flit_layout
from rtl.fred.configuration import INDEX_BITS, membership_layout
from rtl.fred.modes import check_size

__all__ = ["InputChannel", "PacketFault", "check_packet_bytes", "packet_flits", "packet_layout"]

LOOK_AHEAD_FLITS = 8
LOOK_AHEAD_PACKETS = 4


class PacketFault(data.Struct):
    """Pulses: what is wrong with a packet.

    Members
    -------
    unloaded : its configuration was never loaded
    stranger : this port is no input of a flow of its configuration
    kind : its class is not that of the channel, or its class, data type or operator not that of
        its flow
    length : its length is 0, too long, or not that of its flits
    framing : a flit outside a packet, or a header inside one
    """

    unloaded: 1
    stranger: 1
    kind: 1
    length: 1
    framing: 1


def check_packet_bytes(packet_bytes: object, flit_bytes: int, name: str = "packet_bytes") -> int:
    """Validate the largest payload of a packet.

    Raises
    ------
    ValueError
        ``packet_bytes must be a multiple of flit_bytes in N..65535, not ...``, or another ``name``
    """
    if (
        not isinstance(packet_bytes, int)
        or not flit_bytes <= packet_bytes < 1 << 16
        or packet_bytes % flit_bytes
    ):
        raise ValueError(
            f"{name} must be a multiple of flit_bytes in {flit_bytes}..65535, not {packet_bytes!r}"
        )
    return packet_bytes


def packet_flits(packet_bytes: int, flit_bytes: int) -> int:
    """Flits of a packet, its header included."""
    return 1 + -(-packet_bytes // flit_bytes)


def packet_layout(ports: int, most_flits: int) -> data.StructLayout:
    """A packet at the head of a channel, as the scheduler sees it.

    Members
    -------
    header : its header
    flits : its flits, the header included
    inputs, outputs : ports of its flow
    discard : it is faulty; its flits are to be thrown away
    """
    return data.StructLayout(
        {
            "header": PacketHeader,
            "flits": unsigned(most_flits.bit_length()),
            "inputs": unsigned(ports),
            "outputs": unsigned(ports),
            "discard": 1,
        }
    )


class InputChannel(wiring.Component):
    """Turns flits from a link into packets that the scheduler can trust.

    Behind it every packet has a header and exactly the flits that its header promises: a packet
    that ends early is filled up with zeros, one that goes on is cut, flits outside a packet are
    thrown away; each is reported in ``fault``. A packet whose length is out of range, or that is a
    header only, enters as a header and one flit, one whose configuration does not fit it as it
    is, both marked ``discard``.

    Latency: a flit accepted in cycle t is offered at ``flits`` from cycle t + 1 on, the packet of
    a header at ``packet`` from cycle t + 2 on. Throughput: one flit per cycle. Buffering: 8 flits
    and 4 packets, so that the next packet is known before the last flit of this one has left.

    Parameters
    ----------
    ports : P of the switch
    flit_bytes, packet_bytes : bytes of a flit, most payload bytes of a packet
    traffic_class : the only class of this channel's packets; None where classes share it

    Members
    -------
    i : flits from the link
    lookup_index : Out, a configuration, and ``membership`` in the next cycle
    packet : packets, in order
    flits : their flits, in order
    fault : pulses
    empty : no packet is held or has begun
    """

    def __init__(
        self,
        *,
        ports: int,
        flit_bytes: int,
        packet_bytes: int,
        traffic_class: TrafficClass | None = None,
    ):
        check_size(ports, 2)
        self.traffic_class = traffic_class
        self.ports = ports
        self.flit_bytes = flit_bytes
        self.packet_bytes = check_packet_bytes(packet_bytes, flit_bytes)
        self._most = packet_flits(packet_bytes, flit_bytes)
        flit = flit_layout(flit_bytes)
        super().__init__(
            {
                "i": In(stream.Signature(flit)),
                "lookup_index": Out(INDEX_BITS),
                "membership": In(membership_layout(ports)),
                "packet": Out(stream.Signature(packet_layout(ports, self._most))),
                "flits": Out(stream.Signature(flit)),
                "fault": Out(PacketFault),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        flit = self.i.payload
        m.submodules.flits = flits = StreamFifo(shape=flit.shape(), depth=LOOK_AHEAD_FLITS)
        m.submodules.packets = packets = StreamFifo(
            shape=self.packet.payload.shape(), depth=LOOK_AHEAD_PACKETS
        )
        wiring.connect(m, flits.o, wiring.flipped(self.flits))
        wiring.connect(m, packets.o, wiring.flipped(self.packet))
        header = data.View(PacketHeader, flit.data[: PacketHeader.as_shape().size])
        fault = Signal(PacketFault)
        m.d.comb += self.fault.eq(fault)

        looking_up = Signal()  # a header has been accepted, its membership is here now
        unfit = Signal()  # with a length that cannot be
        header_enters = Signal()
        room = Signal()
        m.d.comb += room.eq(packets.level + looking_up < LOOK_AHEAD_PACKETS)
        self._framing(m, flits, header, header_enters, room, unfit, fault)

        pending = Signal(PacketHeader)
        payload_flits = (pending.length + (self.flit_bytes - 1)) >> (
            self.flit_bytes.bit_length() - 1
        )
        m.d.comb += self.lookup_index.eq(header.configuration)
        m.d.sync += looking_up.eq(header_enters)
        with m.If(header_enters):
            m.d.sync += pending.eq(header)
        member = self.membership
        own = (
            Const(1) if self.traffic_class is None else pending.traffic_class == self.traffic_class
        )
        entering = packets.i.payload
        m.d.comb += [
            packets.i.valid.eq(looking_up),
            entering.header.eq(pending),
            entering.flits.eq(Mux(unfit, 2, payload_flits + 1)),
            entering.inputs.eq(member.inputs),
            entering.outputs.eq(member.outputs),
            entering.discard.eq(unfit | fault.unloaded | fault.stranger | fault.kind),
            self.empty.eq(~(looking_up | packets.o.valid | flits.o.valid)),
        ]
        with m.If(looking_up & ~unfit):
            with m.If(~member.loaded):
                m.d.comb += fault.unloaded.eq(1)
            with m.Elif(~member.member):
                m.d.comb += fault.stranger.eq(1)
            with m.Elif(
                ~own
                | (member.traffic_class != pending.traffic_class)
                | (member.data_type != pending.data_type)
                | (member.operator != pending.operator)
            ):
                m.d.comb += fault.kind.eq(1)
        return m

    def _framing(
        self,
        m: Module,
        flits: StreamFifo,
        header: data.View,
        header_enters: Signal,
        room: Signal,
        unfit: Signal,
        fault: data.View,
    ) -> None:
        """Let packets of the promised length into ``flits``; of an unfit one the header, and a flit
        of zeros."""
        flit = self.i.payload
        left = Signal(range(self._most))  # payload flits of the packet that has begun
        skipping = Signal()  # up to the last flit of what must not enter
        filling = Signal()  # with zeros, what a packet lacks
        payload_flits = (header.length + (self.flit_bytes - 1)) >> (
            self.flit_bytes.bit_length() - 1
        )
        good = Signal()
        m.d.comb += [
            good.eq(~flit.last & (header.length != 0) & (header.length <= self.packet_bytes)),
            flits.i.payload.data.eq(flit.data),
            flits.i.payload.last.eq(left == 1),
        ]
        with m.If(filling):
            m.d.comb += [flits.i.valid.eq(1), flits.i.payload.data.eq(0)]
            with m.If(flits.i.ready):
                m.d.sync += left.eq(left - 1)
                with m.If(left == 1):
                    m.d.sync += filling.eq(0)
        with m.Elif(skipping):
            # A header ends what is skipped, if its last flit went missing.
            m.d.comb += self.i.ready.eq(~flit.head)
            with m.If(self.i.valid & (flit.last | flit.head)):
                m.d.sync += skipping.eq(0)
        with m.Elif(left == 0):
            # Also what is thrown away waits for room, and a header enters whatever length it
            # gives: whether a flit is taken must not hang on what it says.
            m.d.comb += self.i.ready.eq(flits.i.ready & room)
            with m.If(flit.head):
                m.d.comb += [
                    flits.i.valid.eq(self.i.valid & room),
                    flits.i.payload.head.eq(1),
                    flits.i.payload.last.eq(0),
                    header_enters.eq(self.i.valid & self.i.ready),
                ]
                with m.If(header_enters):
                    m.d.sync += [left.eq(Mux(good, payload_flits, 1)), unfit.eq(~good)]
                    with m.If(~good):
                        m.d.comb += fault.length.eq(1)
                        m.d.sync += [filling.eq(1), skipping.eq(~flit.last)]
            with m.Elif(self.i.valid & self.i.ready):
                m.d.comb += fault.framing.eq(1)
                m.d.sync += skipping.eq(~flit.last)
        with m.Elif(self.i.valid & flit.head):
            m.d.comb += fault.framing.eq(1)
            m.d.sync += filling.eq(1)
        with m.Else():
            m.d.comb += [flits.i.valid.eq(self.i.valid), self.i.ready.eq(flits.i.ready)]
            with m.If(self.i.valid & flits.i.ready):
                m.d.sync += left.eq(left - 1)
                with m.If(flit.last != (left == 1)):
                    m.d.comb += fault.length.eq(1)
                    m.d.sync += [filling.eq(flit.last), skipping.eq(~flit.last)]
