"""Layers cut into stages, and the order in which a batch passes through them (decided here).

A layer's compute times and the payloads of its activations are those of one microbatch; a weight
gradient is computed for each, and its collective follows the last. Rank = t + tensor x (stage +
stages x replica), as in `sw_model.workload.parallel`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from sw_model.workload.parallel import PipelineSchedule

__all__ = ["Handover", "Pipeline", "StagePass", "stages_of_layers"]


class Handover(Enum):
    """What a stage sends to another: the activations of its last layer to the next, the gradients
    of those in front of its first layer to the one before."""

    ACTIVATIONS = "activations"
    GRADIENTS = "gradients of activations"


@dataclass(frozen=True, kw_only=True)
class StagePass:
    """A stage's forward or backward pass of a microbatch; ``final``: its last of an iteration."""

    stage: int
    microbatch: int
    backward: bool
    final: bool


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """A pipeline.

    Parameters
    ----------
    stages : of consecutive layers, at least 2
    microbatches : of a replica's batch
    boundary : bytes that a rank hands over for each microbatch
    schedule : order of a stage's passes

    Raises
    ------
    ValueError
        for parameters out of range.
    """

    stages: int
    microbatches: int
    boundary: int
    schedule: PipelineSchedule = PipelineSchedule.ONE_F_ONE_B

    def __post_init__(self) -> None:
        for name, least in (("stages", 2), ("microbatches", 1), ("boundary", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise ValueError(f"{name} must be a whole number of at least {least}, not {value}")

    def stage_of(self, rank: int, tensor: int) -> int:
        """The stage of a rank, where ``tensor`` ranks share each layer."""
        return rank // tensor % self.stages

    def passes(self) -> list[StagePass]:
        """Of all stages in one order, that of every stage and in which nothing needs what comes
        after it: by the time at which they begin, if all take one unit of time."""
        orders = [list(self._order(stage)) for stage in range(self.stages)]
        done: set[tuple[int, int, bool]] = set()
        out: list[StagePass] = []
        while any(orders):
            begun = []
            for stage, order in enumerate(orders):
                if not order:
                    continue
                microbatch, backward = order[0]
                before = stage + 1 if backward else stage - 1
                if 0 <= before < self.stages and (before, microbatch, backward) not in done:
                    continue
                del order[0]
                begun.append((stage, microbatch, backward))
                out.append(
                    StagePass(
                        stage=stage, microbatch=microbatch, backward=backward, final=not order
                    )
                )
            done.update(begun)
        return out

    def _order(self, stage: int) -> Iterator[tuple[int, bool]]:
        """Microbatch and direction of a stage's passes."""
        count = self.microbatches
        if self.schedule is PipelineSchedule.GPIPE:
            yield from ((m, False) for m in range(count))
            yield from ((m, True) for m in reversed(range(count)))
            return
        ahead = min(self.stages - 1 - stage, count)
        yield from ((m, False) for m in range(ahead))
        for microbatch in range(count):
            if microbatch + ahead < count:
                yield microbatch + ahead, False
            yield microbatch, True


def stages_of_layers(compute: Sequence[int | Fraction], stages: int) -> tuple[int, ...]:
    """The stage of each layer, given their compute times: the middle of a layer's time says in
    which of ``stages`` equal parts of the whole it lies; no stage is empty."""
    total = sum(compute)
    out: list[int] = []
    before: int | Fraction = 0
    for number, time in enumerate(compute):
        middle = Fraction(2 * before + time, 2)
        ideal = int(middle * stages / total) if total else number * stages // len(compute)
        least = stages - (len(compute) - number)
        most = out[-1] + 1 if out else 0
        out.append(min(max(ideal, least), most))
        before += time
    return tuple(out)
