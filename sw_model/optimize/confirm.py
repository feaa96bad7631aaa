"""The optimum on the transaction-level model: predicted beside simulated iteration times.

Every step of an iteration becomes a trace of compute and collectives, the same on all ranks, and is
replayed on the network with the bandwidths that were found (`sw_model.replay`): chunks, queues and
latencies instead of LIBRA's formula. A dim that groups divide becomes two dims of its bandwidth
each, as LIBRA has it; that the parts share links is not modelled. What the two differ by has two
known causes, which are computed apart, collective by collective, from the minimal model
(`sw_model.schedule.single`): a pipeline of C chunks fills and drains, and steps take latency.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

from sw_model.astra.system import SystemConfig
from sw_model.chakra.graph import Graph, TraceNode
from sw_model.chakra.messages import NodeKind
from sw_model.chakra.workload import assemble
from sw_model.collective.cost import algorithms_of
from sw_model.collective.plan import Collective
from sw_model.errors import InputError
from sw_model.optimize.demand import Communicator, Demand
from sw_model.optimize.iteration import Iteration, Path, Step
from sw_model.optimize.network import OpenNetwork
from sw_model.optimize.problem import Optimum
from sw_model.optimize.scheduling import Scheduling
from sw_model.replay.overlapped import Schedule
from sw_model.replay.run import replay_trace
from sw_model.schedule.outcome import choose
from sw_model.schedule.single import Instance
from sw_model.topology import Dim, Topology

__all__ = ["Confirmation", "confirm", "divided_topology"]

CHUNKS = 64
LARGEST = 2**13
"""NPUs above which a replay takes long; see ``--no-simulate``."""


@dataclass(frozen=True)
class Confirmation:
    """One workload, in ns.

    Attributes
    ----------
    name : of the workload
    predicted : by the time model
    simulated : by the replay
    explained : of the difference, what filling chunks and latency take where collectives run alone
    """

    name: str
    predicted: Fraction
    simulated: Fraction
    explained: Fraction

    @property
    def unexplained(self) -> Fraction:
        """Of the difference, what is left: collectives that run beside each other share dims."""
        return self.simulated - self.predicted - self.explained


def divided_topology(
    network: OpenNetwork, bandwidths: Sequence[Fraction], groups: Sequence[Communicator]
) -> tuple[Topology, dict[Communicator, tuple[bool, ...]]]:
    """The network in which every group spans whole dims, and which each spans.

    Raises
    ------
    InputError
        where the groups cut a dim in ways that do not fit each other.
    """
    dims: list[Dim] = []
    spans: dict[Communicator, list[bool]] = {group: [] for group in groups}
    topology = network.topology(bandwidths)
    for d, dim in enumerate(topology.dims):
        cuts = {1, dim.size}
        for group in groups:
            if group.sizes[d] > 1:
                cuts |= {group.inside[d], group.inside[d] * group.sizes[d]}
        places = sorted(cuts)
        if dim.size == 1:
            places = [1, 1]
        for low, high in pairwise(places):
            if high % low:
                raise InputError(
                    f"groups of different workloads divide dim {d + 1} of {dim.size} NPUs at {low} "
                    f"and at {high}, which cannot be simulated"
                )
            dims.append(replace(dim, size=high // low))
            for group, spanned in spans.items():
                inside, size = group.inside[d], group.sizes[d]
                spanned.append(size > 1 and inside <= low and high <= inside * size)
    return Topology(tuple(dims)), {group: tuple(spanned) for group, spanned in spans.items()}


class _Replayer:
    """Replays steps on one topology."""

    def __init__(
        self,
        topology: Topology,
        spans: dict[Communicator, tuple[bool, ...]],
        schedule: Schedule,
    ) -> None:
        self.topology, self.spans, self.schedule = topology, spans, schedule

    def iteration_ns(self, iteration: Iteration) -> Fraction:
        """Step after step; what follows each other in a single path is replayed piece by piece."""
        time = Fraction(0)
        for step in iteration.steps:
            time += step.count * self._step(step)
        return time

    def _step(self, step: Step) -> Fraction:
        if step.queue:
            return self._run([self._queue_graph(step)] * self.topology.npus)
        if len(step.paths) > 1 and not step.apart:
            return self._replay(step.paths)
        return max(self._path(path) for path in step.paths)

    def _path(self, path: Path) -> Fraction:
        time = path.compute_ns
        for demand, count in path.demands:
            time += count * self.demand_ns(demand)
        return time + sum((s.count * self._step(s) for s in path.steps), Fraction(0))

    def demand_ns(self, demand: Demand) -> Fraction:
        """A collective of all groups at once, alone."""
        return self._replay((Path(Fraction(0), ((demand, 1),)),))

    def _replay(self, paths: Sequence[Path]) -> Fraction:
        plain = not any(demand.operation is None for path in paths for demand, _ in path.demands)
        ranks = range(self.topology.npus)
        if plain:
            graphs = [self._graph(paths, 0)] * self.topology.npus
        else:
            graphs = [self._graph(paths, rank) for rank in ranks]
        return self._run(graphs)

    def _run(self, graphs: list[Graph]) -> Fraction:
        result = replay_trace(
            assemble("optimum", graphs, self.topology), SystemConfig(), schedule=self.schedule
        )
        return Fraction(result.latest.finish, result.ticks_per_ns)

    def _queue_graph(self, step: Step) -> Graph:
        """A backward pass: reductions of weight gradients go on while the layers before compute."""
        nodes: list[TraceNode] = []

        def compute(what: str, nanoseconds: Fraction, parents: tuple[int, ...]) -> tuple[int, ...]:
            if not nanoseconds:
                return parents
            time = round(nanoseconds)
            nodes.append(TraceNode(len(nodes), what, NodeKind.COMP, parents, time))
            return (len(nodes) - 1,)

        last: tuple[int, ...] = ()
        for one in reversed(step.queue):
            inputs = compute("input gradient", one.inputs_ns, last)
            last = ()
            if not one.inputs.idle:
                self._add(nodes, one.inputs, inputs, 0, 0)
                last = (len(nodes) - 1,)
            weights = compute("weight gradient", one.weights_ns, inputs)
            if not one.weights.idle:
                self._add(nodes, one.weights, weights, 0, 0)
            last += weights
        return Graph(tuple(nodes), {})

    def _graph(self, paths: Sequence[Path], rank: int) -> Graph:
        """Each path a chain. Compute is first and whole nanoseconds."""
        nodes: list[TraceNode] = []
        for number, path in enumerate(paths):
            last: tuple[int, ...] = ()
            if path.compute_ns:
                # Beside the first path, compute runs where it disturbs nothing.
                nodes.append(
                    TraceNode(
                        len(nodes),
                        f"compute {number}",
                        NodeKind.COMP,
                        last,
                        round(path.compute_ns),
                        on_cpu=number > 0,
                    )
                )
                last = (len(nodes) - 1,)
            for demand, count in path.demands:
                for _ in range(count):
                    self._add(nodes, demand, last, rank, number)
                    last = (len(nodes) - 1,)
        return Graph(tuple(nodes), {})

    def _add(
        self, nodes: list[TraceNode], demand: Demand, last: tuple[int, ...], rank: int, path: int
    ) -> None:
        spans = self.spans[demand.communicator]
        if demand.operation is not None:
            nodes.append(
                TraceNode(
                    len(nodes),
                    f"{demand.operation.value} {path}",
                    NodeKind.COMM_COLL,
                    last,
                    operation=demand.operation,
                    size=demand.bytes,
                    dims=spans,
                )
            )
            return
        inner = spans.index(True)
        peers = self.topology.peers(rank, inner)
        own = peers.index(rank)
        before, after = peers[own - 1], peers[(own + 1) % len(peers)]
        tag = len(nodes)
        nodes.append(
            TraceNode(
                tag,
                f"send {path}",
                NodeKind.COMM_SEND,
                last,
                size=demand.bytes,
                source=rank,
                destination=after,
                tag=tag,
            )
        )
        nodes.append(
            TraceNode(
                tag + 1,
                f"receive {path}",
                NodeKind.COMM_RECV,
                last,
                size=demand.bytes,
                source=before,
                destination=rank,
                tag=tag,
            )
        )


def _alone_ns(
    demand: Demand, topology: Topology, spans: tuple[bool, ...], schedule: Schedule
) -> Fraction:
    """A collective in the minimal model, latencies and filling included."""
    dims = tuple(
        dim if span else replace(dim, size=1)
        for dim, span in zip(topology.dims, spans, strict=True)
    )
    if demand.operation is None:
        inner = dims[spans.index(True)]
        links = inner.size - 1 if inner.kind.value == "FullyConnected" else 1
        time = Fraction(demand.bytes * links) / inner.bandwidth
        return time * 10**9 + Fraction(inner.latency_ps, 1000)
    collective = Collective(
        demand.operation, -(-demand.bytes // 2), "fp16", dims=tuple(range(len(dims)))
    )
    instance = Instance(collective, Topology(dims), algorithms_of(dims, demand.operation, None))
    candidate = choose(
        instance, scheduler=schedule.scheduler, intra=schedule.intra, chunks=schedule.chunks
    )
    return instance.seconds(instance.run(candidate).end) * 10**9


def confirm(
    optimum: Optimum,
    *,
    chunks: int = CHUNKS,
    progress: Callable[[float], object] | None = None,
) -> list[Confirmation]:
    """Replay every workload of ``optimum``.

    Raises
    ------
    InputError
        where its groups cannot be dims of one network.
    """
    problem = optimum.problem
    balanced = problem.scheduling is Scheduling.BALANCED
    schedule = Schedule(
        scheduler="balanced" if balanced else "baseline", intra="fifo", chunks=chunks
    )
    out = []
    for number, (task, predicted) in enumerate(
        zip(problem.tasks, optimum.task_ns, strict=True), start=1
    ):
        demands = task.iteration.demands()
        groups = tuple(dict.fromkeys(demand.communicator for demand in demands))
        topology, spans = divided_topology(problem.network, optimum.bandwidths, groups)
        replayer = _Replayer(topology, spans, schedule)
        alone = {
            demand: _alone_ns(demand, topology, spans[demand.communicator], schedule)
            for demand in demands
        }
        explained = task.iteration.time_ns(alone.__getitem__) - predicted
        simulated = replayer.iteration_ns(task.iteration)
        out.append(Confirmation(task.name, predicted, simulated, explained))
        if progress is not None:
            progress(number / len(problem.tasks))
    return out
