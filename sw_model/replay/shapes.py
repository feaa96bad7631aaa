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

__all__ = ["GroupShape", "Route", "route_of", "shape_of"]


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
