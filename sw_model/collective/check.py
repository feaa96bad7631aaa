"""The symbolic checker: does a plan do what its collective promises?

Every quantum of SRAM carries the set of what it stands for: which quantum of the payload, and
whose contributions are in it. The plan is executed on these symbols for all ranks
(``sw_model.collective.interpret``), with no knowledge of the algorithms, and what is stored in the
end is compared with the collective's postcondition. Apart from data, the checker makes sure that

* every slot and every buffer has its turn (`sw_model.collective.slots`);
* what fits: every buffer of its partition (where limits are given);
* nothing depends on luck: no step reads what a later, unordered receive of the same op overwrites,
  a step that waits for a receive step sends what that step writes, or some of it, and nothing is
  written over what another receive step wrote, but for sums that grow in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sw_model.collective.geometry import Blocks
from sw_model.collective.interpret import (
    Flow,
    Interpreter,
    PlanError,
    Source,
    region_elements,
)
from sw_model.collective.plan import (
    Algorithm,
    CollectivePlan,
    Operation,
    Phase,
    Piece,
    RankSteps,
)
from sw_model.collective.slots import check_slots
from sw_model.schedule.limits import Limits
from sw_model.topology import Dim, DimKind

__all__ = ["PlanError", "check_plan", "check_steps"]

Symbols = NDArray[np.uint64]  # rows: quanta; column 0: payload quantum + 1 (0: never written)


def check_plan(
    plan: CollectivePlan, *, limits: Limits | None = None, source: Source | None = None
) -> None:
    """Replay a plan on symbols.

    Chunks that are alike (same size, same phases) are executed once; for the others it is checked
    that they do the same on another part of the payload.

    Parameters
    ----------
    plan : what to check
    limits : of the engines, to check the capacity of buffers
    source : where steps and pieces come from

    Raises
    ------
    PlanError
        with the chunk, phase, rank and step that are wrong.
    """
    source = source or Source()
    plan = plan.local or plan
    check_slots(plan)
    symbols = _Symbols(plan)
    interpreter = Interpreter(plan, symbols, source)
    first: dict[tuple, int] = {}
    for chunk in plan.chunks:
        known = first.setdefault((chunk.phases, chunk.quanta, chunk.extent), chunk.index)
        if known != chunk.index and _alike(plan, source, known, chunk.index):
            for rank in interpreter.ranks:
                for piece in source.stores(plan, chunk.index, rank):
                    symbols.cover(rank, piece, f"chunk {chunk.index}, store of rank {rank}")
            continue
        index = chunk.index
        interpreter.load(index)
        _check_capacity(plan, limits, index, 0, interpreter)
        for phase in range(len(chunk.phases)):
            dim = chunk.phases[phase].dim
            for rank in interpreter.ranks:
                where = f"chunk {index}, phase {phase} on dim {dim + 1}, rank {rank}"
                steps = source.steps(plan, index, phase, rank)
                check_steps(steps, where)
                coordinate = plan.topology.coordinates(rank)[dim]
                step = chunk.phases[phase]
                _check_links(steps, step, plan.topology.dims[dim], coordinate, where)
            interpreter.op(index, phase)
            _check_capacity(plan, limits, index, phase + 1, interpreter)
        interpreter.store(index)
    symbols.finish()


def _alike(plan: CollectivePlan, source: Source, one: int, other: int) -> bool:
    """Whether a chunk does what another does, on another part of the payload.

    The part is moved by the same number of elements in every piece of every rank.
    """
    moved = plan.chunks[other].offset - plan.chunks[one].offset
    moved *= plan.quantum
    ranks = range(plan.topology.npus)
    for pieces in (source.loads, source.stores):
        for rank in ranks:
            a, b = pieces(plan, one, rank), pieces(plan, other, rank)
            if [(p.memory + moved, p.elements, p.buffer) for p in a] != [
                (p.memory, p.elements, p.buffer) for p in b
            ]:
                return False
    return all(
        source.steps(plan, one, phase, rank) == source.steps(plan, other, phase, rank)
        for phase in range(len(plan.chunks[one].phases))
        for rank in ranks
    )


class _Symbols:
    """Values of the interpreter: what each quantum stands for."""

    def __init__(self, plan: CollectivePlan) -> None:
        self.plan = plan
        topology, dims = plan.topology, plan.collective.dims
        self.group = prod(topology.dims[d].size for d in dims)
        self.words = -(-self.group // 64)
        strides = [prod(topology.dims[d].size for d in dims[:i]) for i in range(len(dims))]
        self.block = [
            sum(topology.coordinates(rank)[d] * s for d, s in zip(dims, strides, strict=True))
            for rank in range(topology.npus)
        ]
        self.ranged = plan.collective.operation is Operation.ALL_REDUCE
        self.ranged |= plan.collective.operation.rooted
        elements = plan.collective.elements
        if plan.collective.operation is Operation.ALL_GATHER:
            elements *= self.group
        self.blocks = Blocks(elements=max(1, elements), group=self.group)
        # Quanta of a block: those of every block are numbered from a multiple of this on.
        self.stride = max(1, -(-self.blocks.largest // plan.quantum))
        self.covered = [
            np.zeros(self._region(rank)[1], dtype=np.uint8) for rank in range(topology.npus)
        ]
        self.everyone = sum((self._bit(b) for b in range(self.group)), self._bit(None))

    def _region(self, rank: int) -> tuple[int, int]:
        return region_elements(self.plan, self.group, self.block[rank])

    def _bit(self, block: int | None) -> Symbols:
        """The set of one contributor."""
        out = np.zeros(self.words, dtype=np.uint64)
        if block is not None:
            out[block // 64] = np.uint64(1 << block % 64)
        return out

    def _payload(self, rank: int, memory: int, *, result: bool) -> tuple[int, int, int]:
        """Payload quantum at an element of a rank's source or result region, where that element is
        in the block, or the payload, that is cut into quanta, and how long that is. The payload of
        an all-to-all is the sources of all ranks one after another."""
        quantum, elements = self.plan.quantum, self.plan.collective.elements
        own, operation = self.block[rank], self.plan.collective.operation
        if self.ranged:
            return memory // quantum, memory, elements
        if operation is Operation.ALL_TO_ALL:
            sender, block, inside = own, *self.blocks.at(memory)
            if result:
                block, (sender, inside) = own, divmod(memory, self.blocks.size(own))
            number = sender * self.group + block
        elif result == (operation is Operation.REDUCE_SCATTER):
            number = block = own
            inside = memory
        else:
            block, inside = self.blocks.at(memory)
            number = block
        return number * self.stride + inside // quantum, inside, self.blocks.size(block)

    def _quanta(self, rank: int, piece: Piece, where: str, *, result: bool) -> int:
        """Quanta of a piece, which lies in a rank's source or result region."""
        quantum, region = self.plan.quantum, self._region(rank)[result]
        end = piece.memory + piece.elements
        if piece.elements < 1 or piece.memory < 0 or end > region:
            raise PlanError(
                f"{where}: elements {piece.memory} to {end} of a region of {region} elements"
            )
        quanta = -(-piece.elements // quantum)
        _, inside, _ = self._payload(rank, piece.memory, result=result)
        last = piece.memory + (quanta - 1) * quantum
        _, before, size = self._payload(rank, last, result=result)
        if inside % quantum or before + end - last != min(before + quantum, size):
            raise PlanError(
                f"{where}: elements {piece.memory} to {end} are not whole quanta of {quantum}"
            )
        return quanta

    # What the interpreter asks for.

    def empty(self, quanta: int) -> Symbols:
        return np.zeros((quanta, 1 + self.words), dtype=np.uint64)

    def load(self, rank: int, piece: Piece, where: str) -> Symbols:
        out = self.empty(self._quanta(rank, piece, where, result=False))
        out[:, 0] = self._ids(rank, piece, result=False)
        out[:, 1:] = self._bit(self.block[rank])
        return out

    def send(self, data: Any, where: str) -> Symbols:
        missing = np.flatnonzero(data[:, 0] == 0)
        if len(missing):
            raise PlanError(f"{where}: sends what nobody has written ({len(missing)} quanta)")
        return data.copy()

    def reduce(self, local: Any, received: Any, where: str) -> Symbols:
        if not np.array_equal(local[:, 0], received[:, 0]):
            raise PlanError(f"{where}: combines different parts of the payload")
        if np.any(local[:, 1:] & received[:, 1:]):
            raise PlanError(f"{where}: counts a contribution twice")
        out = local.copy()
        out[:, 1:] |= received[:, 1:]
        return out

    def flow(self, inputs: dict[int, Any], size: int, flow: Flow, dim: int, where: str) -> Symbols:
        first, *others = inputs.values()
        for other in others:
            first = self.reduce(first, other, where)
        return first

    def store(self, rank: int, piece: Piece, data: Any, where: str) -> None:
        self.cover(rank, piece, where)
        ids = self._ids(rank, piece, result=True)
        if not np.array_equal(data[:, 0], ids):
            raise PlanError(f"{where}: element {piece.memory} gets another part of the payload")
        operation = self.plan.collective.operation
        if operation in (Operation.ALL_GATHER, Operation.ALL_TO_ALL):
            per_block = self.stride
            if operation is Operation.ALL_TO_ALL:
                per_block *= self.group
            bits = np.stack([self._bit(b) for b in range(self.group)])
            expected = bits[((ids - 1) // per_block).astype(np.int64)]
        elif operation in (Operation.BROADCAST, Operation.SEND):
            root = self._bit(self.plan.collective.root)
            expected = np.broadcast_to(root, data[:, 1:].shape)
        else:
            expected = np.broadcast_to(self.everyone, data[:, 1:].shape)
        wrong = np.flatnonzero((data[:, 1:] != expected).any(axis=1))
        if len(wrong):
            got = self._names(data[wrong[0], 1:])
            raise PlanError(
                f"{where}: element {piece.memory + int(wrong[0]) * self.plan.quantum} has "
                f"contributions of {got} of the group, not of {self._names(expected[wrong[0]])}"
            )

    def _ids(self, rank: int, piece: Piece, *, result: bool) -> Symbols:
        """What the quanta of a piece of a region are."""
        quantum = self.plan.quantum
        if self.ranged:
            start, end = piece.memory // quantum, piece.memory + piece.elements
            return np.arange(start + 1, -(-end // quantum) + 1, dtype=np.uint64)
        ids, at, end = [], piece.memory, piece.memory + piece.elements
        while at < end:  # block by block
            first, inside, size = self._payload(rank, at, result=result)
            upto = min(end, at + size - inside)
            ids.append(np.arange(first + 1, first + 1 + -(-(upto - at) // quantum)))
            at = upto
        return np.concatenate(ids).astype(np.uint64)

    def _names(self, mask: Symbols) -> list[int]:
        return [b for b in range(self.group) if int(mask[b // 64]) >> b % 64 & 1]

    def cover(self, rank: int, piece: Piece, where: str) -> None:
        """Note that a piece of the result region is written."""
        self._quanta(rank, piece, where, result=True)
        part = self.covered[rank][piece.memory : piece.memory + piece.elements]
        if part.any():
            raise PlanError(f"{where}: element {piece.memory} is written twice")
        part[:] = 1

    def finish(self) -> None:
        """Every element of every result region was written."""
        for rank, covered in enumerate(self.covered):
            missing = np.flatnonzero(covered == 0)
            if len(missing):
                raise PlanError(
                    f"rank {rank}: element {int(missing[0])} of the result is never written"
                )


def _check_capacity(
    plan: CollectivePlan,
    limits: Limits | None,
    chunk: int,
    position: int,
    interpreter: Interpreter,
) -> None:
    buffers: Sequence[Any] = interpreter.held[chunk]
    for rank, buffer in enumerate(buffers):
        missing = np.flatnonzero(buffer[:, 0] == 0)
        if len(missing):
            raise PlanError(
                f"chunk {chunk}, position {position}, rank {rank}: quantum {int(missing[0])} of "
                f"{len(buffer)} was never written"
            )
    if limits is None or limits.buffers is None:
        return
    last = position == len(plan.chunks[chunk].phases) and position > 0
    partition = len(limits.buffers) - 1 if last else position
    if partition >= len(limits.buffers):
        raise PlanError(f"chunk {chunk}: position {position} has no partition")
    room = limits.buffers[partition][1] // (plan.quantum * plan.collective.element_bytes)
    largest = max(len(buffer) for buffer in buffers)
    if largest > room:
        raise PlanError(
            f"chunk {chunk}, position {position}: {largest} quanta in a buffer of {room}"
        )


def _check_links(steps: RankSteps, phase: Phase, dim: Dim, coordinate: int, where: str) -> None:
    """Refuse messages that the algorithm does not send, or that no link of the dim takes."""
    names = {DimKind.RING: "ring", DimKind.FRED: "FRED switch"}
    kind = names.get(dim.kind, f"{dim.kind.value} dim")
    ways: tuple[int, ...] | None = None
    if phase.algorithm in (Algorithm.RING, Algorithm.BIDIRECTIONAL_RING):
        ways = (1,) if phase.algorithm is Algorithm.RING else (1, -1)
    in_network = phase.algorithm is Algorithm.IN_NETWORK
    if ways and dim.kind is not DimKind.RING:
        kind = f"{phase.algorithm.value} on a {kind}"

    def wrong(sender: int | None, receiver: int | None) -> bool:
        if sender is None or receiver is None:
            return not in_network
        if in_network:
            return True
        if sender == receiver:
            return phase.operation not in (Operation.ALL_TO_ALL, Operation.SEND)
        return ways is not None and (receiver - sender) % dim.size not in [
            w % dim.size for w in ways
        ]

    def refuse(step: str, sender: int | None, receiver: int | None) -> None:
        ends = ["the switch" if c is None else str(c) for c in (sender, receiver)]
        ends[0] = ends[0] if sender is None else f"coordinate {ends[0]}"
        raise PlanError(f"{where}, {step}: a {kind} has no link from {ends[0]} to {ends[1]}")

    for number, send in enumerate(steps.sends):
        if (send.peer is None) == (send.flow is None):
            raise PlanError(
                f"{where}, send step {number}: names neither a peer nor a flow, or both"
            )
        if wrong(coordinate, send.peer):
            refuse(f"send step {number}", coordinate, send.peer)
    for number, receive in enumerate(steps.receives):
        if wrong(receive.peer, coordinate):
            refuse(f"receive step {number}", receive.peer, coordinate)


def check_steps(steps: RankSteps, where: str) -> None:
    """Refuse steps whose outcome depends on timing.

    Sends and receives of a rank run side by side, each in order. A send step with ``after`` waits
    for that receive step, so it must send some of what that step writes; and no later receive step
    may write to what a send step, or its copy, touches. A receive step may write where an earlier
    one wrote only to add to it in place.
    """
    writes = [
        (r.into_destination, r.write_offset, r.write_offset + r.length) for r in steps.receives
    ]
    for number, send in enumerate(steps.sends):
        place = f"{where}, send step {number}"
        begin, end = send.offset, send.offset + send.length
        if send.after is not None:
            if not 0 <= send.after < len(writes):
                raise PlanError(f"{place}: there is no receive step {send.after} to follow")
            written, low, high = writes[send.after]
            if written != send.from_destination or high <= begin or end <= low:
                raise PlanError(f"{place}: sends nothing of what receive step {send.after} writes")
        later = writes[0 if send.after is None else send.after + 1 :]
        touched = [(send.from_destination, begin, end)]
        if send.copy_offset is not None:
            touched.append((True, send.copy_offset, send.copy_offset + send.length))
        for buffer, low, high in touched:
            if any(b == buffer and low < h and o < high for b, o, h in later):
                raise PlanError(f"{place}: a later receive step writes to its range")
    for i, (buffer, low, high) in enumerate(writes):
        step = steps.receives[i]
        if step.reduce and not buffer and step.offset == step.write_offset:
            continue
        if any(b == buffer and low < h and o < high for b, o, h in writes[:i]):
            raise PlanError(f"{where}, receive step {i}: writes to a range for the second time")
