"""Several jobs on one network: their graphs side by side, each on ranks of its own or on shared
ones.

The ranks of a job are placed on ranks of the network in the order that its settings give. A group
of a job becomes the group of the ranks that its members are on; what that costs follows from where
they are. A rank with two jobs computes their nodes one at a time, and its links carry both.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

from sw_model.chakra.graph import Graph, TraceNode
from sw_model.chakra.messages import NodeKind
from sw_model.chakra.workload import ChakraWorkload, assemble
from sw_model.replay.accounting import (
    NodeTimes,
    RankTimes,
    iteration_times,
    node_times,
    rank_times,
)
from sw_model.replay.engine import Log
from sw_model.replay.folding import Folding
from sw_model.topology import Topology

__all__ = ["JobResult", "PlacedJob", "combine", "job_results"]


@dataclass(frozen=True)
class PlacedJob:
    """Where a job's nodes are.

    Attributes
    ----------
    name : of the job
    ranks : of the network, by the job's own rank
    first : position of the job's first node on each of them
    graphs : the job's own, by its own rank
    """

    name: str
    ranks: tuple[int, ...]
    first: tuple[int, ...]
    graphs: tuple[Graph, ...]

    def span(self, place: int) -> range:
        """Positions of the job's nodes on its rank number ``place``."""
        return range(self.first[place], self.first[place] + len(self.graphs[place].nodes))


def combine(
    topology: Topology,
    names: Sequence[str],
    ranks: Sequence[tuple[int, ...]],
    workloads: Sequence[ChakraWorkload],
) -> tuple[ChakraWorkload, tuple[PlacedJob, ...]]:
    """One workload for all ranks of ``topology``; ranks without a job have nothing to do.

    Parameters
    ----------
    names, ranks, workloads : of every job; as many ranks as the workload has
    """
    nodes: list[list[TraceNode]] = [[] for _ in range(topology.npus)]
    layers: list[list[str]] = [[] for _ in range(topology.npus)]
    paths = [""] * topology.npus
    groups: dict[str, tuple[int, ...]] = {}
    shared = len(set().union(*ranks)) < sum(len(some) for some in ranks)
    jobs = []
    for index, (name, places, workload) in enumerate(zip(names, ranks, workloads, strict=True)):
        known: dict[tuple[int, ...], str] = {}
        first = []
        # Tags of two jobs between the same ranks must not meet.
        tags = (len(names), index) if shared else (1, 0)
        for own, rank in enumerate(places):
            offset = len(nodes[rank])
            first.append(offset)
            graph = workload.graphs[own]
            paths[rank] = paths[rank] or workload.paths[own]
            for position, node in enumerate(graph.nodes):
                made = copy(node)
                made.parents = tuple(parent + offset for parent in node.parents)
                if node.kind is NodeKind.COMM_COLL:
                    members = tuple(sorted(places[m] for m in workload.members(own, node)))
                    if members not in known:
                        known[members] = _group_name(name, node, len(members) == len(places), known)
                    made.group, made.dims = known[members], None
                elif node.kind in (NodeKind.COMM_SEND, NodeKind.COMM_RECV):
                    made.source = places[node.source] if node.source >= 0 else -1
                    made.destination = places[node.destination] if node.destination >= 0 else -1
                    made.tag = node.tag * tags[0] + tags[1]
                nodes[rank].append(made)
                layers[rank].append(f"{name}: {graph.layer(position)}")
        groups |= {group: members for members, group in known.items()}
        jobs.append(PlacedJob(name, places, tuple(first), workload.graphs))
    graphs = [
        Graph(tuple(made), layers=tuple(names)) for made, names in zip(nodes, layers, strict=True)
    ]
    return assemble(" + ".join(names), graphs, topology, groups, paths), tuple(jobs)


def _group_name(
    job: str, node: TraceNode, everybody: bool, known: dict[tuple[int, ...], str]
) -> str:
    """For messages: the job's, with the communicator's where it has one."""
    if everybody:
        return job
    name = f"{job}/{node.group}" if node.group else f"{job}/group {len(known) + 1}"
    return name if name not in known.values() else f"{name} ({len(known) + 1})"


@dataclass(frozen=True)
class JobResult:
    """What became of one job; times in ticks.

    Attributes
    ----------
    name : of the job
    ranks : times of every representative with nodes of the job, of these nodes alone
    sizes : number of the job's ranks that each stands for
    nodes : of the rank that finishes last, by layer
    iterations : of that rank
    """

    name: str
    ranks: tuple[RankTimes, ...]
    sizes: tuple[int, ...]
    nodes: tuple[NodeTimes, ...]
    iterations: tuple[int, ...]

    @property
    def latest(self) -> RankTimes:
        """The rank that finishes last; of several, the lowest."""
        return max(self.ranks, key=lambda rank: (rank.finish, -rank.rank))


def job_results(
    jobs: Sequence[PlacedJob], folding: Folding, logs: Sequence[Log]
) -> tuple[JobResult, ...]:
    """Every job by itself: from the log of a rank what belongs to the job's nodes."""
    results = []
    for job in jobs:
        alike: dict[tuple[int, int], list[int]] = {}  # by colour and first node: places
        for place, rank in enumerate(job.ranks):
            alike.setdefault((folding.colour[rank], job.first[place]), []).append(place)
        parts = {
            job.ranks[places[0]]: (places[0], _part(logs[colour], job.span(places[0])))
            for (colour, _), places in alike.items()
        }
        ranks = tuple(rank_times(rank, log) for rank, (_, log) in parts.items())
        sizes = tuple(len(places) for places in alike.values())
        latest = max(ranks, key=lambda rank: (rank.finish, -rank.rank)).rank
        place, log = parts[latest]
        graph = job.graphs[place]
        nodes, iterations = node_times(graph, log), iteration_times(log, graph.starts)
        results.append(JobResult(job.name, ranks, sizes, nodes, iterations))
    return tuple(results)


def _part(log: Log, span: range) -> Log:
    """What a log says of the nodes in ``span``, counted from its start."""
    made = Log()
    for kind in ("compute", "host", "communication"):
        entries = [e for e in getattr(log, kind) if e[0] in span]
        setattr(made, kind, [(e[0] - span.start, *e[1:]) for e in entries])
        made.finish = max([made.finish, *(e[-1] for e in entries)])
    return made
