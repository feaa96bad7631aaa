"""One ACE endpoint: command unit, DMA, scoreboard and a dim engine per dim (docs/ace.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from sw_model.collective.plan import CollectivePlan
from sw_model.endpoint.command import CommandUnit, ReadPort, RecordQueue
from sw_model.endpoint.counters import RankCounters
from sw_model.endpoint.dim_engine import DimEngine, Op
from sw_model.endpoint.dma import RxDma, TxDma
from sw_model.endpoint.fetch import FETCH
from sw_model.endpoint.programs import RECORD_BYTES, OpProgram, ProgramCompiler, Unit
from sw_model.endpoint.scoreboard import Scoreboard
from sw_model.endpoint.timing import AceTiming
from sw_model.engine import EventKernel
from sw_model.platform import Platform

__all__ = ["Endpoint"]


class Endpoint:
    """The engine of one rank.

    Parameters
    ----------
    kernel : event kernel
    platform : capacities
    rank : its rank
    timing : pipeline depths
    programs : op programs by steps, shared between ranks
    complete : called with (rank, collective) when a collective is stored and acknowledged
    on_end : called with (engine, op) at the end of every op, or None
    """

    def __init__(
        self,
        kernel: EventKernel,
        platform: Platform,
        rank: int,
        timing: AceTiming,
        programs: dict[tuple, OpProgram],
        complete: Callable[[int, Any], None],
        on_end: Callable[[DimEngine, Op], None] | None = None,
    ) -> None:
        engine, memory = platform.engine, platform.memory
        self.rank = rank
        self._kernel = kernel
        self.scoreboard = Scoreboard(engine.buffer_count)
        port = ReadPort(
            kernel,
            latency=memory.read_latency,
            burst=FETCH.burst_beats,
            window=FETCH.read_beats,
            rate=Fraction(memory.read_rate),
        )
        self.tx_dma = TxDma(kernel, port, self.scoreboard, timing, engine.queue_depth)
        self.rx_dma = RxDma(
            kernel,
            self.scoreboard,
            timing,
            engine.queue_depth,
            memory.write_latency,
            Fraction(memory.write_rate),
            lambda collective: complete(rank, collective),
        )
        self.dims: Sequence[DimEngine] = [
            DimEngine(
                kernel,
                self.scoreboard,
                timing,
                unit=Unit.DIM + dim,
                contexts=engine.contexts,
                depth=engine.queue_depth,
                packet_flits=engine.packet_bytes // engine.flit_bytes,
                ports=description.links,
                on_end=on_end,
            )
            for dim, description in enumerate(platform.topology.dims)
        ]
        units: dict[int, RecordQueue] = {int(Unit.LOAD): self.tx_dma, int(Unit.STORE): self.rx_dma}
        for unit in self.dims:
            units[unit.unit] = unit
        self.command = CommandUnit(
            kernel, port, units, timing, -(-RECORD_BYTES // engine.flit_bytes)
        )
        for queue in units.values():
            queue.command = self.command
        self._compiler = ProgramCompiler(engine, len(self.dims), rank, programs)

    def start(self, plan: CollectivePlan, collective: Any, delay: int) -> RankCounters:
        """Ring the doorbell for a collective, ``delay`` cycles from now; returns what it will
        count."""
        records, counters = self._compiler.compile(plan)
        self._kernel.after(delay, self.command.doorbell, (records, collective))
        return counters
