"""The transmitter of a dim: takes send steps of started ops and turns them into packets."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.collective_table import CollectiveQuery
from rtl.ace.contexts import (
    BufferLookup,
    ClosingEvent,
    ContextLookup,
    SentEvent,
    StartEvent,
    context_bits,
    copied_layout,
    has_written,
    progress_layout,
)
from rtl.ace.forward_buffer import ChaseInfo
from rtl.ace.layouts import PORT_BITS, TxStep
from rtl.ace.parameters import check_positive, check_power_of_two
from rtl.ace.program_write import ProgramWrite
from rtl.ace.send_steps import SendSteps
from rtl.ace.sram import SramReadSignature, SramWriteSignature
from rtl.ace.sram_reader import SramReader
from rtl.common.fifo import StreamFifo
from rtl.common.packet import PacketHeader, flit_layout

__all__ = ["TxUnit"]


class TxUnit(wiring.Component):
    """Sends the messages of all started ops, one after another.

    Of every context it holds the next send step. Among the steps that may go (granted, and, where
    they chase, with the first flit received) it takes that of the oldest op, and sends the message
    to its end, cut into packets of at most ``packet_flits``, each behind its header. A message
    that chases sends flit i when the receiver has written flit i. A *local* step goes the same way
    up to the port and no further: it only moves flits within the SRAM, or waits.

    Once a collective has been given up, the messages of its ops that have not begun are *void*: a
    header that says so, and nothing behind it. Those of an op that starts after that chase nothing.
    Without grants they are sent in full, with what the SRAM holds and a header that says so,
    because a switch combines packets of one length.

    Without grants (FRED dims) no op passes an older one that has messages left: all inputs of a
    switch must send in one order (docs/fred.md). Behind an op that receives more messages
    than it sends (an all-gather), nothing is sent before the last packet of each of its messages
    has begun to arrive: each of its flows has one input, so a quick rank could else multicast a
    later op, which ranks that cannot start it yet would hold in front of what they wait for
    (docs/plan.md).

    Parameters
    ----------
    flit_bytes, address_bits : of flits, and of the SRAM
    contexts : a power of two
    packet_flits : payload flits of a full packet
    program_steps : size of the send program memory
    ports, port : of the dim, and which of them this one serves
    grants : wait for one pulse of ``granted`` per op, in op order; else send in op order

    Members
    -------
    o : Out(stream of flit)
    granted : In(1)
        The peer has started its next op.
    start : In(StartEvent)
    closing : In(ClosingEvent)
        The last packet of a message has begun to arrive.
    lookup : Out(ContextLookup)
    buffers : Out(BufferLookup)
    progress : In(array of arrays of Progress)
        Of all ports of the dim; and so ``copied``.
    copied : In(array of arrays of 8 bits)
    next : In(context)
    program : In(ProgramWrite)
    read : Out(SramReadSignature)
    reading : Out(ChaseInfo)
        About the request at ``read``.
    write : Out(SramWriteSignature)
        Copies of what is sent (``TxStep.copy``).
    query : Out(CollectiveQuery)
    sent : Out(SentEvent)
        The last flit of a message was taken at ``o`` and its copy, if any, is written.
    sending : Out(1)
        A message has been taken up.
    no_grant, no_data : Out(contexts)
        Contexts whose next step waits for its grant, for the message it forwards.
    chasing : Out(1)
        The begun message waits for the next flit of the message it forwards.

    Notes
    -----
    From ``start`` in cycle t the header is at ``o`` in t + 7; a first payload flit in t + 8. A
    flit written by the receiver in t (``progress`` shows it in t + 1) is at ``o`` in t + 4. One
    flit per cycle, headers included, also from message to message if the next message comes from
    another context or the present one has at least two payload flits. A program may be written
    while no op in flight uses those steps.
    """

    def __init__(
        self,
        *,
        flit_bytes: int,
        address_bits: int,
        contexts: int,
        packet_flits: int,
        program_steps: int,
        grants: bool,
        ports: int = 1,
        port: int = 0,
    ):
        check_power_of_two("contexts", contexts)
        check_positive("program_steps", program_steps)
        check_positive("packet_flits", packet_flits)
        self.flit_bytes = flit_bytes
        self.address_bits = address_bits
        self.contexts = contexts
        self.packet_flits = packet_flits
        self.program_steps = program_steps
        self.grants = grants
        self.ports = ports
        self.port = port
        sram = {"address_bits": address_bits, "flit_bytes": flit_bytes}
        super().__init__(
            {
                "o": Out(stream.Signature(flit_layout(flit_bytes))),
                "granted": In(1),
                "start": In(StartEvent(contexts=contexts)),
                "closing": In(ClosingEvent(contexts=contexts)),
                "lookup": Out(ContextLookup(contexts=contexts)),
                "buffers": Out(BufferLookup(contexts=contexts)),
                "progress": In(progress_layout(contexts, ports)),
                "copied": In(copied_layout(contexts, ports)),
                "next": In(context_bits(contexts)),
                "program": In(ProgramWrite(step=TxStep)),
                "read": Out(SramReadSignature(**sram)),
                "reading": Out(ChaseInfo(contexts=contexts)),
                "write": Out(SramWriteSignature(**sram)),
                "query": Out(CollectiveQuery()),
                "sent": Out(SentEvent(contexts=contexts)),
                "sending": Out(1),
                "no_grant": Out(contexts),
                "no_data": Out(contexts),
                "chasing": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.steps = steps = SendSteps(
            address_bits=self.address_bits,
            contexts=self.contexts,
            program_steps=self.program_steps,
            grants=self.grants,
            ports=self.ports,
        )
        wiring.connect(m, wiring.flipped(self.start), steps.start)
        wiring.connect(m, wiring.flipped(self.closing), steps.closing)
        wiring.connect(m, wiring.flipped(self.program), steps.program)
        wiring.connect(m, steps.buffers, wiring.flipped(self.buffers))
        step = steps.step
        take = Signal()
        m.d.comb += [
            steps.granted.eq(self.granted),
            steps.progress.eq(self.progress),
            steps.copied.eq(self.copied),
            steps.next.eq(self.next),
            steps.take.eq(take),
            self.no_grant.eq(steps.no_grant),
            self.no_data.eq(steps.no_data),
            self.lookup.context.eq(steps.context),
        ]

        # The message being sent.
        bits = context_bits(self.contexts)
        active = self.sending
        in_header = Signal()
        context = Signal(bits)
        header = Signal(PacketHeader)  # length and last are set per packet
        address = Signal(self.address_bits)
        copy = Signal()
        copy_address = Signal(self.address_bits)
        chase = Signal()
        after = Signal(8)
        after_port = Signal(PORT_BITS)
        local = Signal()
        last_bytes = Signal(8)
        index = Signal(16)  # flits sent
        remaining = Signal(16)
        packet_remaining = Signal(range(self.packet_flits + 1))
        void = Signal()  # nothing but a header

        row = self.lookup.row
        m.d.comb += self.query.collective.eq(row.collective)
        with m.If(take):
            m.d.sync += [
                active.eq(1),
                in_header.eq(1),
                context.eq(steps.context),
                header.traffic_class.eq(row.traffic_class),
                header.data_type.eq(row.data_type),
                header.operator.eq(row.operator),
                header.collective.eq(row.collective),
                header.op.eq(row.number),
                header.step.eq(step.step),
                header.configuration.eq(step.configuration),
                header.poisoned.eq(self.query.void),
                void.eq(self.query.void & self.grants),
                address.eq(step.address),
                copy.eq(step.copy),
                copy_address.eq(step.copy_address),
                chase.eq(step.chase & ~step.whole),
                after.eq(step.after),
                after_port.eq(step.after_port),
                local.eq(step.local),
                last_bytes.eq(step.last_bytes),
                index.eq(0),
                remaining.eq(step.length),
            ]

        # Tokens: a header, or a flit to read.
        tag = data.StructLayout(
            {
                "head": 1,
                "last": 1,
                "done": 1,
                "copy": 1,
                "local": 1,
                "copy_address": self.address_bits,
                "context": bits,
                "header": PacketHeader,
            }
        )
        m.submodules.reader = reader = SramReader(
            tag_shape=tag, depth=8, address_bits=self.address_bits, flit_bytes=self.flit_bytes
        )
        wiring.connect(m, reader.port, wiring.flipped(self.read))
        token = reader.i.payload
        arrived = Signal()
        full_packet = Signal()
        packet_length = Signal(range(self.packet_flits + 1))
        message_end = Signal()
        m.d.comb += [
            arrived.eq(
                ~chase
                | has_written(
                    self.progress,
                    port=self._of(after_port),
                    context=context,
                    after=after,
                    whole=0,
                    index=index,
                )
            ),
            full_packet.eq(remaining > self.packet_flits),
            packet_length.eq(Mux(full_packet, self.packet_flits, remaining)),
            message_end.eq(remaining == 1),
            self.reading.chase.eq(chase & (self._of(after_port) == self.port)),
            self.reading.context.eq(context),
            self.reading.step.eq(after),
            self.reading.index.eq(index),
            self.chasing.eq(active & ~in_header & ~arrived),
            reader.i.valid.eq(active & (in_header | arrived)),
            token.read.eq(~in_header),
            token.address.eq(address),
            token.tag.head.eq(in_header),
            token.tag.last.eq(Mux(in_header, void, packet_remaining == 1)),
            token.tag.done.eq(Mux(in_header, void, message_end)),
            token.tag.copy.eq(~in_header & copy),
            token.tag.local.eq(local),
            token.tag.copy_address.eq(copy_address),
            token.tag.context.eq(context),
            token.tag.header.eq(header),
            token.tag.header.sequence.eq(index),
            token.tag.header.last.eq(~full_packet | void),
            token.tag.header.length.eq(
                Mux(
                    void,
                    0,
                    (packet_length << (self.flit_bytes.bit_length() - 1))
                    - Mux(full_packet, 0, self.flit_bytes - last_bytes),
                )
            ),
        ]
        finished = Signal()
        m.d.comb += [
            finished.eq(reader.i.valid & reader.i.ready & Mux(in_header, void, message_end)),
            take.eq(steps.found & (~active | finished)),
        ]
        with m.If(reader.i.valid & reader.i.ready):
            with m.If(in_header & ~void):
                m.d.sync += [in_header.eq(0), packet_remaining.eq(packet_length)]
            with m.Elif(~finished):
                m.d.sync += [
                    in_header.eq(packet_remaining == 1),
                    packet_remaining.eq(packet_remaining - 1),
                    index.eq(index + 1),
                    remaining.eq(remaining - 1),
                    address.eq(address + 1),
                    copy_address.eq(copy_address + 1),
                ]
            with m.Elif(~steps.found):
                m.d.sync += active.eq(0)

        self._output(m, reader)
        return m

    def _of(self, port):
        """The port that a step names: of one port only, that one."""
        return port if self.ports > 1 else 0

    def _output(self, m, reader):
        """Flits to the port; copies, and the ends of messages, to a queue of their own."""
        bits = context_bits(self.contexts)
        copies_shape = data.StructLayout(
            {
                "write": 1,
                "done": 1,
                "context": bits,
                "address": self.address_bits,
                "data": 8 * self.flit_bytes,
            }
        )
        m.submodules.copies = copies = StreamFifo(shape=copies_shape, depth=4)
        result = reader.o.payload
        tag = result.tag
        marked = Signal()
        taken = Signal()
        m.d.comb += [
            marked.eq(tag.copy | tag.done),
            taken.eq(self.o.ready | tag.local),
            self.o.payload.data.eq(Mux(tag.head, tag.header, result.data)),
            self.o.payload.head.eq(tag.head),
            self.o.payload.last.eq(tag.last),
            self.o.valid.eq(reader.o.valid & ~tag.local & (~marked | copies.i.ready)),
            reader.o.ready.eq(taken & (~marked | copies.i.ready)),
            copies.i.valid.eq(reader.o.valid & marked & taken),
            copies.i.payload.write.eq(tag.copy),
            copies.i.payload.done.eq(tag.done),
            copies.i.payload.context.eq(tag.context),
            copies.i.payload.address.eq(tag.copy_address),
            copies.i.payload.data.eq(result.data),
        ]
        entry = copies.o.payload
        m.d.comb += [
            self.write.request.valid.eq(copies.o.valid & entry.write),
            self.write.request.payload.address.eq(entry.address),
            self.write.request.payload.data.eq(entry.data),
            copies.o.ready.eq(~entry.write | self.write.request.ready),
            self.sent.valid.eq(copies.o.valid & copies.o.ready & entry.done),
            self.sent.context.eq(entry.context),
        ]
