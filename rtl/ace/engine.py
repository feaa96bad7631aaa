"""The ACE engine without its port buffers: streams of flits in and out."""

from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.collective_table import STATUS_BITS, CollectiveTable
from rtl.ace.command_unit import CommandUnit
from rtl.ace.counters import Counters, engine_counters
from rtl.ace.descriptor_fetch import DescriptorFetch
from rtl.ace.dim_engine import DimEngine
from rtl.ace.layouts import RECORD_BYTES
from rtl.ace.memory_port import ADDRESS_BITS, MemoryReadSignature, MemoryWriteSignature
from rtl.ace.memory_read import MemoryReadArbiter
from rtl.ace.parameters import AceParameters
from rtl.ace.record_guard import RecordGuard
from rtl.ace.regions import Regions, covered
from rtl.ace.rx_dma import RxDma
from rtl.ace.scoreboard import Scoreboard
from rtl.ace.sram import Sram
from rtl.ace.status import CompletionStatus, DimStatus
from rtl.ace.tx_dma import TxDma
from rtl.common.packet import flit_layout

__all__ = ["AceEngine", "DimPort"]


class DimPort(wiring.Signature):
    """The port of a dim, seen from the engine.

    Members
    -------
    o : Out(stream of flit)
    i : In(stream of flit)
    grant : Out(1)
        To the peer that sends to this port.
    granted : In(1)
        From the peer this port sends to.
    """

    def __init__(self, *, flit_bytes: int):
        flit = stream.Signature(flit_layout(flit_bytes))
        super().__init__({"o": Out(flit), "i": In(flit), "grant": Out(1), "granted": In(1)})


class AceEngine(wiring.Component):
    """Runs collectives beside an NPU (docs/ace.md): descriptors in, payload read and written once.

    Parameters
    ----------
    parameters : all of them

    Members
    -------
    doorbell : In(stream of flit address)
        A descriptor (``rtl.ace.layouts``) lies there.
    memory_read : Out(MemoryReadSignature)
    memory_write : Out(MemoryWriteSignature)
    ports : Out(DimPort) × dims
    completion : Out(stream of collective id)
        In program order.
    completion_status : Out(4)
        :class:`rtl.ace.status.CompletionStatus` of the completion that is offered.
    regions : In(Regions)
        What may be read and written.
    abort : In(stream of collective id)
        Give this collective up; always taken, without effect if it is not at work.
    failed : In({read, write})
        The beat that ``memory_read.data`` offers, or the flit that ``memory_write.acknowledged``
        counts, met an error.
    descriptor_fault : Out(1)
        A descriptor was given up because it could not be read.
    idle : Out(1)
        Nothing is queued, running or unacknowledged.
    counters : Out(engine_counters(dims))
    status : Out(array of DimStatus)

    Notes
    -----
    SRAM read ports: receivers of all dims, transmitters of all dims, RX DMA; write ports:
    receivers, copies of the transmitters, TX DMA (see :class:`Sram` on priority).
    """

    def __init__(self, *, parameters: AceParameters):
        self.parameters = parameters
        flit_bytes = parameters.flit_bytes
        dims = len(parameters.dims)
        super().__init__(
            {
                "doorbell": In(stream.Signature(unsigned(ADDRESS_BITS))),
                "memory_read": Out(MemoryReadSignature(flit_bytes=flit_bytes)),
                "memory_write": Out(MemoryWriteSignature(flit_bytes=flit_bytes)),
                "ports": Out(DimPort(flit_bytes=flit_bytes)).array(dims),
                "completion": Out(stream.Signature(unsigned(16))),
                "completion_status": Out(STATUS_BITS),
                "regions": In(Regions(parameters.regions)),
                "abort": In(stream.Signature(unsigned(16))),
                "failed": In(data.StructLayout({"read": 1, "write": 1})),
                "descriptor_fault": Out(1),
                "idle": Out(1),
                "counters": Out(engine_counters(dims)),
                "status": Out(data.ArrayLayout(DimStatus, dims)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        p = self.parameters
        dims = len(p.dims)
        sram_port = {"flit_bytes": p.flit_bytes, "address_bits": p.address_bits}

        m.submodules.fetch = fetch = DescriptorFetch(
            flit_bytes=p.flit_bytes,
            doorbells=p.doorbells,
            window=p.descriptor_window,
            burst=p.descriptor_burst,
        )
        m.submodules.guard = guard = RecordGuard(parameters=p)
        m.submodules.collectives = table = CollectiveTable(
            entries=p.collectives, queries=2 * dims + 2, marks=dims + 4
        )
        m.submodules.command = command = CommandUnit(dims=dims)
        m.submodules.tx_dma = tx_dma = TxDma(
            **sram_port,
            queue_depth=p.queue_depth,
            burst_beats=p.burst_beats,
            read_beats=p.read_beats,
        )
        m.submodules.rx_dma = rx_dma = RxDma(
            **sram_port, queue_depth=p.queue_depth, write_beats=p.write_beats
        )
        m.submodules.memory_arbiter = arbiter = MemoryReadArbiter(
            flit_bytes=p.flit_bytes, bursts=16
        )
        m.submodules.sram = sram = Sram(
            flit_bytes=p.flit_bytes,
            depth=p.sram_flits,
            banks=p.sram_banks,
            readers=2 * dims + 1,
            writers=2 * dims + 1,
        )
        m.submodules.scoreboard = scoreboard = Scoreboard(
            buffers=p.buffers, writers=dims + 1, readers=dims + 1
        )
        m.submodules.counters = counters = Counters(dims=dims, flit_bytes=p.flit_bytes)

        # Commands and memory.
        wiring.connect(m, wiring.flipped(self.doorbell), fetch.doorbell)
        wiring.connect(m, fetch.record, guard.i)
        wiring.connect(m, guard.o, command.record)
        wiring.connect(m, fetch.memory, arbiter.user[0])
        wiring.connect(m, tx_dma.memory, arbiter.user[1])
        wiring.connect(m, arbiter.memory, wiring.flipped(self.memory_read))
        wiring.connect(m, command.load, tx_dma.load)
        wiring.connect(m, command.store, rx_dma.store)
        wiring.connect(m, rx_dma.memory, wiring.flipped(self.memory_write))
        wiring.connect(m, rx_dma.completion, wiring.flipped(self.completion))

        # Collectives.
        wiring.connect(m, guard.begin, table.begin)
        wiring.connect(m, guard.mark, table.mark[0])
        wiring.connect(m, tx_dma.fault, table.mark[1])
        wiring.connect(m, rx_dma.fault, table.mark[2])
        wiring.connect(m, tx_dma.query, table.query[2 * dims])
        wiring.connect(m, rx_dma.query, table.query[2 * dims + 1])
        m.d.comb += [
            guard.regions.eq(self.regions),
            fetch.forbidden.eq(
                ~covered(
                    m,
                    self.regions,
                    first=fetch.memory.request.payload.address,
                    flits=fetch.memory.request.payload.beats,
                    write=False,
                    name="fetch",
                )
            ),
            fetch.failed.eq(self.failed.read),
            self.descriptor_fault.eq(fetch.fault),
            tx_dma.failed.eq(self.failed.read),
            rx_dma.failed.eq(self.failed.write),
            table.mark[3].valid.eq(self.abort.valid),
            table.mark[3].collective.eq(self.abort.payload),
            table.mark[3].status.eq(CompletionStatus.ABORTED),
            self.abort.ready.eq(1),
            table.ending.eq(self.completion.payload),
            table.ended.eq(self.completion.valid & self.completion.ready),
            self.completion_status.eq(table.status),
        ]

        # Buffers.
        wiring.connect(m, tx_dma.write, sram.write[2 * dims])
        wiring.connect(m, tx_dma.freed, scoreboard.freed[dims])
        wiring.connect(m, tx_dma.fill, scoreboard.fill[dims])
        wiring.connect(m, rx_dma.read, sram.read[2 * dims])
        wiring.connect(m, rx_dma.filled, scoreboard.filled[dims])
        wiring.connect(m, rx_dma.release, scoreboard.release[dims])

        # Dims.
        units_idle = [tx_dma.idle, rx_dma.idle]
        for dim in range(dims):
            engine = DimEngine(parameters=p, dim=dim)
            m.submodules[f"dim_{dim}"] = engine
            port = self.ports[dim]
            wiring.connect(m, command.op[dim], engine.op)
            wiring.connect(m, command.tx_program[dim], engine.tx_program)
            wiring.connect(m, command.rx_program[dim], engine.rx_program)
            wiring.connect(m, engine.o, wiring.flipped(port.o))
            wiring.connect(m, wiring.flipped(port.i), engine.i)
            wiring.connect(m, engine.rx_read, sram.read[dim])
            wiring.connect(m, engine.tx_read, sram.read[dims + dim])
            wiring.connect(m, engine.rx_write, sram.write[dim])
            wiring.connect(m, engine.tx_write, sram.write[dims + dim])
            wiring.connect(m, engine.filled, scoreboard.filled[dim])
            wiring.connect(m, engine.freed, scoreboard.freed[dim])
            wiring.connect(m, engine.fill, scoreboard.fill[dim])
            wiring.connect(m, engine.release, scoreboard.release[dim])
            wiring.connect(m, engine.query[0], table.query[dim])
            wiring.connect(m, engine.query[1], table.query[dims + dim])
            wiring.connect(m, engine.mark, table.mark[4 + dim])
            m.d.comb += [
                port.grant.eq(engine.grant),
                engine.granted.eq(port.granted),
                counters.dim_events[dim].eq(engine.events),
                self.status[dim].eq(engine.status),
            ]
            units_idle.append(engine.idle)

        idle = Signal()
        amounts = counters.amounts
        m.d.comb += [
            idle.eq(Cat(units_idle).all()),
            command.units_idle.eq(idle),
            self.idle.eq(idle & fetch.idle),
            amounts.memory_read_bytes.eq(tx_dma.read_bytes),
            amounts.memory_written_bytes.eq(rx_dma.written_bytes),
            amounts.descriptor_bytes.eq(fetch.taken * RECORD_BYTES),
            amounts.descriptor_fetched_bytes.eq(fetch.fetched * p.flit_bytes),
            amounts.records_refused.eq(command.refused | guard.refused),
            amounts.bank_collisions.eq(sram.collisions),
            amounts.sram_reads.eq(sram.reads),
            amounts.sram_writes.eq(sram.writes),
            amounts.completions.eq(self.completion.valid & self.completion.ready),
            self.counters.eq(counters.counts),
        ]
        return m
