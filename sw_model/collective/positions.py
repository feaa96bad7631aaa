"""What of a chunk is resident at its positions, as far as it is the same for all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from sw_model.collective.exchange import passing_shards
from sw_model.collective.plan import Operation, Phase

__all__ = ["largest_resident", "mirrors", "split_dims"]


def largest_resident(
    operation: Operation, phases: Sequence[Phase], sizes: Sequence[int], extent: int
) -> list[int]:
    """For each position, quanta that no rank exceeds, for a chunk of ``extent`` quanta."""
    if operation in (Operation.REDUCE_SCATTER, Operation.ALL_TO_ALL):
        quanta = extent * prod(sizes[p.dim] for p in phases)
    else:
        quanta = extent
    out = [quanta]
    mirror = mirrors(phases)
    for index, phase in enumerate(phases):
        size = sizes[phase.dim]
        same = mirror[index + 1]
        if same is not None:
            quanta = out[same]
        elif phase.operation is Operation.REDUCE_SCATTER:
            quanta = -(-quanta // size)
        elif phase.operation is Operation.ALL_GATHER:
            quanta *= size
        if phase.operation is Operation.ALL_TO_ALL:
            out.append(quanta + passing_shards(phase.algorithm, size) * -(-quanta // size))
        else:
            out.append(quanta)
    return out


def mirrors(phases: Sequence[Phase]) -> list[int | None]:
    """For each position, an earlier one with the same data: set after an all-gather that undoes
    the last reduce-scatter still open, and after an all-reduce."""
    mirror: list[int | None] = [None] * (len(phases) + 1)
    stack: list[tuple[int, int]] = []  # (dim, position before its reduce-scatter)
    for index, phase in enumerate(phases):
        match phase.operation:
            case Operation.REDUCE_SCATTER:
                stack.append((phase.dim, index))
            case Operation.ALL_REDUCE:
                mirror[index + 1] = index
            case Operation.ALL_GATHER:
                if stack and stack[-1][0] == phase.dim:
                    mirror[index + 1] = stack.pop()[1]
                else:
                    stack.append((-1, -1))  # out of order: nothing before it is undone
    return mirror


def split_dims(
    operation: Operation, dims: Sequence[int], phases: Sequence[Phase]
) -> list[tuple[int, ...]]:
    """For each position, the dims on which the resident size may depend."""
    if operation in (Operation.ALL_TO_ALL, *(o for o in Operation if o.rooted)):
        return [tuple(dims)] * (len(phases) + 1)
    if operation is Operation.ALL_REDUCE:
        split: set[int] = set()
    elif operation is Operation.REDUCE_SCATTER:
        split = set(dims) - {p.dim for p in phases}
    else:
        split = set(dims)
    out = [tuple(sorted(split))]
    for phase in phases:
        if phase.operation is Operation.REDUCE_SCATTER:
            split.add(phase.dim)
        elif phase.operation is Operation.ALL_GATHER:
            split.discard(phase.dim)
        out.append(tuple(sorted(split)))
    return out
