"""What every rank does for a chunk: its steps in each phase, and its memory pieces.

The one door from a plan to its executors. All results are shared between like chunks and must not
be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sw_model.collective.geometry import Geometry
from sw_model.collective.in_network import in_network_steps
from sw_model.collective.plan import Algorithm, CollectivePlan, Operation, Piece, RankSteps
from sw_model.collective.ring import ring_steps

__all__ = ["STEPS", "geometry_of", "load_pieces", "rank_steps", "resident", "store_pieces"]

StepFunction = Callable[[Operation, int, Sequence[int]], RankSteps]

#: How each algorithm turns (operation, coordinate, shard bounds) into steps.
STEPS: dict[Algorithm, StepFunction] = {
    Algorithm.RING: ring_steps,
    Algorithm.IN_NETWORK: in_network_steps,
}


def geometry_of(plan: CollectivePlan, chunk: int) -> Geometry:
    """The geometry of a chunk, shared by all chunks that are cut alike."""
    memo = plan.derived.get("geometry")
    if memo is None:
        memo = plan.derived["geometry"] = _geometries(plan)
    return memo[chunk]


def _geometries(plan: CollectivePlan) -> list[Geometry]:
    request = plan.collective
    made: dict[tuple, Geometry] = {}
    out = []
    for chunk in plan.chunks:
        key: tuple = (chunk.phases, chunk.quanta, chunk.extent)
        # Only the last chunk can have a partial last quantum, or blocks that differ in length.
        even = request.operation is Operation.ALL_REDUCE and request.elements % plan.quantum == 0
        if chunk is plan.chunks[-1] and not even:
            key = (*key, chunk.offset)
        if key not in made:
            made[key] = Geometry(
                collective=request, topology=plan.topology, quantum=plan.quantum, chunk=chunk
            )
        out.append(made[key])
    return out


def rank_steps(plan: CollectivePlan, chunk: int, phase: int, rank: int) -> RankSteps:
    """Send and receive steps of ``rank`` in phase ``phase`` of chunk ``chunk``.

    Raises
    ------
    NotImplementedError
        for an algorithm without steps; such plans are for timing only.
    """
    geometry = geometry_of(plan, chunk)
    found = geometry.memo_steps.get((phase, rank))
    if found is None:
        step = plan.chunks[chunk].phases[phase]
        if step.algorithm not in STEPS:
            raise NotImplementedError(f"{step.algorithm.value} phases have no steps yet")
        coordinates = plan.topology.coordinates(rank)
        bounds = geometry.bounds(phase, coordinates)
        found = STEPS[step.algorithm](step.operation, coordinates[step.dim], bounds)
        geometry.memo_steps[phase, rank] = found
    return found


def resident(plan: CollectivePlan, chunk: int, position: int, rank: int) -> int:
    """Quanta of the chunk on ``rank`` before phase ``position`` (after the last one where
    ``position`` is the number of phases)."""
    return geometry_of(plan, chunk).resident(position, plan.topology.coordinates(rank))


def load_pieces(plan: CollectivePlan, chunk: int, rank: int) -> tuple[Piece, ...]:
    """What TX DMA reads for the chunk, out of the rank's source region; in SRAM order."""
    return _pieces(plan, chunk, 0, rank)


def store_pieces(plan: CollectivePlan, chunk: int, rank: int) -> tuple[Piece, ...]:
    """What RX DMA writes for the chunk, into the rank's result region; in SRAM order."""
    return _pieces(plan, chunk, len(plan.chunks[chunk].phases), rank)


def _pieces(plan: CollectivePlan, chunk: int, position: int, rank: int) -> tuple[Piece, ...]:
    geometry = geometry_of(plan, chunk)
    found = geometry.memo_pieces.get((position, rank))
    if found is None:
        found = geometry.pieces(position, plan.topology.coordinates(rank))
        geometry.memo_pieces[position, rank] = found
    moved = (plan.chunks[chunk].offset - geometry.offset) * plan.quantum
    if not moved:
        return found
    return tuple(Piece(p.memory + moved, p.elements, p.buffer) for p in found)
