"""What a group of ranks is in the network.

A group is a *grid* where its members are all combinations of some places on each dim; then a
collective over it goes dim by dim (`sw_model.schedule.group`). Any other group is one ring of its
members on the outermost dim that they differ on, as fast as the slowest of the dims that they
differ on, each step with the latencies of all of them (decided here).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import prod

from sw_model.schedule.group import group_topology
from sw_model.topology import Dim, DimKind, Topology

__all__ = [
    "GroupShape",
    "Route",
    "crossed_by_group",
    "crossed_by_message",
    "route_of",
    "shape_of",
]


@dataclass(frozen=True)
class GroupShape:
    """A group's own network.

    Attributes
    ----------
    topology : dims of the real network, with as many NPUs as the group has on each
    dims : those with more than one
    whole : each of these is a whole dim of the real network
    """

    topology: Topology
    dims: tuple[int, ...]
    whole: bool


@lru_cache(maxsize=1 << 16)
def shape_of(topology: Topology, members: tuple[int, ...]) -> GroupShape:
    """The shape of the group with these ranks, ascending."""
    if len(members) == topology.npus:
        spanned = tuple(d for d, dim in enumerate(topology.dims) if dim.size > 1)
        return GroupShape(topology, spanned, True)
    coordinates = [topology.coordinates(rank) for rank in members]
    counts = [len({c[d] for c in coordinates}) for d in range(len(topology.dims))]
    spanned = tuple(d for d, count in enumerate(counts) if count > 1)
    if prod(counts) == len(members):
        whole = all(counts[d] == topology.dims[d].size for d in spanned)
        return GroupShape(group_topology(topology, members), spanned, whole)
    outer = spanned[-1]
    ring = Dim(
        DimKind.RING,
        len(members),
        min(topology.dims[d].bandwidth for d in spanned),
        sum(topology.dims[d].latency_ps for d in spanned),
    )
    dims = [ring if d == outer else replace(dim, size=1) for d, dim in enumerate(topology.dims)]
    return GroupShape(Topology(tuple(dims)), (outer,), False)


@dataclass(frozen=True)
class Route:
    """The way of a message: the dims it crosses, the slowest link's bytes per second, and the
    latency of all hops in ps."""

    dims: tuple[int, ...]
    bandwidth: Fraction
    latency_ps: int


@lru_cache(maxsize=1 << 16)
def route_of(topology: Topology, source: int, destination: int) -> Route:
    """The way between two NPUs, dim by dim; on a ring the shorter way round."""
    here, there = topology.coordinates(source), topology.coordinates(destination)
    dims = tuple(d for d, (a, b) in enumerate(zip(here, there, strict=True)) if a != b)
    bandwidths, latency = [], 0
    for d in dims:
        dim = topology.dims[d]
        full = dim.kind is DimKind.FULLY_CONNECTED
        bandwidths.append(dim.bandwidth / (dim.size - 1) if full else dim.bandwidth)
        away = abs(here[d] - there[d])
        hops = min(away, dim.size - away) if dim.kind is DimKind.RING else 1
        latency += hops * dim.latency_ps
    return Route(dims, min(bandwidths), latency)


def _between(size: int, start: int, end: int) -> list[int]:
    """The places of a ring strictly between two, the shorter way, up where both are equal."""
    up = (end - start) % size
    step, count = (1, up) if up <= size - up else (-1, size - up)
    return [(start + step * i) % size for i in range(1, count)]


@lru_cache(maxsize=1 << 16)
def crossed_by_group(topology: Topology, members: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
    """By dim the ranks that are no members but lie between members on a ring, each of which
    carries the group's bytes too. Of a group that is a grid; of any other none."""
    found: dict[int, tuple[int, ...]] = {}
    own = set(members)
    places = [topology.coordinates(rank) for rank in members]
    counts = [len({place[d] for place in places}) for d in range(len(topology.dims))]
    if prod(counts) != len(members):
        return found
    for index, dim in enumerate(topology.dims):
        if dim.kind is not DimKind.RING or not 1 < counts[index] < dim.size:
            continue
        crossed: set[int] = set()
        lines: dict[tuple[int, ...], list[int]] = {}
        for place in places:
            lines.setdefault((*place[:index], *place[index + 1 :]), []).append(place[index])
        for rest, line in lines.items():
            for start, end in zip(line, [*line[1:], line[0]], strict=True):
                for at in _between(dim.size, start, end):
                    crossed.add(topology.rank((*rest[:index], at, *rest[index:])))
        if crossed - own:
            found[index] = tuple(sorted(crossed - own))
    return found


@lru_cache(maxsize=1 << 16)
def crossed_by_message(
    topology: Topology, source: int, destination: int
) -> tuple[tuple[int, int], ...]:
    """(dim, rank) of the NPUs on rings that a message passes through, between its ends on each."""
    here, there = list(topology.coordinates(source)), topology.coordinates(destination)
    found = []
    for index, dim in enumerate(topology.dims):
        if here[index] != there[index] and dim.kind is DimKind.RING:
            for at in _between(dim.size, here[index], there[index]):
                found.append((index, topology.rank((*here[:index], at, *here[index + 1 :]))))
        here[index] = there[index]
    return tuple(found)
