"""The platform seen from Python, inside the simulation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.lib import data
from numpy.typing import NDArray

from rtl.ace.counters import engine_counters
from rtl.ace.status import DimStatus, WaitCause
from sim_top.configurations import FlowTable
from sim_top.platform.disagreement import disagreements
from sim_top.platform.parameters import engine_parameters
from sim_top.shell.control import Shell, StuckError
from sw_model.endpoint.counters import DimCounters, RankCounters, together
from sw_model.fred.table import entry_image
from sw_model.fred.tree.table import TreeTable
from sw_model.platform import Platform

__all__ = ["PlatformControl", "PlatformError"]

_CAUSES = {
    WaitCause.NONE: "it moves",
    WaitCause.SOURCE: "its source buffer to be filled",
    WaitCause.DESTINATION: "its destination buffer to be released",
    WaitCause.CONTEXT: "a context",
    WaitCause.GRANT: "the grant of the receiver of its next message",
    WaitCause.DATA: "the message that it forwards",
    WaitCause.LINK: "the link to take a flit",
    WaitCause.RECEIVE: "a message to arrive",
    WaitCause.OPERATION: "its start: a message for it has arrived",
    WaitCause.FOREIGN: "a message of its collective: one of another stands in front of it",
}


class PlatformError(Exception):
    """The platform cannot go on: nothing moves, or it reports a fault."""


def _dim_counters(counts: Any) -> DimCounters:
    return DimCounters(
        flits_sent=counts.flits_sent,
        flits_received=counts.flits_received,
        headers_sent=counts.headers_sent,
        reductions=counts.reductions,
    )


def _writes(table: FlowTable | TreeTable) -> Iterator[tuple[int, int, int]]:
    """Index, switch and bits of every entry; all switches of a dim without a tree listen."""
    if isinstance(table, FlowTable):
        for index, image in enumerate(table.images()):
            yield index, 0, image
        return
    for index, entry in enumerate(table.entries):
        for place, switch in enumerate(table.ports.switches):
            if switch in entry:
                yield index, place, entry_image(entry[switch])


class PlatformControl:
    """Doorbells, completions, counters and memories of a running platform.

    Parameters
    ----------
    dut : cocotb's handle of the top
    platform : as it was built
    flows : by dim, the configuration memories of the FRED dims
    record : file that takes down every run

    Attributes
    ----------
    doorbells : doorbells that an engine queues
    """

    def __init__(
        self,
        dut: Any,
        platform: Platform,
        flows: Mapping[int, FlowTable | TreeTable],
        *,
        record: Path | None = None,
    ) -> None:
        self.platform = platform
        self.flows = flows
        self.doorbells = engine_parameters(platform).doorbells
        self.shell = Shell(
            dut,
            events=("completion", "fault"),
            flit_bytes=platform.engine.flit_bytes,
            record=record,
        )
        self._ring = 0

    @property
    def cycle(self) -> int:
        """Cycles simulated since reset."""
        return self.shell.cycle

    async def start(self, *, watchdog: int) -> None:
        """Reset the platform and fill the configuration memories of its switches."""
        memory = self.platform.memory
        await self.shell.reset(
            watchdog_limit=watchdog, read_rate=memory.read_rate, write_rate=memory.write_rate
        )
        write = 0
        for dim, table in self.flows.items():
            for index, switch, entry in _writes(table):
                write ^= 1
                self.shell.write("configuration_dim", dim)
                self.shell.write("configuration_index", index)
                self.shell.write("configuration_switch", switch)
                self.shell.write("configuration_entry", entry)
                self.shell.write("configuration_write", write)
                await self.run(until=self.cycle + 4)

    async def load(self, first: int, contents: Sequence[NDArray[np.uint8]]) -> None:
        """Write ``contents[rank]`` to every rank's memory from flit ``first`` on."""
        await self.shell.load_at(first, range(len(contents)), contents)

    async def dump(self, first: int, flits: int) -> list[NDArray[np.uint8]]:
        """``flits`` flits of every rank's memory, as bytes."""
        ranks = range(self.platform.topology.npus)
        return await self.shell.dump(ranks, first=first, beats=flits)

    async def doorbell(self, address: int, ranks: Sequence[int], lane: int = 0) -> None:
        """Tell the engines of ``ranks`` that a descriptor of a class lies at ``address``; takes a
        cycle."""
        self._ring ^= 1
        self.shell.write("doorbell_lane", lane)
        self.shell.write("doorbell_address", address)
        self.shell.write("doorbell_ranks", sum(1 << rank for rank in ranks))
        self.shell.write("doorbell_ring", self._ring)

    async def run(self, until: int | None) -> None:
        """Run until a collective ends on some rank, or until cycle ``until``.

        Raises
        ------
        PlatformError
            where nothing moves any more, or the platform reports a fault; names who waits for what.
        """
        try:
            wake = await self.shell.run(until=until)
        except StuckError as error:
            raise PlatformError(f"{error}\n{await self._describe()}") from error
        if "fault" in wake.events:
            raise PlatformError(f"fault in cycle {wake.cycle}: {self._faults()}")

    def completed(self) -> list[list[int]]:
        """Collectives that each rank has completed of each class, modulo 2**16."""
        npus, lanes = self.platform.topology.npus, self.platform.engine.lanes
        word = int(self.shell.dut.completed.value)
        counts = [word >> 16 * place & 0xFFFF for place in range(npus * lanes)]
        return [counts[rank * lanes : (rank + 1) * lanes] for rank in range(npus)]

    async def counters(self) -> tuple[tuple[RankCounters, ...], tuple[tuple[int, ...], ...]]:
        """Of every rank, its counters, and the cycles in which each of its dims had an op under
        way. Takes two cycles."""
        dims = len(self.platform.topology.dims)
        lanes = self.platform.engine.lanes
        await self._capture()
        values = self._counts()
        out, busy = [], []
        for rank in range(self.platform.topology.npus):
            engine, by_dim = values[rank]["engine"], values[rank]["dims"]
            by_class = tuple(
                tuple(_dim_counters(by_dim[lane * dims + dim]) for dim in range(dims))
                for lane in range(lanes)
            )
            out.append(
                RankCounters(
                    memory_read_bytes=engine.memory_read_bytes,
                    memory_written_bytes=engine.memory_written_bytes,
                    descriptor_bytes=engine.descriptor_bytes,
                    dims=tuple(map(together, zip(*by_class, strict=True))),
                    by_class=by_class if lanes > 1 else (),
                )
            )
            if lanes > 1:
                busy.append(tuple(values[rank]["busy_cycles"][dim] for dim in range(dims)))
            else:
                busy.append(tuple(by_dim[dim].busy_cycles for dim in range(dims)))
        return tuple(out), tuple(busy)

    def bank_collisions(self) -> tuple[int, ...]:
        """Of every rank, the requests to its SRAM that were refused, as `counters` last took them
        down."""
        values = self._counts()
        ranks = range(self.platform.topology.npus)
        return tuple(values[rank]["engine"].bank_collisions for rank in ranks)

    def _counts(self) -> list[Any]:
        """The counters that were taken down last, by rank."""
        topology, lanes = self.platform.topology, self.platform.engine.lanes
        layout = engine_counters(len(topology.dims), lanes)
        ports = (getattr(self.shell.dut, f"counters__{rank}") for rank in range(topology.npus))
        return [layout.from_bits(int(port.value)) for port in ports]

    async def _capture(self) -> None:
        """Have counters and status taken down."""
        self.shell.write("capture", 1)
        await self.shell.run(until=self.cycle + 2)
        self.shell.write("capture", 0)

    async def _describe(self) -> str:
        """Every dim engine that waits, and for what."""
        dims = len(self.platform.topology.dims)
        npus = self.platform.topology.npus
        classes = self.platform.engine.classes or ("",)
        layout = data.ArrayLayout(data.ArrayLayout(DimStatus, dims * len(classes)), npus)
        await self._capture()
        values = layout.from_bits(int(self.shell.dut.status.value))
        lines = []
        running: list[dict] = [{} for _ in classes]
        for rank in range(npus):
            for lane, dim in product(range(len(classes)), range(dims)):
                status = values[rank][lane * dims + dim]
                own = f", class {classes[lane]}" if classes[lane] else ""
                who = f"rank {rank}{own}, dim {dim + 1}: op {status.op}"
                if status.running:
                    running[lane][rank, dim] = (status.op, status.collective)
                    lines.append(
                        f"{who} of collective {status.collective}, {status.sent} messages sent "
                        f"and {status.received} received, waits for {_CAUSES[status.cause]}"
                    )
                elif status.queued:
                    lines.append(
                        f"{who} has not started, and waits for {_CAUSES[status.start_cause]}"
                    )
        for own_running in running:
            lines += disagreements(self.platform.topology, own_running)
        return "\n".join(lines) or "no op is under way on any dim"

    def _faults(self) -> str:
        word = int(self.shell.dut.faults.value)
        npus = self.platform.topology.npus
        names = [f"rank {rank}" for rank in range(npus)]
        names += [f"switch {number}" for number in range(word.bit_length())]
        return ", ".join(name for bit, name in enumerate(names) if word >> bit & 1)
