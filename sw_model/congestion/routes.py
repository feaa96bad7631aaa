"""Which links a message takes.

A message goes dim by dim, the inner one first. Links by kind of dim, each in one direction:

* Ring: from coordinate i to i + 1, with the dim's bandwidth. Where a bidirectional ring runs on it
  it is wired both ways: links from i to i + 1 and to i - 1, each with half of the bandwidth.
* FullyConnected: one for every ordered pair, with a (P - 1)th of the bandwidth.
* Switch, Fred: one into the switch and one out of it for each NPU.
* Mesh2D of P = R x C (the most square shape, C at least R): between neighbours, no wrap-around, X
  first and then Y; each link has the dim's bandwidth over the four directions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from fractions import Fraction
from math import prod

from sw_model.topology import Dim, DimKind, Topology, mesh_shape

__all__ = ["Link", "link_capacity", "ring_place", "route"]

#: (dim, name of the NPU's place on the other dims, what on this dim).
Link = tuple[int, int, tuple]


def ring_place(dim: Dim, coordinate: int) -> int:
    """Where a coordinate stands in the dim's logical ring.

    On a mesh with an even side the ring goes from neighbour to neighbour all the way round: along
    the first row, to and fro through the other rows but for their first column, and back up that.
    """
    if dim.kind is not DimKind.MESH2D:
        return coordinate
    rows, columns = mesh_shape(dim.size)
    row, column = divmod(coordinate, columns)
    if rows % 2 and columns % 2 == 0:
        rows, columns, row, column = columns, rows, column, row
    if rows % 2 or columns == 1:  # odd by odd, or a line: to and fro, with one long way back
        return row * columns + (column if row % 2 == 0 else columns - 1 - column)
    if row == 0:
        return column
    if column == 0:
        return dim.size - row
    inner = columns - 1
    along = column - 1 if row % 2 == 0 else inner - column
    return columns + (row - 1) * inner + along


def link_capacity(dim: Dim, *, both_ways: bool = False) -> Fraction:
    """Bytes per second of one link; ``both_ways`` as its ring is wired."""
    if dim.kind is DimKind.RING and both_ways:
        return dim.bandwidth / 2
    if dim.kind is DimKind.FULLY_CONNECTED:
        return dim.bandwidth / max(1, dim.size - 1)
    if dim.kind is DimKind.MESH2D:
        return dim.bandwidth / 4
    return dim.bandwidth


def route(
    topology: Topology,
    source: int,
    target: int,
    *,
    way: int = 1,
    both_ways: Collection[int] = (),
) -> list[Link]:
    """Links from rank to rank, in order.

    Parameters
    ----------
    way : -1 to go backwards on the rings that are wired both ways
    both_ways : dims whose rings are
    """
    at = list(topology.coordinates(source))
    goal = topology.coordinates(target)
    out: list[Link] = []
    for d, dim in enumerate(topology.dims):
        if at[d] == goal[d]:
            continue
        stride = prod(other.size for other in topology.dims[:d])
        place = topology.rank(at) - at[d] * stride
        step = way if d in both_ways else 1
        out += ((d, place, hop) for hop in _hops(dim, at[d], goal[d], step, d in both_ways))
        at[d] = goal[d]
    return out


def _hops(dim: Dim, source: int, target: int, way: int, both_ways: bool) -> Iterator[tuple]:
    if dim.kind is DimKind.RING:
        while source != target:
            yield (source, way) if both_ways else (source,)
            source = (source + way) % dim.size
    elif dim.kind is DimKind.FULLY_CONNECTED:
        yield (source, target)
    elif dim.kind is DimKind.MESH2D:
        _, columns = mesh_shape(dim.size)
        while source % columns != target % columns:
            step = 1 if source % columns < target % columns else -1
            yield (source, source + step)
            source += step
        while source != target:
            step = columns if source < target else -columns
            yield (source, source + step)
            source += step
    else:
        yield (source, "in")
        yield (target, "out")
