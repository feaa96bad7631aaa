"""The engine of one dim: contexts, transmitters and receivers behind one queue of ops."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.collective_table import CollectiveMark, CollectiveQuery
from rtl.ace.contexts import Contexts
from rtl.ace.forward_buffer import ForwardBuffer
from rtl.ace.layouts import Op, RxStep, TxStep
from rtl.ace.parameters import AceParameters
from rtl.ace.program_write import ProgramWrite
from rtl.ace.rx_unit import RxUnit
from rtl.ace.scoreboard import BufferEvent, BufferQuery
from rtl.ace.sram import SramReadSignature, SramWriteSignature
from rtl.ace.status import DimEvents, DimStatus, WaitCause
from rtl.ace.tx_unit import TxUnit
from rtl.common.fifo import StreamFifo
from rtl.common.packet import flit_layout

__all__ = ["DimEngine"]


class DimEngine(wiring.Component):
    """Runs the ops of one dim, in plan order, on its ports.

    Every port has a transmitter and a receiver, with programs of their own; an op ends when the
    messages of all of them are sent and received. With several ports an op is granted when all
    its peers have started it: so what is in flight belongs to ops that everybody has started, and
    a receiver may hold back one port until another has brought what comes first (docs/ace.md).

    Parameters
    ----------
    parameters : of the engine
    dim : index of the dim, into ``parameters.dims``

    Members
    -------
    op : In(stream of Op)
        Queued, ``queue_depth`` of them.
    tx_program, rx_program : In(ProgramWrite)
    filled, freed : Out(BufferQuery)
    fill, release : Out(BufferEvent)
    query : Out(CollectiveQuery) × (1 + ports)
    grant : Out(1)
        An op starts: its senders may send. One pulse per op, in op order.

    The following once for each port; with one port they are no arrays:

    o : Out(stream of flit)
    i : In(stream of flit)
    granted : In(1)
        The same pulse from the receiver of this port's messages; unused without grants. One
        signal of a bit for each port.
    tx_read : Out(SramReadSignature)
    rx_read : Out(SramReadSignature)
    tx_write : Out(SramWriteSignature)
    rx_write : Out(SramWriteSignature)
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
        self.ports = ports = parameters.dims[dim].ports
        flit = stream.Signature(flit_layout(parameters.flit_bytes))
        sram = {"address_bits": parameters.address_bits, "flit_bytes": parameters.flit_bytes}
        by_port = {
            "o": Out(flit),
            "i": In(flit),
            "tx_read": Out(SramReadSignature(**sram)),
            "rx_read": Out(SramReadSignature(**sram)),
            "tx_write": Out(SramWriteSignature(**sram)),
            "rx_write": Out(SramWriteSignature(**sram)),
            "mark": Out(CollectiveMark()),
        }
        super().__init__(
            {
                "op": In(stream.Signature(Op)),
                "tx_program": In(ProgramWrite(step=TxStep)),
                "rx_program": In(ProgramWrite(step=RxStep)),
                "grant": Out(1),
                "granted": In(ports),
                "filled": Out(BufferQuery()),
                "freed": Out(BufferQuery()),
                "fill": Out(BufferEvent()),
                "release": Out(BufferEvent()),
                "query": Out(CollectiveQuery()).array(1 + ports),
                "idle": Out(1),
                "status": Out(DimStatus),
                "events": Out(DimEvents),
            }
            | {name: m if ports == 1 else m.array(ports) for name, m in by_port.items()}
        )

    def at(self, name, port):
        """The member ``name`` of a port."""
        member = getattr(self, name)
        return member if self.ports == 1 else member[port]

    def elaborate(self, platform):
        m = Module()
        p = self.parameters
        m.submodules.queue = queue = StreamFifo(shape=Op, depth=p.queue_depth)
        m.submodules.contexts = contexts = Contexts(contexts=p.contexts, ports=self.ports)
        wiring.connect(m, wiring.flipped(self.op), queue.i)
        wiring.connect(m, queue.o, contexts.op)
        for inner, outer in (
            (contexts.filled, self.filled),
            (contexts.freed, self.freed),
            (contexts.fill, self.fill),
            (contexts.release, self.release),
            (contexts.query, self.query[0]),
        ):
            wiring.connect(m, inner, wiring.flipped(outer))
        granted = self._granted(m)
        op = queue.o.payload
        units = [self._port(m, port, contexts, op, granted) for port in range(self.ports)]
        m.d.comb += [
            self.grant.eq(contexts.start.valid),
            self.idle.eq(~queue.o.valid & ~contexts.busy.any()),
        ]
        self._report(m, contexts, units)
        return m

    def _granted(self, m):
        """A pulse for each op that all peers have started."""
        if self.ports == 1:
            return self.granted
        ahead = [Signal(16, name=f"ahead_{port}") for port in range(self.ports)]
        pulse = Signal()
        have = [(count != 0) | self.granted[port] for port, count in enumerate(ahead)]
        m.d.comb += pulse.eq(Cat(have).all())
        for port, count in enumerate(ahead):
            m.d.sync += count.eq(count + self.granted[port] - pulse)
        return pulse

    def _port(self, m, port, contexts, op, granted):
        """Transmitter, receiver and forwarding buffer of a port."""
        p = self.parameters
        number = f"_{port}" if self.ports > 1 else ""
        common = {
            "flit_bytes": p.flit_bytes,
            "address_bits": p.address_bits,
            "contexts": p.contexts,
            "program_steps": p.program_steps,
            "ports": self.ports,
        }
        tx = TxUnit(
            **common, port=port, packet_flits=p.packet_flits, grants=p.dims[self.dim].grants
        )
        rx = RxUnit(
            **common,
            data_types=p.data_types,
            operators=p.operators,
            adder_depth=p.adder_depth,
        )
        forward = ForwardBuffer(
            depth=p.forward_flits,
            contexts=p.contexts,
            flit_bytes=p.flit_bytes,
            address_bits=p.address_bits,
        )
        for name, unit in (("tx", tx), ("rx", rx), ("forward", forward)):
            m.submodules[name + number] = unit
        for inner, name in (
            (forward.sram, "tx_read"),
            (rx.read, "rx_read"),
            (tx.write, "tx_write"),
            (rx.write, "rx_write"),
            (tx.o, "o"),
            (rx.i, "i"),
            (rx.poisoned, "mark"),
        ):
            wiring.connect(m, inner, wiring.flipped(self.at(name, port)))
        wiring.connect(m, tx.query, wiring.flipped(self.query[1 + port]))
        wiring.connect(m, contexts.lookup[port], tx.lookup)
        wiring.connect(m, contexts.buffers[port], tx.buffers)
        wiring.connect(m, contexts.lookup[self.ports + port], rx.lookup)
        wiring.connect(m, tx.read, forward.read)
        wiring.connect(m, tx.reading, forward.reading)
        wiring.connect(m, rx.received, forward.received)
        wiring.connect(m, contexts.sent[port], tx.sent)
        wiring.connect(m, contexts.written[port], rx.written)
        wiring.connect(m, rx.closing, tx.closing)
        for program, written in ((tx.program, self.tx_program), (rx.program, self.rx_program)):
            mine = (written.port == port) if self.ports > 1 else 1
            m.d.comb += [
                program.valid.eq(written.valid & mine),
                program.index.eq(written.index),
                program.step.eq(written.step),
            ]
        for name in contexts.start.signature.members:
            m.d.comb += getattr(tx.start, name).eq(getattr(contexts.start, name))
        if self.ports > 1:
            m.d.comb += tx.start.tx_count.eq(op.port_counts[port])
        m.d.comb += [
            tx.progress.eq(contexts.progress),
            tx.copied.eq(contexts.copied),
            rx.progress.eq(contexts.progress),
            forward.progress.eq(contexts.progress[port]),
            tx.next.eq(contexts.next),
            tx.granted.eq(granted),
            rx.busy.eq(contexts.busy),
            rx.void.eq(contexts.void),
        ]
        return tx, rx, forward

    def _report(self, m, contexts, units):
        """What the dim as a whole waits for, and what happened at all of its ports."""
        oldest = Signal.like(contexts.next)
        link = Signal(self.ports)
        ports = range(self.ports)
        o, i = ([self.at(name, port) for port in ports] for name in "oi")
        early = Cat(rx.early for _, rx, _ in units).any()
        foreign = Cat(rx.foreign for _, rx, _ in units).any()
        behind = Cat(tx.chasing | rx.behind for tx, rx, _ in units).any()
        m.d.comb += [
            oldest.eq(contexts.oldest),
            link.eq(Cat(port.valid & ~port.ready for port in o)),
            self.status.eq(contexts.status),
        ]
        with m.If(foreign):
            m.d.comb += self.status.cause.eq(WaitCause.FOREIGN)
        with m.Elif(early):
            m.d.comb += self.status.cause.eq(WaitCause.OPERATION)
        with m.Elif(contexts.status.running & (contexts.status.cause == WaitCause.NONE)):
            with m.If(Cat(tx.no_grant.bit_select(oldest, 1) for tx, _, _ in units).any()):
                m.d.comb += self.status.cause.eq(WaitCause.GRANT)
            with m.Elif(Cat(tx.no_data.bit_select(oldest, 1) for tx, _, _ in units).any() | behind):
                m.d.comb += self.status.cause.eq(WaitCause.DATA)
            with m.Elif(link.any()):
                m.d.comb += self.status.cause.eq(WaitCause.LINK)

        events = self.events
        running = sum(contexts.busy[number] for number in range(self.parameters.contexts))
        m.d.comb += [
            events.flit_sent.eq(sum(port.valid & port.ready for port in o)),
            events.header_sent.eq(sum(port.valid & port.ready & port.payload.head for port in o)),
            events.flit_received.eq(sum(port.valid & port.ready for port in i)),
            events.reduced.eq(sum(rx.reduced for _, rx, _ in units)),
            events.stall_link.eq(sum(link)),
            events.stall_grant.eq(sum(~tx.sending & tx.no_grant.any() for tx, _, _ in units)),
            events.stall_data.eq(
                sum(
                    tx.chasing | rx.behind | (~tx.sending & tx.no_data.any()) for tx, rx, _ in units
                )
            ),
            events.stall_operation.eq(sum(rx.early for _, rx, _ in units)),
            events.forwarded.eq(sum(forward.forwarded for _, _, forward in units)),
            events.read_back.eq(sum(forward.read_back for _, _, forward in units)),
            events.contexts.eq(running),
        ]
