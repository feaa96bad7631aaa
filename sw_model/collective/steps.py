"""What every rank does for a chunk: its steps in each phase, and its memory pieces.

The one door from a plan to its executors. All results are shared between like chunks and must not
be changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from sw_model.collective.exchange import exchange_steps
from sw_model.collective.geometry import Geometry
from sw_model.collective.in_network import in_network_steps
from sw_model.collective.plan import (
    Algorithm,
    AnyAlgorithm,
    CollectivePlan,
    Operation,
    Piece,
    RankSteps,
)
from sw_model.collective.ring import ring_steps
from sw_model.collective.scripted import group_steps

__all__ = ["geometry_of", "load_pieces", "rank_steps", "resident", "store_pieces"]

_NO_STEPS = RankSteps((), ())


def geometry_of(plan: CollectivePlan, chunk: int) -> Geometry:
    """The geometry of a chunk, shared by all chunks that are cut alike."""
    if plan.local is not None:
        return geometry_of(plan.local, chunk)
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
        ranges = request.operation is Operation.ALL_REDUCE or request.operation.rooted
        even = ranges and request.elements % plan.quantum == 0
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

    There are none where it has no part in a rooted operation, or is in no group.

    Raises
    ------
    ValueError
        for an algorithm that cannot do what the phase asks for.
    """
    if plan.local is not None:
        member = plan.member(rank)
        return _NO_STEPS if member is None else rank_steps(plan.local, chunk, phase, member[1])
    geometry = geometry_of(plan, chunk)
    found = geometry.memo_steps.get((phase, rank))
    if found is None:
        step = plan.chunks[chunk].phases[phase]
        coordinates = plan.topology.coordinates(rank)
        bounds = geometry.bounds(phase, coordinates)
        own = coordinates[step.dim]
        if step.operation is Operation.ALL_TO_ALL:
            peers = plan.topology.peers(rank, step.dim)
            members = exchange_steps(step.algorithm, geometry.exchange(phase, coordinates))
            for peer, steps in zip(peers, members, strict=True):
                geometry.memo_steps[phase, peer] = steps
            return members[own]
        root, target = 0, None
        if step.operation.rooted:
            root, target = geometry.root[step.dim], geometry.target[step.dim]
        found = _steps(step.operation, step.algorithm, own, bounds, root, target)
        geometry.memo_steps[phase, rank] = found
    return found


def _steps(
    operation: Operation,
    algorithm: AnyAlgorithm,
    coordinate: int,
    bounds: Sequence[int],
    root: int,
    target: int | None,
) -> RankSteps:
    if algorithm is Algorithm.IN_NETWORK:
        return in_network_steps(operation, coordinate, bounds, root, target)
    if algorithm is Algorithm.RING and not operation.rooted:
        return ring_steps(operation, coordinate, bounds)
    return group_steps(operation, algorithm, tuple(bounds), root, target)[coordinate]


def resident(plan: CollectivePlan, chunk: int, position: int, rank: int) -> int:
    """Quanta of the chunk on ``rank`` before phase ``position`` (after the last one where
    ``position`` is the number of phases)."""
    if plan.local is not None:
        member = plan.member(rank)
        return 0 if member is None else resident(plan.local, chunk, position, member[1])
    return geometry_of(plan, chunk).resident(position, plan.topology.coordinates(rank))


def load_pieces(plan: CollectivePlan, chunk: int, rank: int) -> tuple[Piece, ...]:
    """What TX DMA reads for the chunk, out of the rank's source region; in SRAM order."""
    return _pieces(plan, chunk, 0, rank)


def store_pieces(plan: CollectivePlan, chunk: int, rank: int) -> tuple[Piece, ...]:
    """What RX DMA writes for the chunk, into the rank's result region; in SRAM order."""
    return _pieces(plan, chunk, len(plan.chunks[chunk].phases), rank)


def _pieces(plan: CollectivePlan, chunk: int, position: int, rank: int) -> tuple[Piece, ...]:
    if plan.local is not None:
        member = plan.member(rank)
        return () if member is None else _pieces(plan.local, chunk, position, member[1])
    geometry = geometry_of(plan, chunk)
    found = geometry.memo_pieces.get((position, rank))
    if found is None:
        found = geometry.pieces(position, plan.topology.coordinates(rank))
        geometry.memo_pieces[position, rank] = found
    moved = (plan.chunks[chunk].offset - geometry.offset) * plan.quantum
    if not moved:
        return found
    return tuple(Piece(p.memory + moved, p.elements, p.buffer) for p in found)
