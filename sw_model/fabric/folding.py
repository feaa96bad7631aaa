"""Which ranks are simulated, and which of them stands for which others.

Ranks that do the same at the same time need no simulation of their own: a message to the ring
neighbour then arrives at the sender itself, and one input stands for all inputs of a FRED flow.
"""

from __future__ import annotations

import enum
from dataclasses import replace
from math import prod

from sw_model.collective.plan import ChunkPlan, CollectivePlan, Operation
from sw_model.topology import DimKind, Topology

__all__ = ["Folding", "padded", "representatives"]


class Folding(enum.Enum):
    """How much is folded.

    Members
    -------
    NONE : every rank is simulated, as on a tree of FRED switches always
    RINGS : one rank of every ring. Exact, for plans whose shards are equal on all ranks and ranks
        that enter collectives at the same time
    ALL : one rank. Exact for plans whose shards are equal and whose phases on FRED dims are all
        all-reduces. Otherwise near: unequal shards are padded to equal ones, and where the members
        of a FRED dim end a reduce-scatter one after another, all end with the last.
    """

    NONE = "none"
    RINGS = "rings"
    ALL = "all"


def representatives(topology: Topology, folding: Folding) -> tuple[int, ...]:
    """For every rank, the one that is simulated in its place."""
    tree = any(dim.tree is not None for dim in topology.dims)
    if folding is Folding.NONE or tree:
        return tuple(range(topology.npus))
    if folding is Folding.ALL:
        return (0,) * topology.npus
    rings = [dim.kind is DimKind.RING for dim in topology.dims]
    return tuple(
        topology.rank(
            [
                0 if ring else coordinate
                for ring, coordinate in zip(rings, topology.coordinates(rank), strict=True)
            ]
        )
        for rank in range(topology.npus)
    )


def padded(plan: CollectivePlan) -> CollectivePlan:
    """The plan with every shard as large as the largest, for its timing only.

    Only the last chunk of an all-reduce may have unequal shards (``sw_model.schedule.chunking``);
    and that of an operation on blocks, where these differ in quanta.
    """
    collective = plan.collective
    if plan.chunks and not (
        collective.operation is Operation.ALL_REDUCE or collective.operation.rooted
    ):
        return _even_blocks(plan)
    if collective.operation is not Operation.ALL_REDUCE or not plan.chunks:
        return plan
    group = prod(plan.topology.dims[dim].size for dim in collective.dims)
    chunks = []
    for chunk in plan.chunks:
        quanta = chunk.quanta + -chunk.quanta % group
        chunks.append(
            chunk
            if quanta == chunk.quanta
            else ChunkPlan(chunk.index, quanta, chunk.phases, chunk.offset, quanta)
        )
    last = chunks[-1]
    elements = max(collective.elements, (last.offset + last.quanta) * plan.quantum)
    return replace(plan, collective=replace(collective, elements=elements), chunks=tuple(chunks))


def _even_blocks(plan: CollectivePlan) -> CollectivePlan:
    """The same, of blocks."""
    collective = plan.collective
    group = prod(plan.topology.dims[dim].size for dim in collective.dims)
    ranks = 1 if collective.operation is Operation.ALL_GATHER else group
    largest = -(-collective.elements // ranks)
    if collective.elements % ranks == 0:
        return plan  # alike already, if not whole quanta
    elements = (largest + -largest % plan.quantum) * ranks
    chunks = tuple(
        replace(chunk, quanta=chunk.extent * (group if ranks > 1 else 1)) for chunk in plan.chunks
    )
    return replace(plan, collective=replace(collective, elements=elements), chunks=chunks)
