"""Steps of an all-to-all on one dim: every coordinate has a block for every other one.

A block is a list of pieces, since what is one range before the phase may lie apart after it
(`Geometry.exchange`). Direct messages go straight to their receivers. On a ring every message is
passed on from neighbour to neighbour: on the way it is kept behind the end of the destination
buffer, where it needs room that nothing reuses within the phase. What a coordinate has for itself
is a message to itself, behind all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sw_model.collective.plan import Algorithm, AnyAlgorithm, RankSteps, ReceiveStep, SendStep

__all__ = ["ExchangePiece", "exchange_steps", "passing_shards"]


@dataclass(frozen=True)
class ExchangePiece:
    """A range that goes from one coordinate to another: where it is read in the source buffer
    there, and written in the destination buffer here; in quanta."""

    read: int
    write: int
    length: int


#: By sender and by receiver.
Pieces = Sequence[Sequence[Sequence[ExchangePiece]]]


def passing_shards(algorithm: AnyAlgorithm, size: int) -> int:
    """Shards of other coordinates that pass through one: the room that they need behind the end of
    its buffer, in shards; with both ways round no more than that."""
    if algorithm is Algorithm.BIDIRECTIONAL_RING:
        ways, far = 2, size // 2
    else:
        ways, far = 1, size - 1 if algorithm is Algorithm.RING else 1
    return ways * far * (far - 1) // 2


def exchange_steps(algorithm: AnyAlgorithm, pieces: Pieces) -> tuple[RankSteps, ...]:
    """Steps of every coordinate.

    Raises
    ------
    ValueError
        for an algorithm that has no all-to-all.
    """
    if algorithm not in (Algorithm.DIRECT, Algorithm.RING, Algorithm.BIDIRECTIONAL_RING):
        raise ValueError(f"{algorithm.value} has no all-to-all")
    size = len(pieces)
    ends = [0] * size
    for blocks in pieces:
        for receiver, block in enumerate(blocks):
            ends[receiver] = max([ends[receiver], *(p.write + p.length for p in block)])
    group = _Group(ends)
    if algorithm is Algorithm.DIRECT:
        for distance in range(1, size):
            for i in range(size):
                j = (i + distance) % size
                for piece in pieces[i][j]:
                    group.message(i, j, piece.read, None, piece.write, piece.length)
    else:
        for way, paths in _ring_paths(algorithm, pieces):
            _pass_on(group, paths, way)
    for i in range(size):
        for piece in pieces[i][i]:
            group.message(i, i, piece.read, None, piece.write, piece.length)
    return group.steps()


@dataclass
class _Path:
    """A piece on its way round."""

    at: int
    hops: int  # to go
    piece: ExchangePiece
    held: tuple[int, int | None] | None = None  # offset in the destination there, receive step


def _ring_paths(algorithm: AnyAlgorithm, pieces: Pieces) -> list[tuple[int, list[_Path]]]:
    """For each way round, what goes that way."""
    size = len(pieces)
    forward: list[_Path] = []
    backward: list[_Path] = []
    for i in range(size):
        for distance in range(1, size):
            for piece in pieces[i][(i + distance) % size]:
                if algorithm is Algorithm.RING or 2 * distance < size:
                    forward.append(_Path(i, distance, piece))
                elif 2 * distance > size:
                    backward.append(_Path(i, size - distance, piece))
                else:  # to the one opposite half goes either way
                    half = piece.length // 2
                    one = ExchangePiece(piece.read, piece.write, half)
                    other = ExchangePiece(
                        piece.read + half, piece.write + half, piece.length - half
                    )
                    forward.append(_Path(i, distance, one))
                    backward.append(_Path(i, distance, other))
    return [(1, forward), (-1, backward)]


def _pass_on(group: _Group, paths: Sequence[_Path], way: int) -> None:
    """Everything one hop on, until all is where it belongs."""
    moving = [path for path in paths if path.piece.length]
    while moving:
        for path in moving:
            here, there = path.at, (path.at + way) % len(group.ends)
            path.hops -= 1
            piece = path.piece
            write = piece.write if path.hops == 0 else group.room(there, piece.length)
            read, after = path.held or (piece.read, None)
            step = group.message(here, there, read, after, write, piece.length)
            path.at, path.held = there, (write, step)
        moving = [path for path in moving if path.hops]


class _Group:
    """Steps of all coordinates as they are collected. ``ends`` are those of the destinations."""

    def __init__(self, ends: list[int]) -> None:
        self.ends = ends
        self.sends: list[list[SendStep]] = [[] for _ in ends]
        self.receives: list[list[ReceiveStep]] = [[] for _ in ends]

    def room(self, coordinate: int, length: int) -> int:
        """Room behind the end of a destination."""
        offset = self.ends[coordinate]
        self.ends[coordinate] += length
        return offset

    def message(
        self, sender: int, receiver: int, read: int, after: int | None, write: int, length: int
    ) -> int | None:
        """One message; ``after`` where it is one that was received. Its receive step."""
        if not length:
            return None
        step = len(self.receives[receiver])
        self.sends[sender].append(
            SendStep(
                peer=receiver,
                from_destination=after is not None,
                offset=read,
                length=length,
                after=after,
                copy_offset=None,
                step=step,
            )
        )
        self.receives[receiver].append(
            ReceiveStep(
                peer=sender,
                reduce=False,
                into_destination=True,
                offset=0,
                write_offset=write,
                length=length,
            )
        )
        return step

    def steps(self) -> tuple[RankSteps, ...]:
        """What was collected."""
        return tuple(
            RankSteps(tuple(sends), tuple(receives))
            for sends, receives in zip(self.sends, self.receives, strict=True)
        )
