"""Which ranks do the same, so that one of them can stand for all.

Ranks get colours by refinement: two have one colour where their graphs are equal but for the names
of groups, their groups have equal colours, and their messages go to equal nodes of ranks of equal
colours. A group's colour is made of its shape in the network and of the colours of its members with
the nodes that use it. Ranks of one colour then do the same at the same times, whatever the trace:
a straggler or an odd group only divides the colours it touches.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from sw_model.chakra.graph import Graph
from sw_model.chakra.workload import ChakraWorkload

__all__ = ["Folding", "GroupUse", "fold"]

Members = tuple[int, ...]


@dataclass(frozen=True)
class GroupUse:
    """A group as the ranks of one colour see it.

    Attributes
    ----------
    colour : of the group; a rank has at most one group of each
    members : ranks of the group of the representative
    colours : of the members, each once
    """

    colour: int
    members: Members
    colours: tuple[int, ...]


@dataclass(frozen=True)
class Folding:
    """Ranks by what they do.

    Attributes
    ----------
    colour : of every rank
    representatives : the lowest rank of every colour
    sizes : number of ranks of every colour
    groups : by colour, the group of every position that is a collective
    """

    colour: tuple[int, ...]
    representatives: tuple[int, ...]
    sizes: tuple[int, ...]
    groups: tuple[dict[int, GroupUse], ...]


def fold(
    workload: ChakraWorkload, shape: Callable[[Members], Hashable], *, identical: bool = True
) -> Folding:
    """Colours of the ranks of ``workload``.

    Parameters
    ----------
    shape : of a group in the network; groups of equal shape cost the same
    identical : False to simulate every rank
    """
    uses = [_uses(workload, rank) for rank in range(len(workload.graphs))]
    members = {group for use in uses for group in use}
    shapes = {group: shape(group) for group in members}
    distinct = {id(graph): graph for graph in workload.graphs}
    # Numbers, since a content is slow to hash.
    contents = dict(zip(distinct, _number([_content(g) for g in distinct.values()]), strict=True))
    ranks = range(len(workload.graphs))
    links = _links(workload, shape)
    colour = _number(
        [contents[id(graph)] if identical else rank for rank, graph in enumerate(workload.graphs)]
    )
    while True:
        groups = sorted(members)
        of_group = dict(
            zip(
                groups,
                _number(
                    [
                        (shapes[g], tuple(sorted((colour[r], uses[r].get(g, ())) for r in g)))
                        for g in groups
                    ]
                ),
                strict=True,
            )
        )
        refined = _number(
            [
                (
                    colour[rank],
                    tuple(sorted((at, of_group[g]) for g, at in uses[rank].items())),
                    tuple((at, colour[peer], there, way) for at, peer, there, way in links[rank]),
                )
                for rank in ranks
            ]
        )
        if len(set(refined)) == len(set(colour)):
            break
        colour = refined
    count = len(set(colour))
    representatives = [colour.index(number) for number in range(count)]
    return Folding(
        colour=tuple(colour),
        representatives=tuple(representatives),
        sizes=tuple(colour.count(number) for number in range(count)),
        groups=tuple(
            {
                at: GroupUse(of_group[group], group, tuple(sorted({colour[r] for r in group})))
                for group, positions in uses[rank].items()
                for at in positions
            }
            for rank in representatives
        ),
    )


def _number(keys: list[Hashable]) -> list[int]:
    """Numbers for ``keys``, in the order in which they first stand there."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def _content(graph: Graph) -> Hashable:
    """All that a graph says, but for the names of groups."""
    return tuple(
        (
            node.kind,
            node.parents,
            node.duration_ns,
            node.on_cpu,
            node.operation,
            node.size,
            node.tag,
            node.priority,
            node.precedence,
            None if node.slowdown == 1 else node.slowdown,
            node.operations,
            node.tensor_bytes,
        )
        for node in graph.nodes
    )


def _uses(workload: ChakraWorkload, rank: int) -> dict[Members, tuple[int, ...]]:
    """The positions that use each group of ``rank``."""
    uses: dict[Members, tuple[int, ...]] = {}
    graph = workload.graphs[rank]
    for positions in graph.collectives.values():
        group = workload.members(rank, graph.nodes[positions[0]])
        before = uses.get(group)
        uses[group] = positions if before is None else tuple(sorted((*before, *positions)))
    return uses


def _links(
    workload: ChakraWorkload, shape: Callable[[Members], Hashable]
) -> list[list[tuple[int, int, int, Hashable]]]:
    """Of every rank: (own position, other rank, other position, the way) of its messages."""
    links: list[list[tuple[int, int, int, Hashable]]] = [[] for _ in workload.graphs]
    for (rank, position), match in sorted(workload.matches.items()):
        peer, there = match.destination, match.receive
        if (rank, position) != (match.source, match.send):
            peer, there = match.source, match.send
        links[rank].append((position, peer, there, shape(tuple(sorted((rank, peer))))))
    return links
