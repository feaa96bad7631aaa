"""What every class of traffic has for itself in an endpoint (docs/ace.md, *Classes*)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from sw_model.endpoint.command import CommandUnit, RecordQueue
from sw_model.endpoint.dim_engine import DimEngine, Op
from sw_model.endpoint.dma import RxDma, TxDma
from sw_model.endpoint.programs import RECORD_BYTES, ProgramCompiler, Unit
from sw_model.endpoint.read_port import ReadPort
from sw_model.endpoint.scoreboard import Scoreboard
from sw_model.endpoint.timing import AceTiming
from sw_model.engine import EventKernel
from sw_model.platform import Platform

__all__ = ["ClassLane"]


class ClassLane:
    """Command unit, DMA queues, buffers and dim engines of one class.

    Parameters
    ----------
    kernel : event kernel
    platform : capacities
    timing : pipeline depths
    port : the memory read port as the class has it
    compiler : of the class's records
    complete : called with a collective when it is stored and acknowledged
    on_end : called with (engine, op) at the end of every op, or None
    """

    def __init__(
        self,
        kernel: EventKernel,
        platform: Platform,
        timing: AceTiming,
        port: ReadPort,
        compiler: ProgramCompiler,
        complete: Callable[[Any], None],
        on_end: Callable[[DimEngine, Op], None] | None,
    ) -> None:
        engine, memory = platform.engine, platform.memory
        self.compiler = compiler
        self.scoreboard = Scoreboard(engine.buffer_count)
        self.tx_dma = TxDma(kernel, port, self.scoreboard, timing, engine.queue_depth)
        self.rx_dma = RxDma(
            kernel,
            self.scoreboard,
            timing,
            engine.queue_depth,
            memory.write_latency,
            Fraction(memory.write_rate),
            complete,
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
