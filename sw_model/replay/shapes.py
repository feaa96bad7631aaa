"""What a group of ranks is in the network.

A group is a *grid* where its members are all combinations of some places on each dim; then a
collective over it goes dim by dim. Any other group is one ring of its members, on the outermost dim
that they differ on (decided here).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

from sw_model.topology import Dim, DimKind, Topology

__all__ = ["GroupShape", "shape_of"]


@dataclass(frozen=True)
class GroupShape:
    """A group's own network.

    Attributes
    ----------
    topology : its dims, with as many NPUs as the group has on each
    dims : for each, the index of the dim of the real network that carries it
    whole : every dim is a whole dim of the real network
    """

    topology: Topology
    dims: tuple[int, ...]
    whole: bool


def _part(dim: Dim, places: tuple[int, ...]) -> Dim:
    """``dim`` with only the NPUs at ``places``: of a ring the longest way to the next one counts,
    of a fully connected dim only the links between them."""
    count = len(places)
    bandwidth, latency = dim.bandwidth, dim.latency_ps
    if count < dim.size:
        if dim.kind is DimKind.FULLY_CONNECTED:
            bandwidth = bandwidth * (count - 1) / (dim.size - 1)
        elif dim.kind is DimKind.RING:
            following = places[1:] + places[:1]
            gaps = [(b - a) % dim.size for a, b in zip(places, following, strict=True)]
            latency *= max(min(gap, dim.size - gap) for gap in gaps)
    return Dim(dim.kind, count, bandwidth, latency, dim.middle_copies)


@lru_cache(maxsize=1 << 16)
def shape_of(topology: Topology, members: tuple[int, ...]) -> GroupShape:
    """The shape of the group with these ranks, ascending."""
    if len(members) == topology.npus:
        return GroupShape(topology, tuple(range(len(topology.dims))), True)
    coordinates = [topology.coordinates(rank) for rank in members]
    places = [tuple(sorted({c[d] for c in coordinates})) for d in range(len(topology.dims))]
    spanned = [d for d, used in enumerate(places) if len(used) > 1]
    if not spanned:
        return GroupShape(Topology((_part(topology.dims[0], (0,)),)), (0,), False)
    if prod(len(used) for used in places) == len(members):
        dims = tuple(_part(topology.dims[d], places[d]) for d in spanned)
        whole = all(len(places[d]) == topology.dims[d].size for d in spanned)
        return GroupShape(Topology(dims), tuple(spanned), whole)
    outer = topology.dims[spanned[-1]]
    slowest = min(topology.dims[d].bandwidth for d in spanned)
    latency = sum(topology.dims[d].latency_ps for d in spanned)
    ring = Dim(DimKind.RING, len(members), slowest, latency, outer.middle_copies)
    return GroupShape(Topology((ring,)), (spanned[-1],), False)
