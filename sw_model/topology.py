"""The network as a stack of dimensions (glossary in docs/architecture.md).

Dim 1 is the innermost and varies fastest in the rank: ``rank = c1 + P1 * (c2 + P2 * (c3 + ...))``.
In code dims are indexed from 0; people read "dim 1".
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, prod

from sw_model.fred.tree.shape import TreeShape
from sw_model.units import LARGEST_BANDWIDTH, LARGEST_TIME_PS

__all__ = ["Dim", "DimKind", "Topology", "mesh_has_cycle", "mesh_shape"]


class DimKind(enum.Enum):
    """What joins the NPUs of one dim."""

    RING = "Ring"
    FULLY_CONNECTED = "FullyConnected"
    SWITCH = "Switch"
    FRED = "Fred"
    MESH2D = "Mesh2D"


@dataclass(frozen=True)
class Dim:
    """One level of the network.

    Parameters
    ----------
    kind : what joins the NPUs
    size : NPUs in one group of this dim, at least 1
    bandwidth : bytes per second and NPU, one direction, exact
    latency_ps : one hop in picoseconds
    middle_copies : the m of FRED_m(P), for FRED dims only
    tree : switches in two levels in the place of one, for FRED dims only; all their links are like
        those of the NPUs

    Raises
    ------
    ValueError
        for parameters out of range.
    """

    kind: DimKind
    size: int
    bandwidth: Fraction
    latency_ps: int
    middle_copies: int = 3
    tree: TreeShape | None = None

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"the size of a dim must be at least 1, not {self.size!r}")
        if self.bandwidth <= 0:
            raise ValueError(
                f"the bandwidth of a dim must be positive, not {float(self.bandwidth):g} B/s"
            )
        if self.bandwidth > LARGEST_BANDWIDTH:
            raise ValueError(
                f"the bandwidth of a dim must be at most 10^18 B/s, not {float(self.bandwidth):g} "
                "B/s"
            )
        if self.latency_ps > LARGEST_TIME_PS:
            raise ValueError(
                f"the latency of a dim must be at most 10^6 s, not {self.latency_ps / 10**12:g} s"
            )
        if self.latency_ps < 0:
            raise ValueError(f"the latency of a dim must not be negative, not {self.latency_ps!r}")
        if self.middle_copies < 2:
            raise ValueError(f"middle_copies must be at least 2, not {self.middle_copies!r}")
        if self.middle_copies > 64:
            raise ValueError(f"middle_copies must be at most 64, not {self.middle_copies!r}")

    @property
    def links(self) -> int:
        """Links out of one NPU, which share its bandwidth: one to every other NPU of a
        FullyConnected dim, one into everything else."""
        return max(1, self.size - 1) if self.kind is DimKind.FULLY_CONNECTED else 1


@dataclass(frozen=True)
class Topology:
    """All dims, innermost first."""

    dims: tuple[Dim, ...]

    @property
    def npus(self) -> int:
        """Number of NPUs."""
        return prod(dim.size for dim in self.dims)

    def coordinates(self, rank: int) -> tuple[int, ...]:
        """Coordinate of ``rank`` on every dim, innermost first."""
        if not 0 <= rank < self.npus:
            raise ValueError(f"rank must be in 0..{self.npus - 1}, not {rank!r}")
        out = []
        for dim in self.dims:
            rank, coordinate = divmod(rank, dim.size)
            out.append(coordinate)
        return tuple(out)

    def rank(self, coordinates: Sequence[int]) -> int:
        """The rank at ``coordinates``, innermost first."""
        rank = 0
        for dim, coordinate in zip(reversed(self.dims), reversed(coordinates), strict=True):
            rank = rank * dim.size + coordinate
        return rank

    def peers(self, rank: int, dim: int) -> tuple[int, ...]:
        """The ranks that differ from ``rank`` only on ``dim``, itself included, by coordinate."""
        stride = prod(d.size for d in self.dims[:dim])
        base = rank - self.coordinates(rank)[dim] * stride
        return tuple(base + i * stride for i in range(self.dims[dim].size))


def mesh_shape(size: int) -> tuple[int, int]:
    """Rows and columns of a Mesh2D dim: the most square shape, with at least as many columns."""
    rows = next(r for r in range(isqrt(size), 0, -1) if size % r == 0)
    return rows, size // rows


def mesh_has_cycle(size: int) -> bool:
    """Whether a ring goes from neighbour to neighbour through a whole mesh."""
    rows, columns = mesh_shape(size)
    return size == 2 or (rows > 1 and (rows % 2 == 0 or columns % 2 == 0))
