"""What a rank does in one iteration, where the layers are cut into stages.

Every rank enters every collective, in one order: that of `Pipeline.passes`. It has a part in those
of its own stage and in what it hands over or is handed; the others it passes by. So it is ready for
what it is handed before it needs it. It awaits what its next pass needs:

    forward: (the gradients of the iteration before, in front of the first,) what the stage before
    hands over; then layer by layer compute, issue and await the activations; hand over;
    backward: what the stage behind hands over; then layer by layer, last first, input gradient,
    issue, weight gradient, issue it with the last microbatch, await the input gradient's
    collective; hand over.
"""

from __future__ import annotations

from collections.abc import Iterator

from sw_model.workload.layers import Pass, Workload
from sw_model.workload.pipeline import Handover, StagePass
from sw_model.workload.steps import Await, Compute, Issue, Step

__all__ = ["stage_program"]


def stage_program(workload: Workload, stage: int) -> Iterator[Step]:
    """The steps of a rank of ``stage``."""
    pipeline = workload.pipeline
    assert pipeline is not None, "the workload has stages"
    layers: list[list[int]] = [[] for _ in range(pipeline.stages)]
    for layer, own in enumerate(workload.stages):
        layers[own].append(layer)
    fresh = True  # of this stage, no pass of the iteration has begun
    for one in pipeline.passes():
        mine = one.stage == stage
        if one.backward:
            yield from _backward(layers, one, mine)
        else:
            yield from _forward(layers, one, mine, fresh)
        fresh = fresh and not mine


def _forward(layers: list[list[int]], one: StagePass, mine: bool, fresh: bool) -> Iterator[Step]:
    own, batch = layers[one.stage], one.microbatch
    if mine and fresh:
        for layer in own:
            yield Await(layer, Pass.WEIGHT_GRADIENT)
    if mine and one.stage:
        yield Await(layers[one.stage - 1][-1], Handover.ACTIVATIONS, microbatch=batch)
    for layer in own:
        if mine:
            yield Compute(layer, Pass.FORWARD)
        yield Issue(layer, Pass.FORWARD, batch)
        if mine:
            yield Await(layer, Pass.FORWARD, microbatch=batch)
    if one.stage + 1 < len(layers):
        yield Issue(own[-1], Handover.ACTIVATIONS, batch)


def _backward(layers: list[list[int]], one: StagePass, mine: bool) -> Iterator[Step]:
    own, batch = layers[one.stage], one.microbatch
    if mine and one.stage + 1 < len(layers):
        yield Await(layers[one.stage + 1][0], Handover.GRADIENTS, microbatch=batch)
    for layer in reversed(own):
        if mine:
            yield Compute(layer, Pass.INPUT_GRADIENT)
        yield Issue(layer, Pass.INPUT_GRADIENT, batch)
        if mine:
            yield Compute(layer, Pass.WEIGHT_GRADIENT)
        if one.final:
            yield Issue(layer, Pass.WEIGHT_GRADIENT)
        if mine:
            yield Await(layer, Pass.INPUT_GRADIENT, microbatch=batch)
    if one.stage:
        yield Issue(own[0], Handover.GRADIENTS, batch)
