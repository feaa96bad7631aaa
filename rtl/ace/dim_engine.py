"""The engine of one dim: contexts, transmitter and receiver behind one queue of ops."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.collective_table import CollectiveMark, CollectiveQuery
from rtl.ace.contexts import Contexts
from rtl.ace.forward_buffer import ForwardBuffer
from rtl.ace.layouts import Op, RxStep, TxStep
from rtl.ace.parameters import AceParameters
from rtl.ace.rx_unit import RxUnit
from rtl.ace.scoreboard import BufferEvent, BufferQuery
from rtl.ace.sram import SramReadSignature, SramWriteSignature
from rtl.ace.status import DimEvents, DimStatus, WaitCause
from rtl.ace.tx_unit import ProgramWrite, TxUnit
from rtl.common.fifo import StreamFifo
from rtl.common.packet import flit_layout

__all__ = ["DimEngine"]


class DimEngine(wiring.Component):
    """Runs the ops of one dim, in plan order, on its port.

    Parameters
    ----------
    parameters : of the engine
    dim : index of the dim, into ``parameters.dims``

    Members
    -------
    op : In(stream of Op)
        Queued, ``queue_depth`` of them.
    tx_program, rx_program : In(ProgramWrite)
    o : Out(stream of flit)
    i : In(stream of flit)
    grant : Out(1)
        An op starts: its sender may send. One pulse per op, in op order.
    granted : In(1)
        The same from the receiver of this port's messages; unused without grants.
    filled, freed : Out(BufferQuery)
    fill, release : Out(BufferEvent)
    tx_read : Out(SramReadSignature)
    rx_read : Out(SramReadSignature)
    tx_write : Out(SramWriteSignature)
    rx_write : Out(SramWriteSignature)
    query : Out(CollectiveQuery) × 2
    mark : Out(CollectiveMark)
        Another rank has given a collective up.
    idle : Out(1)
        No op is queued or running.
    status : Out(DimStatus)
    events : Out(DimEvents)

    Notes
    -----
    An op given to the empty queue in cycle t starts in t + 1 at the earliest. For the rest see
    :class:`Contexts`, :class:`TxUnit` and :class:`RxUnit`.
    """

    def __init__(self, *, parameters: AceParameters, dim: int):
        if not isinstance(dim, int) or not 0 <= dim < len(parameters.dims):
            raise ValueError(f"dim must be in 0..{len(parameters.dims) - 1}, not {dim!r}")
        self.parameters = parameters
        self.dim = dim
        flit = stream.Signature(flit_layout(parameters.flit_bytes))
        sram = {"address_bits": parameters.address_bits, "flit_bytes": parameters.flit_bytes}
        super().__init__(
            {
                "op": In(stream.Signature(Op)),
                "tx_program": In(ProgramWrite(step=TxStep)),
                "rx_program": In(ProgramWrite(step=RxStep)),
                "o": Out(flit),
                "i": In(flit),
                "grant": Out(1),
                "granted": In(1),
                "filled": Out(BufferQuery()),
                "freed": Out(BufferQuery()),
                "fill": Out(BufferEvent()),
                "release": Out(BufferEvent()),
                "tx_read": Out(SramReadSignature(**sram)),
                "rx_read": Out(SramReadSignature(**sram)),
                "tx_write": Out(SramWriteSignature(**sram)),
                "rx_write": Out(SramWriteSignature(**sram)),
                "query": Out(CollectiveQuery()).array(2),
                "mark": Out(CollectiveMark()),
                "idle": Out(1),
                "status": Out(DimStatus),
                "events": Out(DimEvents),
            }
        )

    def elaborate(self, platform):
        m = Module()
        p = self.parameters
        common = {
            "flit_bytes": p.flit_bytes,
            "address_bits": p.address_bits,
            "contexts": p.contexts,
            "program_steps": p.program_steps,
        }
        m.submodules.queue = queue = StreamFifo(shape=Op, depth=p.queue_depth)
        m.submodules.contexts = contexts = Contexts(contexts=p.contexts)
        m.submodules.tx = tx = TxUnit(
            **common, packet_flits=p.packet_flits, grants=p.dims[self.dim].grants
        )
        m.submodules.rx = rx = RxUnit(
            **common,
            data_types=p.data_types,
            operators=p.operators,
            adder_depth=p.adder_depth,
        )

        m.submodules.forward = forward = ForwardBuffer(
            depth=p.forward_flits,
            contexts=p.contexts,
            flit_bytes=p.flit_bytes,
            address_bits=p.address_bits,
        )

        wiring.connect(m, wiring.flipped(self.op), queue.i)
        wiring.connect(m, queue.o, contexts.op)
        for inner, outer in (
            (contexts.filled, self.filled),
            (contexts.freed, self.freed),
            (contexts.fill, self.fill),
            (contexts.release, self.release),
            (tx.program, self.tx_program),
            (rx.program, self.rx_program),
            (forward.sram, self.tx_read),
            (rx.read, self.rx_read),
            (tx.write, self.tx_write),
            (rx.write, self.rx_write),
            (tx.o, self.o),
            (rx.i, self.i),
            (contexts.query, self.query[0]),
            (tx.query, self.query[1]),
            (rx.poisoned, self.mark),
        ):
            wiring.connect(m, inner, wiring.flipped(outer))
        wiring.connect(m, contexts.start, tx.start)
        wiring.connect(m, contexts.lookup[0], tx.lookup)
        wiring.connect(m, contexts.lookup[1], rx.lookup)
        wiring.connect(m, tx.read, forward.read)
        wiring.connect(m, tx.reading, forward.reading)
        wiring.connect(m, rx.received, forward.received)
        wiring.connect(m, contexts.sent, tx.sent)
        wiring.connect(m, contexts.written, rx.written)
        wiring.connect(m, rx.closing, tx.closing)
        m.d.comb += [
            tx.progress.eq(contexts.progress),
            forward.progress.eq(contexts.progress),
            tx.next.eq(contexts.next),
            tx.granted.eq(self.granted),
            rx.busy.eq(contexts.busy),
            rx.void.eq(contexts.void),
            self.grant.eq(contexts.start.valid),
            self.idle.eq(~queue.o.valid & ~contexts.busy.any()),
        ]
        self._report(m, contexts, tx, rx, forward)
        return m

    def _report(self, m, contexts, tx, rx, forward):
        oldest = Signal.like(contexts.next)
        link = Signal()
        m.d.comb += [
            oldest.eq(contexts.oldest),
            link.eq(self.o.valid & ~self.o.ready),
            self.status.eq(contexts.status),
        ]
        with m.If(rx.early):
            m.d.comb += self.status.cause.eq(WaitCause.OPERATION)
        with m.Elif(contexts.status.running & (contexts.status.cause == WaitCause.NONE)):
            with m.If(tx.no_grant.bit_select(oldest, 1)):
                m.d.comb += self.status.cause.eq(WaitCause.GRANT)
            with m.Elif(tx.no_data.bit_select(oldest, 1) | tx.chasing):
                m.d.comb += self.status.cause.eq(WaitCause.DATA)
            with m.Elif(link):
                m.d.comb += self.status.cause.eq(WaitCause.LINK)

        events = self.events
        running = sum(contexts.busy[number] for number in range(self.parameters.contexts))
        m.d.comb += [
            events.flit_sent.eq(self.o.valid & self.o.ready),
            events.header_sent.eq(self.o.valid & self.o.ready & self.o.payload.head),
            events.flit_received.eq(self.i.valid & self.i.ready),
            events.reduced.eq(rx.reduced),
            events.stall_link.eq(link),
            events.stall_grant.eq(~tx.sending & tx.no_grant.any()),
            events.stall_data.eq(tx.chasing | (~tx.sending & tx.no_data.any())),
            events.stall_operation.eq(rx.early),
            events.forwarded.eq(forward.forwarded),
            events.read_back.eq(forward.read_back),
            events.contexts.eq(running),
        ]
