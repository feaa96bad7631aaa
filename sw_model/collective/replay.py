"""What a plan computes, bit for bit: NumPy arithmetic in the plan's order of reduction.

Chunks that are cut alike run as one: every message is then one array operation over all of them,
so a megabyte on each of 16 ranks takes a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sw_model.collective.geometry import Geometry
from sw_model.collective.interpret import Flow, Interpreter, region_elements
from sw_model.collective.numerics import element_type, reduce
from sw_model.collective.plan import CollectivePlan, Piece
from sw_model.collective.steps import geometry_of
from sw_model.fred.configuration import Configuration
from sw_model.fred.configuration import Flow as SwitchFlow
from sw_model.fred.reduction import Tree, reduction_trees
from sw_model.fred.routing import route

__all__ = ["Trees", "flow_tree", "replay"]

Array = NDArray[Any]

#: The order in which a switch of (ports, middle copies) reduces a flow: a port or a pair of trees.
Trees = Callable[[int, int, Flow], Tree]


@lru_cache(maxsize=4096)
def flow_tree(ports: int, middle_copies: int, flow: Flow) -> Tree:
    """The reduction tree of a flow that is routed alone through FRED_m(P)."""
    alone = SwitchFlow(*flow)
    routed = route(ports, middle_copies, [alone])
    assert isinstance(routed, Configuration), "a flow alone always routes"
    return reduction_trees(routed)[alone]


def replay(
    plan: CollectivePlan, sources: Sequence[Array], *, trees: Trees = flow_tree
) -> list[Array]:
    """The result region of every rank.

    Parameters
    ----------
    plan : a checked plan
    sources : by rank, the source region, of the data type's storage dtype; those of ranks without
        one, in a broadcast and a send, are not looked at
    trees : reduction order of the FRED switches

    Raises
    ------
    ValueError
        where a source has not the collective's shape and type.
    """
    numbers = _Numbers(plan, sources, trees)
    interpreter = Interpreter(plan, numbers)
    batches: dict[int, list[int]] = {}
    made: dict[int, Geometry] = {}
    for chunk in plan.chunks:
        geometry = geometry_of(plan, chunk.index)
        made[id(geometry)] = geometry
        batches.setdefault(id(geometry), []).append(chunk.index)
    for batch in batches.values():
        numbers.select(batch)
        interpreter.load(batch[0])
        for phase in range(len(plan.chunks[batch[0]].phases)):
            interpreter.op(batch[0], phase)
        interpreter.store(batch[0])
    return numbers.results


class _Numbers:
    """Values of the interpreter: arrays of (quanta, chunks at once, elements of a quantum)."""

    def __init__(self, plan: CollectivePlan, sources: Sequence[Array], trees: Trees) -> None:
        self.plan = plan
        self.trees = trees
        self.kind = element_type(plan.collective.data_type)
        topology, dims = plan.topology, plan.collective.dims
        group = prod(topology.dims[d].size for d in dims)
        if len(sources) != topology.npus:
            raise ValueError(f"sources must be {topology.npus} arrays, not {len(sources)!r}")
        self.regions, self.results = [], []
        for rank, source in enumerate(sources):
            block, stride = 0, 1
            for dim in dims:
                block += topology.coordinates(rank)[dim] * stride
                stride *= topology.dims[dim].size
            elements, out = region_elements(plan, group, block)
            if not elements:
                source = source[:0]
            if source.shape != (elements,) or source.dtype != self.kind.storage:
                raise ValueError(
                    f"the source of rank {rank} must be {elements} elements of "
                    f"{self.kind.storage}, not {source.size} of {source.dtype}"
                )
            self.regions.append(source)
            self.results.append(self._whole(out))
        self.shifts = np.zeros(1, dtype=np.int64)

    def _whole(self, elements: int) -> Array:
        return np.zeros(elements, dtype=self.kind.storage)

    def select(self, chunks: Sequence[int]) -> None:
        """The like chunks that now run as one; steps and pieces are those of the first.

        The interpreter's chunk is any of them; memory moves by the offsets.
        """
        offsets = [self.plan.chunks[c].offset for c in chunks]
        self.shifts = np.array(offsets, dtype=np.int64) - offsets[0]

    def _moved(self, piece: Piece) -> Iterator[tuple[int, slice]]:
        """Of every chunk at once: its number, and the elements of the region."""
        for number, shift in enumerate(self.shifts):
            first = piece.memory + int(shift) * self.plan.quantum
            yield number, slice(first, first + piece.elements)

    def empty(self, quanta: int) -> Array:
        shape = (quanta, len(self.shifts), self.plan.quantum)
        return np.zeros(shape, dtype=self.kind.storage)

    def load(self, rank: int, piece: Piece, where: str) -> Array:
        quantum = self.plan.quantum
        out = self.empty(-(-piece.elements // quantum))
        padded = np.zeros(len(out) * quantum, dtype=self.kind.storage)
        for number, where_at in self._moved(piece):
            padded[: piece.elements] = self.regions[rank][where_at]
            out[:, number] = padded.reshape(-1, quantum)
        return out

    def send(self, data: Array, where: str) -> Array:
        return data.copy()

    def reduce(self, local: Array, received: Array, where: str) -> Array:
        return self._combine(local, received)

    def _combine(self, left: Array, right: Array) -> Array:
        request = self.plan.collective
        return reduce(left, right, request.data_type, request.operator)

    def flow(self, inputs: dict[int, Array], size: int, flow: Flow, dim: int, where: str) -> Array:
        copies = self.plan.topology.dims[dim].middle_copies

        def value(tree: Tree) -> Array:
            if isinstance(tree, int):
                return inputs[tree]
            return self._combine(value(tree[0]), value(tree[1]))

        return value(self.trees(size, copies, flow))

    def store(self, rank: int, piece: Piece, data: Array, where: str) -> None:
        for number, where_at in self._moved(piece):
            self.results[rank][where_at] = data[:, number].reshape(-1)[: piece.elements]
