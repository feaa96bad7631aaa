"""The time of one training iteration, as a sum of what follows each other.

An iteration is a sum of steps. A step is one path, or the longest of several that run beside each
other; a path is compute and collectives, one after another. The modes (`Overlap`):

* ``none``, LIBRA's: per layer forward, input gradient and weight gradient, each compute and
  collective;
* ``layer``, LIBRA's: a layer's backward pass is the longer of (input-gradient compute +
  collective) and (input-gradient compute + weight-gradient compute + collective);
* ``backward``, decided here: the collective of an input gradient runs beside its layer's weight
  gradient, and those of weight gradients, in order, beside all that is left of the backward pass,
  as a training loop has them.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sw_model.optimize.demand import Communicator, Demand
from sw_model.workload.layers import Pass, Workload

__all__ = [
    "BackwardPass",
    "Iteration",
    "Overlap",
    "Path",
    "Step",
    "TrainingTask",
    "backward_steps",
    "iteration_of_layers",
    "merged",
    "path",
    "path_of_steps",
]

Seconds = Callable[[Demand], Fraction]


class Overlap(enum.Enum):
    """What runs beside what in the backward pass; see the module."""

    NONE = "none"
    LAYER = "layer"
    BACKWARD = "backward"


@dataclass(frozen=True)
class BackwardPass:
    """Of a layer: compute of input and weight gradient, each with its collective."""

    inputs_ns: Fraction
    inputs: Demand
    weights_ns: Fraction
    weights: Demand


@dataclass(frozen=True)
class Path:
    """Compute of ``compute_ns``, ``demands``, each so many times, and ``steps``, one after
    another."""

    compute_ns: Fraction = Fraction(0)
    demands: tuple[tuple[Demand, int], ...] = ()
    steps: tuple[Step, ...] = ()

    def time_ns(self, of: Seconds) -> Fraction:
        """With the time of a demand given by ``of``, in ns."""
        time = sum((n * of(demand) for demand, n in self.demands), Fraction(self.compute_ns))
        return time + sum((step.time_ns(of) for step in self.steps), Fraction(0))

    def all_demands(self) -> Iterator[Demand]:
        """Of its steps too."""
        yield from (demand for demand, _ in self.demands)
        for step in self.steps:
            for inner in step.paths:
                yield from inner.all_demands()


@dataclass(frozen=True)
class Step:
    """The longest of ``paths``, ``count`` times.

    ``apart``: the paths are of different NPUs, such as the stages of a pipeline, and do not run
    beside each other on one. ``queue``: they are what this backward pass and the queue of its
    reductions may wait for. The simulation needs to know.
    """

    paths: tuple[Path, ...]
    count: int = 1
    apart: bool = False
    queue: tuple[BackwardPass, ...] = ()

    def time_ns(self, of: Seconds) -> Fraction:
        """As of `Path`."""
        return self.count * max(path.time_ns(of) for path in self.paths)


@dataclass(frozen=True)
class Iteration:
    """The sum of ``steps``. Equal steps are one with their count, which changes no time."""

    steps: tuple[Step, ...]

    def time_ns(self, of: Seconds) -> Fraction:
        """As of `Path`."""
        return sum((step.time_ns(of) for step in self.steps), Fraction(0))

    def demands(self) -> tuple[Demand, ...]:
        """All that occur, each once, in order."""
        found: dict[Demand, None] = {}
        for step in self.steps:
            for path in step.paths:
                found |= dict.fromkeys(path.all_demands())
        return tuple(found)


@dataclass(frozen=True, kw_only=True)
class TrainingTask:
    """A workload of the group that one network serves.

    Attributes
    ----------
    name : for people
    iteration : its time
    weight : of its iteration time in the sum that is minimised
    """

    name: str
    iteration: Iteration
    weight: Fraction = Fraction(1)


def merged(steps: Sequence[Step]) -> Iteration:
    """An iteration of ``steps``: single paths added up, equal steps counted."""
    compute = Fraction(0)
    plain: Counter[Demand] = Counter()
    beside: Counter[Step] = Counter()
    for step in steps:
        if len(step.paths) > 1 or step.paths[0].steps:
            beside[replace(step, count=1)] += step.count
            continue
        compute += step.count * step.paths[0].compute_ns
        for demand, count in step.paths[0].demands:
            plain[demand] += step.count * count
    out = [Step((Path(compute, tuple(plain.items())),))]
    return Iteration((*out, *(replace(step, count=n) for step, n in beside.items())))


def path_of_steps(steps: Sequence[Step]) -> Path:
    """All of ``steps``, one after another, as one path."""
    plain, *beside = merged(steps).steps
    alone = plain.paths[0]
    return Path(alone.compute_ns, alone.demands, tuple(beside))


def path(compute_ns: int | Fraction, *demands: tuple[Demand, int]) -> Path:
    """A path without what sends nothing."""
    return Path(
        Fraction(compute_ns), tuple((demand, count) for demand, count in demands if not demand.idle)
    )


def iteration_of_layers(
    workload: Workload,
    communicator_of: Callable[[int, Pass], Communicator],
    *,
    forward_comm_count: int = 1,
    overlap: Overlap = Overlap.NONE,
) -> Iteration:
    """The iteration of a layer workload.

    Parameters
    ----------
    communicator_of : of the collective of a pass of layer number so much
    forward_comm_count : how often a forward collective is done; 2 where the forward pass is
        computed again in the backward pass
    overlap : which of the modes
    """
    steps, passes = [], []
    for index, layer in enumerate(workload.layers):
        asked = {}
        for part in Pass:
            communication = layer.communication(part)
            size = communication.bytes if communication.operation is not None else 0
            asked[part] = Demand(communication.operation, size, communicator_of(index, part))
        forward, inputs, weights = (asked[part] for part in Pass)
        steps.append(Step((path(layer.forward_ns, (forward, forward_comm_count)),)))
        passes.append(
            BackwardPass(
                Fraction(layer.input_gradient_ns),
                inputs,
                Fraction(layer.weight_gradient_ns),
                weights,
            )
        )
    return merged(steps + backward_steps(passes, overlap))


def backward_steps(passes: Sequence[BackwardPass], overlap: Overlap) -> list[Step]:
    """The backward passes of ``passes``, which are in forward order."""
    if overlap is Overlap.BACKWARD:
        return [_queued(passes)]
    out = []
    for one in passes:
        inputs = path(one.inputs_ns, (one.inputs, 1))
        if overlap is Overlap.LAYER:
            both = path(one.inputs_ns + one.weights_ns, (one.weights, 1))
            out.append(Step((inputs, both)))
        else:
            out += [Step((inputs,)), Step((path(one.weights_ns, (one.weights, 1)),))]
    return out


def _queued(passes: Sequence[BackwardPass]) -> Step:
    """Reductions queue beside the backward pass. A queue that is never idle after the k-th entry is
    done when the k-th has come and all from there on are served, and one that was idle later is
    done later: the end is the longest of these over all k."""
    before: list[Step] = []
    paths = []
    left = [one.weights for one in reversed(passes)]
    for number, one in enumerate(reversed(passes)):
        ready = Step((path(one.inputs_ns + one.weights_ns),))
        if not one.weights.idle:
            served = Step((path(0, *((demand, 1) for demand in left[number:])),))
            paths.append(path_of_steps([*before, ready, served]))
        before.append(Step((path(one.inputs_ns),)))
        if one.inputs.idle:
            before.append(Step((path(one.weights_ns),)))
        else:
            before.append(Step((path(0, (one.inputs, 1)), path(one.weights_ns))))
    return Step(tuple(dict.fromkeys([*paths, path_of_steps(before)])), queue=tuple(passes))
