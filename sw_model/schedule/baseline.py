"""The baseline schedule: every chunk visits the dims in the same order.

Reduce-scatter from dim 1 outwards, all-gather back from the outermost dim to dim 1; so also reduce
and broadcast, which then load the outer dims of the root's line only. All-to-all and send go
outwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sw_model.collective.plan import AnyAlgorithm, Operation, Phase
from sw_model.schedule.phases import Turn, build_phases
from sw_model.topology import Topology

__all__ = ["Baseline", "active_dims", "baseline_phases"]


def active_dims(topology: Topology, dims: Sequence[int]) -> tuple[int, ...]:
    """The dims of a group on which there is somebody to talk to, innermost first."""
    return tuple(d for d in sorted(dims) if topology.dims[d].size > 1)


def baseline_phases(
    operation: Operation,
    topology: Topology,
    dims: Sequence[int],
    turn: Turn,
    algorithms: Sequence[AnyAlgorithm] | None = None,
) -> tuple[Phase, ...]:
    """Phases of every chunk under the baseline."""
    order = active_dims(topology, dims)
    if not operation.reorders:
        visited = order[::-1] if operation is Operation.BROADCAST else order
        return build_phases(operation, topology, gather=visited, algorithms=algorithms)
    scatter = order if operation is not Operation.ALL_GATHER else ()
    gather = order[::-1] if operation is not Operation.REDUCE_SCATTER else ()
    return build_phases(
        operation, topology, scatter=scatter, gather=gather, turn=turn, algorithms=algorithms
    )


@dataclass(frozen=True)
class Baseline:
    """Scheduler: the fixed order.

    Parameters
    ----------
    turn : whether the turning point is one phase
    algorithms : by dim of the topology, where they are not the defaults of its kinds
    """

    turn: Turn = Turn.MERGED
    algorithms: tuple[AnyAlgorithm, ...] | None = None

    def schedule(
        self,
        operation: Operation,
        topology: Topology,
        dims: Sequence[int],
        sizes: Sequence[Fraction | int],
    ) -> list[tuple[Phase, ...]]:
        """Phases of every chunk; see :meth:`sw_model.schedule.themis.Themis.schedule`."""
        phases = baseline_phases(operation, topology, dims, self.turn, self.algorithms)
        return [phases] * len(sizes)
