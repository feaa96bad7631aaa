"""What a rank does in one iteration, step by step, for each mode of the ASTRA-sim 1.0 text.

A program is the same for every rank, but for those of a pipeline's stages
(`sw_model.workload.stage_program`). Collectives are issued and run beside compute; a rank stands
still only at an `Await`.

======================  ====================================================================
mode                    one iteration
======================  ====================================================================
DATA                    forward: await the layer's gradients of the iteration before, compute;
                        backward, last layer first: weight gradient, issue it, input gradient
                        (the first layer needs none)
MODEL, HYBRID_* but     forward: await gradients, compute, issue and await the activations;
DLRM                    backward: (forward again from a checkpoint,) input gradient, issue,
                        weight gradient, issue, await the input gradient's collective
HYBRID_DLRM,            like DATA; the embedding (layer 0) issues its all-to-all and the last
HYBRID_DLRM_ENHANCED    bottom layer awaits it; backward, it is issued after the first top layer
                        and awaited before the embedding's weight gradient
MICRO                   every collective of every line at once, no compute; then all awaited
======================  ====================================================================

Source: the loops of the public astra-sim repository, branch ASTRA-sim-1.0. Decided here: a MICRO
line issues all three collectives, not only the weight gradient's, and an iteration ends before the
next begins; the update time follows the weight gradient's collective only; both DLRM modes await
the gradients of the embedding before they are used.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from sw_model.workload.layers import Mode, Pass, Workload
from sw_model.workload.stage_program import stage_program
from sw_model.workload.steps import Await, Compute, Issue, Step

__all__ = ["Await", "Compute", "Issue", "Step", "compute_ns", "iteration"]


def iteration(workload: Workload, rank: int = 0) -> tuple[Step, ...]:
    """The steps of one iteration. The same for the first: nothing is pending then; and for all
    ranks of a stage."""
    if workload.pipeline is not None:
        return tuple(stage_program(workload, workload.stage_of(rank)))
    if workload.mode is Mode.DATA:
        return tuple(_data(workload))
    if workload.mode.is_dlrm:
        return tuple(_dlrm(workload))
    if workload.mode is Mode.MICRO:
        return tuple(_micro(workload))
    return tuple(_hybrid(workload))


def compute_ns(workload: Workload) -> int | Fraction:
    """Compute time of one iteration of one rank, that of the stage which computes most."""
    tensor = workload.model_parallel_npus or 1
    stages = 1 if workload.pipeline is None else workload.pipeline.stages
    return max(
        sum(
            workload.layers[step.layer].compute_ns(step.part)
            for step in iteration(workload, tensor * stage)
            if isinstance(step, Compute)
        )
        for stage in range(stages)
    )


def _data(workload: Workload) -> Iterator[Step]:
    count = len(workload.layers)
    for layer in range(count):
        yield Await(layer, Pass.WEIGHT_GRADIENT)
        yield Compute(layer, Pass.FORWARD)
    for layer in reversed(range(count)):
        yield Compute(layer, Pass.WEIGHT_GRADIENT)
        yield Issue(layer, Pass.WEIGHT_GRADIENT)
        if layer:
            yield Compute(layer, Pass.INPUT_GRADIENT)


def _forward(layer: int) -> Iterator[Step]:
    yield Await(layer, Pass.WEIGHT_GRADIENT)
    yield Compute(layer, Pass.FORWARD)
    yield Issue(layer, Pass.FORWARD)
    yield Await(layer, Pass.FORWARD)


def _hybrid(workload: Workload) -> Iterator[Step]:
    count = len(workload.layers)
    transformer = workload.mode.is_transformer
    for layer in range(count):
        yield from _forward(layer)
    for layer in reversed(range(count)):
        if layer in workload.checkpoint_initiates:
            start = max(kept for kept in workload.checkpoints if kept <= layer)
            for again in range(start, layer):
                yield from _forward(again)
        yield Compute(layer, Pass.INPUT_GRADIENT)
        if layer or transformer:
            yield Issue(layer, Pass.INPUT_GRADIENT)
        yield Compute(layer, Pass.WEIGHT_GRADIENT)
        yield Issue(layer, Pass.WEIGHT_GRADIENT)
        yield Await(layer, Pass.INPUT_GRADIENT)


def _dlrm(workload: Workload) -> Iterator[Step]:
    count = len(workload.layers)
    last_bottom = workload.last_bottom_layer or 0
    for layer in range(count):
        yield Await(layer, Pass.WEIGHT_GRADIENT)
        yield Compute(layer, Pass.FORWARD)
        if layer == 0:
            yield Issue(0, Pass.FORWARD)
        if layer == last_bottom:
            yield Await(0, Pass.FORWARD)
    if last_bottom + 1 == count:
        yield Issue(0, Pass.INPUT_GRADIENT)
    for layer in reversed(range(count)):
        if layer == 0:
            yield Await(0, Pass.INPUT_GRADIENT)
        yield Compute(layer, Pass.WEIGHT_GRADIENT)
        yield Issue(layer, Pass.WEIGHT_GRADIENT)
        if layer:
            yield Compute(layer, Pass.INPUT_GRADIENT)
        if layer == last_bottom + 1:
            yield Issue(0, Pass.INPUT_GRADIENT)


def _micro(workload: Workload) -> Iterator[Step]:
    every = [(layer, part) for layer in range(len(workload.layers)) for part in Pass]
    for layer, part in every:
        yield Issue(layer, part)
    for layer, part in every:
        yield Await(layer, part)
