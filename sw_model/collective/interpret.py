"""Executes a plan on all ranks, message by message, on any kind of values.

The interpreter knows what a step means and nothing of the algorithms: messages are matched between
peers by their order on the dim, and whatever does not match is an error. It is run on symbols by
``sw_model.collective.check`` and on numbers by ``sw_model.collective.replay``.

Slots run one after the other in the order of ``CollectivePlan.sequence``: one legal timing of the
engines. Steps within an op run as soon as their data is there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from sw_model.collective.plan import CollectivePlan, Operation, Piece, RankSteps
from sw_model.collective.steps import load_pieces, rank_steps, store_pieces
from sw_model.errors import AntiphonError

__all__ = ["Interpreter", "PlanError", "Source", "Values"]

Array = NDArray[Any]
Flow = tuple[tuple[int, ...], tuple[int, ...]]


class PlanError(AntiphonError):
    """A plan that would not do what its collective asks for. The message names the place."""


class Values(Protocol):
    """The values that move: arrays whose first axis counts quanta."""

    def empty(self, quanta: int) -> Array:
        """A buffer nobody has written to."""
        ...

    def load(self, rank: int, piece: Piece, where: str) -> Array:
        """What TX DMA reads."""
        ...

    def send(self, data: Array, where: str) -> Array:
        """What leaves a buffer: a copy."""
        ...

    def reduce(self, local: Array, received: Array, where: str) -> Array:
        """``operator(local, received)``."""
        ...

    def flow(self, inputs: dict[int, Array], size: int, flow: Flow, dim: int, where: str) -> Array:
        """What a FRED switch makes of a flow's inputs, by coordinate, in a group of ``size``."""
        ...

    def store(self, rank: int, piece: Piece, data: Array, where: str) -> None:
        """What RX DMA writes."""
        ...


@dataclass(frozen=True)
class Source:
    """Where the interpreter takes a plan's steps and pieces from; tests replace these."""

    steps: Callable[[CollectivePlan, int, int, int], RankSteps] = rank_steps
    loads: Callable[[CollectivePlan, int, int], Sequence[Piece]] = load_pieces
    stores: Callable[[CollectivePlan, int, int], Sequence[Piece]] = store_pieces


@dataclass
class _Member:
    """A coordinate of the group that carries out an op."""

    rank: int
    steps: RankSteps
    source: Array
    destination: Array
    sent: int = 0
    received: int = 0

    def next_send(self) -> Any:
        """The next send step whose data has arrived, or None."""
        if self.sent == len(self.steps.sends):
            return None
        step = self.steps.sends[self.sent]
        return step if step.after is None or step.after < self.received else None


class Interpreter:
    """Runs chunks of a plan on ``values``.

    Parameters
    ----------
    plan : what
    values : on what
    source : where steps and pieces come from
    """

    def __init__(self, plan: CollectivePlan, values: Values, source: Source | None = None) -> None:
        self.plan = plan
        self.values = values
        self.source = source or Source()
        self.ranks = range(plan.topology.npus)
        self.held: dict[int, list[Array]] = {}  # chunk -> its buffer on every rank
        self._groups = [
            sorted({plan.topology.peers(rank, dim) for rank in self.ranks})
            for dim in range(len(plan.topology.dims))
        ]

    def run(self) -> None:
        """All slots, in the order of the plan."""
        for kind, *index in self.plan.sequence:
            if kind == "load":
                self.load(self.plan.loads[index[0]].chunk)
            elif kind == "op":
                slot = self.plan.ops[index[0]][index[1]]
                self.op(slot.chunk, slot.phase)
            else:
                self.store(self.plan.stores[index[0]].chunk)

    def load(self, chunk: int) -> None:
        """TX DMA of a chunk, on every rank."""
        self.held[chunk] = [self._load(chunk, rank) for rank in self.ranks]

    def _load(self, chunk: int, rank: int) -> Array:
        pieces = self.source.loads(self.plan, chunk, rank)
        quantum = self.plan.quantum
        end = max((p.buffer + -(-p.elements // quantum) for p in pieces), default=0)
        buffer = self.values.empty(end)
        for piece in pieces:
            where = f"chunk {chunk}, load of rank {rank}"
            data = self.values.load(rank, piece, where)
            buffer[piece.buffer : piece.buffer + len(data)] = data
        return buffer

    def store(self, chunk: int) -> None:
        """RX DMA of a chunk, on every rank."""
        buffers = self.held.pop(chunk)
        quantum = self.plan.quantum
        for rank in self.ranks:
            where = f"chunk {chunk}, store of rank {rank}"
            for piece in self.source.stores(self.plan, chunk, rank):
                end = piece.buffer + -(-piece.elements // quantum)
                if end > len(buffers[rank]):
                    raise PlanError(
                        f"{where}: reads quanta up to {end} of a buffer of {len(buffers[rank])}"
                    )
                self.values.store(rank, piece, buffers[rank][piece.buffer : end], where)

    def op(self, chunk: int, phase: int) -> None:
        """One phase of a chunk, on every group of its dim."""
        dim = self.plan.chunks[chunk].phases[phase].dim
        held = self.held[chunk]
        result = list(held)
        for group in self._groups[dim]:
            members = []
            for rank in group:
                steps = self.source.steps(self.plan, chunk, phase, rank)
                size = _destination_size(steps)
                members.append(_Member(rank, steps, held[rank], self.values.empty(size)))
            where = f"chunk {chunk}, phase {phase} on dim {dim + 1}"
            _Group(self, members, dim, where).run()
            for member in members:
                result[member.rank] = member.destination
        self.held[chunk] = result


def _destination_size(steps: RankSteps) -> int:
    ends = [r.write_offset + r.length for r in steps.receives if r.into_destination]
    ends += [s.copy_offset + s.length for s in steps.sends if s.copy_offset is not None]
    return max(ends, default=0)


class _Group:
    """The ranks of one group of a dim while they carry out one op."""

    def __init__(
        self, interpreter: Interpreter, members: list[_Member], dim: int, where: str
    ) -> None:
        self.values = interpreter.values
        self.members = members
        self.dim = dim
        self.where = where
        # (from, to) -> messages in order; a switch is ``None``.
        self.links: dict[tuple[int | None, int], deque[tuple[Array, int]]] = {}

    def run(self) -> None:
        moved = True
        while moved:
            moved = False
            for coordinate in range(len(self.members)):
                moved |= self._send(coordinate)
                moved |= self._receive(coordinate)
        for coordinate, member in enumerate(self.members):
            place = f"{self.where}, rank {member.rank}"
            if member.sent < len(member.steps.sends):
                step = member.steps.sends[member.sent]
                waits = f"receive step {step.after}" if step.flow is None else f"flow {step.flow}"
                raise PlanError(f"{place}: send step {member.sent} never leaves; waits for {waits}")
            if member.received < len(member.steps.receives):
                peer = member.steps.receives[member.received].peer
                name = "the switch" if peer is None else f"coordinate {peer}"
                raise PlanError(
                    f"{place}: receive step {member.received} never gets a message from {name}"
                )
            left = [key for key, queue in self.links.items() if key[1] == coordinate and queue]
            if left:
                raise PlanError(f"{place}: no receive step takes a message from {left[0][0]}")

    def _read(self, coordinate: int) -> Array:
        """Data of a member's next message, which is then under way."""
        member = self.members[coordinate]
        step = member.steps.sends[member.sent]
        place = f"{self.where}, rank {member.rank}, send step {member.sent}"
        buffer = member.destination if step.from_destination else member.source
        data = self._range(buffer, step.offset, step.length, place)
        data = self.values.send(data, place)
        if step.copy_offset is not None:
            member.destination[step.copy_offset : step.copy_offset + step.length] = data
        member.sent += 1
        return data

    def _send(self, coordinate: int) -> bool:
        step = self.members[coordinate].next_send()
        if step is None:
            return False
        if step.flow is None:
            if not 0 <= step.peer < len(self.members):
                rank = self.members[coordinate].rank
                raise PlanError(f"{self.where}, rank {rank}: sends to coordinate {step.peer}")
            self._deliver(coordinate, step.peer, self._read(coordinate), step.step)
            return True
        inputs, outputs = step.flow
        steps = {i: self.members[i].next_send() for i in inputs}
        if coordinate not in inputs or any(
            s is None or s.flow != step.flow for s in steps.values()
        ):
            return False
        place = f"{self.where}, flow {inputs} > {outputs}"
        if len({(s.length, s.step) for s in steps.values()}) > 1:
            raise PlanError(f"{place}: inputs differ in length or step")
        data = {i: self._read(i) for i in inputs}
        result = self.values.flow(data, len(self.members), step.flow, self.dim, place)
        for output in outputs:
            self._deliver(None, output, result, step.step)
        return True

    def _deliver(self, sender: int | None, receiver: int, data: Array, step: int) -> None:
        self.links.setdefault((sender, receiver), deque()).append((data, step))

    def _receive(self, coordinate: int) -> bool:
        member = self.members[coordinate]
        if member.received == len(member.steps.receives):
            return False
        step = member.steps.receives[member.received]
        queue = self.links.get((step.peer, coordinate))
        if not queue:
            return False
        data, number = queue.popleft()
        place = f"{self.where}, rank {member.rank}, receive step {member.received}"
        if number != member.received:
            raise PlanError(f"{place}: the message is for receive step {number}")
        if len(data) != step.length:
            raise PlanError(f"{place}: {len(data)} quanta arrive where {step.length} are expected")
        if step.reduce:
            local = self._range(member.source, step.offset, step.length, place)
            data = self.values.reduce(local, data, place)
        target = member.destination if step.into_destination else member.source
        self._range(target, step.write_offset, step.length, place)
        target[step.write_offset : step.write_offset + step.length] = data
        member.received += 1
        return True

    @staticmethod
    def _range(buffer: Array, offset: int, length: int, where: str) -> Array:
        if length < 1 or offset < 0 or offset + length > len(buffer):
            raise PlanError(
                f"{where}: quanta {offset} to {offset + length} of a buffer of {len(buffer)}"
            )
        return buffer[offset : offset + length]


def region_elements(plan: CollectivePlan, group: int, block: int) -> tuple[int, int]:
    """Elements of a rank's source and result regions.

    Parameters
    ----------
    group, block : ranks of its group, and its number among them
    """
    elements = plan.collective.elements
    match plan.collective.operation:
        case Operation.REDUCE_SCATTER:
            start, end = block * elements // group, (block + 1) * elements // group
            return elements, end - start
        case Operation.ALL_GATHER:
            return elements, elements * group
        case Operation.ALL_TO_ALL:
            start, end = block * elements // group, (block + 1) * elements // group
            return elements, (end - start) * group
        case Operation.BROADCAST:
            return elements if block == plan.collective.root else 0, elements
        case Operation.REDUCE:
            return elements, elements if block == plan.collective.root else 0
        case Operation.SEND:
            root, target = plan.collective.root, plan.collective.target
            return elements if block == root else 0, elements if block == target else 0
    return elements, elements
