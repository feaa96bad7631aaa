"""From the order in which a chunk visits the dims to its phases."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from sw_model.collective.cost import algorithm_of
from sw_model.collective.plan import Algorithm, AnyAlgorithm, Operation, Phase
from sw_model.topology import Topology

__all__ = ["Turn", "build_phases", "turn_merges"]


class Turn(enum.Enum):
    """Whether the last reduce-scatter and the first all-gather of an all-reduce, where they are on
    the same dim, become one all-reduce phase (docs/plan.md)."""

    MERGED = "merged"  # on every dim; in-network it halves the bytes, elsewhere it changes none
    IN_NETWORK = "in-network"  # only where it saves bytes; a double binary tree cannot but merge
    SPLIT = "split"  # never: the minimal model of the Themis paper


def turn_merges(turn: Turn, algorithm: AnyAlgorithm) -> bool:
    """Whether an all-reduce is one phase on a dim with this algorithm at the turning point."""
    if algorithm is Algorithm.DOUBLE_BINARY_TREE:
        return True
    return turn is Turn.MERGED or (turn is Turn.IN_NETWORK and algorithm is Algorithm.IN_NETWORK)


def build_phases(
    operation: Operation,
    topology: Topology,
    *,
    scatter: Sequence[int] = (),
    gather: Sequence[int] = (),
    turn: Turn = Turn.MERGED,
    algorithms: Sequence[AnyAlgorithm] | None = None,
) -> tuple[Phase, ...]:
    """Phases of one chunk.

    Parameters
    ----------
    scatter : dims of the reduce-scatter half, in order (all-reduce and reduce-scatter)
    gather : dims of the all-gather half, in order (all-reduce and all-gather); for an all-to-all
        and the rooted operations the dims that they visit
    turn : see :class:`Turn`
    algorithms : by dim of the topology, where they are not the defaults of its kinds
    """

    def algorithm(dim: int) -> AnyAlgorithm:
        if algorithms is not None:
            return algorithms[dim]
        return algorithm_of(topology.dims[dim], operation)

    def phase(kind: Operation, dim: int) -> Phase:
        return Phase(kind, dim, algorithm(dim))

    if not operation.reorders:
        return tuple(phase(operation, dim) for dim in gather)
    scatters = [phase(Operation.REDUCE_SCATTER, dim) for dim in scatter]
    gathers = [phase(Operation.ALL_GATHER, dim) for dim in gather]
    if scatters and gathers and scatters[-1].dim == gathers[0].dim:
        dim = scatters[-1].dim
        if turn_merges(turn, algorithm(dim)):
            middle = phase(Operation.ALL_REDUCE, dim)
            return (*scatters[:-1], middle, *gathers[1:])
    return (*scatters, *gathers)
