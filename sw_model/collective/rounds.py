"""Which shards go from whom to whom, round by round, for every algorithm that is not in-network.

Only two things are written down: how an all-gather and a broadcast spread data. Each gives every
coordinate every element exactly once, so run backwards, with sums in place of copies, the first is
a reduce-scatter and the second a reduce. An all-reduce is a reduce-scatter and an all-gather, or on
trees a reduce and a broadcast. All-to-alls are in `sw_model.collective.exchange`.

* *Ring*: shards go to the next coordinate, P - 1 times; a broadcast goes round as a chain.
* *Bidirectional ring*: every shard goes both ways round, to whom it is nearer; where P is even the
  one opposite gets half from either side. A broadcast goes round both ways with half each, since
  the root's two links should carry the same.
* *Direct*: everybody to everybody. A broadcast gives each of the others a piece of its own, which
  passes it on to the rest, so the root sends the payload once.
* *Halving-doubling* (Thakur, Rabenseifner and Gropp, *Optimization of collective communication
  operations in MPICH*, 2005), P a power of two: an all-gather exchanges with the coordinate at
  distance 1, 2, 4 ...; a broadcast scatters by halves and then gathers what is missing.
* *Double binary tree* (Sanders, Speck and Traff, *Two-tree algorithms for full bandwidth
  broadcast, reduction and scan*, 2009): the root stands above two binary trees of the others, in
  each of which half of the payload goes. Who has children in one has none in the other.
* Others by their own moves (`sw_model.collective.written`), all-gathers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from sw_model.collective.plan import Algorithm, AnyAlgorithm, Operation
from sw_model.collective.written import WrittenAlgorithm

__all__ = ["Move", "Rounds", "broadcast_rounds", "gather_rounds", "rounds_of", "tree_parents"]


@dataclass(frozen=True)
class Move:
    """The range ``[low, high)`` of the whole buffer goes from one coordinate to another, to be
    combined with what is there, or to be kept."""

    sender: int
    receiver: int
    low: int
    high: int
    reduces: bool = False

    def reversed(self) -> Move:
        """The same way back, combining."""
        return Move(self.receiver, self.sender, self.low, self.high, reduces=True)


#: One after the other; moves of a round can go at once.
Rounds = list[list[Move]]


def rounds_of(
    operation: Operation,
    algorithm: AnyAlgorithm,
    bounds: Sequence[int],
    root: int = 0,
    target: int | None = None,
) -> Rounds:
    """Moves of one phase; those of nothing are left out.

    Parameters
    ----------
    operation : anything but an all-to-all
    bounds : P + 1 offsets; shard j is ``[bounds[j], bounds[j + 1])`` of the whole buffer
    root, target : coordinates, of the rooted operations

    Raises
    ------
    ValueError
        where the algorithm cannot do that.
    """
    size, whole = len(bounds) - 1, bounds[-1]
    tree = algorithm is Algorithm.DOUBLE_BINARY_TREE
    match operation:
        case Operation.BROADCAST:
            rounds = broadcast_rounds(algorithm, size, whole, root)
        case Operation.REDUCE:
            rounds = _reduce(algorithm, size, whole, root)
        case Operation.SEND if target is not None:
            path = [root, target]  # to itself, where it need not move on this dim
            if algorithm is Algorithm.RING and target != root:
                path = [(root + hop) % size for hop in range((target - root) % size + 1)]
            pairs = pairwise(path)
            rounds = [[Move(a, b, 0, whole)] for a, b in pairs]
        case Operation.ALL_REDUCE if tree:
            rounds = _reduce(algorithm, size, whole, 0)
            rounds += broadcast_rounds(algorithm, size, whole, 0)
        case Operation.ALL_GATHER if not tree:
            rounds = gather_rounds(algorithm, bounds)
        case Operation.REDUCE_SCATTER if not tree:
            rounds = _backwards(gather_rounds(algorithm, bounds))
        case Operation.ALL_REDUCE:
            gather = gather_rounds(algorithm, bounds)
            rounds = [*_backwards(gather), *gather]
        case _:
            raise ValueError(f"{algorithm.value} has no {operation.value}")
    filled = [[move for move in moves if move.low < move.high] for moves in rounds]
    return [moves for moves in filled if moves]


def _backwards(rounds: Rounds) -> Rounds:
    return [[move.reversed() for move in reversed(moves)] for moves in reversed(rounds)]


def _reduce(algorithm: AnyAlgorithm, size: int, whole: int, root: int) -> Rounds:
    """A broadcast backwards. That of a ring is turned over first, so that it still goes forward."""
    if algorithm is not Algorithm.RING:
        return _backwards(broadcast_rounds(algorithm, size, whole, root))
    turned = _backwards(broadcast_rounds(algorithm, size, whole, -root % size))
    return [
        [Move(-m.sender % size, -m.receiver % size, m.low, m.high, m.reduces) for m in moves]
        for moves in turned
    ]


def gather_rounds(algorithm: AnyAlgorithm, bounds: Sequence[int]) -> Rounds:
    """An all-gather of the shards.

    Raises
    ------
    ValueError
        where the algorithm has none, or the size is none that it can be run on.
    """
    size = len(bounds) - 1
    everyone = range(size)

    def shard(sender: int, receiver: int, first: int, count: int = 1) -> Move:
        return Move(sender, receiver, bounds[first], bounds[first + count])

    match algorithm:
        case Algorithm.RING:
            return [
                [shard(i, (i + 1) % size, (i - step) % size) for i in everyone]
                for step in range(size - 1)
            ]
        case Algorithm.BIDIRECTIONAL_RING:
            return [_both_ways(bounds, step) for step in range(size // 2)]
        case Algorithm.DIRECT:
            return [
                [shard(i, (i + distance) % size, i) for i in everyone]
                for distance in range(1, size)
            ]
        case Algorithm.HALVING_DOUBLING:
            return [
                [shard(i, i ^ block, i // block * block, block) for i in everyone]
                for block in _blocks(size)
            ]
        case WrittenAlgorithm():
            return [[shard(*move) for move in moves] for moves in algorithm.gather]
    raise ValueError(f"{algorithm.value} has no all-gather")


def _both_ways(bounds: Sequence[int], step: int) -> list[Move]:
    """Step ``step`` of the bidirectional ring, from 0."""
    size = len(bounds) - 1
    moves = []
    for i in range(size):
        behind, ahead = (i - step) % size, (i + step) % size  # whose shards go on
        low, high = bounds[behind], bounds[behind + 1]
        first, last = bounds[ahead], bounds[ahead + 1]
        if 2 * (step + 1) == size:  # to the one opposite, who gets half from either side
            high, first = (low + high) // 2, (first + last) // 2
        moves.append(Move(i, (i + 1) % size, low, high))
        moves.append(Move(i, (i - 1) % size, first, last))
    return moves


def _blocks(size: int) -> list[int]:
    """1, 2, 4 ... below a power of two."""
    if size & (size - 1):
        raise ValueError(f"halving-doubling must have a power of two of NPUs, not {size!r}")
    return [1 << k for k in range(size.bit_length() - 1)]


def broadcast_rounds(algorithm: AnyAlgorithm, size: int, whole: int, root: int) -> Rounds:
    """A broadcast of ``[0, whole)`` from coordinate ``root``."""

    def named(rounds: Rounds) -> Rounds:
        """Of coordinates counted from the root."""
        return [
            [Move((m.sender + root) % size, (m.receiver + root) % size, m.low, m.high) for m in r]
            for r in rounds
        ]

    half = whole // 2
    match algorithm:
        case Algorithm.RING:
            return named([[Move(i, i + 1, 0, whole)] for i in range(size - 1)])
        case Algorithm.BIDIRECTIONAL_RING:
            return named(
                [
                    [Move(i, i + 1, 0, half), Move(-i % size, -i - 1, half, whole)]
                    for i in range(size - 1)
                ]
            )
        case Algorithm.DIRECT:
            others = size - 1
            pieces = [(j * whole // others, (j + 1) * whole // others) for j in range(others)]
            first = [Move(0, j, *pieces[j - 1]) for j in range(1, size)]
            on = [
                [Move(j, 1 + (j - 1 + distance) % others, *pieces[j - 1]) for j in range(1, size)]
                for distance in range(1, others)
            ]
            return named([first, *on])
        case Algorithm.HALVING_DOUBLING:
            halves = _halved_broadcast(size, whole)
            return [
                [Move(m.sender ^ root, m.receiver ^ root, m.low, m.high) for m in r] for r in halves
            ]
        case Algorithm.DOUBLE_BINARY_TREE:
            return named(_tree_broadcast(size, whole))
    raise ValueError(f"{algorithm.value} has no broadcast")


def _halved_broadcast(size: int, whole: int) -> Rounds:
    """From coordinate 0: the scatter gives v the shards from v to v + (its lowest set bit); the
    gather then leaves out what a coordinate has from the scatter."""
    blocks = _blocks(size)

    def move(sender: int, receiver: int, first: int, count: int) -> Move:
        return Move(sender, receiver, first * whole // size, (first + count) * whole // size)

    scatter = [
        [move(v, v + block, v + block, block) for v in range(0, size, 2 * block)]
        for block in reversed(blocks)
    ]
    gather = [
        [
            move(v, v ^ block, v // block * block, block)
            for v in range(size)
            if v % (2 * block) != block
        ]
        for block in blocks
    ]
    return [*scatter, *gather]


def tree_parents(size: int) -> tuple[list[int], list[int]]:
    """Parents in the two trees, by coordinate; those of 0, the root, are -1.

    The first tree is the in-order numbered one of 1 to P - 1: v has its children half its lowest
    set bit away, so that the odd coordinates are leaves. In the second each coordinate takes the
    place of the next.
    """
    first = [-1] * size
    for v in range(1, size):
        bit = v & -v
        up = (v ^ bit) | 2 * bit
        first[v] = up if up < size else v ^ bit
    second = [-1] * size
    others = size - 1
    for v in range(1, size):
        up = first[v % others + 1]
        second[v] = 0 if up == 0 else (up - 2) % others + 1
    return first, second


def _tree_broadcast(size: int, whole: int) -> Rounds:
    half = whole // 2
    rounds: Rounds = []
    for parents, low, high in zip(tree_parents(size), (0, half), (half, whole), strict=True):
        depth = [0] * size

        def down(v: int, parents: list[int] = parents) -> int:
            return 0 if v == 0 else 1 + down(parents[v])

        for v in range(1, size):
            depth[v] = down(v)
            while len(rounds) < depth[v]:
                rounds.append([])
            rounds[depth[v] - 1].append(Move(parents[v], v, low, high))
    return rounds
