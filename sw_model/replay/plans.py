"""What a replay in our own semantics carries out: collectives as timed ops."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sw_model.astra.system import AlgorithmName, SystemConfig
from sw_model.collective.cost import algorithm_of, check_tree
from sw_model.collective.memory_traffic import NO_TRAFFIC, MemoryTraffic
from sw_model.collective.plan import Algorithm, Operation
from sw_model.errors import InputError
from sw_model.replay.alone import Progress, TimedOp, alone
from sw_model.topology import Topology

__all__ = ["Planned", "Schedule", "TimedOp", "own_algorithms"]

_OWN = {
    AlgorithmName.RING: Algorithm.RING,
    AlgorithmName.ONE_RING: Algorithm.RING,
    AlgorithmName.DIRECT: Algorithm.DIRECT,
    AlgorithmName.ONE_DIRECT: Algorithm.DIRECT,
    AlgorithmName.HALVING_DOUBLING: Algorithm.HALVING_DOUBLING,
    AlgorithmName.ONE_HALVING_DOUBLING: Algorithm.HALVING_DOUBLING,
    AlgorithmName.DOUBLE_BINARY_TREE: Algorithm.DOUBLE_BINARY_TREE,
}


def own_algorithms(
    system: SystemConfig, operation: Operation, topology: Topology
) -> tuple[tuple[Algorithm, ...], tuple[str, ...]]:
    """By dim the algorithm that the system asks for, or the best of the dim's kind where it asks
    for none or for one that cannot be, and notes on the latter."""
    names = system.algorithms.get(operation)
    algorithms, notes = [], []
    for index, dim in enumerate(topology.dims):
        wanted = _OWN.get(names[index]) if names and dim.size > 1 else None
        try:
            if names and dim.size > 1 and wanted is None:
                raise InputError(f"{names[index].value} is not known in this semantics")
            algorithm = algorithm_of(dim, operation, wanted)
            check_tree(topology.dims, index, operation, algorithm)
        except InputError as error:
            algorithm = algorithm_of(dim, operation)
            notes.append(f"dim {index + 1}: {error}; {algorithm.value} is used instead")
        algorithms.append(algorithm)
    return tuple(algorithms), tuple(notes)


@dataclass(frozen=True)
class Schedule:
    """How collectives are scheduled; see `sw_model.schedule.outcome.choose`."""

    scheduler: str = "baseline"
    intra: str = "fifo"
    chunks: int = 64
    serial_latency: bool = False


@dataclass(frozen=True)
class Planned:
    """A collective's chunks, each with its ops, the bytes an NPU sends on each dim, and what its
    main memory carries where that is counted."""

    chunks: tuple[tuple[TimedOp, ...], ...]
    sent: tuple[int, ...] = ()
    memory: MemoryTraffic = NO_TRAFFIC

    @cached_property
    def dims(self) -> tuple[int, ...]:
        """That it uses."""
        return tuple(sorted({op.dim for chunk in self.chunks for op in chunk}))

    @cached_property
    def alone(self) -> Progress:
        """All of it, where it has its lanes to itself."""
        return alone(self.chunks)

    @cached_property
    def gapless(self) -> bool:
        """Whether it uses one dim, and that without a pause from its first op to its last: then
        what goes behind it on the same lanes begins when its last op ends, and not before."""
        return len(self.dims) == 1 and self.alone.busy[self.dims[0]] == self.alone.freed
