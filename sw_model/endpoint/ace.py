"""One ACE endpoint: a lane for each class (docs/ace.md)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from sw_model.collective.plan import CollectivePlan
from sw_model.endpoint.counters import RankCounters
from sw_model.endpoint.dim_engine import DimEngine, Op
from sw_model.endpoint.fetch import FETCH
from sw_model.endpoint.lane import ClassLane
from sw_model.endpoint.programs import OpProgram, ProgramCompiler
from sw_model.endpoint.read_port import OwnReadPort, ReadPort
from sw_model.endpoint.shared_read import LaneReadPort, SharedRead
from sw_model.endpoint.timing import AceTiming
from sw_model.engine import EventKernel
from sw_model.fred.tree.table import TreeTable
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
    flows : on a tree of FRED switches, what their configuration memories hold
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
        flows: TreeTable | None = None,
    ) -> None:
        engine, memory = platform.engine, platform.memory
        self.rank = rank
        self.engine = engine
        self._rung = -1  # cycle of the last doorbell
        self._kernel = kernel
        rate = Fraction(memory.read_rate)
        reading = (kernel, memory.read_latency, FETCH.burst_beats, FETCH.read_beats, rate)
        ports: list[ReadPort]
        if engine.lanes > 1:
            shared = SharedRead(*reading)
            ports = [LaneReadPort(shared, lane) for lane in range(engine.lanes)]
        else:
            ports = [OwnReadPort(*reading)]
        dims = len(platform.topology.dims)
        self.lanes = [
            ClassLane(
                kernel,
                platform,
                timing,
                port,
                ProgramCompiler(engine, dims, rank, programs, flows),
                lambda collective: complete(rank, collective),
                on_end,
            )
            for port in ports
        ]

    def start(self, plan: CollectivePlan, collective: Any, delay: int) -> RankCounters:
        """Ring the doorbell for a collective, ``delay`` cycles from now; returns what it will
        count. A host rings one in a cycle."""
        lane = self.lanes[self.engine.lane_of(plan.collective.traffic_class)]
        records, counters = lane.compiler.compile(plan)
        self._rung = max(self._rung + 1, self._kernel.now + delay)
        self._kernel.at(self._rung, lane.command.doorbell, (records, collective))
        return counters
