"""The network whose bandwidths are sought: kinds and sizes of its dims, and where each dim lies."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod

from sw_model.topology import Dim, DimKind, Topology

__all__ = ["KINDS", "OpenDim", "OpenNetwork", "Tier"]

#: Kinds of dims that can be optimised: what an NPU sends on them is known for parts of them too.
KINDS = (DimKind.RING, DimKind.FULLY_CONNECTED, DimKind.SWITCH, DimKind.FRED)
GIGA = 10**9


class Tier(enum.Enum):
    """What the links of a dim join, which is what they are priced by."""

    INTER_CHIPLET = "inter-chiplet"
    INTER_PACKAGE = "inter-package"
    INTER_NODE = "inter-node"
    INTER_POD = "inter-pod"


@dataclass(frozen=True, kw_only=True)
class OpenDim:
    """A dim whose bandwidth is open.

    Parameters
    ----------
    kind : what joins the NPUs
    size : NPUs in one group of the dim, at least 1
    tier : what its links join, or None where nothing is priced
    latency_ps : of one hop; only the simulation knows it
    """

    kind: DimKind
    size: int
    tier: Tier | None = None
    latency_ps: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            names = ", ".join(kind.value for kind in KINDS)
            raise ValueError(f"kind must be one of {names}, not {self.kind.value!r}")
        if self.size < 1:
            raise ValueError(f"size must be at least 1, not {self.size!r}")


@dataclass(frozen=True, kw_only=True)
class OpenNetwork:
    """All dims, innermost first.

    Parameters
    ----------
    dims : see `OpenDim`
    total : GB/s of one NPU over all dims, where the description fixes it
    """

    dims: tuple[OpenDim, ...]
    total: Fraction | None = None

    @property
    def npus(self) -> int:
        """Number of NPUs."""
        return prod(dim.size for dim in self.dims)

    @property
    def name(self) -> str:
        """Such as ``Ring8_FC8_SW16``."""
        short = {DimKind.FULLY_CONNECTED: "FC", DimKind.SWITCH: "SW"}
        return "_".join(f"{short.get(d.kind, d.kind.value)}{d.size}" for d in self.dims)

    def topology(self, bandwidths: Sequence[Fraction]) -> Topology:
        """With ``bandwidths`` in GB/s."""
        return Topology(
            tuple(
                Dim(dim.kind, dim.size, Fraction(bandwidth) * GIGA, dim.latency_ps)
                for dim, bandwidth in zip(self.dims, bandwidths, strict=True)
            )
        )
