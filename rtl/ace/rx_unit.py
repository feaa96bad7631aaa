"""The receiver of a dim: finds each packet's step, reduces or stores its flits in SRAM."""

from collections.abc import Iterable

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.collective_table import CollectiveMark
from rtl.ace.contexts import (
    ClosingEvent,
    ContextLookup,
    WrittenEvent,
    context_bits,
    has_written,
    progress_layout,
)
from rtl.ace.forward_buffer import ReceivedWrite
from rtl.ace.layouts import PORT_BITS, RxStep
from rtl.ace.parameters import check_positive, check_power_of_two
from rtl.ace.program_write import ProgramWrite
from rtl.ace.sram import SramReadSignature, SramWriteSignature
from rtl.ace.sram_reader import SramReader
from rtl.ace.status import CompletionStatus
from rtl.arith.reduce import ReduceFlit
from rtl.common.fifo import StreamFifo
from rtl.common.packet import DataType, Operator, PacketHeader, flit_layout

__all__ = ["RxUnit"]


class RxUnit(wiring.Component):
    """Takes packets in any order of ops and writes every payload flit to its place.

    The header names the op and the receive step; the step says where the flit goes and whether
    the local flit is combined with it (``operator(local, received)``). All payload flits pass the
    same stages, so they are written in order of arrival. A void message, a header alone, passes
    them as one entry that writes nothing. Of an op that started when its collective had been given
    up nothing is written at all: its steps may be wrong. A step that chases takes flit i when flit
    i of another step was written, which may have come in at another port: so sums of what comes
    from several peers are in the order of the plan.

    Parameters
    ----------
    flit_bytes, address_bits : of flits, and of the SRAM
    contexts : a power of two
    program_steps : size of the receive program memory
    ports : of the dim
    data_types, operators, adder_depth : of the reduction unit

    Members
    -------
    i : In(stream of flit)
        Refused only in collisions on an SRAM bank, in front of a header whose op has not started
        here (never where ops are granted), and in front of a flit whose step chases.
    lookup : Out(ContextLookup)
    busy : In(contexts)
        The context runs an op.
    void : In(contexts)
        Of that op nothing is written.
    progress : In(array of arrays of Progress)
        Of all ports of the dim.
    program : In(ProgramWrite)
    read : Out(SramReadSignature)
        Operands.
    write : Out(SramWriteSignature)
    written : Out(WrittenEvent)
    poisoned : Out(CollectiveMark)
        A header was taken, in the cycle before, whose sender has given the collective up.
    received : Out(ReceivedWrite)
    reduced : Out(1)
        A flit enters the reduction unit.
    closing : Out(ClosingEvent)
        The header of a message's last packet was taken.
    early : Out(1)
        A header stands at ``i`` whose op has not started.
    foreign : Out(1)
        A header stands at ``i`` of an op that belongs to another collective here: it stays there,
        because ranks that disagree on the order of collectives must not add up their data.
    behind : Out(1)
        A flit waits for the one that it follows.

    Notes
    -----
    A payload flit taken at ``i`` in cycle t is written to SRAM in cycle t + 5 + ``adder_depth``:
    one cycle of input register, three of operand read, ``adder_depth`` of reduction (also for
    flits that are stored unchanged), one in the result queue. One flit per cycle, headers
    included, across packets and messages.
    """

    def __init__(
        self,
        *,
        flit_bytes: int,
        address_bits: int,
        contexts: int,
        program_steps: int,
        data_types: Iterable[DataType],
        operators: Iterable[Operator],
        adder_depth: int,
        ports: int = 1,
    ):
        check_power_of_two("contexts", contexts)
        check_positive("program_steps", program_steps)
        check_positive("adder_depth", adder_depth)
        self.flit_bytes = flit_bytes
        self.address_bits = address_bits
        self.contexts = contexts
        self.program_steps = program_steps
        self.data_types = frozenset(data_types)
        self.operators = frozenset(operators)
        self.adder_depth = adder_depth
        self.ports = ports
        sram = {"address_bits": address_bits, "flit_bytes": flit_bytes}
        super().__init__(
            {
                "i": In(stream.Signature(flit_layout(flit_bytes))),
                "lookup": Out(ContextLookup(contexts=contexts)),
                "busy": In(contexts),
                "void": In(contexts),
                "progress": In(progress_layout(contexts, ports)),
                "program": In(ProgramWrite(step=RxStep)),
                "read": Out(SramReadSignature(**sram)),
                "write": Out(SramWriteSignature(**sram)),
                "written": Out(WrittenEvent(contexts=contexts)),
                "poisoned": Out(CollectiveMark()),
                "received": Out(ReceivedWrite(contexts=contexts, **sram)),
                "reduced": Out(1),
                "closing": Out(ClosingEvent(contexts=contexts)),
                "early": Out(1),
                "foreign": Out(1),
                "behind": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bits = context_bits(self.contexts)
        target = data.StructLayout(
            {"address": self.address_bits, "context": bits, "last": 1, "write": 1}
        )
        tag = data.StructLayout(
            {
                "reduce": 1,
                "data_type": 3,
                "operator": 2,
                "target": target,
                "received": 8 * self.flit_bytes,
            }
        )
        m.submodules.reader = reader = SramReader(
            tag_shape=tag, depth=8, address_bits=self.address_bits, flit_bytes=self.flit_bytes
        )
        wiring.connect(m, reader.port, wiring.flipped(self.read))
        self._place(m, reader.i)
        self._combine(m, reader.o, target)
        return m

    def _place(self, m, token):
        """Input register: headers set the place, payload flits go there one after another."""
        m.submodules.programs = programs = memory.Memory(
            shape=RxStep, depth=self.program_steps, init=[]
        )
        program_write, program_read = programs.write_port(), programs.read_port()
        m.d.comb += [
            program_write.addr.eq(self.program.index),
            program_write.data.eq(self.program.step),
            program_write.en.eq(self.program.valid),
        ]

        # At the port: look the op up, read its step.
        header = data.View(PacketHeader, self.i.payload.data[: PacketHeader.as_shape().size])
        row = self.lookup.row
        move = Signal()  # the input register takes or empties
        known = Signal()
        same = Signal()
        full = Signal()
        flit = Signal(flit_layout(self.flit_bytes))
        m.d.comb += [
            self.lookup.context.eq(header.op[: context_bits(self.contexts)]),
            known.eq(self.busy.bit_select(self.lookup.context, 1) & (row.number == header.op)),
            same.eq(row.collective == header.collective),
            self.early.eq(self.i.valid & self.i.payload.head & ~known),
            self.foreign.eq(self.i.valid & self.i.payload.head & known & ~same),
            self.i.ready.eq(move & (~self.i.payload.head | (known & same))),
            program_read.addr.eq(row.rx_program + header.step),
            program_read.en.eq(self.i.valid & self.i.payload.head & self.i.ready),
            self.closing.valid.eq(program_read.en & header.last),
            self.closing.context.eq(self.lookup.context),
            self.poisoned.status.eq(CompletionStatus.PEER_ERROR),
        ]
        m.d.sync += [
            self.poisoned.valid.eq(program_read.en & header.poisoned),
            self.poisoned.collective.eq(row.collective),
        ]
        with m.If(move):
            m.d.sync += full.eq(self.i.valid & self.i.ready)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += flit.eq(self.i.payload)

        # In the register: a header sets the place of the flits behind it.
        source = Signal(self.address_bits)
        destination = Signal(self.address_bits)
        place = token.payload.tag
        placed = Signal(data.StructLayout({"reduce": 1, "data_type": 3, "operator": 2}))
        follows = Signal(
            data.StructLayout({"chase": 1, "whole": 1, "after": 8, "after_port": PORT_BITS})
        )
        index = Signal(16)  # of the next flit, within its message
        arrived = Signal()
        context = Signal(context_bits(self.contexts))
        last_packet = Signal()
        operand = Signal(self.address_bits)
        target = Signal(self.address_bits)
        with m.If(program_read.en):
            m.d.sync += [source.eq(row.source_address), destination.eq(row.destination_address)]
        step = program_read.data
        own = data.View(PacketHeader, flit.data[: PacketHeader.as_shape().size])
        next_context = own.op[: context_bits(self.contexts)]
        next_type = Signal(3)
        next_operator = Signal(2)
        with m.If(program_read.en):
            m.d.sync += [next_type.eq(row.data_type), next_operator.eq(row.operator)]
        dropped = Signal()
        alone = Signal()  # a void message
        m.d.comb += alone.eq(full & flit.head & (own.length == 0))
        with m.If(full & flit.head):
            m.d.sync += [
                dropped.eq(self.void.bit_select(next_context, 1)),
                placed.reduce.eq(step.reduce),
                placed.data_type.eq(next_type),
                placed.operator.eq(next_operator),
                context.eq(next_context),
                follows.chase.eq(step.chase & ~self.void.bit_select(next_context, 1)),
                follows.whole.eq(step.whole),
                follows.after.eq(step.after),
                follows.after_port.eq(step.after_port),
                index.eq(own.sequence),
                last_packet.eq(own.last),
                operand.eq(source + step.offset + own.sequence),
                target.eq(
                    Mux(step.into_destination, destination, source)
                    + step.write_offset
                    + own.sequence
                ),
            ]
        with m.Elif(token.valid & token.ready):
            m.d.sync += [
                operand.eq(operand + 1),
                target.eq(target + 1),
                index.eq(index + 1),
            ]
        m.d.comb += [
            move.eq(~full | (flit.head & ~alone) | (token.ready & (flit.head | arrived))),
            arrived.eq(
                ~follows.chase
                | has_written(
                    self.progress,
                    port=follows.after_port if self.ports > 1 else 0,
                    context=context,
                    after=follows.after,
                    whole=follows.whole,
                    index=index,
                )
            ),
            self.behind.eq(full & ~flit.head & ~arrived),
            token.valid.eq(full & Mux(flit.head, alone, arrived)),
            token.payload.read.eq(place.reduce),
            token.payload.address.eq(operand),
            place.reduce.eq(placed.reduce & place.target.write),
            place.data_type.eq(placed.data_type),
            place.operator.eq(placed.operator),
            place.target.address.eq(target),
            place.target.context.eq(Mux(alone, next_context, context)),
            place.target.last.eq(Mux(alone, 1, flit.last & last_packet)),
            place.target.write.eq(~alone & ~dropped),
            place.received.eq(flit.data),
        ]

    def _combine(self, m, operands, target_shape):
        """Reduction unit, beside it what passes unchanged; then the queue in front of the SRAM."""
        depth = self.adder_depth
        m.submodules.alu = alu = ReduceFlit(
            flit_bytes=self.flit_bytes,
            data_types=self.data_types,
            operators=self.operators,
            depth=depth,
        )
        beside_shape = data.StructLayout(
            {"reduce": 1, "target": target_shape, "received": 8 * self.flit_bytes}
        )
        result_shape = data.StructLayout({"target": target_shape, "data": 8 * self.flit_bytes})
        m.submodules.beside = beside = StreamFifo(shape=beside_shape, depth=depth + 1)
        m.submodules.results = results = StreamFifo(shape=result_shape, depth=depth + 6)

        room = Signal()
        under_way = Signal(range(results.depth + 1))  # in the reduction unit or in the queue
        enter = Signal()
        leave = Signal()
        stages = Signal(depth)
        entry = operands.payload
        m.d.comb += [
            room.eq(under_way != results.depth),
            operands.ready.eq(room),
            enter.eq(operands.valid & room),
            self.reduced.eq(enter & entry.tag.reduce),
            alu.a.eq(entry.data),
            alu.b.eq(entry.tag.received),
            alu.data_type.eq(entry.tag.data_type),
            alu.operator.eq(entry.tag.operator),
            alu.valid.eq(self.reduced),
            alu.enable.eq(1),
            beside.i.valid.eq(enter),
            beside.i.payload.reduce.eq(entry.tag.reduce),
            beside.i.payload.target.eq(entry.tag.target),
            beside.i.payload.received.eq(entry.tag.received),
            beside.o.ready.eq(stages[-1]),
            results.i.valid.eq(stages[-1]),
            results.i.payload.target.eq(beside.o.payload.target),
            results.i.payload.data.eq(
                Mux(beside.o.payload.reduce, alu.o, beside.o.payload.received)
            ),
        ]
        m.d.sync += [
            stages.eq(stages.shift_left(1) | enter),
            under_way.eq(under_way + enter - leave),
        ]

        result = results.o.payload
        m.d.comb += [
            self.write.request.valid.eq(results.o.valid & result.target.write),
            self.write.request.payload.address.eq(result.target.address),
            self.write.request.payload.data.eq(result.data),
            results.o.ready.eq(self.write.request.ready | ~result.target.write),
            leave.eq(results.o.valid & results.o.ready),
            self.written.valid.eq(leave),
            self.written.context.eq(result.target.context),
            self.written.last.eq(result.target.last),
            self.received.valid.eq(leave & result.target.write),
            self.received.context.eq(result.target.context),
            self.received.address.eq(result.target.address),
            self.received.data.eq(result.data),
        ]
