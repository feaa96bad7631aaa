"""Where the data of a chunk lies in SRAM: how much is resident at each position, cut how, and which
part of the payload that is.

An all-reduce chunk is one range of the payload, cut into floor shards by every reduce-scatter and
put together again by the all-gathers. A reduce-scatter chunk is a slice of every rank's block of
the payload, in the order in which its phases visit the dims (the first visited dim is the
outermost), so that every phase's shards are contiguous; an all-gather chunk is its mirror image.

An all-to-all chunk is a slice of every rank's block too. A rank holds a slice for every combination
of *receivers'* coordinates on the dims that are not yet visited and *senders'* coordinates on those
that are. The next dim is the outermost, then the others to come, then the visited ones, the latest
first: a phase sends one range to each peer, and puts what comes apart.

A chunk of a broadcast, a reduce or a send is one range of the payload, which is whole wherever it
is, and is on some ranks only.

Nothing here loops over ranks, but for the blocks that a reduce-scatter or all-gather chunk really
consists of.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from math import prod

from sw_model.collective.exchange import ExchangePiece
from sw_model.collective.plan import (
    ChunkPlan,
    Collective,
    Operation,
    Piece,
    RankSteps,
)
from sw_model.collective.positions import mirrors, split_dims
from sw_model.topology import Topology

__all__ = ["Blocks", "Geometry", "floor_bounds", "places"]


@lru_cache(maxsize=4096)
def floor_bounds(quanta: int, size: int) -> tuple[int, ...]:
    """Offsets of ``size`` floor shards of ``quanta``, and the end."""
    return tuple(i * quanta // size for i in range(size + 1))


def places(sizes: Sequence[int], dims: Sequence[int], place: int) -> dict[int, int]:
    """By dim of a collective, the coordinate of the rank at ``place`` in its group."""
    out = {}
    for dim in dims:
        place, out[dim] = divmod(place, sizes[dim])
    return out


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

    def sliced(self, offset: int, extent: int, quantum: int = 1) -> int:
        """Sum over all blocks of what ``[offset, offset + extent)`` takes of them, in quanta."""
        small, more = divmod(self.elements, self.group)
        low, high = (
            max(0, min(-(-size // quantum), offset + extent) - offset)
            for size in (small, small + 1)
        )
        return (self.group - more) * low + more * high

    def at(self, element: int) -> tuple[int, int]:
        """The block of an element of the payload, and its place there."""
        block = min(((element + 1) * self.group - 1) // self.elements, self.group - 1)
        return block, element - self.start(block)


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
        self.root = places(self.sizes, collective.dims, collective.root)
        self.target = places(self.sizes, collective.dims, collective.target or 0)
        self._mirror = mirrors(self.phases)
        # Dims whose coordinate changes what is resident, by position.
        self._split = split_dims(self.operation, collective.dims, self.phases)

    def resident(self, position: int, coordinates: Sequence[int]) -> int:
        """Quanta of the chunk on a rank before phase ``position``, or after the last one."""
        key = (position, *[coordinates[d] for d in self._split[position]])
        found = self._sizes.get(key)
        if found is None:
            found = self._sizes[key] = self._resident(position, coordinates)
        return found

    def _resident(self, position: int, coordinates: Sequence[int]) -> int:
        if self.operation.rooted:
            return self.quanta if self.takes_part(position, coordinates) else 0
        if self.operation is not Operation.ALL_REDUCE:
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

    def takes_part(
        self, position: int, coordinates: Sequence[int], *, but: int | None = None
    ) -> bool:
        """Whether a chunk of a rooted operation is at a rank at ``position``, whatever the rank's
        coordinate on dim ``but``."""
        visited = {phase.dim for phase in self.phases[:position]}
        for dim in self.collective.dims:
            if dim == but:
                continue
            if self.operation is Operation.SEND:
                wanted = (self.target if dim in visited else self.root)[dim]
            elif (dim in visited) == (self.operation is Operation.REDUCE):
                wanted = self.root[dim]
            else:
                continue
            if coordinates[dim] != wanted:
                return False
        return True

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
            if operation.rooted:
                there = self.takes_part(phase, coordinates, but=dim)
                return floor_bounds(self.quanta if there else 0, size)
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
        if self.operation is Operation.ALL_TO_ALL:
            return self.group
        visited = prod(self.sizes[p.dim] for p in self.phases[:position])
        if self.operation is Operation.ALL_GATHER:
            return visited
        return self.group // visited

    def _slices(self, position: int, coordinates: Sequence[int]) -> list[tuple[int, int]]:
        """(block, quanta) of a chunk that is slices of blocks at a rank, in SRAM order. In an
        all-to-all the block is the receiver's, and after it the sender's."""
        dims = self.collective.dims
        visited = [p.dim for p in self.phases]
        if self.operation is Operation.ALL_TO_ALL:
            free = visited[position:] + visited[:position][::-1]
        elif self.operation is Operation.REDUCE_SCATTER:
            free = visited[position:]
        else:
            free = visited[:position][::-1]
        strides, stride = {}, 1
        for dim in dims:
            strides[dim] = stride
            stride *= self.sizes[dim]
        base = sum(coordinates[d] * strides[d] for d in dims if d not in free)
        all_sent = self.operation is Operation.ALL_TO_ALL and position == len(visited)
        out = []
        for choice in product(*(range(self.sizes[d]) for d in free)):
            block = base + sum(c * strides[d] for c, d in zip(choice, free, strict=True))
            receiver = block
            if self.operation is Operation.ALL_TO_ALL:
                gone = set(visited[:position])
                receiver = base + sum(
                    (coordinates[d] if d in gone else c) * strides[d]
                    for c, d in zip(choice, free, strict=True)
                )
            out.append((block if all_sent else receiver, self._slice(receiver)))
        return out

    def _slice(self, block: int) -> int:
        """Quanta that the chunk takes of a block."""
        size = -(-self.blocks.size(block) // self.quantum)
        return max(0, min(size, self.offset + self.extent) - self.offset)

    def exchange(
        self, phase: int, coordinates: Sequence[int]
    ) -> list[list[tuple[ExchangePiece, ...]]]:
        """What every coordinate on the dim of an all-to-all phase has for every other one.

        Parameters
        ----------
        coordinates : of any rank of the group on that dim
        """
        dim = self.phases[phase].dim
        coming = [p.dim for p in self.phases[phase + 1 :]]
        gone = [p.dim for p in self.phases[:phase]]
        size, behind = self.sizes[dim], prod(self.sizes[d] for d in gone)
        member = list(coordinates)
        strides, stride = {}, 1
        for d in self.collective.dims:
            strides[d] = stride
            stride *= self.sizes[d]
        fixed = sum(member[d] * strides[d] for d in self.collective.dims if d not in (dim, *coming))
        choices = list(product(*(range(self.sizes[d]) for d in coming)))
        # Every sender reads in the order (receiver, coming); each receiver writes (coming, sender).
        out: list[list[tuple[ExchangePiece, ...]]] = [
            [() for _ in range(size)] for _ in range(size)
        ]
        read = 0
        for receiver in range(size):
            blocks = [
                fixed
                + receiver * strides[dim]
                + sum(c * strides[d] for c, d in zip(choice, coming, strict=True))
                for choice in choices
            ]
            lengths = [behind * self._slice(block) for block in blocks]
            for sender in range(size):
                pieces, at, write = [], read, 0
                for length in lengths:
                    if length:
                        pieces.append(ExchangePiece(at, write + sender * length, length))
                    at += length
                    write += size * length
                out[sender][receiver] = tuple(pieces)
            read += sum(lengths)
        return out

    def pieces(self, position: int, coordinates: Sequence[int]) -> tuple[Piece, ...]:
        """The ranges of the payload that are resident at ``position``, as memory pieces.

        Those of the chunk that the geometry was made for; of a like chunk they lie as much further
        in memory as its offset is larger. For the one position at which a reduce-scatter or
        all-gather chunk is a single slice of the rank's own block, memory is that block's; after an
        all-to-all it is the result region, a block of the rank's own size from every sender.
        """
        quantum, offset = self.quantum, self.offset
        if self.operation is Operation.ALL_REDUCE or self.operation.rooted:
            ranges = self._layout(position, coordinates)
            spans = []
            for low, high in ranges:
                memory = (offset + low) * quantum
                end = min((offset + high) * quantum, self.collective.elements)
                spans.append((memory, end - memory, high - low))
            return _merge(spans, quantum)
        slices = self._slices(position, coordinates)
        if self.operation is Operation.ALL_TO_ALL and position:
            return self._received(slices, coordinates)
        own = {Operation.REDUCE_SCATTER: len(self.phases), Operation.ALL_GATHER: 0}.get(
            self.operation
        )
        spans = []
        for block, quanta in slices:
            elements = min(quanta * quantum, self.blocks.size(block) - offset * quantum)
            start = 0 if position == own else self.blocks.start(block)
            spans.append((start + offset * quantum, max(0, elements), quanta))
        return _merge(spans, quantum)

    def _received(
        self, slices: Sequence[tuple[int, int]], coordinates: Sequence[int]
    ) -> tuple[Piece, ...]:
        """Result pieces of an all-to-all."""
        at, stride = 0, 1
        for d in self.collective.dims:
            at += coordinates[d] * stride
            stride *= self.sizes[d]
        size, start = self.blocks.size(at), self.offset * self.quantum
        spans = []
        for sender, quanta in slices:
            elements = max(0, min(quanta * self.quantum, size - start))
            spans.append((sender * size + start, elements, quanta))
        return _merge(spans, self.quantum)

    def _layout(self, position: int, coordinates: Sequence[int]) -> list[tuple[int, int]]:
        """Ranges of a chunk of the payload that are resident, in SRAM order."""
        if self.operation.rooted:
            return [(0, self.quanta)] if self.takes_part(position, coordinates) else []
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


def _cut(ranges: Sequence[tuple[int, int]], low: int, high: int) -> list[tuple[int, int]]:
    """The part [low, high) of the concatenation of ``ranges``."""
    out, at = [], 0
    for first, last in ranges:
        a, b = max(low, at), min(high, at + last - first)
        if a < b:
            out.append((first + a - at, first + b - at))
        at += last - first
    return out


def _merge(spans: Sequence[tuple[int, int, int]], quantum: int) -> tuple[Piece, ...]:
    """Pieces of (memory, elements, quanta) spans that follow each other in SRAM. Only what ends
    with a whole quantum is one piece with the next."""
    out: list[Piece] = []
    at = 0
    for memory, elements, quanta in spans:
        if elements > 0:
            last = out[-1] if out else None
            if (
                last is not None
                and last.memory + last.elements == memory
                and last.elements == (at - last.buffer) * quantum
            ):
                out[-1] = Piece(last.memory, last.elements + elements, last.buffer)
            else:
                out.append(Piece(memory, elements, at))
        at += quanta
    return tuple(out)
