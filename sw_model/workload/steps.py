"""The steps that the programs of ranks are made of."""

from __future__ import annotations

from dataclasses import dataclass

from sw_model.workload.layers import Part, Pass

__all__ = ["Await", "Compute", "Issue", "Step"]


@dataclass(frozen=True)
class Compute:
    """Compute ``part`` of layer number ``layer``."""

    layer: int
    part: Pass


@dataclass(frozen=True)
class Issue:
    """Issue the collective of ``part`` of a layer, if it has one; takes no time."""

    layer: int
    part: Part
    microbatch: int = 0


@dataclass(frozen=True)
class Await:
    """Stand still until the collective issued last for ``part`` of a layer and microbatch has
    ended, if any, and with ``update``, for a weight gradient, until the update after it has ended
    too."""

    layer: int
    part: Part
    update: bool = True
    microbatch: int = 0


Step = Compute | Issue | Await
