"""The platform of ACE's evaluation (ISCA 2021, section 5; recalled)."""

from __future__ import annotations

from fractions import Fraction

from sw_model.endpoint.design_space import TORI
from sw_model.topology import Dim, DimKind, Topology

__all__ = ["TORI", "sent_per_payload", "torus"]

_GB = 10**9
_CLOCK_MHZ = 1245
_EFFICIENCY = Fraction(94, 100)
#: Bytes per second of an NPU's two links of a ring, and cycles of a step: local, vertical,
#: horizontal.
_RINGS = ((400 * _GB, 90), (50 * _GB, 500), (50 * _GB, 500))


def torus(sizes: tuple[int, int, int]) -> Topology:
    """Local, vertical and horizontal rings; links of 94 % efficiency."""
    return Topology(
        tuple(
            Dim(DimKind.RING, size, rate * _EFFICIENCY, round(cycles * 10**6 / _CLOCK_MHZ))
            for size, (rate, cycles) in zip(sizes, _RINGS, strict=True)
        )
    )


def sent_per_payload(sizes: tuple[int, int, int]) -> Fraction:
    """Bytes that an NPU sends for a byte of its payload: a reduce-scatter and an all-gather on the
    local ring, an all-reduce of what is left on each of the others."""
    local, *others = sizes
    return Fraction(2 * (local - 1), local) + sum(
        Fraction(2 * (size - 1), size * local) for size in others
    )
