"""Where the data of a chunk lies in SRAM: how much is resident at each position, cut how, and which
part of the payload that is.

An all-reduce chunk is one range of the payload, cut into floor shards by every reduce-scatter and
put together again by the all-gathers. A reduce-scatter chunk is a slice of every rank's block of
the payload, in the order in which its phases visit the dims (the first visited dim is the
outermost), so that every phase's shards are contiguous; an all-gather chunk is its mirror image.

Nothing here loops over ranks, but for the blocks that a reduce-scatter or all-gather chunk really
consists of.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from math import prod

from sw_model.collective.plan import (
    ChunkPlan,
    Collective,
    Operation,
    Phase,
    Piece,
    RankSteps,
)
from sw_model.topology import Topology

__all__ = ["Blocks", "Geometry", "floor_bounds", "largest_resident"]


@lru_cache(maxsize=4096)
def floor_bounds(quanta: int, size: int) -> tuple[int, ...]:
    """Offsets of ``size`` floor shards of ``quanta``, and the end."""
    return tuple(i * quanta // size for i in range(size + 1))


class Blocks:
    """The payload as one block per rank of the group: block b is the floor shard b of it, in
    elements (NCCL's meaning of reduce-scatter and all-gather).

    Parameters
    ----------
    elements : of the whole payload
    group : ranks in the group
    """

    def __init__(self, *, elements: int, group: int) -> None:
        self.elements = elements
        self.group = group
        self.even = elements % group == 0

    def start(self, block: int) -> int:
        """First element of a block."""
        return block * self.elements // self.group

    def size(self, block: int) -> int:
        """Elements of a block."""
        return self.start(block + 1) - self.start(block)

    @property
    def largest(self) -> int:
        """Elements of the largest block."""
        return -(-self.elements // self.group)

    def sliced(self, offset: int, extent: int) -> int:
        """Sum over all blocks of what ``[offset, offset + extent)`` takes of them, in elements."""
        small, more = divmod(self.elements, self.group)
        low = max(0, min(small, offset + extent) - offset)
        high = max(0, min(small + 1, offset + extent) - offset)
        return (self.group - more) * low + more * high


class Geometry:
    """Geometry of all chunks of one size and one order of phases, on one group.

    Parameters
    ----------
    collective, topology, quantum : of the plan
    chunk : a chunk of this kind

    Notes
    -----
    ``coordinates`` are those of a rank on all dims of the topology.
    """

    def __init__(
        self, *, collective: Collective, topology: Topology, quantum: int, chunk: ChunkPlan
    ) -> None:
        self.collective = collective
        self.quantum = quantum
        self.sizes = tuple(dim.size for dim in topology.dims)
        self.phases = chunk.phases
        self.quanta = chunk.quanta
        self.offset, self.extent = chunk.offset, chunk.extent
        self.operation = collective.operation
        self.group = prod(self.sizes[d] for d in collective.dims)
        payload = collective.elements
        if self.operation is Operation.ALL_GATHER:
            payload *= self.group
        self.blocks = Blocks(elements=payload, group=self.group)
        # Filled by sw_model.collective.steps, by (phase or position, rank).
        self.memo_steps: dict[tuple[int, int], RankSteps] = {}
        self.memo_pieces: dict[tuple[int, int], tuple[Piece, ...]] = {}
        self._sizes: dict[tuple, int] = {}
        self._bounds: dict[tuple, tuple[int, ...]] = {}
        self._mirror = _mirrors(self.phases)
        # Dims whose coordinate changes what is resident, by position.
        self._split = _split_dims(self.operation, collective.dims, self.phases)

    def resident(self, position: int, coordinates: Sequence[int]) -> int:
        """Quanta of the chunk on a rank before phase ``position``, or after the last one."""
        key = (position, *[coordinates[d] for d in self._split[position]])
        found = self._sizes.get(key)
        if found is None:
            found = self._sizes[key] = self._resident(position, coordinates)
        return found

    def _resident(self, position: int, coordinates: Sequence[int]) -> int:
        if self.operation in (Operation.REDUCE_SCATTER, Operation.ALL_GATHER):
            if self.blocks.even:
                return self.extent * self._blocks_at(position)
            return sum(size for _, size in self._slices(position, coordinates))
        if position == 0:
            return self.quanta
        same = self._mirror[position]
        if same is not None:
            return self.resident(same, coordinates)
        phase = self.phases[position - 1]
        bounds = self.bounds(position - 1, coordinates)
        if phase.operation is Operation.REDUCE_SCATTER:
            i = coordinates[phase.dim]
            return bounds[i + 1] - bounds[i]
        return bounds[-1]

    def bounds(self, phase: int, coordinates: Sequence[int]) -> tuple[int, ...]:
        """Offsets of the P shards of a phase in the whole buffer, and its end.

        The whole buffer is the source of a reduce-scatter, the destination of an all-gather, and
        either of an all-reduce.
        """
        operation, dim = self.phases[phase].operation, self.phases[phase].dim
        key = (phase, *[c for d, c in enumerate(coordinates) if d != dim])
        found = self._bounds.get(key)
        if found is None:
            size = self.sizes[dim]
            own_blocks = self.operation is not Operation.ALL_REDUCE
            if operation is Operation.ALL_REDUCE or (
                operation is Operation.REDUCE_SCATTER and not own_blocks
            ):
                found = floor_bounds(self.resident(phase, coordinates), size)
            else:
                position = phase + (operation is Operation.REDUCE_SCATTER)
                offsets = [0]
                member = list(coordinates)
                for i in range(size):
                    member[dim] = i
                    offsets.append(offsets[-1] + self.resident(position, member))
                found = tuple(offsets)
            self._bounds[key] = found
        return found

    def _blocks_at(self, position: int) -> int:
        """Blocks of which a rank holds a slice, of a reduce-scatter or all-gather chunk."""
        visited = prod(self.sizes[p.dim] for p in self.phases[:position])
        if self.operation is Operation.ALL_GATHER:
            return visited
        return self.group // visited

    def _slices(self, position: int, coordinates: Sequence[int]) -> list[tuple[int, int]]:
        """(block, quanta) of a reduce-scatter or all-gather chunk at a rank, in SRAM order."""
        dims = self.collective.dims
        visited = [p.dim for p in self.phases]
        if self.operation is Operation.REDUCE_SCATTER:
            free = visited[position:]
        else:
            free = visited[:position][::-1]
        strides, stride = {}, 1
        for dim in dims:
            strides[dim] = stride
            stride *= self.sizes[dim]
        base = sum(coordinates[d] * strides[d] for d in dims if d not in free)
        out = []
        for choice in product(*(range(self.sizes[d]) for d in free)):
            block = base + sum(c * strides[d] for c, d in zip(choice, free, strict=True))
            size = -(-self.blocks.size(block) // self.quantum)
            out.append((block, max(0, min(size, self.offset + self.extent) - self.offset)))
        return out

    def pieces(self, position: int, coordinates: Sequence[int]) -> tuple[Piece, ...]:
        """The ranges of the payload that are resident at ``position``, as memory pieces.

        Those of the chunk that the geometry was made for; of a like chunk they lie as much further
        in memory as its offset is larger. For the one position at which a reduce-scatter or
        all-gather chunk is a single slice of the rank's own block, memory is that block's.
        """
        quantum, offset = self.quantum, self.offset
        if self.operation is Operation.ALL_REDUCE:
            ranges = self._layout(position, coordinates)
            spans = []
            for low, high in ranges:
                memory = (offset + low) * quantum
                end = min((offset + high) * quantum, self.collective.elements)
                spans.append((memory, end - memory, high - low))
            return _merge(spans)
        slices = self._slices(position, coordinates)
        own = position == (len(self.phases) if self.operation is Operation.REDUCE_SCATTER else 0)
        spans = []
        for block, quanta in slices:
            elements = min(quanta * quantum, self.blocks.size(block) - offset * quantum)
            start = 0 if own else self.blocks.start(block)
            spans.append((start + offset * quantum, max(0, elements), quanta))
        return _merge(spans)

    def _layout(self, position: int, coordinates: Sequence[int]) -> list[tuple[int, int]]:
        """Ranges of an all-reduce chunk that are resident, in SRAM order."""
        if position == 0:
            return [(0, self.quanta)]
        same = self._mirror[position]
        if same is not None:
            return self._layout(same, coordinates)
        phase = self.phases[position - 1]
        if phase.operation is Operation.ALL_REDUCE:
            return self._layout(position - 1, coordinates)
        if phase.operation is Operation.REDUCE_SCATTER:
            bounds = self.bounds(position - 1, coordinates)
            i = coordinates[phase.dim]
            return _cut(self._layout(position - 1, coordinates), bounds[i], bounds[i + 1])
        out: list[tuple[int, int]] = []
        member = list(coordinates)
        for i in range(self.sizes[phase.dim]):
            member[phase.dim] = i
            out += self._layout(position - 1, member)
        return out


def largest_resident(
    operation: Operation, phases: Sequence[Phase], sizes: Sequence[int], extent: int
) -> list[int]:
    """For each position, quanta that no rank exceeds, for a chunk of ``extent`` quanta."""
    if operation is Operation.REDUCE_SCATTER:
        quanta = extent * prod(sizes[p.dim] for p in phases)
    else:
        quanta = extent
    out = [quanta]
    mirror = _mirrors(phases)
    for index, phase in enumerate(phases):
        size = sizes[phase.dim]
        same = mirror[index + 1]
        if same is not None:
            quanta = out[same]
        elif phase.operation is Operation.REDUCE_SCATTER:
            quanta = -(-quanta // size)
        elif phase.operation is Operation.ALL_GATHER:
            quanta *= size
        out.append(quanta)
    return out


def _mirrors(phases: Sequence[Phase]) -> list[int | None]:
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


def _split_dims(
    operation: Operation, dims: Sequence[int], phases: Sequence[Phase]
) -> list[tuple[int, ...]]:
    """For each position, the dims on which the resident size may depend."""
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


def _cut(ranges: Sequence[tuple[int, int]], low: int, high: int) -> list[tuple[int, int]]:
    """The part [low, high) of the concatenation of ``ranges``."""
    out, at = [], 0
    for first, last in ranges:
        a, b = max(low, at), min(high, at + last - first)
        if a < b:
            out.append((first + a - at, first + b - at))
        at += last - first
    return out


def _merge(spans: Sequence[tuple[int, int, int]]) -> tuple[Piece, ...]:
    """Pieces of (memory, elements, quanta) spans that follow each other in SRAM."""
    out: list[Piece] = []
    at = 0
    for memory, elements, quanta in spans:
        if elements > 0:
            last = out[-1] if out else None
            if last is not None and last.memory + last.elements == memory:
                out[-1] = Piece(last.memory, last.elements + elements, last.buffer)
            else:
                out.append(Piece(memory, elements, at))
        at += quanta
    return tuple(out)
