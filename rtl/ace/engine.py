"""The ACE engine without its port buffers: streams of flits in and out."""

from amaranth.hdl import Cat, Module, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.collective_table import STATUS_BITS
from rtl.ace.counters import Counters, engine_counters
from rtl.ace.lane import Lane
from rtl.ace.layouts import RECORD_BYTES
from rtl.ace.memory_port import ADDRESS_BITS, MemoryReadSignature, MemoryWriteSignature
from rtl.ace.memory_read import MemoryReadArbiter
from rtl.ace.memory_write import MemoryWriteArbiter
from rtl.ace.parameters import AceParameters
from rtl.ace.regions import Regions
from rtl.ace.sram import Sram
from rtl.ace.sram_share import SramReadShare, SramWriteShare
from rtl.ace.status import DimStatus
from rtl.common.clear import add_cleared
from rtl.common.packet import flit_layout
from rtl.common.turns import Turns

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
    clearable : with ``clear``

    Members
    -------
    With several classes each has a *lane* of the engine, in the order of ``parameters.classes``;
    ``doorbell`` is an array by lane then, ``ports`` by dim and lane. Counters and status of a dim
    stand in place ``lane * dims + dim``.

    doorbell : In(stream of flit address)
        A descriptor (``rtl.ace.layouts``) lies there.
    memory_read : Out(MemoryReadSignature)
    memory_write : Out(MemoryWriteSignature)
    ports : Out(DimPort) × ports of all dims
    completion : Out(stream of collective id)
        In program order of each lane.
    completion_status : Out(4)
        :class:`rtl.ace.status.CompletionStatus` of the completion that is offered.
    completion_lane : Out
        Its lane (several classes only).
    regions : In(Regions)
        What may be read and written.
    abort : In(stream of collective id)
        Give this collective up; always taken, without effect if it is not at work.
    failed : In({read, write})
        The beat that ``memory_read.data`` offers, or the flit that ``memory_write.acknowledged``
        counts, met an error.
    descriptor_fault : Out(lanes)
        A descriptor was given up because it could not be read.
    idle : Out(1)
        Nothing is queued, running or unacknowledged.
    counters : Out(engine_counters(dims, lanes))
    status : Out(array of DimStatus)
    clear : In(1)
        Only where asked for: every part is reset in the next cycle, as by the reset of the domain.

    Notes
    -----
    SRAM read ports: receivers of all dims, transmitters of all dims, RX DMA; write ports:
    receivers, copies of the transmitters, TX DMA (see :class:`Sram` on priority).
    """

    def __init__(self, *, parameters: AceParameters, clearable: bool = False):
        self.parameters = parameters
        self.clearable = clearable
        flit_bytes = parameters.flit_bytes
        dims, ports, lanes = len(parameters.dims), parameters.first_ports[-1], parameters.lanes
        doorbell = In(stream.Signature(unsigned(ADDRESS_BITS)))
        port = Out(DimPort(flit_bytes=flit_bytes))
        several = {"completion_lane": Out(range(lanes))} if lanes > 1 else {}
        if clearable:
            several["clear"] = In(1)
        super().__init__(
            {
                "doorbell": doorbell.array(lanes) if lanes > 1 else doorbell,
                "memory_read": Out(MemoryReadSignature(flit_bytes=flit_bytes)),
                "memory_write": Out(MemoryWriteSignature(flit_bytes=flit_bytes)),
                "ports": port.array(ports, lanes) if lanes > 1 else port.array(ports),
                "completion": Out(stream.Signature(unsigned(16))),
                "completion_status": Out(STATUS_BITS),
                "regions": In(Regions(parameters.regions)),
                "abort": In(stream.Signature(unsigned(16))),
                "failed": In(data.StructLayout({"read": 1, "write": 1})),
                "descriptor_fault": Out(lanes),
                "idle": Out(1),
                "counters": Out(engine_counters(dims, lanes)),
                "status": Out(data.ArrayLayout(DimStatus, dims * lanes)),
                **several,
            }
        )

    def port(self, place, lane):
        """A port, counted over all dims, as one class has it."""
        return self.ports[place][lane] if self.parameters.lanes > 1 else self.ports[place]

    def _add(self, m, name, part):
        """A submodule, which ``clear`` resets."""
        if self.clearable:
            add_cleared(m, name, part, self.clear)
        else:
            m.submodules[name] = part

    def _ports_of(self, part):
        """Of every port: its place among those of all dims, its dim engine, its number there."""
        first = self.parameters.first_ports
        for dim, engine in enumerate(part.dims):
            for number in range(engine.ports):
                yield first[dim] + number, engine, number

    def elaborate(self, platform):
        m = Module()
        p = self.parameters
        dims, ports, lanes = len(p.dims), p.first_ports[-1], p.lanes
        sram_port = {"flit_bytes": p.flit_bytes, "address_bits": p.address_bits}
        arbiter = MemoryReadArbiter(
            flit_bytes=p.flit_bytes,
            bursts=16 * lanes,
            classes=lanes,
            # One TX DMA keeps to it by itself.
            window=p.read_beats - p.burst_beats if lanes > 1 else None,
        )
        self._add(m, "memory_arbiter", arbiter)
        sram = Sram(
            flit_bytes=p.flit_bytes,
            depth=p.sram_flits,
            banks=p.sram_banks,
            readers=2 * ports + 1,
            writers=2 * ports + 1,
        )
        self._add(m, "sram", sram)
        counters = Counters(dims=dims, flit_bytes=p.flit_bytes, lanes=lanes)
        self._add(m, "counters", counters)
        wiring.connect(m, arbiter.memory, wiring.flipped(self.memory_read))
        parts = [Lane(p, lane) for lane in range(lanes)]
        for lane, part in enumerate(parts):
            for name, component in part.parts.items():
                self._add(m, name, component)
            part.join(m, regions=self.regions, failed=self.failed, abort=self.abort)
            doorbell = self.doorbell[lane] if lanes > 1 else self.doorbell
            wiring.connect(m, wiring.flipped(doorbell), part.fetch.doorbell)
            wiring.connect(m, part.fetch.memory, arbiter.user[lane])
            wiring.connect(m, part.tx_dma.memory, arbiter.user[lanes + lane])
            for place, engine, number in self._ports_of(part):
                port = self.port(place, lane)
                wiring.connect(m, engine.at("o", number), wiring.flipped(port.o))
                wiring.connect(m, wiring.flipped(port.i), engine.at("i", number))
                m.d.comb += [
                    port.grant.eq(engine.grant),
                    engine.granted[number].eq(port.granted),
                ]

        # What the classes share: the ports of SRAM and memory.
        reads, writes = self._sram_ports(m, sram, sram_port)
        for lane, part in enumerate(parts):
            for place, engine, number in self._ports_of(part):
                wiring.connect(m, engine.at("rx_read", number), reads[place][lane])
                wiring.connect(m, engine.at("tx_read", number), reads[ports + place][lane])
                wiring.connect(m, engine.at("rx_write", number), writes[place][lane])
                wiring.connect(m, engine.at("tx_write", number), writes[ports + place][lane])
            wiring.connect(m, part.rx_dma.read, reads[2 * ports][lane])
            wiring.connect(m, part.tx_dma.write, writes[2 * ports][lane])
        self._write_memory(m, [part.rx_dma for part in parts])
        self._complete(m, parts)

        # Reports.
        for lane, part in enumerate(parts):
            for dim, engine in enumerate(part.dims):
                m.d.comb += [
                    counters.dim_events[lane * dims + dim].eq(engine.events),
                    self.status[lane * dims + dim].eq(engine.status),
                ]
        amounts = counters.amounts
        m.d.comb += [
            self.descriptor_fault.eq(Cat(part.fetch.fault for part in parts)),
            self.idle.eq(Cat(part.idle for part in parts).all()),
            amounts.memory_read_bytes.eq(sum(part.tx_dma.read_bytes for part in parts)),
            amounts.memory_written_bytes.eq(sum(part.rx_dma.written_bytes for part in parts)),
            amounts.descriptor_bytes.eq(sum(part.fetch.taken * RECORD_BYTES for part in parts)),
            amounts.descriptor_fetched_bytes.eq(
                sum(part.fetch.fetched * p.flit_bytes for part in parts)
            ),
            amounts.records_refused.eq(
                sum(part.command.refused | part.guard.refused for part in parts)
            ),
            amounts.bank_collisions.eq(sram.collisions),
            amounts.sram_reads.eq(sram.reads),
            amounts.sram_writes.eq(sram.writes),
            amounts.completions.eq(self.completion.valid & self.completion.ready),
            self.counters.eq(counters.counts),
        ]
        return m

    def _sram_ports(self, m, sram, sram_port):
        """By port of the SRAM, a port for each class: reads, writes."""
        lanes = self.parameters.lanes
        if lanes == 1:
            return [[port] for port in sram.read], [[port] for port in sram.write]
        found = []
        for kind, ports, share in (
            ("read", sram.read, SramReadShare),
            ("write", sram.write, SramWriteShare),
        ):
            users = []
            for number, port in enumerate(ports):
                shared = share(users=lanes, **sram_port)
                self._add(m, f"share_{kind}_{number}", shared)
                wiring.connect(m, shared.port, port)
                users.append(list(shared.user))
            found.append(users)
        return found

    def _write_memory(self, m, rx_dmas):
        p = self.parameters
        if len(rx_dmas) == 1:
            wiring.connect(m, rx_dmas[0].memory, wiring.flipped(self.memory_write))
            return
        arbiter = MemoryWriteArbiter(
            users=p.lanes, flit_bytes=p.flit_bytes, writes=p.write_beats * p.lanes
        )
        self._add(m, "memory_write_arbiter", arbiter)
        for rx_dma, user in zip(rx_dmas, arbiter.user, strict=True):
            wiring.connect(m, rx_dma.memory, user)
        wiring.connect(m, arbiter.memory, wiring.flipped(self.memory_write))

    def _complete(self, m, parts):
        """Completions of all classes, one in a cycle."""
        m.d.comb += self.abort.ready.eq(1)
        if len(parts) == 1:
            completion = parts[0].rx_dma.completion
            wiring.connect(m, completion, wiring.flipped(self.completion))
            m.d.comb += self.completion_status.eq(parts[0].table.status)
            return
        turns = Turns(askers=len(parts), bound=1)
        self._add(m, "turns", turns)
        m.d.comb += [
            turns.asks.eq(Cat(part.rx_dma.completion.valid for part in parts)),
            turns.offered.eq(self.completion.valid),
            turns.taken.eq(self.completion.valid & self.completion.ready),
            self.completion.valid.eq(turns.asks.any()),
        ]
        for lane, part in enumerate(parts):
            with m.If(turns.turn[lane]):
                m.d.comb += [
                    self.completion.payload.eq(part.rx_dma.completion.payload),
                    part.rx_dma.completion.ready.eq(self.completion.ready),
                    self.completion_status.eq(part.table.status),
                    self.completion_lane.eq(lane),
                ]
