"""How a payload is cut into chunks.

At most the wanted number of chunks, and more where an engine's buffers are too small for them.
Chunks are equal but for the last. An all-reduce chunk is a multiple of the product of the dims'
sizes where there is enough payload, so that all shards of all but the last chunk are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from sw_model.collective.geometry import Blocks
from sw_model.collective.plan import Collective, Operation, Phase
from sw_model.collective.positions import largest_resident
from sw_model.topology import Topology

__all__ = ["Cut", "Payload", "chunks_note", "largest_extent", "with_article"]


@dataclass(frozen=True)
class Cut:
    """One chunk's share: quanta ``[offset, offset + extent)`` of the payload or of every block, and
    the quanta resident on a rank before its first phase."""

    offset: int
    extent: int
    quanta: int


@dataclass(frozen=True)
class Payload:
    """What there is to cut.

    Parameters
    ----------
    collective, topology : whose
    quantum : elements of a quantum; the last one of a block may be partly filled
    """

    collective: Collective
    topology: Topology
    quantum: int

    @property
    def ranged(self) -> bool:
        """Whether chunks are ranges of the payload; otherwise slices of every rank's block."""
        return self.collective.operation is Operation.ALL_REDUCE or self.collective.operation.rooted

    @property
    def group(self) -> int:
        """Ranks of one group."""
        return prod(self.topology.dims[d].size for d in self.collective.dims)

    @property
    def blocks(self) -> Blocks:
        """The payload as a block per rank."""
        whole = self.collective.elements
        if self.collective.operation is Operation.ALL_GATHER:
            whole *= self.group
        return Blocks(elements=whole, group=self.group)

    @property
    def extent(self) -> int:
        """Quanta to cut: of the payload (all-reduce and rooted), else of the largest block."""
        if self.ranged:
            return -(-self.collective.elements // self.quantum)
        return -(-self.blocks.largest // self.quantum)

    @property
    def grain(self) -> int:
        """Quanta that a chunk is a multiple of where there are enough: only then are all its shards
        equal."""
        return self.group if self.collective.operation is Operation.ALL_REDUCE else 1

    @property
    def grains(self) -> int:
        """More chunks than that cannot be made."""
        return -(-self.extent // self.grain)

    def cut(self, chunks: int, limit: int | None) -> list[Cut]:
        """Chunks of at most ``limit`` quanta of extent (None: of any size)."""
        total = self.extent
        if total == 0:
            return []
        grain = self.grain
        if limit is not None:
            grain = 1 if grain > limit else grain
            limit -= limit % grain
            chunks = max(chunks, -(-total // limit))
        each = -(-total // chunks)
        each += -each % grain
        return self.cuts([min(each, total - offset) for offset in range(0, total, each)])

    def cuts(self, extents: Sequence[int]) -> list[Cut]:
        """Chunks of these extents, one after another."""
        out, offset = [], 0
        for extent in extents:
            out.append(Cut(offset, extent, self._quanta(offset, extent)))
            offset += extent
        return out

    def _quanta(self, offset: int, extent: int) -> int:
        if self.ranged or self.collective.operation is Operation.ALL_GATHER:
            return extent
        return self.blocks.sliced(offset, extent, self.quantum)


def with_article(operation: Operation) -> str:
    """For a message: ``an all-reduce``, ``a reduce-scatter``."""
    return f"{'an' if operation.value.startswith('a') else 'a'} {operation.value}"


def chunks_note(count: int, wanted: int, why: str) -> str:
    """What a report says of a number of chunks that is not the wanted one."""
    return f"{count} {'chunk' if count == 1 else 'chunks'} instead of {wanted}: {why}"


def largest_extent(
    operation: Operation,
    phases: Sequence[Phase],
    sizes: Sequence[int],
    room: Callable[[int, int], int | None],
    wanted: int,
) -> int:
    """The largest extent, up to ``wanted``, with which a chunk fits in every buffer of its way.

    ``room(position, last)`` is the quanta of a buffer for data at ``position`` of ``last``, or
    None where it is not limited.
    """
    last = len(phases)
    rooms = [room(position, last) for position in range(last + 1)]
    if all(r is None for r in rooms):
        return wanted

    def fits(extent: int) -> bool:
        need = largest_resident(operation, phases, sizes, extent)
        return all(r is None or n <= r for n, r in zip(need, rooms, strict=True))

    if fits(wanted):
        return wanted
    low, high = 0, wanted
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
