"""The FSM contexts of one dim: which ops run, how far they are, when they end."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.collective_table import CollectiveQuery
from rtl.ace.layouts import Op
from rtl.ace.scoreboard import BUFFER_BITS, BufferEvent, BufferQuery
from rtl.ace.status import DimStatus, WaitCause

__all__ = [
    "BufferLookup",
    "ContextLookup",
    "ContextRow",
    "Contexts",
    "Progress",
    "SentEvent",
    "StartEvent",
    "WrittenEvent",
    "context_bits",
    "copied_layout",
    "has_written",
    "oldest_first",
    "progress_layout",
]  # fmt: skip


class ContextRow(data.Struct):
    """What stays the same while an op runs; see :class:`rtl.ace.layouts.Op`."""

    number: 16
    traffic_class: 2
    data_type: 3
    operator: 2
    collective: 16
    rx_program: 12
    source: BUFFER_BITS
    source_address: 20
    destination: BUFFER_BITS
    destination_address: 20


class Progress(data.Struct):
    """What an op has received: messages written in full, and flits of the message after them."""

    steps: 8
    flits: 16


def context_bits(contexts: int) -> int:
    """Bits of a context's number."""
    return (contexts - 1).bit_length()


def progress_layout(contexts: int, ports: int) -> data.ArrayLayout:
    """What ops have received, by port and context. The messages of one port come in the order of
    its steps."""
    return data.ArrayLayout(data.ArrayLayout(Progress, contexts), ports)


def copied_layout(contexts: int, ports: int) -> data.ArrayLayout:
    """How many send steps of ops have ended, by port and context."""
    return data.ArrayLayout(data.ArrayLayout(8, contexts), ports)


def has_written(progress, *, port, context, after, whole, index):
    """Whether flit ``index`` of receive step ``after`` of a port was written, or with ``whole``
    all of them."""
    now = progress[port][context]
    return (now.steps > after) | ((now.steps == after) & ~whole & (now.flits > index))


class ContextLookup(wiring.Signature):
    """A combinational look-up of a context's row, seen from the unit that asks."""

    def __init__(self, *, contexts: int):
        super().__init__({"context": Out(context_bits(contexts)), "row": In(ContextRow)})


class BufferLookup(wiring.Signature):
    """A combinational look-up of where the buffers of a context's op begin, seen from the unit that
    asks."""

    def __init__(self, *, contexts: int):
        super().__init__(
            {
                "context": Out(context_bits(contexts)),
                "source_address": In(20),
                "destination_address": In(20),
            }
        )


class StartEvent(wiring.Signature):
    """An op starts: its context, number, send program, how many messages it receives, and whether
    its collective has been given up; seen from where it is announced."""

    def __init__(self, *, contexts: int):
        super().__init__(
            {
                "valid": Out(1),
                "context": Out(context_bits(contexts)),
                "number": Out(16),
                "tx_program": Out(12),
                "tx_count": Out(8),
                "rx_count": Out(8),
                "void": Out(1),
            }
        )


class ClosingEvent(wiring.Signature):
    """The header of a message's last packet was taken, seen from the receiver."""

    def __init__(self, *, contexts: int):
        super().__init__({"valid": Out(1), "context": Out(context_bits(contexts)), "step": Out(8)})


class SentEvent(wiring.Signature):
    """A message was sent, and its copy is in SRAM."""

    def __init__(self, *, contexts: int):
        super().__init__({"valid": Out(1), "context": Out(context_bits(contexts))})


class WrittenEvent(wiring.Signature):
    """A received flit was written to SRAM; ``last``: of its message."""

    def __init__(self, *, contexts: int):
        super().__init__({"valid": Out(1), "context": Out(context_bits(contexts)), "last": Out(1)})


class Contexts(wiring.Component):
    """Starts ops in order and ends them when all their messages are sent and received.

    Op number k (counted since reset, modulo 2**16) runs in context k mod ``contexts``. It starts
    when it is next, that context is free, its source is filled and its destination released. Two
    ops may end in any order.

    Parameters
    ----------
    contexts : a power of two, at most 128
    ports : of the dim

    Members
    -------
    op : In(stream of Op)
        Ops in plan order.
    filled, freed : Out(BufferQuery)
    fill, release : Out(BufferEvent)
        Raised together when an op ends, for its destination and its source.
    start : Out(StartEvent)
        Also the moment at which the op is granted to the peer that sends to it.
    lookup : In(ContextLookup) × 2 ports
        For the transmitters and the receivers.
    buffers : In(BufferLookup) × ports
        For the transmitters.
    sent : In(SentEvent) × ports
    written : In(WrittenEvent) × ports
    query : Out(CollectiveQuery)
    busy : Out(contexts)
    void : Out(contexts)
        The op's collective had been given up when the op started.
    numbers : Out(array of 16 bits)
        Number of the op in each context.
    progress : Out(array of arrays of Progress)
        By port and context.
    copied : Out(array of arrays of 8 bits)
        By port and context, send steps that have ended, with their copies.
    next : Out(context)
        The context of the next op to start; going up from it, cyclically, contexts are in the
        order in which their ops started.
    oldest : Out(context)
        The context of the oldest op that runs.
    status : Out(DimStatus)
        Without ``cause`` for a running op that still has to send.

    Notes
    -----
    At most one op starts and one ends per cycle. Counts raised in cycle t end an op in t + 1, its
    context and buffers are free in t + 2. Messages of one op are counted in any order;
    ``progress`` has a meaning only while those of a port arrive in step order, one after another,
    as in every program that chases.

    Raises
    ------
    ValueError
        ``contexts must be a power of two of at most 128, not ...``
    """

    def __init__(self, *, contexts: int, ports: int = 1):
        if not isinstance(contexts, int) or not 1 <= contexts <= 128 or contexts & (contexts - 1):
            raise ValueError(f"contexts must be a power of two of at most 128, not {contexts!r}")
        self.contexts = contexts
        self.ports = ports
        super().__init__(
            {
                "op": In(stream.Signature(Op)),
                "filled": Out(BufferQuery()),
                "freed": Out(BufferQuery()),
                "fill": Out(BufferEvent()),
                "release": Out(BufferEvent()),
                "start": Out(StartEvent(contexts=contexts)),
                "lookup": In(ContextLookup(contexts=contexts)).array(2 * ports),
                "buffers": In(BufferLookup(contexts=contexts)).array(ports),
                "sent": In(SentEvent(contexts=contexts)).array(ports),
                "written": In(WrittenEvent(contexts=contexts)).array(ports),
                "query": Out(CollectiveQuery()),
                "busy": Out(contexts),
                "void": Out(contexts),
                "numbers": Out(data.ArrayLayout(unsigned(16), contexts)),
                "progress": Out(progress_layout(contexts, ports)),
                "copied": Out(copied_layout(contexts, ports)),
                "next": Out(context_bits(contexts)),
                "oldest": Out(context_bits(contexts)),
                "status": Out(DimStatus),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.rows = rows = memory.Memory(shape=ContextRow, depth=self.contexts, init=[])
        row_write = rows.write_port()

        number = Signal(16)
        counts = data.ArrayLayout(unsigned(8), self.contexts)
        to_send = Signal(counts)
        to_receive = Signal(counts)
        sent = Signal(counts)
        received = Signal(counts)

        # Start.
        op = self.op.payload
        free = Signal()
        m.d.comb += [
            self.next.eq(number),
            free.eq(~self.busy.bit_select(self.next, 1)),
            self.filled.buffer.eq(op.source),
            self.filled.epoch.eq(op.source_epoch),
            self.freed.buffer.eq(op.destination),
            self.freed.epoch.eq(op.destination_epoch),
            self.op.ready.eq(free & self.filled.ok & self.freed.ok),
            self.start.valid.eq(self.op.valid & self.op.ready),
            self.start.context.eq(self.next),
            self.start.number.eq(number),
            self.start.tx_program.eq(op.tx_program),
            self.start.tx_count.eq(op.tx_count),
            self.start.rx_count.eq(op.rx_count),
            self.query.collective.eq(op.collective),
            self.start.void.eq(self.query.void),
            row_write.addr.eq(self.next),
            row_write.en.eq(self.start.valid),
            row_write.data.number.eq(number),
        ]
        for name, _ in ContextRow.as_shape():
            if name != "number":
                m.d.comb += row_write.data[name].eq(op[name])
        with m.If(self.start.valid):
            m.d.sync += [
                number.eq(number + 1),
                self.numbers[self.next].eq(number),
                to_send[self.next].eq(op.tx_count),
                to_receive[self.next].eq(op.rx_count),
                sent[self.next].eq(0),
                received[self.next].eq(0),
                *(self.progress[port][self.next].eq(0) for port in range(self.ports)),
                *(self.copied[port][self.next].eq(0) for port in range(self.ports)),
            ]

        # Progress.
        self._count(m, sent, [(event.valid, event.context) for event in self.sent])
        self._count(m, received, [(e.valid & e.last, e.context) for e in self.written])
        for port, done in enumerate(self.sent):
            with m.If(done.valid):
                now = self.copied[port][done.context]
                m.d.sync += now.eq(now + 1)
        for port, written in enumerate(self.written):
            with m.If(written.valid):
                now = self.progress[port][written.context]
                with m.If(written.last):
                    m.d.sync += [now.steps.eq(now.steps + 1), now.flits.eq(0)]
                with m.Else():
                    m.d.sync += now.flits.eq(now.flits + 1)

        # End.
        complete = Signal(self.contexts)
        ending = Signal(context_bits(self.contexts))
        ends = Signal()
        for context in range(self.contexts):
            m.d.comb += complete[context].eq(
                self.busy[context]
                & (sent[context] == to_send[context])
                & (received[context] == to_receive[context])
            )
        for context in reversed(range(self.contexts)):
            with m.If(complete[context]):
                m.d.comb += ending.eq(context)
        end_read = rows.read_port(domain="comb")
        m.d.comb += [
            ends.eq(complete.any()),
            end_read.addr.eq(ending),
            self.fill.valid.eq(ends),
            self.fill.buffer.eq(end_read.data.destination),
            self.release.valid.eq(ends),
            self.release.buffer.eq(end_read.data.source),
        ]
        for context in range(self.contexts):
            with m.If(self.start.valid & (self.next == context)):
                m.d.sync += [
                    self.busy[context].eq(1),
                    self.void[context].eq(self.start.void),
                ]
            with m.Elif(ends & (ending == context)):
                m.d.sync += self.busy[context].eq(0)

        for lookup in self.lookup:
            port = rows.read_port(domain="comb")
            m.d.comb += [port.addr.eq(lookup.context), lookup.row.eq(port.data)]
        for lookup in self.buffers:
            port = rows.read_port(domain="comb")
            m.d.comb += [
                port.addr.eq(lookup.context),
                lookup.source_address.eq(port.data.source_address),
                lookup.destination_address.eq(port.data.destination_address),
            ]

        # Status.
        oldest, _ = oldest_first(m, self.busy, self.next, name="running")
        status_read = rows.read_port(domain="comb")
        running = self.busy.any()
        m.d.comb += [
            self.oldest.eq(oldest),
            status_read.addr.eq(oldest),
            self.status.running.eq(running),
            self.status.op.eq(Mux(running, status_read.data.number, number)),
            self.status.collective.eq(Mux(running, status_read.data.collective, 0)),
            self.status.sent.eq(Mux(running, sent[oldest], 0)),
            self.status.received.eq(Mux(running, received[oldest], 0)),
            self.status.queued.eq(self.op.valid),
        ]
        with m.If(running & (sent[oldest] == to_send[oldest])):
            m.d.comb += self.status.cause.eq(WaitCause.RECEIVE)
        with m.If(self.op.valid):
            with m.If(~free):
                m.d.comb += self.status.start_cause.eq(WaitCause.CONTEXT)
            with m.Elif(~self.filled.ok):
                m.d.comb += self.status.start_cause.eq(WaitCause.SOURCE)
            with m.Elif(~self.freed.ok):
                m.d.comb += self.status.start_cause.eq(WaitCause.DESTINATION)
        return m

    def _count(self, m, counts, events):
        """Add the events of all ports, each (valid, context), to the counts of their contexts."""
        if self.ports == 1:
            ((valid, context),) = events
            with m.If(valid):
                m.d.sync += counts[context].eq(counts[context] + 1)
            return
        for number in range(self.contexts):
            here = [valid & (context == number) for valid, context in events]
            with m.If(Cat(here).any()):
                m.d.sync += counts[number].eq(counts[number] + sum(here))


def oldest_first(m, mask, oldest, *, name):
    """Choose among contexts, oldest first.

    Parameters
    ----------
    mask : Signal, one bit per context
    oldest : context from which ages go up cyclically (:attr:`Contexts.next`)
    name : prefix of the signals made

    Returns
    -------
    (Signal, Signal)
        The chosen context, and whether there is one.
    """
    contexts = len(mask)
    rotated = Signal(contexts, name=f"{name}_rotated")
    offset = Signal(context_bits(contexts), name=f"{name}_offset")
    chosen = Signal(context_bits(contexts), name=f"{name}_context")
    found = Signal(name=f"{name}_found")
    m.d.comb += [
        rotated.eq(Cat(mask, mask) >> oldest),
        chosen.eq(oldest + offset),
        found.eq(mask.any()),
    ]
    for place in reversed(range(contexts)):
        with m.If(rotated[place]):
            m.d.comb += offset.eq(place)
    return chosen, found
