"""Bytes, both ways, and steps of one phase on one dim: what a scheduler may know of an algorithm.

Ring, direct and halving-doubling move (P - 1)/P of the payload per NPU in each direction for a
reduce-scatter or an all-gather, twice that for an all-reduce (Themis, section 4). In-network
(decided here, for FRED dims): an all-reduce sends and receives the payload once; a reduce-scatter
sends all of it and receives a shard; an all-gather sends a shard and receives all of it.

Broadcast and reduce (`sw_model.collective.rounds`), the busiest NPU: all of the payload once, but
by halving and doubling the root of a broadcast sends, and that of a reduce receives, twice
(P - 1)/P of it. A double binary tree makes an all-reduce of both: an NPU
with two children in one tree sends and receives twice the payload, where there are four NPUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from sw_model.collective.plan import Algorithm, AnyAlgorithm, Operation
from sw_model.collective.written import WrittenAlgorithm
from sw_model.topology import DimKind

__all__ = ["Traffic", "default_algorithm", "phase_traffic"]

_DEFAULT = {
    DimKind.RING: Algorithm.RING,
    DimKind.FULLY_CONNECTED: Algorithm.DIRECT,
    DimKind.SWITCH: Algorithm.HALVING_DOUBLING,
    DimKind.FRED: Algorithm.IN_NETWORK,
    DimKind.MESH2D: Algorithm.RING,
}


@dataclass(frozen=True)
class Traffic:
    """What one NPU moves in one phase.

    Attributes
    ----------
    sent, received : exact shares of the payload, in the payload's unit, of the NPU that has most
        of it; forwarded messages count where the algorithm forwards them
    steps : messages one after another, each of which pays the dim's latency once
    """

    sent: Fraction
    received: Fraction
    steps: int

    @property
    def port(self) -> Fraction:
        """What keeps the port busy: the larger direction."""
        return max(self.sent, self.received)


def default_algorithm(kind: DimKind) -> Algorithm:
    """The algorithm that a dim of ``kind`` uses unless told otherwise."""
    return _DEFAULT[kind]


@lru_cache(maxsize=65536)
def phase_traffic(
    operation: Operation, algorithm: AnyAlgorithm, size: int, payload: Fraction | int
) -> Traffic:
    """Traffic of ``operation`` on a dim of ``size`` NPUs.

    Parameters
    ----------
    payload : what is resident on an NPU before a reduce-scatter, an all-reduce or an all-to-all,
        and after an all-gather, in any unit
    """
    whole = Fraction(payload)
    if size == 1:
        return Traffic(Fraction(0), Fraction(0), 0)
    shard = whole / size
    if algorithm is Algorithm.IN_NETWORK:
        match operation:
            case Operation.ALL_REDUCE:
                return Traffic(whole, whole, 1)
            case Operation.REDUCE_SCATTER:
                return Traffic(whole, shard, 1)
            case Operation.ALL_GATHER:
                return Traffic(shard, whole, 1)
            case Operation.BROADCAST | Operation.REDUCE | Operation.SEND:
                return Traffic(whole, whole, 1)
    if operation in (Operation.BROADCAST, Operation.REDUCE):
        return _rooted(operation, algorithm, size, whole)
    if operation is Operation.SEND:
        # Round a ring as far as it can be.
        return Traffic(whole, whole, size - 1 if algorithm is Algorithm.RING else 1)
    others = whole - shard
    match algorithm:
        case WrittenAlgorithm():
            return _written(operation, algorithm, shard)
        case Algorithm.DIRECT:
            steps = 1
        case Algorithm.DOUBLE_BINARY_TREE if operation is not Operation.ALL_REDUCE:
            raise ValueError(f"double-binary-tree has no {operation.value}")
        case Algorithm.DOUBLE_BINARY_TREE:
            moved = whole * {2: Fraction(1), 3: Fraction(3, 2)}.get(size, Fraction(2))
            return Traffic(moved, moved, 2 * _log2(size))
        case Algorithm.BIDIRECTIONAL_RING:
            steps = size // 2
        case Algorithm.HALVING_DOUBLING if operation is not Operation.ALL_TO_ALL:
            steps = _log2(size)
        case _:
            steps = size - 1
    if operation is Operation.ALL_REDUCE:
        return Traffic(2 * others, 2 * others, 2 * steps)
    return Traffic(others, others, steps)


def _written(operation: Operation, algorithm: WrittenAlgorithm, shard: Fraction) -> Traffic:
    """By moves of shards: what the busiest NPU of an all-gather sends it receives in a
    reduce-scatter."""
    most, others, steps = algorithm.most_sent, algorithm.size - 1, len(algorithm.gather)
    match operation:
        case Operation.ALL_GATHER:
            return Traffic(most * shard, others * shard, steps)
        case Operation.REDUCE_SCATTER:
            return Traffic(others * shard, most * shard, steps)
        case Operation.ALL_REDUCE:
            return Traffic((most + others) * shard, (most + others) * shard, 2 * steps)
    raise ValueError(f"{algorithm.value} has no {operation.value}")


def _rooted(operation: Operation, algorithm: AnyAlgorithm, size: int, whole: Fraction) -> Traffic:
    """A broadcast, or a reduce, which is one backwards."""
    match algorithm:
        case Algorithm.DIRECT:
            return Traffic(whole, whole, min(2, size - 1))
        case Algorithm.HALVING_DOUBLING:
            moved = 2 * (whole - whole / size)
            # The first to gather wait for nothing: they have just sent the last of the scatter.
            steps = 2 * _log2(size) - 1
            if operation is Operation.BROADCAST:
                return Traffic(moved, whole, steps)
            return Traffic(whole, moved, steps)
        case Algorithm.DOUBLE_BINARY_TREE:
            return Traffic(whole, whole, _log2(size))
    return Traffic(whole, whole, size - 1)


def _log2(size: int) -> int:
    """Rounded up."""
    return (size - 1).bit_length()
