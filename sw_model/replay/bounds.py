"""The bound of a trace's collectives, all of them and layer by layer (`joint_bound`)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from sw_model.astra.system import SystemConfig
from sw_model.chakra.workload import ChakraWorkload
from sw_model.collective.plan import Operation
from sw_model.replay.plans import own_algorithms
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
    kinds: list[OrderCosts] = []
    numbers: dict[OrderCosts, int] = {}  # looked up once for a group: their hashes are slow
    whole: Counter[int] = Counter()
    layers: dict[str, Counter[int]] = {}
    for positions in graph.collectives.values():
        members = workload.members(rank, graph.nodes[positions[0]])
        of_operation: dict[Operation, int] = {}
        for position in positions if len(members) > 1 else ():
            node = graph.nodes[position]
            operation = node.operation
            assert operation is not None
            if not node.size or system.custom_algorithm(operation, node.number) is not None:
                continue
            if operation not in of_operation:
                shape = shape_of(topology, members)
                algorithms, _ = own_algorithms(system, operation, shape.topology)
                costs = OrderCosts(shape.topology.dims, operation, algorithms, Turn.IN_NETWORK)
                of_operation[operation] = numbers.setdefault(costs, len(kinds))
                kinds += [costs] * (len(numbers) > len(kinds))
            number = of_operation[operation]
            size = node.size * (len(members) if operation is Operation.ALL_GATHER else 1)
            whole[number] += size
            layers.setdefault(graph.layer(position), Counter())[number] += size
    # Of one kind the bound is in proportion to the bytes.
    units = [joint_bound({costs: 1}) for costs in kinds]

    def bound(amounts: Counter[int]) -> JointBound:
        if len(amounts) > 1:
            return joint_bound({kinds[number]: size for number, size in amounts.items()})
        ((number, size),) = amounts.items()
        return JointBound(units[number].seconds * size, units[number].dims)

    order = dict.fromkeys(graph.layer(p) for p in range(len(graph.nodes)))
    return TraceBounds(
        bound(whole) if whole else NO_BOUND,
        {name: bound(layers[name]) for name in order if name in layers},
    )
