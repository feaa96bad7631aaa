"""Themis: each chunk takes the order of dims that levels their loads.

Rashidi et al., *Themis*, ISCA 2022 (arXiv 2110.04478v3), algorithm 1, with the byte counts of each
dim's kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import lcm, prod

from sw_model.collective.cost import PhaseCost, phase_cost
from sw_model.collective.plan import Algorithm, AnyAlgorithm, Operation, Phase
from sw_model.collective.traffic import default_algorithm
from sw_model.schedule.baseline import active_dims, baseline_phases
from sw_model.schedule.phases import Turn, build_phases, turn_merges
from sw_model.topology import Topology

__all__ = ["Themis"]


@dataclass(frozen=True)
class Themis:
    """Scheduler: greedy load levelling, chunk by chunk.

    Parameters
    ----------
    turn : whether the turning point is one phase
    initial_latency : loads start at steps x step latency of the dim, as the paper's text says;
        otherwise at zero, which fits its figures better
    threshold : the baseline's order is kept while the loads differ by less than the time that this
        share of a chunk takes on the least loaded dim; the paper's is 1/16
    algorithms : by dim of the topology, where they are not the defaults of its kinds

    Notes
    -----
    For an all-reduce half of each dim's time counts, so where both halves take the same bytes it is
    the reduce-scatter half, as in the paper; a merged in-network turning point counts half of its
    one pass. Ties: the inner dim comes first in a reduce-scatter and last in an all-gather.
    """

    turn: Turn = Turn.MERGED
    initial_latency: bool = False
    threshold: Fraction = Fraction(1, 16)
    algorithms: tuple[AnyAlgorithm, ...] | None = None

    def schedule(
        self,
        operation: Operation,
        topology: Topology,
        dims: Sequence[int],
        sizes: Sequence[Fraction | int],
    ) -> list[tuple[Phase, ...]]:
        """Phases of every chunk.

        Parameters
        ----------
        operation, topology, dims : what, where, over which dims
        sizes : bytes of every chunk, in the order of their admission, where they are largest:
            before a reduce-scatter or all-reduce, after an all-gather
        """
        active = active_dims(topology, dims)
        baseline = baseline_phases(operation, topology, dims, self.turn, self.algorithms)
        trees = any(self._algorithm(topology, d) is Algorithm.DOUBLE_BINARY_TREE for d in active)
        if not operation.reorders or len(active) < 2 or trees:
            return [baseline] * len(sizes)
        # Loads are counted in a unit in which they are whole: integers compare ten times faster.
        seconds = _units_per_second(topology, active)
        initial = {d: self._initial(operation, topology, d) * seconds for d in active}
        loads = {
            d: load.numerator if load.denominator == 1 else load for d, load in initial.items()
        }
        per_byte: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        limits: dict[tuple, Fraction] = {}
        phases: dict[tuple[int, ...], tuple[Phase, ...]] = {}
        out = []
        for size in sizes:
            # ``order`` is always the reduce-scatter's; an all-gather is its mirror image.
            order = tuple(sorted(active, key=lambda d: (loads[d], d)))
            least = order[0]
            if (size, least) not in limits:
                limits[size, least] = self._threshold(operation, topology, least, size) * seconds
            if loads[order[-1]] - loads[least] < limits[size, least]:
                order = active
            if order not in per_byte:
                unit = _load_of_a_byte(self, operation, topology, order)
                per_byte[order] = [(dim, int(load * seconds)) for dim, load in unit]
            for dim, units in per_byte[order]:
                loads[dim] += units * size
            if order not in phases:
                phases[order] = build_phases(
                    operation,
                    topology,
                    scatter=order if operation is not Operation.ALL_GATHER else (),
                    gather=order[::-1] if operation is not Operation.REDUCE_SCATTER else (),
                    turn=self.turn,
                    algorithms=self.algorithms,
                )
            out.append(phases[order])
        return out

    def _half(self, operation: Operation) -> Operation:
        """The operation whose time is levelled."""
        return Operation.REDUCE_SCATTER if operation is Operation.ALL_REDUCE else operation

    def _algorithm(self, topology: Topology, dim: int) -> AnyAlgorithm:
        if self.algorithms is not None:
            return self.algorithms[dim]
        return default_algorithm(topology.dims[dim].kind)

    def _cost(
        self, operation: Operation, topology: Topology, dim: int, payload: Fraction
    ) -> PhaseCost:
        return phase_cost(topology.dims[dim], operation, self._algorithm(topology, dim), payload)

    def _initial(self, operation: Operation, topology: Topology, dim: int) -> Fraction:
        if not self.initial_latency:
            return Fraction(0)
        steps = self._cost(self._half(operation), topology, dim, Fraction(0)).steps
        return Fraction(steps * topology.dims[dim].latency_ps, 10**12)

    def _threshold(
        self, operation: Operation, topology: Topology, dim: int, size: Fraction | int
    ) -> Fraction:
        cost = self._cost(self._half(operation), topology, dim, Fraction(size * self.threshold))
        return cost.port / topology.dims[dim].bandwidth

    def _load(
        self, operation: Operation, topology: Topology, order: Sequence[int], size: Fraction | int
    ) -> dict[int, Fraction]:
        """Seconds that a chunk adds to each dim: of the reduce-scatter half, for an all-reduce."""
        out = {}
        part = Fraction(size)
        for dim in order:
            where = topology.dims[dim]
            if (
                operation is Operation.ALL_REDUCE
                and dim == order[-1]
                and turn_merges(self.turn, self._algorithm(topology, dim))
            ):
                moved = self._cost(Operation.ALL_REDUCE, topology, dim, part).port / 2
            else:
                moved = self._cost(self._half(operation), topology, dim, part).port
            out[dim] = moved / where.bandwidth
            part /= where.size
        return out


def _units_per_second(topology: Topology, active: Sequence[int]) -> int:
    """A unit of time in which what a byte loads a dim with is whole, halves included."""
    rates = lcm(*((1 / topology.dims[d].bandwidth).denominator for d in active))
    return 2 * prod(topology.dims[d].size for d in active) * rates


@lru_cache(maxsize=4096)
def _load_of_a_byte(
    scheduler: Themis, operation: Operation, topology: Topology, order: tuple[int, ...]
) -> tuple[tuple[int, Fraction], ...]:
    return tuple(scheduler._load(operation, topology, order, 1).items())
