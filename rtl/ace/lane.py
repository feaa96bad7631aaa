"""What every class of traffic has for itself in an engine."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring

from rtl.ace.collective_table import CollectiveTable
from rtl.ace.command_unit import CommandUnit
from rtl.ace.descriptor_fetch import DescriptorFetch
from rtl.ace.dim_engine import DimEngine
from rtl.ace.parameters import AceParameters
from rtl.ace.record_guard import RecordGuard
from rtl.ace.regions import behind_limits, covered
from rtl.ace.rx_dma import RxDma
from rtl.ace.scoreboard import Scoreboard
from rtl.ace.status import CompletionStatus
from rtl.ace.tx_dma import TxDma

__all__ = ["Lane"]


class Lane:
    """The lane of a class: from its doorbell to its completions, with every queue, context and
    counter that its ops could hold while they wait.

    Lanes share ports only: of the links, of the SRAM and of the memory. None of these is held while
    waiting, so a class that stands still forever holds up no other (docs/ace.md, *Classes*).

    Parameters
    ----------
    parameters : of the engine
    lane : index into ``parameters.classes``; 0 where all classes share one lane

    Attributes
    ----------
    fetch, guard, table, command, tx_dma, rx_dma, scoreboard : components
    dims : a :class:`DimEngine` for each dim
    parts : all of these, by the names of their submodules
    idle : Signal, nothing is queued, running or unacknowledged
    """

    def __init__(self, parameters: AceParameters, lane: int):
        p = parameters
        dims, ports = len(p.dims), p.first_ports[-1]
        self.first_ports = p.first_ports
        sram_port = {"flit_bytes": p.flit_bytes, "address_bits": p.address_bits}
        self.suffix = f"_{lane}" if lane else ""
        self.fetch = DescriptorFetch(
            flit_bytes=p.flit_bytes,
            doorbells=p.doorbells,
            window=p.descriptor_window,
            burst=p.descriptor_burst,
        )
        self.guard = RecordGuard(
            parameters=p, traffic_class=None if p.classes is None else p.classes[lane]
        )
        self.table = CollectiveTable(
            entries=p.collectives, queries=dims + ports + 2, marks=ports + 4
        )
        self.command = CommandUnit(dims=dims)
        self.tx_dma = TxDma(
            **sram_port,
            queue_depth=p.queue_depth,
            burst_beats=p.burst_beats,
            read_beats=p.read_beats,
        )
        self.rx_dma = RxDma(**sram_port, queue_depth=p.queue_depth, write_beats=p.write_beats)
        self.scoreboard = Scoreboard(buffers=p.buffers, writers=dims + 1, readers=dims + 1)
        self.dims = [DimEngine(parameters=p, dim=dim) for dim in range(dims)]
        self.idle = Signal(name=f"idle{self.suffix}")

    @property
    def parts(self) -> dict[str, wiring.Component]:
        parts: dict[str, wiring.Component] = {
            "fetch": self.fetch,
            "guard": self.guard,
            "collectives": self.table,
            "command": self.command,
            "tx_dma": self.tx_dma,
            "rx_dma": self.rx_dma,
            "scoreboard": self.scoreboard,
        } | {f"dim_{number}": engine for number, engine in enumerate(self.dims)}
        return {name + self.suffix: part for name, part in parts.items()}

    def join(self, m: Module, *, regions, failed, abort) -> None:
        """Join the parts, which are submodules of ``m``.

        Parameters
        ----------
        regions, failed, abort : as of :class:`rtl.ace.engine.AceEngine`
        """
        self._commands(m)
        self._protection(m, regions, failed, abort)
        for number, engine in enumerate(self.dims):
            self._dim(m, number, engine)
        units_idle = Signal(name=f"units_idle{self.suffix}")
        units = (self.tx_dma, self.rx_dma, *self.dims)
        m.d.comb += [
            units_idle.eq(Cat(unit.idle for unit in units).all()),
            self.command.units_idle.eq(units_idle),
            self.idle.eq(units_idle & self.fetch.idle),
        ]

    def _commands(self, m):
        """Records to the units, and the units' buffers."""
        dims = len(self.dims)
        wiring.connect(m, self.fetch.record, self.guard.i)
        wiring.connect(m, self.guard.o, self.command.record)
        wiring.connect(m, self.command.load, self.tx_dma.load)
        wiring.connect(m, self.command.store, self.rx_dma.store)
        wiring.connect(m, self.tx_dma.freed, self.scoreboard.freed[dims])
        wiring.connect(m, self.tx_dma.fill, self.scoreboard.fill[dims])
        wiring.connect(m, self.rx_dma.filled, self.scoreboard.filled[dims])
        wiring.connect(m, self.rx_dma.release, self.scoreboard.release[dims])

    def _protection(self, m, regions, failed, abort):
        """What is known against the collectives."""
        queries = len(self.dims) + self.first_ports[-1]
        fetch, table, tx_dma, rx_dma = self.fetch, self.table, self.tx_dma, self.rx_dma
        wiring.connect(m, self.guard.begin, table.begin)
        wiring.connect(m, self.guard.mark, table.mark[0])
        wiring.connect(m, tx_dma.fault, table.mark[1])
        wiring.connect(m, rx_dma.fault, table.mark[2])
        wiring.connect(m, tx_dma.query, table.query[queries])
        wiring.connect(m, rx_dma.query, table.query[queries + 1])
        may_read = covered(
            m,
            regions,
            behind_limits(m, regions),
            first=fetch.memory.request.payload.address,
            flits=fetch.memory.request.payload.beats,
            write=False,
            name=f"fetch{self.suffix}",
        )
        m.d.comb += [
            self.guard.regions.eq(regions),
            fetch.forbidden.eq(~may_read),
            fetch.failed.eq(failed.read),
            tx_dma.failed.eq(failed.read),
            rx_dma.failed.eq(failed.write),
            table.mark[3].valid.eq(abort.valid),
            table.mark[3].collective.eq(abort.payload),
            table.mark[3].status.eq(CompletionStatus.ABORTED),
            table.ending.eq(rx_dma.completion.payload),
            table.ended.eq(rx_dma.completion.valid & rx_dma.completion.ready),
        ]

    def _dim(self, m, number, engine):
        """A dim engine among the units."""
        command, scoreboard, table = self.command, self.scoreboard, self.table
        wiring.connect(m, command.op[number], engine.op)
        wiring.connect(m, command.tx_program[number], engine.tx_program)
        wiring.connect(m, command.rx_program[number], engine.rx_program)
        wiring.connect(m, engine.filled, scoreboard.filled[number])
        wiring.connect(m, engine.freed, scoreboard.freed[number])
        wiring.connect(m, engine.fill, scoreboard.fill[number])
        wiring.connect(m, engine.release, scoreboard.release[number])
        wiring.connect(m, engine.query[0], table.query[number])
        for port in range(engine.ports):
            place = self.first_ports[number] + port
            wiring.connect(m, engine.query[1 + port], table.query[len(self.dims) + place])
            wiring.connect(m, engine.at("mark", port), table.mark[4 + place])
