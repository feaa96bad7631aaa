"""Ranks that compute slower than others, and compute times that vary.

A factor is drawn from the seed, the rank and what is computed, and from nothing else: neither the
order of a simulation nor the other ranks change it, so that every run with a seed is the same run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import blake2b

__all__ = ["Variation"]

_DRAWS = 1 << 31  # steps on either side of 1


@dataclass(frozen=True, kw_only=True)
class Variation:
    """Factors on compute times.

    Parameters
    ----------
    compute_scale : by rank, above 0; a straggler has more than 1
    jitter : largest relative deviation, at least 0 and below 1; deviations are uniform
    seed : of the deviations

    Raises
    ------
    ValueError
        for parameters out of range.
    """

    compute_scale: Mapping[int, Fraction] = field(default_factory=dict)
    jitter: Fraction = Fraction(0)
    seed: int = 0

    def __post_init__(self) -> None:
        for rank, scale in self.compute_scale.items():
            if scale <= 0:
                raise ValueError(f"compute_scale of rank {rank} must be positive, not {scale!r}")
        if not 0 <= self.jitter < 1:
            raise ValueError(f"jitter must be at least 0 and below 1, not {float(self.jitter):g}")

    def __bool__(self) -> bool:
        """Whether any factor can differ from 1."""
        return bool(self.jitter) or any(scale != 1 for scale in self.compute_scale.values())

    def factor(self, rank: int, *place: object) -> Fraction:
        """The factor on what ``rank`` computes at ``place``: scale x (1 + jitter x u), with u
        uniform from -1 to 1."""
        scale = self.compute_scale.get(rank, Fraction(1))
        if not self.jitter:
            return scale
        name = "/".join(str(part) for part in (self.seed, rank, *place))
        drawn = int.from_bytes(blake2b(name.encode(), digest_size=4).digest(), "big")
        return scale * (1 + self.jitter * Fraction(drawn - _DRAWS, _DRAWS))
