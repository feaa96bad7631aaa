"""One collective on an idle platform: how long it takes, and what every dim did."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from sw_model.collective.plan import Collective, CollectivePlan
from sw_model.endpoint.counters import RankCounters
from sw_model.endpoint.dim_engine import DimEngine, Op
from sw_model.fabric.backend import TlmBackend
from sw_model.fabric.constants import FabricConstants
from sw_model.fabric.folding import Folding
from sw_model.platform import Platform
from sw_model.schedule.options import PlanBook, ScheduleOptions

__all__ = ["CollectiveRun", "DimActivity", "OpInterval", "run_collective"]


@dataclass(frozen=True)
class OpInterval:
    """An op of a simulated rank, from its start to its end, in cycles from the first doorbell.

    ``phase`` is the index of the op in its chunk's schedule.
    """

    rank: int
    dim: int
    chunk: int
    phase: int
    start: int
    end: int


@dataclass(frozen=True)
class DimActivity:
    """What the busiest endpoint of a dim moved.

    Attributes
    ----------
    sent, received : flits, headers included
    payload_bytes : payload sent
    busy : cycles that the busier direction needs at the link's rate
    throughput : busy / cycles of the whole collective
    goodput : throughput without headers, in the direction sent
    """

    sent: int
    received: int
    payload_bytes: int
    busy: Fraction
    throughput: float
    goodput: float


@dataclass(frozen=True)
class CollectiveRun:
    """One collective, executed.

    Attributes
    ----------
    plan : what was executed
    issued, ended : cycle by simulated rank
    counters : by rank
    dims : by dim
    intervals : ops of the simulated ranks, in the order in which they ended
    """

    plan: CollectivePlan
    issued: Mapping[int, int]
    ended: Mapping[int, int]
    counters: tuple[RankCounters, ...]
    dims: tuple[DimActivity, ...]
    intervals: tuple[OpInterval, ...] = field(repr=False)

    @property
    def cycles(self) -> int:
        """From the entry of the last rank to the end of the last."""
        return max(self.ended.values()) - max(self.issued.values())


def run_collective(
    platform: Platform,
    collective: Collective,
    *,
    schedule: ScheduleOptions | None = None,
    folding: Folding = Folding.NONE,
    entry: Mapping[int, int] | None = None,
    constants: FabricConstants | None = None,
) -> CollectiveRun:
    """Run ``collective`` on an idle platform.

    Parameters
    ----------
    schedule : how it is planned; by default as :class:`ScheduleOptions` is
    folding : which ranks are simulated
    entry : cycle in which a simulated rank enters, 0 for those not named
    constants : timing of the RTL

    Raises
    ------
    ValueError
        where ``entry`` names a rank that is not simulated, or a negative cycle.
    InputError
        where the collective cannot be planned.
    """
    delays = dict(entry or {})
    intervals: list[OpInterval] = []
    places: dict[int, tuple[int, int]] = {}

    def ended(engine: DimEngine, op: Op) -> None:
        rank, dim = places[id(engine)]
        intervals.append(
            OpInterval(rank, dim, op.record.chunk, op.record.phase, op.start, engine.kernel.now)
        )

    backend = TlmBackend(
        PlanBook(platform, schedule or ScheduleOptions(), collectives=[collective]),
        folding=folding,
        constants=constants,
        on_op_end=ended,
    )
    for rank, endpoint in backend.network.endpoints.items():
        for lane in endpoint.lanes:
            places |= {id(engine): (rank, dim) for dim, engine in enumerate(lane.dims)}
    for rank, cycle in delays.items():
        if rank not in backend.representatives:
            raise ValueError(f"entry must name simulated ranks, not {rank!r}")
        if cycle < 0:
            raise ValueError(f"the entry of rank {rank} must be at least 0, not {cycle!r}")
    asyncio.run(_enter(backend, collective, delays))
    done = backend.entries[0]
    counters = backend.counters()
    cycles = max(done.ended.values()) - max(done.issued.values())
    return CollectiveRun(
        plan=done.plan,
        issued=done.issued,
        ended=done.ended,
        counters=counters,
        dims=tuple(
            _activity(platform, dim, counters, cycles) for dim in range(len(platform.topology.dims))
        ),
        intervals=tuple(intervals),
    )


async def _enter(backend: TlmBackend, collective: Collective, entry: Mapping[int, int]) -> None:
    """Let every rank enter in its cycle, and wait for all of them."""
    waiting = set(backend.representatives)
    by_cycle: dict[int, list[int]] = {}
    for rank in backend.representatives:
        by_cycle.setdefault(entry.get(rank, 0), []).append(rank)
    for cycle in sorted(by_cycle):
        while backend.now < cycle:
            waiting -= {c.rank for c in await backend.wait(cycle)}
        backend.issue(collective, by_cycle[cycle])
    while waiting:
        waiting -= {c.rank for c in await backend.wait(None)}


def _activity(
    platform: Platform, dim: int, counters: tuple[RankCounters, ...], cycles: int
) -> DimActivity:
    busiest = max(
        (one.dims[dim] for one in counters), key=lambda d: max(d.flits_sent, d.flits_received)
    )
    rate = platform.links[dim].rate * platform.topology.dims[dim].links
    busy = max(busiest.flits_sent, busiest.flits_received) / rate
    payload = busiest.flits_sent - busiest.headers_sent
    return DimActivity(
        sent=busiest.flits_sent,
        received=busiest.flits_received,
        payload_bytes=payload * platform.engine.flit_bytes,
        busy=busy,
        throughput=float(busy / cycles) if cycles else 0.0,
        goodput=float(payload / rate / cycles) if cycles else 0.0,
    )
