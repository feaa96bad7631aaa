"""Who sends to whom in a collective of n, and how much: what a network of single links must know.

A *stage* is a set of messages, all of the same size, that are under way at the same time and wait
for each other; stages follow one another. All steps of a ring make one stage, since every step
loads the same links; a pipelined chain or tree too. Halving and doubling is one stage for each
distance.
In-network collectives load ports, not pairs (`port_loads`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations

from sw_model.collective.plan import Algorithm, Operation
from sw_model.collective.rounds import tree_parents

__all__ = ["Stage", "port_loads", "stages_of"]

_SIMPLE = (Operation.ALL_REDUCE, Operation.REDUCE_SCATTER, Operation.ALL_GATHER)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Messages that run together.

    Attributes
    ----------
    pairs : (sender, receiver, way): places in the group, and on rings -1 for the way back
    each : bytes of each pair
    steps : that the data wait for one after another
    """

    pairs: tuple[tuple[int, int, int], ...]
    each: Fraction
    steps: int


def stages_of(
    operation: Operation,
    algorithm: Algorithm,
    size: int,
    payload: Fraction | int,
    root: int = 0,
    target: int | None = None,
) -> list[Stage]:
    """Stages of a collective.

    Parameters
    ----------
    size : members
    payload : in bytes, where it is largest: after an all-gather
    root, target : places, of the rooted operations

    Raises
    ------
    ValueError
        where the algorithm cannot do that.
    """
    whole = Fraction(payload)
    if size < 2 or not whole:
        return []
    if operation is Operation.SEND:
        if target is None or target == root:
            return []
        return [Stage(pairs=((root, target, 1),), each=whole, steps=1)]
    if operation in (Operation.BROADCAST, Operation.REDUCE):
        stages = _broadcast(algorithm, size, whole)
        turned = [_named(stage, algorithm, size, root) for stage in stages]
        if operation is Operation.BROADCAST:
            return turned
        return [_backwards(stage, algorithm, size, root) for stage in reversed(turned)]
    if operation is Operation.ALL_TO_ALL:
        return _exchange(algorithm, size, whole)
    if operation is Operation.ALL_REDUCE and algorithm is Algorithm.DOUBLE_BINARY_TREE:
        (down,) = _broadcast(algorithm, size, whole)
        up = tuple((b, a, way) for a, b, way in down.pairs)
        return [Stage(pairs=(*up, *down.pairs), each=down.each, steps=2 * down.steps)]
    if operation in _SIMPLE:
        gather = _gather(algorithm, size, whole)
        if operation is Operation.ALL_GATHER:
            return gather
        scatter = gather[::-1]  # the same links the other way round, which are as many
        return [*scatter, *gather] if operation is Operation.ALL_REDUCE else scatter
    raise ValueError(f"{algorithm.value} has no {operation.value}")


def _circle(size: int, way: int) -> tuple[tuple[int, int, int], ...]:
    return tuple((i, (i + way) % size, way) for i in range(size))


def _gather(algorithm: Algorithm, size: int, whole: Fraction) -> list[Stage]:
    moved = whole * (size - 1) / size
    match algorithm:
        case Algorithm.RING:
            return [Stage(pairs=_circle(size, 1), each=moved, steps=size - 1)]
        case Algorithm.BIDIRECTIONAL_RING:
            both = _circle(size, 1) + _circle(size, -1)
            return [Stage(pairs=both, each=moved / 2, steps=size // 2)]
        case Algorithm.DIRECT:
            return [Stage(pairs=_everybody(size), each=whole / size, steps=1)]
        case Algorithm.HALVING_DOUBLING:
            return [
                Stage(
                    pairs=tuple((i, i ^ block, 1) for i in range(size)),
                    each=whole * block / size,
                    steps=1,
                )
                for block in _blocks(size)
            ]
    raise ValueError(f"{algorithm.value} has no all-gather")


def _everybody(size: int) -> tuple[tuple[int, int, int], ...]:
    return tuple((a, b, 1) for a, b in permutations(range(size), 2))


def _blocks(size: int) -> list[int]:
    if size & (size - 1):
        raise ValueError(f"halving-doubling must have a power of two of NPUs, not {size!r}")
    return [1 << k for k in range(size.bit_length() - 1)]


def _exchange(algorithm: Algorithm, size: int, whole: Fraction) -> list[Stage]:
    shard = whole / size
    match algorithm:
        case Algorithm.RING:
            each = shard * size * (size - 1) / 2
            return [Stage(pairs=_circle(size, 1), each=each, steps=size - 1)]
        case Algorithm.BIDIRECTIONAL_RING:
            both = _circle(size, 1) + _circle(size, -1)
            return [Stage(pairs=both, each=shard * (size * size // 4) / 2, steps=size // 2)]
        case Algorithm.DIRECT:
            return [Stage(pairs=_everybody(size), each=shard, steps=1)]
    raise ValueError(f"{algorithm.value} has no all-to-all")


def _broadcast(algorithm: Algorithm, size: int, whole: Fraction) -> list[Stage]:
    """From place 0."""
    chain = tuple((i, i + 1, 1) for i in range(size - 1))
    match algorithm:
        case Algorithm.RING:
            return [Stage(pairs=chain, each=whole, steps=size - 1)]
        case Algorithm.BIDIRECTIONAL_RING:
            back = tuple((-i % size, -i - 1 + size, -1) for i in range(size - 1))
            return [Stage(pairs=chain + back, each=whole / 2, steps=size - 1)]
        case Algorithm.DIRECT:
            pairs = tuple((a, b, 1) for a, b, _ in _everybody(size) if b)
            return [Stage(pairs=pairs, each=whole / (size - 1), steps=min(2, size - 1))]
        case Algorithm.HALVING_DOUBLING:
            return _halved_broadcast(size, whole)
        case Algorithm.DOUBLE_BINARY_TREE:
            pairs = tuple(
                (parents[v], v, 1) for parents in tree_parents(size) for v in range(1, size)
            )
            return [Stage(pairs=pairs, each=whole / 2, steps=(size - 1).bit_length())]
    raise ValueError(f"{algorithm.value} has no broadcast")


def _halved_broadcast(size: int, whole: Fraction) -> list[Stage]:
    blocks = _blocks(size)
    scatter = [
        Stage(
            pairs=tuple((v, v + block, 1) for v in range(0, size, 2 * block)),
            each=whole * block / size,
            steps=1,
        )
        for block in reversed(blocks)
    ]
    gather = [
        Stage(
            pairs=tuple((v, v ^ block, 1) for v in range(size) if v % (2 * block) != block),
            each=whole * block / size,
            steps=int(block > 1),  # the first follow the last of the scatter at once
        )
        for block in blocks
    ]
    return [*scatter, *gather]


def _named(stage: Stage, algorithm: Algorithm, size: int, root: int) -> Stage:
    """With places counted from the root."""
    pairs = tuple(
        (a ^ root, b ^ root, way)
        if algorithm is Algorithm.HALVING_DOUBLING
        else ((a + root) % size, (b + root) % size, way)
        for a, b, way in stage.pairs
    )
    return Stage(pairs=pairs, each=stage.each, steps=stage.steps)


def _backwards(stage: Stage, algorithm: Algorithm, size: int, root: int) -> Stage:
    """A reduce instead of a broadcast. That of a ring still goes forward, from behind the root."""
    if algorithm is Algorithm.RING:
        pairs = tuple(((root + 1 + i) % size, (root + 2 + i) % size, 1) for i in range(size - 1))
    else:
        ring = algorithm is Algorithm.BIDIRECTIONAL_RING
        pairs = tuple((b, a, -way if ring else way) for a, b, way in stage.pairs)
    return Stage(pairs=pairs, each=stage.each, steps=stage.steps)


def port_loads(
    operation: Operation,
    size: int,
    payload: Fraction | int,
    root: int = 0,
    target: int | None = None,
) -> tuple[list[Fraction], list[Fraction]]:
    """Of an in-network collective: what each member sends into the switch, and what comes out.

    Raises
    ------
    ValueError
        for an all-to-all, which a switch can neither reduce nor multicast.
    """
    whole = Fraction(payload)
    all_of_it, shards = [whole] * size, [whole / size] * size
    only = [whole * (place == root) for place in range(size)]
    match operation:
        case Operation.ALL_REDUCE:
            return all_of_it, all_of_it
        case Operation.REDUCE_SCATTER:
            return all_of_it, shards
        case Operation.ALL_GATHER:
            return shards, all_of_it
        case Operation.BROADCAST:
            return only, all_of_it
        case Operation.REDUCE:
            return all_of_it, only
        case Operation.SEND:
            return only, [whole * (place == target) for place in range(size)]
    raise ValueError(f"in-network has no {operation.value}")
