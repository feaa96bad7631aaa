"""Steps of the algorithms that are written down as rounds (`sw_model.collective.rounds`).

A rank keeps what it has of the whole buffer in two places: partial sums and its own data in the
source buffer of the phase, finished data in the destination buffer. From the moves in their order
it follows where each message is read and written, which receive step it must wait for, and which
reduction is the last of its range, whose result is finished.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from sw_model.collective.plan import (
    Algorithm,
    AnyAlgorithm,
    Operation,
    RankSteps,
    ReceiveStep,
    SendStep,
)
from sw_model.collective.rounds import Move, rounds_of

__all__ = ["Ranges", "group_steps"]


class Ranges:
    """A set of whole numbers, as ranges that neither touch nor overlap, in order."""

    def __init__(self) -> None:
        self.parts: list[tuple[int, int]] = []

    def add(self, low: int, high: int) -> None:
        """``[low, high)`` too."""
        apart = []
        for first, last in self.parts:
            if last < low or high < first:
                apart.append((first, last))
            else:
                low, high = min(low, first), max(high, last)
        self.parts = sorted([*apart, (low, high)])

    def holds(self, low: int, high: int) -> bool:
        """Whether all of ``[low, high)`` is in it."""
        return any(first <= low and high <= last for first, last in self.parts)

    def meets(self, low: int, high: int) -> bool:
        """Whether any of ``[low, high)`` is in it."""
        return any(first < high and low < last for first, last in self.parts)


@lru_cache(maxsize=1024)
def group_steps(
    operation: Operation,
    algorithm: AnyAlgorithm,
    bounds: tuple[int, ...],
    root: int = 0,
    target: int | None = None,
) -> tuple[RankSteps, ...]:
    """Steps of every coordinate of a group; parameters as for
    :func:`~sw_model.collective.rounds.rounds_of`."""
    moves = [
        move for moves in rounds_of(operation, algorithm, bounds, root, target) for move in moves
    ]
    finishing = _finishing(operation, algorithm, bounds, moves, root)
    ranks = [_Rank(operation, bounds, coordinate) for coordinate in range(len(bounds) - 1)]
    for number, move in enumerate(moves):
        receiver = ranks[move.receiver]
        keeps = not move.reduces and operation is not Operation.SEND
        ranks[move.sender].send(move, len(receiver.receives), keeps=keeps)
        receiver.receive(move, finished=number in finishing or not move.reduces)
    return tuple(RankSteps(tuple(rank.sends), tuple(rank.receives)) for rank in ranks)


def _finishing(
    operation: Operation,
    algorithm: AnyAlgorithm,
    bounds: Sequence[int],
    moves: Sequence[Move],
    root: int,
) -> set[int]:
    """Numbers of the reducing moves after which a range is finished where it comes to."""
    at_root = operation is Operation.REDUCE or algorithm is Algorithm.DOUBLE_BINARY_TREE
    later = [Ranges() for _ in range(len(bounds) - 1)]
    out = set()
    for number in reversed(range(len(moves))):
        move = moves[number]
        if not move.reduces:
            continue
        at = move.receiver
        low, high = (bounds[at], bounds[at + 1]) if not at_root else (0, bounds[-1])
        owner = at == root or not at_root
        last = not later[at].meets(move.low, move.high)
        if owner and last and low <= move.low and move.high <= high:
            out.add(number)
        later[at].add(move.low, move.high)
    return out


class _Rank:
    """What one coordinate has done so far."""

    def __init__(self, operation: Operation, bounds: Sequence[int], coordinate: int) -> None:
        own = bounds[coordinate]
        # Where the whole buffer's offset 0 would be in each of the two.
        self.source = own if operation is Operation.ALL_GATHER else 0
        self.destination = own if operation is Operation.REDUCE_SCATTER else 0
        self.finished = Ranges()
        self.sends: list[SendStep] = []
        self.receives: list[ReceiveStep] = []
        self._written: list[tuple[int, int]] = []

    def send(self, move: Move, step: int, *, keeps: bool) -> None:
        """The next send step, which the receiver's ``step`` takes."""
        low, high = move.low, move.high
        finished = self.finished.holds(low, high)
        after = [n for n, (a, b) in enumerate(self._written) if a < high and low < b]
        copies = keeps and not finished
        if copies:
            self.finished.add(low, high)
        self.sends.append(
            SendStep(
                peer=move.receiver,
                from_destination=finished,
                offset=low - (self.destination if finished else self.source),
                length=high - low,
                after=after[-1] if after else None,
                copy_offset=low - self.destination if copies else None,
                step=step,
            )
        )

    def receive(self, move: Move, *, finished: bool) -> None:
        """The next receive step."""
        low, high = move.low, move.high
        if finished:
            self.finished.add(low, high)
        self._written.append((low, high))
        self.receives.append(
            ReceiveStep(
                peer=move.sender,
                reduce=move.reduces,
                into_destination=finished,
                offset=low - self.source if move.reduces else 0,
                write_offset=low - (self.destination if finished else self.source),
                length=high - low,
            )
        )
