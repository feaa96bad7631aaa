"""Bytes, both ways, and steps of one phase on one dim: what a scheduler may know of an algorithm.

Ring, direct and halving-doubling move (P - 1)/P of the payload per NPU in each direction for a
reduce-scatter or an all-gather, twice that for an all-reduce (Themis, section 4). In-network
(decided here, for FRED dims): an all-reduce sends and receives the payload once; a reduce-scatter
sends all of it and receives a shard; an all-gather sends a shard and receives all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from sw_model.collective.plan import Algorithm, Operation
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
    sent, received : exact shares of the payload, in the payload's unit (rank average)
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
    operation: Operation, algorithm: Algorithm, size: int, payload: Fraction | int
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
    others = whole - shard
    match algorithm:
        case Algorithm.DIRECT:
            steps = 1
        case Algorithm.HALVING_DOUBLING if operation is not Operation.ALL_TO_ALL:
            steps = (size - 1).bit_length()
        case _:
            steps = size - 1
    if operation is Operation.ALL_REDUCE:
        return Traffic(2 * others, 2 * others, 2 * steps)
    return Traffic(others, others, steps)
