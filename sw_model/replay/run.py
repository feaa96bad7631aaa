"""A whole trace, from files to results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction

from sw_model.astra.system import DimOrder, SystemConfig
from sw_model.chakra.workload import ChakraWorkload
from sw_model.collective.memory_traffic import MemoryTraffic
from sw_model.endpoint.kinds import IDEAL, EndpointSettings, endpoint_kind
from sw_model.errors import InputError
from sw_model.replay.accounting import (
    NodeTimes,
    RankTimes,
    iteration_times,
    node_times,
    rank_times,
)
from sw_model.replay.astra_fabric import AstraFabric
from sw_model.replay.bounds import TraceBounds, trace_bounds
from sw_model.replay.endpoints import fabric_of
from sw_model.replay.engine import Log, Replay
from sw_model.replay.fabric import DimTraffic, Fabric
from sw_model.replay.folding import fold
from sw_model.replay.jobs import JobResult, PlacedJob, job_results
from sw_model.replay.overlapped import OverlappedFabric
from sw_model.replay.plans import Schedule
from sw_model.replay.shapes import crossed_by_group, crossed_by_message, shape_of
from sw_model.topology import DimKind

__all__ = ["Semantics", "TraceResult", "replay_trace", "schedule_of"]


class Semantics(Enum):
    """Whose rules a replay follows (docs/semantics.md)."""

    ANTIPHON = "antiphon"
    ASTRA_SIM = "astra-sim"
    ASTRA_SIM_AWARE = "astra-sim-aware"


@dataclass(frozen=True)
class TraceResult:
    """A finished replay; times in ticks.

    Attributes
    ----------
    ticks_per_ns : of the times
    ranks : of every representative
    sizes : number of ranks that each stands for
    nodes : of the rank that finishes last, by name
    iterations : of that rank
    dims : of the network
    notes : what a user should know
    logs : of every representative
    jobs : each by itself, where there are several
    endpoint : kind of the endpoints
    memory : what collectives and messages moved in main memory, of the NPU that moved most; None
        where nothing was counted
    bounds : what the collectives of the rank that finishes last take at least
    """

    workload: ChakraWorkload
    semantics: Semantics
    ticks_per_ns: int
    ranks: tuple[RankTimes, ...]
    sizes: tuple[int, ...]
    nodes: tuple[NodeTimes, ...]
    iterations: tuple[int, ...]
    dims: tuple[DimTraffic, ...]
    notes: tuple[str, ...]
    logs: tuple[Log, ...] = field(repr=False, default=())
    jobs: tuple[JobResult, ...] = ()
    endpoint: str = "ideal"
    memory: MemoryTraffic | None = None
    bounds: TraceBounds = field(default_factory=TraceBounds)

    @property
    def latest(self) -> RankTimes:
        """The rank that finishes last; of several, the lowest."""
        return max(self.ranks, key=lambda rank: (rank.finish, -rank.rank))

    def ns(self, ticks: int) -> float:
        """Nanoseconds, rounded to a picosecond."""
        return round(ticks / self.ticks_per_ns, 3)

    def utilisation(self, dim: int) -> float:
        """Bytes sent over what the dim could have carried in the whole time; 0 for no time."""
        seconds = Fraction(self.latest.finish, self.ticks_per_ns * 10**9)
        could = self.workload.topology.dims[dim].bandwidth * seconds
        return float(self.dims[dim].bytes_per_npu / could) if could else 0.0


def schedule_of(
    system: SystemConfig | None,
    *,
    scheduler: str | None = None,
    intra: str | None = None,
    chunks: int | None = None,
    serial_latency: bool = False,
) -> Schedule:
    """The schedule of our own semantics: what is given, else the system file's, else the
    defaults."""
    plain = Schedule(serial_latency=serial_latency)
    if system is not None:
        order = "themis" if system.dim_order is DimOrder.THEMIS else "baseline"
        intra = intra or system.op_order.value.lower()
        plain = replace(plain, scheduler=order, intra=intra, chunks=system.splits)
    return replace(
        plain,
        scheduler=scheduler or plain.scheduler,
        intra=intra or plain.intra,
        chunks=chunks or plain.chunks,
    )


def _meet_between(workload: ChakraWorkload) -> bool:
    """Whether communication passes through NPUs that it neither begins nor ends at: then the places
    of ranks in the network count, not only what they do."""
    topology = workload.topology
    if not any(dim.kind is DimKind.RING and dim.size > 2 for dim in topology.dims):
        return False
    for rank, graph in enumerate(workload.graphs):
        for positions in graph.collectives.values():
            members = workload.members(rank, graph.nodes[positions[0]])
            if crossed_by_group(topology, members):
                return True
    return any(
        crossed_by_message(topology, match.source, match.destination)
        for match in workload.matches.values()
    )


def replay_trace(
    workload: ChakraWorkload,
    system: SystemConfig,
    *,
    semantics: Semantics = Semantics.ANTIPHON,
    schedule: Schedule = Schedule(),  # noqa: B008
    endpoint: EndpointSettings = EndpointSettings(),  # noqa: B008
    fold_ranks: bool = True,
    jobs: Sequence[PlacedJob] = (),
    progress: Callable[[float], object] | None = None,
) -> TraceResult:
    """Replay a trace.

    Parameters
    ----------
    system : of ASTRA-sim's keys those that the semantics knows
    schedule : for our own semantics
    endpoint : likewise; without a kind they are ideal
    fold_ranks : identical ranks are simulated once. Not with astra-sim-aware, whose links are
        shared by particular ranks
    jobs : that the workload is made of, where there are several
    progress : called with the share that is done

    Raises
    ------
    InputError
        where network, system and trace do not go together
    DeadlockError
        where nothing can happen any more: names every blocked rank and what it waits for
    """
    topology = workload.topology
    aware = semantics is Semantics.ASTRA_SIM_AWARE
    apart = aware or (semantics is Semantics.ANTIPHON and _meet_between(workload))
    folding = fold(
        workload, lambda members: shape_of(topology, members), identical=fold_ranks and not apart
    )
    fabric: Fabric
    kind = IDEAL if endpoint.kind is None else endpoint_kind(endpoint.kind)
    if semantics is Semantics.ANTIPHON:
        pairs = {(match.source, match.destination) for match in workload.matches.values()}
        pairs |= {
            (rank, workload.node(rank, position).destination)
            for rank, position in workload.unmatched
        }
        fabric = fabric_of(kind, topology, folding, system, schedule, pairs)
    else:
        if kind is not IDEAL:
            raise InputError(
                f"an endpoint other than ideal is for the semantics antiphon, not {semantics.value}"
            )
        system.check_dims(len(topology.dims))
        fabric = AstraFabric(topology, system, len(folding.sizes), aware=aware)
    replay = Replay(
        workload,
        folding,
        fabric,
        system,
        progress,
        endpoint=kind,
        passes_from_memory=endpoint.passes == "memory",
    )
    if isinstance(fabric, AstraFabric):
        fabric.tell = replay.partly
    logs = replay.run()
    ranks = tuple(
        rank_times(rank, log) for rank, log in zip(folding.representatives, logs, strict=True)
    )
    late = max(range(len(ranks)), key=lambda i: (ranks[i].finish, -ranks[i].rank))
    graph = workload.graphs[ranks[late].rank]
    return TraceResult(
        workload=workload,
        semantics=semantics,
        ticks_per_ns=fabric.ticks_per_ns,
        ranks=ranks,
        sizes=folding.sizes,
        nodes=node_times(graph, logs[late]),
        iterations=iteration_times(logs[late], graph.starts),
        dims=fabric.traffic(),
        notes=fabric.notes(),
        logs=tuple(logs),
        jobs=job_results(jobs, folding, logs),
        endpoint=kind.name,
        memory=fabric.memory_traffic() if isinstance(fabric, OverlappedFabric) else None,
        bounds=trace_bounds(workload, ranks[late].rank, system),
    )
