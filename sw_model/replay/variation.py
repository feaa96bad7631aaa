"""Traces whose ranks compute slower than the trace says, or not always alike."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from fractions import Fraction

from sw_model.chakra.graph import Graph
from sw_model.chakra.messages import NodeKind
from sw_model.chakra.workload import ChakraWorkload
from sw_model.workload.variation import Variation

__all__ = ["varied"]

_COMPUTING = (NodeKind.COMP, NodeKind.MEM_LOAD, NodeKind.MEM_STORE)


def varied(workload: ChakraWorkload, variation: Variation) -> ChakraWorkload:
    """The same workload with a factor on the duration of every compute and memory node, on the CPU
    too. Ranks that get equal factors go on sharing a graph, so that only those that differ are
    simulated by themselves."""
    if not variation:
        return workload
    made: dict[tuple[int, object], Graph] = {}
    graphs = []
    for rank, graph in enumerate(workload.graphs):
        factor: Callable[[int], Fraction]
        if variation.jitter:
            alike: object = ("rank", rank)

            def factor(number: int, rank: int = rank) -> Fraction:
                return variation.factor(rank, "node", number)
        else:
            scale = variation.factor(rank)
            alike = scale

            def factor(number: int, scale: Fraction = scale) -> Fraction:
                return scale

        key = (id(graph), alike)
        if key not in made:
            made[key] = graph if alike == 1 else _with(graph, factor)
        graphs.append(made[key])
    return replace(workload, graphs=tuple(graphs))


def _with(graph: Graph, factor: Callable[[int], Fraction]) -> Graph:
    nodes = []
    for node in graph.nodes:
        if node.kind in _COMPUTING:
            node = copy(node)
            node.slowdown *= factor(node.number)
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes))
