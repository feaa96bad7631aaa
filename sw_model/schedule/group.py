"""A group of ranks as a topology of its own.

A group that takes some coordinates of each dim, all combinations of them, is a smaller network. On
a Switch or a Fred dim its members keep their ports. On a FullyConnected dim each keeps the links to
the other members. On a Ring a message to the next member passes those in between: every link is
used by one pair only, so the bandwidth stays and the latency of a step is that of the widest gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod

from sw_model.errors import InputError
from sw_model.topology import Dim, DimKind, Topology
from sw_model.units import shown

__all__ = ["folds", "group_topology", "parse_ranks", "share_links"]

_LARGEST_GROUP = 2**20


def parse_ranks(text: str) -> tuple[int, ...]:
    """Ranks from ``0-7`` or ``0,2,8-11``.

    Raises
    ------
    ValueError
        where it is no list of ranks, a range runs backwards, a rank is named twice, or there are
        more than a network has.
    """
    ranks: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(
                f"a group must be ranks such as '0-7' or '0,2,8-11', not {shown(text)}"
            )
        largest = max(first, last, key=len)
        if len(largest) > 9:
            raise ValueError(f"a rank must have at most 9 digits, not {shown(largest)}")
        low, high = int(first), int(last) if dash else int(first)
        if high < low:
            raise ValueError(f"a range of ranks must not run backwards, not {part.strip()!r}")
        if len(ranks) + high - low >= _LARGEST_GROUP:
            raise ValueError(f"a group must be at most {_LARGEST_GROUP} ranks, not {shown(text)}")
        ranks.extend(range(low, high + 1))
    if len(set(ranks)) != len(ranks):
        twice = next(r for r in ranks if ranks.count(r) > 1)
        raise ValueError(f"a group must name a rank once, not rank {twice} twice")
    return tuple(sorted(ranks))


def folds(topology: Topology, ranks: Sequence[int]) -> bool:
    """Whether a group is a smaller network. Others are simulated link by link
    (`sw_model.congestion`).

    Raises
    ------
    InputError
        where a rank is not in the network.
    """
    taken = _taken(topology, ranks)
    meshes = zip(topology.dims, taken, strict=True)
    return prod(len(t) for t in taken) == len(set(ranks)) and all(
        dim.kind is not DimKind.MESH2D or len(t) in (1, dim.size) for dim, t in meshes
    )


def share_links(topology: Topology, groups: Sequence[Sequence[int]]) -> bool:
    """Whether groups that fold have a link in common.

    Those of different NPUs do only on rings: a message to the next member passes the NPUs in
    between, so a group that has some NPUs of a ring uses all of its links.
    """
    used: set[tuple] = set()
    for ranks in groups:
        mine: set[tuple] = {("rank", rank) for rank in ranks}
        rings = [
            d
            for d, coordinates in enumerate(_taken(topology, ranks))
            if topology.dims[d].kind is DimKind.RING and len(coordinates) > 1
        ]
        for rank in ranks:
            at = topology.coordinates(rank)
            mine |= {("ring", d, at[:d], at[d + 1 :]) for d in rings}
        if mine & used:
            return True
        used |= mine
    return False


def _taken(topology: Topology, ranks: Sequence[int]) -> list[list[int]]:
    """By dim, the coordinates that the members have."""
    for rank in ranks:
        if not 0 <= rank < topology.npus:
            raise InputError(f"a rank of the group must be in 0..{topology.npus - 1}, not {rank}")
    members = [topology.coordinates(rank) for rank in ranks]
    return [sorted({m[d] for m in members}) for d in range(len(topology.dims))]


def group_topology(topology: Topology, ranks: Sequence[int]) -> Topology:
    """The network that the members of a group have among themselves.

    Raises
    ------
    InputError
        where a rank is not in the network, or the group is not all combinations of some coordinates
        of each dim.
    """
    taken = _taken(topology, ranks)
    if prod(len(t) for t in taken) != len(set(ranks)):
        combinations = " x ".join(str(len(t)) for t in taken)
        raise InputError(
            f"the group must be all combinations of its coordinates on the dims "
            f"({combinations} ranks), not {len(set(ranks))} of them"
        )
    return Topology(
        tuple(
            _part(dim, coordinates) for dim, coordinates in zip(topology.dims, taken, strict=True)
        )
    )


def _part(dim: Dim, coordinates: Sequence[int]) -> Dim:
    size = len(coordinates)
    if size == dim.size:
        return dim
    if size == 1:
        return replace(dim, size=1)
    if dim.kind is DimKind.FULLY_CONNECTED:
        return replace(dim, size=size, bandwidth=dim.bandwidth * Fraction(size - 1, dim.size - 1))
    if dim.kind is DimKind.RING:
        after = [*coordinates[1:], coordinates[0] + dim.size]
        widest = max(b - a for a, b in zip(coordinates, after, strict=True))
        return replace(dim, size=size, latency_ps=dim.latency_ps * widest)
    if dim.kind is DimKind.MESH2D:
        raise InputError(f"a group must have all {dim.size} NPUs of a Mesh2D dim, not {size}")
    return replace(dim, size=size)
