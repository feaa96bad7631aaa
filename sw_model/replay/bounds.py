"""The bound of a trace's collectives, all of them and layer by layer (`joint_bound`)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from sw_model.astra.system import SystemConfig
from sw_model.chakra.workload import ChakraWorkload
from sw_model.collective.plan import Operation
from sw_model.replay.overlapped import own_algorithms
from sw_model.replay.shapes import shape_of
from sw_model.schedule.bound import OrderCosts
from sw_model.schedule.joint_bound import NO_BOUND, JointBound, joint_bound
from sw_model.schedule.phases import Turn

__all__ = ["TraceBounds", "trace_bounds"]


@dataclass(frozen=True)
class TraceBounds:
    """Of the collectives of one rank; messages are left out.

    Attributes
    ----------
    whole : of all of them
    layers : by layer, over all iterations; layers without collectives left out
    """

    whole: JointBound = NO_BOUND
    layers: dict[str, JointBound] = field(default_factory=dict)


def trace_bounds(workload: ChakraWorkload, rank: int, system: SystemConfig) -> TraceBounds:
    """The bounds of what a rank takes part in. Collectives with an algorithm of the user's own are
    left out."""
    graph, topology = workload.graphs[rank], workload.topology
    whole: Counter[OrderCosts] = Counter()
    layers: dict[str, Counter[OrderCosts]] = {}
    for position, node in enumerate(graph.nodes):
        operation = node.operation
        if operation is None or system.custom_algorithm(operation, node.number) is not None:
            continue
        members = workload.members(rank, node)
        if len(members) == 1 or not node.size:
            continue
        shape = shape_of(topology, members)
        algorithms, _ = own_algorithms(system, operation, shape.topology)
        costs = OrderCosts(shape.topology.dims, operation, algorithms, Turn.IN_NETWORK)
        grown = len(members) if operation is Operation.ALL_GATHER else 1
        whole[costs] += node.size * grown
        layers.setdefault(graph.layer(position), Counter())[costs] += node.size * grown
    return TraceBounds(
        joint_bound(whole), {name: joint_bound(amounts) for name, amounts in layers.items()}
    )
