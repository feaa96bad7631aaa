"""The ACE engine as a block of a system on chip: AXI4-Lite, AXI4 and AXI4-Stream."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.collective_table import STATUS_BITS
from rtl.ace.counters import DimCounters, EngineCounters
from rtl.ace.engine import AceEngine
from rtl.ace.memory_port import ADDRESS_BITS as FLIT_ADDRESS_BITS
from rtl.ace.parameters import AceParameters, check_positive
from rtl.ace.status import CompletionStatus
from rtl.axi.link_port import AxiLinkPort
from rtl.axi.lite_port import AxiLitePort
from rtl.axi.parameters import AxiParameters
from rtl.axi.read_master import AxiReadMaster
from rtl.axi.register_file import RegisterFile
from rtl.axi.register_map import ADDRESS_BITS, VERSION, counters, registers
from rtl.axi.signatures import AxiLiteSignature, AxiSignature, AxiStreamSignature
from rtl.axi.write_master import AxiWriteMaster
from rtl.common.clear import add_cleared
from rtl.common.fifo import StreamFifo

__all__ = ["AceAxi"]

MAGIC = 0x414345


class AceAxi(wiring.Component):
    """The engine with the ports of the field (docs/ace.md, *On AXI*; docs/registers.md).

    The host's part in a collective is a descriptor in memory, one write to DOORBELL, one interrupt
    and one read of COMPLETION.

    Parameters
    ----------
    parameters : of the engine; of each dim, ``grants`` and ``depth`` set its port (``rate`` and
        ``credits`` belong to Antiphon's own links)
    axi : of the memory port
    completions : completions that wait for the host, 1 to 255; behind them the engine waits

    Members
    -------
    s_axi : In(AxiLiteSignature)
        Registers.
    m_axi : Out(AxiSignature)
        The NPU's memory.
    irq : Out(1)
        Level: an enabled cause is pending.
    m_axis_<d>, s_axis_<d> : Out, In(AxiStreamSignature)
        Flits of dim d, to and from its neighbours or its switch. Where classes have lanes of their
        own, m_axis_<d>_<class> and so on, a stream for each, with the class's name in small
        letters. Whatever joins them on one wire must let none wait for another.
    m_axis_grant_<d>, s_axis_grant_<d> : Out, In(AxiStreamSignature)
        Grants, for dims that have them: from this port to the one ``s_axis_<d>`` comes from, and
        from where ``m_axis_<d>`` goes to.

    Raises
    ------
    ValueError
        ``completions must be at most 255, not ...``, ``dims must be at most 15 for all classes
        together on AXI, not ...``, ``address_bits must be at least ...`` and as of the
        parameters' classes.
    """

    def __init__(
        self, *, parameters: AceParameters, axi: AxiParameters | None = None, completions: int = 16
    ):
        self.parameters = parameters
        self.axi = axi = AxiParameters() if axi is None else axi
        several = [dim.ports for dim in parameters.dims if dim.ports > 1]
        if several:
            raise ValueError(f"a dim must have one port on AXI, not {several[0]!r}")
        check_positive("completions", completions)
        if completions > 255:
            raise ValueError(f"completions must be at most 255, not {completions!r}")
        self.completions = completions
        if len(parameters.dims) * parameters.lanes > 15:
            raise ValueError(
                f"dims must be at most 15 for all classes together on AXI, "
                f"not {len(parameters.dims) * parameters.lanes}"
            )
        flit_bytes = parameters.flit_bytes
        reach = FLIT_ADDRESS_BITS + (flit_bytes - 1).bit_length()
        if axi.address_bits < reach:
            raise ValueError(
                f"address_bits must be at least {reach}, to reach 2**{FLIT_ADDRESS_BITS} flits of "
                f"{flit_bytes} bytes, not {axi.address_bits}"
            )
        flits = AxiStreamSignature(data_bytes=flit_bytes, user_bits=1)
        grants = AxiStreamSignature(data_bytes=1)
        members = {
            "s_axi": In(AxiLiteSignature(address_bits=ADDRESS_BITS)),
            "m_axi": Out(
                AxiSignature(
                    address_bits=axi.address_bits, data_bytes=flit_bytes, id_bits=axi.id_bits
                )
            ),
            "irq": Out(1),
        }
        for dim, lane in self._links_in_order():
            name = self._name(dim, lane)
            members |= {f"m_axis_{name}": Out(flits), f"s_axis_{name}": In(flits)}
            if parameters.dims[dim].grants:
                members |= {
                    f"m_axis_grant_{name}": Out(grants),
                    f"s_axis_grant_{name}": In(grants),
                }
        super().__init__(members)

    def _links_in_order(self):
        """(dim, lane) of every link, as registers count them."""
        p = self.parameters
        return [(dim, lane) for lane in range(p.lanes) for dim in range(len(p.dims))]

    def _name(self, dim, lane):
        """What stands behind ``m_axis_`` for a link."""
        classes = self.parameters.classes
        several = self.parameters.lanes > 1
        return f"{dim}_{classes[lane].name.lower()}" if several else f"{dim}"

    def elaborate(self, platform):
        m = Module()
        p = self.parameters
        dims = len(p.dims)
        rows = registers(dims=dims * p.lanes, regions=p.regions, lanes=p.lanes)
        table = {register.name: register for register in rows}
        m.submodules.port = port = AxiLitePort(address_bits=ADDRESS_BITS)
        m.submodules.registers = file = RegisterFile(table=tuple(table.values()))
        wiring.connect(m, wiring.flipped(self.s_axi), port.axi)
        wiring.connect(m, port.access, file.access)

        # The engine and its side of the memory port are also reset in each cycle after `clear`,
        # in which `reset` is high.
        clear, reset = Signal(), Signal()
        m.d.sync += reset.eq(clear)
        engine = AceEngine(parameters=p, clearable=True)
        m.submodules.engine = engine
        m.d.comb += engine.clear.eq(clear)
        drained, halt = self._memory(m, engine, clear)
        up, lost = self._links(m, engine, reset)
        resetting = self._reset(m, file, drained, halt, clear)

        # Doorbells.
        queues = []
        for lane in range(p.lanes):
            suffix = f"_{lane}" if lane else ""
            doorbells = StreamFifo(shape=unsigned(FLIT_ADDRESS_BITS), depth=p.doorbells)
            queues.append(doorbells)
            add_cleared(m, f"doorbells{suffix}", doorbells, clear)
            wiring.connect(
                m, doorbells.o, engine.doorbell[lane] if p.lanes > 1 else engine.doorbell
            )
            m.d.comb += [
                file.refuse[f"DOORBELL{suffix}"].eq(~doorbells.i.ready | resetting),
                doorbells.i.valid.eq(file.written[f"DOORBELL{suffix}"][0]),
                doorbells.i.payload.eq(file.access.write_data),
            ]

        # Protection.
        m.d.comb += [
            engine.regions.restricted.eq(1),
            engine.abort.valid.eq(file.written.ABORT[0]),
            engine.abort.payload.eq(file.access.write_data),
        ]
        for number, region in enumerate(engine.regions.regions):
            access = file.stored.REGION_ACCESS[number]
            m.d.comb += [
                region.base.eq(file.stored.REGION_BASE[number]),
                region.limit.eq(file.stored.REGION_LIMIT[number]),
                region.read.eq(access[0]),
                region.write.eq(access[1]),
            ]

        completions = self._completions(m, engine, clear, reset)
        m.d.comb += completions.o.ready.eq(file.taken.COMPLETION)

        link_pending = Signal()
        with m.If(lost.any()):
            m.d.sync += link_pending.eq(1)
        with m.Elif(file.written.INTERRUPT_PENDING[0] & file.access.write_data[1]):
            m.d.sync += link_pending.eq(0)
        pending = Cat(completions.o.valid, link_pending)
        m.d.comb += self.irq.eq((pending & file.stored.INTERRUPT_ENABLE[0]).any())

        self._values(
            m,
            file,
            table,
            {
                "COMPLETION": {
                    "collective": Mux(completions.o.valid, completions.o.payload.collective, 0),
                    "status": Mux(completions.o.valid, completions.o.payload.status, 0),
                    "place": Mux(completions.o.valid, completions.o.payload.lane, 0),
                    "valid": completions.o.valid,
                },
                "STATUS": {
                    "idle": engine.idle & ~Cat(queue.o.valid for queue in queues).any(),
                    "resetting": resetting,
                    "doorbell_room": p.doorbells - queues[0].level,
                    "completions": completions.level,
                },
                "LINKS": up,
                "INTERRUPT_PENDING": pending,
            },
        )
        self._report(m, file, table, engine)
        if p.lanes > 1:
            names = ("first", "second", "third")
            rooms = [p.doorbells - queue.level for queue in queues]
            codes = [int(code) for code in p.classes]
            rooms, codes = ([*row, 0, 0][:3] for row in (rooms, codes))
            self._values(
                m,
                file,
                table,
                {
                    "CLASSES": {"count": p.lanes} | dict(zip(names, codes, strict=True)),
                    "DOORBELL_ROOM": dict(zip(names, rooms, strict=True)),
                },
            )
        return m

    def _completions(self, m, engine, clear, reset):
        """The queue of completions, and of descriptors that were given up."""
        entry = data.StructLayout({"collective": 16, "status": STATUS_BITS, "lane": 2})
        completions = StreamFifo(shape=entry, depth=self.completions)
        add_cleared(m, "completions", completions, clear)
        given_up = Signal(16)  # descriptors, to be reported
        report = Signal()
        m.d.comb += [
            completions.i.valid.eq(engine.completion.valid | report),
            completions.i.payload.collective.eq(engine.completion.payload),
            completions.i.payload.status.eq(engine.completion_status),
            engine.completion.ready.eq(completions.i.ready),
            report.eq((given_up != 0) & ~engine.completion.valid),
        ]
        if self.parameters.lanes > 1:
            m.d.comb += completions.i.payload.lane.eq(engine.completion_lane)
        with m.If(report):
            m.d.comb += [
                completions.i.payload.lane.eq(0),
                completions.i.payload.collective.eq(0),
                completions.i.payload.status.eq(CompletionStatus.DESCRIPTOR_ERROR),
            ]
        m.d.sync += given_up.eq(
            Mux(
                reset,
                0,
                given_up
                + sum(engine.descriptor_fault[lane] for lane in range(self.parameters.lanes))
                - (report & completions.i.ready),
            )
        )
        return completions

    def _memory(self, m, engine, clear):
        """The engine's memory ports on AXI4; whether no burst is under way, and the order to begin
        none."""
        p, axi = self.parameters, self.axi
        halt, drained = Signal(), Signal()
        reads = AxiReadMaster(flit_bytes=p.flit_bytes, axi=axi)
        writes = AxiWriteMaster(flit_bytes=p.flit_bytes, axi=axi)
        add_cleared(m, "reads", reads, clear)
        add_cleared(m, "writes", writes, clear)
        wiring.connect(m, engine.memory_read, reads.port)
        wiring.connect(m, engine.memory_write, writes.port)
        for master in (reads, writes):
            for name, member in master.signature.members["axi"].signature.members.items():
                inner, outer = getattr(master.axi, name), getattr(self.m_axi, name)
                m.d.comb += outer.eq(inner) if member.flow is Out else inner.eq(outer)
        m.d.comb += [
            reads.halt.eq(halt),
            writes.halt.eq(halt),
            drained.eq(reads.drained & writes.drained),
            engine.failed.read.eq(reads.failed),
            engine.failed.write.eq(writes.failed),
        ]
        return drained, halt

    def _links(self, m, engine, reset):
        """The ports of the dims on AXI4-Stream; by dim, whether the link is up and whether its
        other end was reset."""
        p = self.parameters
        places = self._links_in_order()
        up, lost = Signal(len(places)), Signal(len(places))
        before, used = Signal(), Signal()
        m.d.sync += before.eq(reset)
        with m.If(reset):
            m.d.sync += used.eq(0)
        rung = Cat(d.valid for d in (engine.doorbell if p.lanes > 1 else [engine.doorbell]))
        with m.Elif(rung.any()):
            m.d.sync += used.eq(1)
        for place, (dim, lane) in enumerate(places):
            description, name = p.dims[dim], self._name(dim, lane)
            link = AxiLinkPort(
                flit_bytes=p.flit_bytes, depth=description.depth, grants=description.grants
            )
            m.submodules[f"link_{name}"] = link
            wiring.connect(m, engine.port(dim, lane), link.port)
            wiring.connect(m, link.send, wiring.flipped(getattr(self, f"m_axis_{name}")))
            wiring.connect(m, wiring.flipped(getattr(self, f"s_axis_{name}")), link.receive)
            if description.grants:
                out, back = (getattr(self, f"{side}_axis_grant_{name}") for side in "ms")
                wiring.connect(m, link.grant_send, wiring.flipped(out))
                wiring.connect(m, wiring.flipped(back), link.grant_receive)
            m.d.comb += [
                link.restart.eq(reset & ~before),
                link.used.eq(used),
                up[place].eq(link.up),
                lost[place].eq(link.lost),
            ]
        return up, lost

    def _reset(self, m, file, drained, halt, clear):
        """A reset asked for by the host: no new burst, then, when all are over, two cycles of
        reset, each behind one of ``clear``."""
        resetting = Signal()
        with m.FSM():
            with m.State("RUN"):
                with m.If(file.written.CONTROL[0] & file.access.write_data[0]):
                    m.next = "DRAIN"
            with m.State("DRAIN"):
                m.d.comb += halt.eq(1)
                with m.If(drained):
                    m.next = "CLEAR"
            with m.State("CLEAR"):
                m.d.comb += [halt.eq(1), clear.eq(1)]
                m.next = "RESET"
            with m.State("RESET"):
                m.d.comb += [halt.eq(1), clear.eq(1)]
                m.next = "SETTLE"
            with m.State("SETTLE"):
                m.d.comb += halt.eq(1)
                m.next = "RUN"
            m.d.comb += resetting.eq(halt)
        return resetting

    def _values(self, m, file, table, values):
        """Give registers their values: a number, or {field: value}."""
        for name, value in values.items():
            target = file.values[name][0]
            if not isinstance(value, dict):
                m.d.comb += target.eq(value)
                continue
            fields = {field.name: field for field in table[name].fields}
            assert fields.keys() == value.keys(), (name, fields, value)
            for key, part in value.items():
                field = fields[key]
                m.d.comb += target[field.low : field.low + field.width].eq(part)

    def _report(self, m, file, table, engine):
        """How the engine was built, where its dims stand, and its counters."""
        p, axi = self.parameters, self.axi
        self._values(
            m,
            file,
            table,
            {
                "ID": {"version": VERSION, "magic": MAGIC},
                "SHAPE": {
                    "flit_bytes": p.flit_bytes,
                    "contexts": p.contexts,
                    "dims": len(p.dims),
                    "completions": self.completions,
                },
                "SRAM": {"flits": p.sram_flits, "buffers": p.buffers},
                "LIMITS": {"program_steps": p.program_steps, "packet_bytes": p.packet_bytes},
                "ARITHMETIC": {
                    "data_types": sum(1 << code for code in p.data_types),
                    "operators": sum(1 << code for code in p.operators),
                },
                "GRANTS": sum(dim.grants << number for number, dim in enumerate(p.dims)),
                "PROTECTION": {"regions": p.regions, "collectives": p.collectives},
                "MEMORY": {
                    "burst_beats": axi.burst_beats,
                    "reads": axi.reads,
                    "writes": axi.writes,
                },
            },
        )
        for dim in range(len(p.dims) * p.lanes):
            status = engine.status[dim]
            for name in ("DIM_STATUS", "DIM_PROGRESS"):
                for field in table[name].fields:
                    part = file.values[name][dim][field.low : field.low + field.width]
                    m.d.comb += part.eq(status[field.name])
            for name in counters(DimCounters):
                value = engine.counters.dims[dim][name]
                m.d.comb += file.values[f"DIM_{name.upper()}"][dim].eq(value)
        for name in counters(EngineCounters):
            value = engine.counters.engine[name]
            m.d.comb += file.values[f"COUNT_{name.upper()}"][0].eq(value)
