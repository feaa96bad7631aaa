"""Main-memory traffic of a collective at one NPU, by what carries it out.

Without an engine (a *baseline* endpoint) every message is read from memory where it is sent, and a
received one is written there. A reduction reads both of its operands; what it passes on goes
straight to the port, what stays is written (decided here, to give the published counts). For a
reduce-scatter of S bytes on a ring of n that is (S/n)(2n - 1) read and S written, for an all-gather
(S/n)(n - 1) of each: an all-reduce reads S (3n - 2)/n. An engine reads the payload once and writes
the result once, whatever the number of steps and dims.

In the steady state of long rings this is the rule 2 reads and 1 write per byte sent in a
reduce-scatter, 1 and 1 in an all-gather: 1.5 reads per byte sent of an all-reduce.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sw_model.collective.plan import Algorithm, AnyAlgorithm, Operation, Phase
from sw_model.errors import InputError
from sw_model.topology import Topology

__all__ = [
    "NO_TRAFFIC",
    "MemoryTraffic",
    "baseline_phase",
    "baseline_traffic",
    "engine_traffic",
    "steady_reads",
]


@dataclass(frozen=True)
class MemoryTraffic:
    """Bytes, or shares of a payload."""

    reads: Fraction
    writes: Fraction

    def __add__(self, other: MemoryTraffic) -> MemoryTraffic:
        return MemoryTraffic(self.reads + other.reads, self.writes + other.writes)


NO_TRAFFIC = MemoryTraffic(Fraction(0), Fraction(0))


def baseline_phase(
    operation: Operation, algorithm: AnyAlgorithm, size: int, payload: Fraction | int
) -> MemoryTraffic:
    """One phase without an engine.

    Parameters
    ----------
    payload : resident before a reduce-scatter, an all-reduce or an all-to-all, after an all-gather

    Returns
    -------
    MemoryTraffic
        of the NPU that has most of each; where they are not all alike, in rooted operations and
        trees, that may be two

    Raises
    ------
    InputError
        for rooted operations by halving-doubling, and written algorithms, which are not counted.
    """
    whole = Fraction(payload)
    if size == 1:
        return MemoryTraffic(Fraction(0), Fraction(0))
    if not isinstance(algorithm, Algorithm):
        raise InputError(
            f"the memory traffic of {algorithm.value} is not counted: the endpoint must be ideal"
        )
    if operation.rooted:
        return _rooted(operation, algorithm, whole)
    shard = whole / size
    others = whole - shard
    if operation is Operation.ALL_TO_ALL:
        # Own shard stays; on a ring what is passed on is stored and read again.
        moved = others
        if algorithm is Algorithm.RING:
            moved = whole * (size - 1) / 2
        elif algorithm is Algorithm.BIDIRECTIONAL_RING:
            moved = shard * (size * size // 4)
        return MemoryTraffic(moved, moved)
    if algorithm is Algorithm.DOUBLE_BINARY_TREE:
        # With two children in one tree: three operands of half, two messages down and one up in the
        # other, where it is a leaf; four messages come in. The root reads and writes as much.
        return MemoryTraffic(3 * whole, 2 * whole)
    if algorithm is Algorithm.IN_NETWORK:
        sent = shard if operation is Operation.ALL_GATHER else whole
        received = shard if operation is Operation.REDUCE_SCATTER else whole
        return MemoryTraffic(sent, received)
    if operation is Operation.ALL_GATHER:
        return MemoryTraffic(others, others)
    # What is sent first has not been reduced: a shard (ring), half of all, or everything sent.
    if algorithm is Algorithm.HALVING_DOUBLING:
        # Every received byte is written and then read with its operand; of each result half is
        # sent on at once and half is written, of the last all.
        first = whole / 2
        kept = sum((whole / 2**k for k in range(2, size.bit_length())), Fraction(0)) + shard
        scatter = MemoryTraffic(first + 2 * others, others + kept)
    else:
        # Ring: the first message, then two operands for each of the n - 1 received shards. Direct:
        # n - 1 messages, then all n shards of the own place at once. The same sums, as by any way
        # on which each of n operands is read once, and each of n - 1 sums that are passed on.
        scatter = MemoryTraffic(shard + 2 * others, whole)
    if operation is Operation.REDUCE_SCATTER:
        return scatter
    return scatter + MemoryTraffic(others, others)


def _rooted(operation: Operation, algorithm: Algorithm, whole: Fraction) -> MemoryTraffic:
    """Who passes a broadcast on reads and writes it once. A reduction reads what came and its own,
    and what comes is written; the root writes the result too. A switch leaves nothing but that."""
    if algorithm is Algorithm.HALVING_DOUBLING:
        raise InputError(
            f"the memory traffic of a {operation.value} by halving-doubling is not counted: "
            "the endpoint must be ideal"
        )
    if operation is Operation.REDUCE and algorithm is not Algorithm.IN_NETWORK:
        return MemoryTraffic(2 * whole, 2 * whole)
    return MemoryTraffic(whole, whole)


def baseline_traffic(
    phases: Sequence[Phase], topology: Topology, payload: Fraction | int
) -> MemoryTraffic:
    """All phases of an all-reduce or a reduce-scatter of ``payload`` without an engine."""
    total = MemoryTraffic(Fraction(0), Fraction(0))
    resident = Fraction(payload)
    for phase in phases:
        size = topology.dims[phase.dim].size
        if phase.operation is Operation.ALL_GATHER:
            resident *= size
        total += baseline_phase(phase.operation, phase.algorithm, size, resident)
        if phase.operation is Operation.REDUCE_SCATTER:
            resident /= size
    return total


def engine_traffic(operation: Operation, group: int, payload: Fraction | int) -> MemoryTraffic:
    """With an engine: the payload once in, the result once out.

    Parameters
    ----------
    payload : of one rank before the collective
    """
    whole = Fraction(payload)
    result = {
        Operation.REDUCE_SCATTER: whole / group,
        Operation.ALL_GATHER: whole * group,
    }.get(operation, whole)
    return MemoryTraffic(whole, result)


def steady_reads(sent_per_payload: Fraction) -> Fraction:
    """The rule for an all-reduce without an engine: bytes read per payload byte."""
    return sent_per_payload * 3 / 2
