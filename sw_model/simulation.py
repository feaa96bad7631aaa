"""A whole experiment on the transaction-level model."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from sw_model.collective.plan import Collective, Operation
from sw_model.collective.traffic import default_algorithm
from sw_model.endpoint.dim_engine import DimEngine, Op
from sw_model.errors import InputError
from sw_model.experiment import Experiment
from sw_model.fabric.backend import TlmBackend
from sw_model.fabric.counters import RankCounters
from sw_model.fabric.folding import Folding
from sw_model.platform import Platform
from sw_model.results import DimBar, DimResult, RunResult, TrainingResult
from sw_model.schedule.bound import OrderCosts
from sw_model.schedule.joint_bound import JointBound, joint_bound
from sw_model.schedule.options import PlanBook
from sw_model.schedule.phases import Turn
from sw_model.topology import Topology
from sw_model.training import train
from sw_model.workload.layers import Workload
from sw_model.workload.spans import collectives_of, issued

__all__ = ["TlmRun", "dim_results", "run_result", "simulate", "simulate_on"]

_MOST_PACKETS = 1_000_000


@dataclass(frozen=True)
class TlmRun:
    """A finished run: what it found, and the backend with its collectives and counters."""

    result: RunResult
    backend: TlmBackend


def simulate(
    experiment: Experiment,
    workload: Workload,
    *,
    label: str | None = None,
    folding: Folding = Folding.ALL,
    book: PlanBook | None = None,
    progress: Callable[[float], object] | None = None,
) -> RunResult:
    """Run the training loop on the TLM; see :func:`simulate_on`."""
    run = simulate_on(
        experiment, workload, label=label, folding=folding, book=book, progress=progress
    )
    return run.result


def simulate_on(
    experiment: Experiment,
    workload: Workload,
    *,
    label: str | None = None,
    folding: Folding = Folding.ALL,
    book: PlanBook | None = None,
    progress: Callable[[float], object] | None = None,
) -> TlmRun:
    """Run the training loop on the TLM.

    Parameters
    ----------
    experiment : platform, schedule, iterations, stragglers
    workload : what it trains, scaled already if it is to be
    label : of the result; the scheduler's name by default
    folding : which ranks are simulated; with stragglers and jitter always all of them
    book : plans that another executor shares
    progress : called with the share that is done

    Raises
    ------
    InputError
        where the platform cannot be the network, a payload is no whole number of elements, or the
        packets on a tree of switches are too many
    DeadlockError
        where nothing can happen any more
    """
    platform = experiment.platform()
    settings = experiment.workload
    collectives = collectives_of(workload, platform.topology, settings.data_type)
    _check_packets(platform, issued(workload, collectives) * settings.iterations)
    activity: list[DimBar] = []
    places: dict[int, tuple[int, int]] = {}  # rank and dim of an engine
    active: defaultdict[tuple[int, int], _Union] = defaultdict(_Union)

    def op_ended(engine: DimEngine, op: Op) -> None:
        rank, dim = place = places[id(engine)]
        active[place].add(op.start, engine.kernel.now)
        if rank == backend.representatives[0]:
            activity.append(DimBar(dim, op.start, engine.kernel.now))

    backend = TlmBackend(
        book or PlanBook(platform, experiment.schedule, collectives=collectives.values()),
        folding=Folding.NONE if settings.variation else folding,
        on_op_end=op_ended,
    )
    for rank, endpoint in backend.network.endpoints.items():
        for lane in endpoint.lanes:
            places |= {id(engine): (rank, dim) for dim, engine in enumerate(lane.dims)}
    training = asyncio.run(
        train(
            workload,
            platform.topology,
            backend,
            iterations=settings.iterations,
            clock_hz=platform.clock_hz,
            data_type=settings.data_type,
            variation=settings.variation,
            progress=progress,
        )
    )
    busy = {
        dim: max(active[rank, dim].length for rank in backend.representatives)
        for dim in range(len(platform.topology.dims))
    }
    result = run_result(
        label or experiment.schedule.scheduler,
        training,
        platform,
        dims=dim_results(platform, backend.counters(), busy),
        activity=activity,
    )
    result = replace(
        result,
        interrupted_packets=backend.interrupted_packets(),
        overtaken_packets=backend.overtaken_packets(),
    )
    return TlmRun(result, backend)


class _Union:
    """Intervals that come in the order of their ends, those that touch in one."""

    def __init__(self) -> None:
        self._intervals: list[tuple[int, int]] = []

    def add(self, start: int, end: int) -> None:
        """One more, which ends no earlier than those before."""
        while self._intervals and self._intervals[-1][1] >= start:
            start = min(start, self._intervals.pop()[0])
        self._intervals.append((start, end))

    @property
    def length(self) -> int:
        """Cycles in at least one of them."""
        return sum(end - start for start, end in self._intervals)


def _check_packets(platform: Platform, collectives: Sequence[Collective]) -> None:
    """Refuse what a tree of switches, modelled packet by packet, would take an hour for."""
    if platform.tree is None:
        return
    size, npus = platform.engine.packet_bytes, platform.topology.npus
    packets = npus * sum(-(-c.elements * c.element_bytes // size) for c in collectives)
    if packets > _MOST_PACKETS:
        raise InputError(
            f"a tree of FRED switches is modelled packet by packet, and the NPUs send {packets:,} "
            f"packets, more than {_MOST_PACKETS:,}: run a smaller workload, or a part of the "
            f"payload with `antiphon cosim`"
        )


def run_result(
    label: str,
    training: TrainingResult,
    platform: Platform,
    *,
    dims: Sequence[DimResult],
    activity: Sequence[DimBar] = (),
) -> RunResult:
    """A result on ``platform``."""
    bound, layer_bounds = _bounds(training, platform.topology)
    return RunResult(
        label=label,
        training=training,
        dims=tuple(dims),
        npus=platform.topology.npus,
        clock_hz=platform.clock_hz,
        activity=tuple(activity),
        bound=bound,
        layer_bounds=layer_bounds,
    )


def _bounds(
    training: TrainingResult, topology: Topology
) -> tuple[JointBound, tuple[JointBound, ...]]:
    """Of all collectives, and of each layer's."""
    whole: Counter[OrderCosts] = Counter()
    layers: list[Counter[OrderCosts]] = [Counter() for _ in training.layers]
    for found in training.collectives:
        asked = found.collective
        spanned = tuple(
            dim if d in asked.dims else replace(dim, size=1) for d, dim in enumerate(topology.dims)
        )
        algorithms = tuple(default_algorithm(dim.kind) for dim in spanned)
        costs = OrderCosts(spanned, asked.operation, algorithms, Turn.MERGED)
        size = asked.elements * asked.element_bytes
        if asked.operation is Operation.ALL_GATHER:
            size *= prod(dim.size for dim in spanned)
        whole[costs] += size
        layers[found.layer][costs] += size
    return joint_bound(whole), tuple(joint_bound(amounts) for amounts in layers)


def dim_results(
    platform: Platform, counters: Sequence[RankCounters], busy: Mapping[int, int]
) -> tuple[DimResult, ...]:
    """What each dim did, from the counters of all ranks and its busy cycles."""
    return tuple(
        DimResult(
            name=f"dim {index + 1}",
            kind=dim.kind.value,
            size=dim.size,
            bandwidth=dim.bandwidth,
            busy=busy[index],
            bytes_per_npu=platform.engine.flit_bytes
            * max(rank.dims[index].flits_sent - rank.dims[index].headers_sent for rank in counters),
        )
        for index, dim in enumerate(platform.topology.dims)
    )
