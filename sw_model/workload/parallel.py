"""How a model is divided over ranks: tensor, pipeline and data parallelism, and ZeRO.

Rank = t + TP x (stage + PP x replica): tensor-parallel groups are consecutive ranks, then come the
stages, then the replicas (as the FRED paper places them, ISCA 2025).

* GPipe (Huang et al., NeurIPS 2019): a stage does all forward passes, then all backward passes,
  last microbatch first.
* 1F1B (Narayanan et al., SC 2021): after as many forward passes as stages follow, one forward and
  one backward pass in turn. The same bubble, but fewer activations to keep.
* ZeRO (Rajbhandari et al., SC 2020). Stage 1: optimizer states divided; the gradients of an
  iteration are reduce-scattered, and the updated parameters gathered. Stage 2: gradients too, so
  that every microbatch reduce-scatters its own. Stage 3: parameters too; they are gathered before
  each forward and each backward pass of a block.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sw_model.errors import InputError
from sw_model.workload.model import Model

__all__ = ["Axis", "Parallelism", "PipelineSchedule"]


class PipelineSchedule(Enum):
    """The order of a stage's passes."""

    GPIPE = "gpipe"
    ONE_F_ONE_B = "1f1b"


class Axis(Enum):
    """What the ranks of a group share."""

    TENSOR = "tensor"
    DATA = "data"
    TIED = "tied embedding"


@dataclass(frozen=True, kw_only=True)
class Parallelism:
    """A division.

    Parameters
    ----------
    tensor, pipeline, data : ranks along each axis
    microbatches : into which the batch of a replica is cut
    zero : stage of ZeRO, 0 for none
    schedule : of the pipeline
    recompute : only what a layer begins with is kept, and its forward pass computed again
    """

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    microbatches: int = 1
    zero: int = 0
    schedule: PipelineSchedule = PipelineSchedule.GPIPE
    recompute: bool = False

    def __post_init__(self) -> None:
        for name in ("tensor", "pipeline", "data", "microbatches"):
            value = getattr(self, name)
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value!r}")
        if self.zero not in (0, 1, 2, 3):
            raise ValueError(f"zero must be 0, 1, 2 or 3, not {self.zero!r}")

    @property
    def ranks(self) -> int:
        """All of them."""
        return self.tensor * self.pipeline * self.data

    def check(self, model: Model, batch: int) -> None:
        """Refuse what cannot be done with ``model``.

        Raises
        ------
        InputError
            names the option and what would be right.
        """
        if batch < 1:
            raise InputError(f"batch must be at least 1, not {batch}")
        if self.tensor > 1 and not model.heads:
            raise InputError(
                f"--tp must be 1 for {model.title}, which is only data-parallel, not {self.tensor}"
            )
        if self.tensor > max(1, model.heads):
            raise InputError(
                f"--tp must be at most the {model.heads} attention heads of {model.title}, "
                f"not {self.tensor}"
            )
        if self.pipeline > 1 and not model.boundary:
            raise InputError(
                f"--pp must be 1 for {model.title}, which is not cut in stages, not {self.pipeline}"
            )
        if self.pipeline > 1 and model.layers % self.pipeline:
            fits = [n for n in range(1, model.layers + 1) if model.layers % n == 0]
            raise InputError(
                f"--pp must divide the {model.layers} layers of {model.title} "
                f"({', '.join(map(str, fits))}), not {self.pipeline}"
            )
        if self.recompute and not model.layers:
            raise InputError(
                f"--recompute is for the layers of transformers, which {model.title} has not"
            )
        if batch % self.microbatches:
            raise InputError(
                f"--microbatches must divide the batch of {batch}, not {self.microbatches}"
            )

    def place(self, rank: int) -> tuple[int, int, int]:
        """(place in the tensor-parallel group, stage, replica) of a rank."""
        rest, tensor = divmod(rank, self.tensor)
        replica, stage = divmod(rest, self.pipeline)
        return tensor, stage, replica

    def rank(self, tensor: int, stage: int, replica: int) -> int:
        """The rank at a place."""
        return tensor + self.tensor * (stage + self.pipeline * replica)

    def members(self, axis: Axis, rank: int) -> tuple[int, ...]:
        """The group of a rank along an axis, ascending."""
        tensor, stage, replica = self.place(rank)
        if axis is Axis.TENSOR:
            return tuple(self.rank(t, stage, replica) for t in range(self.tensor))
        if axis is Axis.DATA:
            return tuple(self.rank(tensor, stage, d) for d in range(self.data))
        return tuple(self.rank(tensor, s, replica) for s in (0, self.pipeline - 1))

    def groups(self) -> dict[tuple[int, ...], str]:
        """Names of all groups that need one: more than one rank, and not all. They are whole
        numbers from 1, as ASTRA-sim wants them."""
        names: dict[tuple[int, ...], str] = {}
        axes = [Axis.TENSOR, Axis.DATA] + ([Axis.TIED] if self.pipeline > 1 else [])
        for axis in axes:
            for rank in range(self.ranks):
                if axis is Axis.TIED and self.place(rank)[1] not in (0, self.pipeline - 1):
                    continue
                group = self.members(axis, rank)
                if 1 < len(group) < self.ranks and group not in names:
                    names[group] = str(len(names) + 1)
        return names

    def passes(self, stage: int) -> list[tuple[bool, int]]:
        """(whether forward, microbatch) of every pass of a stage, in order."""
        count = self.microbatches
        forward = [(True, number) for number in range(count)]
        if self.schedule is PipelineSchedule.GPIPE:
            return forward + [(False, number) for number in reversed(range(count))]
        warm = min(count, self.pipeline - 1 - stage)
        order = forward[:warm]
        for number in range(count):
            order += forward[warm + number : warm + number + 1]
            order.append((False, number))
        return order
