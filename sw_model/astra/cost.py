"""Closed forms of ASTRA-sim 2.0's analytical back-end, congestion-unaware, to the nanosecond.

Time is whole nanoseconds; a message takes ``floor(hops * latency + bytes / bandwidth)``, worked out
in doubles as that program does, and nothing queues. A ring's neighbours and fully connected NPUs
are one hop apart, the NPUs of a switch two. An endpoint delay goes before every send and once at
the end of a phase; a step that reduces adds ``3 * floor(bytes / local-mem-bw)``: one write and two
reads.

Halving-doubling leaves the reduction of its first step out: that program does so, and its published
numbers depend on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sw_model.astra.system import AlgorithmName, SystemConfig
from sw_model.collective.plan import Operation
from sw_model.topology import Dim, DimKind

__all__ = ["Wire", "phase_ns", "reduction_ns", "suitable", "wire_of"]


@dataclass(frozen=True)
class Wire:
    """What a message of one step crosses.

    Parameters
    ----------
    latency_ns : of a hop
    bandwidth : of one link, bytes per ns
    hops : between the NPUs of the longest message of a step
    """

    latency_ns: float
    bandwidth: float
    hops: int

    def message_ns(self, size: int) -> int:
        """Time of a message of ``size`` bytes, at least 1."""
        return int(self.hops * self.latency_ns + max(1, size) / self.bandwidth)


def wire_of(dim: Dim, algorithm: AlgorithmName) -> Wire:
    """The wire of a whole dim under ``algorithm``."""
    links = max(1, dim.size - 1) if dim.kind is DimKind.FULLY_CONNECTED else 1
    hops = 2 if dim.kind is DimKind.SWITCH else 1
    if dim.kind is DimKind.RING and algorithm is not AlgorithmName.RING:
        hops = max(1, dim.size // 2)
    return Wire(dim.latency_ps / 1000, float(dim.bandwidth / links / 10**9), hops)


def reduction_ns(system: SystemConfig, size: int) -> int:
    """Time of the local reduction of ``size`` bytes."""
    if system.local_memory_bandwidth is None:
        return 0
    return 3 * int(size / float(system.local_memory_bandwidth))


def suitable(algorithm: AlgorithmName, operation: Operation, size: int) -> AlgorithmName:
    """``algorithm`` where it can do ``operation`` among ``size`` NPUs, else the one used instead:
    halving-doubling needs a power of two; an all-to-all has none, and no tree; a tree only
    all-reduces."""
    plain = {
        AlgorithmName.ONE_RING: AlgorithmName.RING,
        AlgorithmName.ONE_DIRECT: AlgorithmName.DIRECT,
        AlgorithmName.ONE_HALVING_DOUBLING: AlgorithmName.HALVING_DOUBLING,
    }.get(algorithm, algorithm)
    all_to_all = operation is Operation.ALL_TO_ALL
    if plain is AlgorithmName.HALVING_DOUBLING:
        if all_to_all:
            return AlgorithmName.DIRECT
        return plain if size & (size - 1) == 0 else AlgorithmName.RING
    if plain is AlgorithmName.DOUBLE_BINARY_TREE and operation is not Operation.ALL_REDUCE:
        return AlgorithmName.DIRECT if all_to_all else AlgorithmName.RING
    return plain


def phase_ns(
    operation: Operation,
    algorithm: AlgorithmName,
    members: int,
    size: int,
    wire: Wire,
    system: SystemConfig,
) -> int:
    """Time of one phase of one chunk.

    Parameters
    ----------
    algorithm : one that is `suitable`
    members : NPUs that take part, at least 2
    size : bytes of the buffer of an NPU before the phase; the shard of an all-gather
    """
    end = system.endpoint_delay

    def message(size: int) -> int:
        return wire.message_ns(size)

    def reduction(size: int) -> int:
        return reduction_ns(system, size)

    shard = size // members
    others = members - 1
    if algorithm is AlgorithmName.RING:
        match operation:
            case Operation.ALL_GATHER:
                return end + others * (message(size) + end)
            case Operation.REDUCE_SCATTER:
                return end + others * (message(shard) + end + reduction(shard))
            case Operation.ALL_REDUCE:
                return end + 2 * others * (message(shard) + end) + others * reduction(shard)
            case Operation.ALL_TO_ALL:
                return end + members * others // 2 * (message(shard) + end)
    if algorithm is AlgorithmName.DIRECT:
        match operation:
            case Operation.ALL_GATHER:
                return 2 * end + message(size)
            case Operation.REDUCE_SCATTER:
                return 2 * end + message(shard) + reduction(shard)
            case Operation.ALL_REDUCE:
                return 3 * end + 2 * message(shard) + reduction(shard)
            case Operation.ALL_TO_ALL:
                return 2 * end + message(shard)
    if algorithm is AlgorithmName.HALVING_DOUBLING and operation is not Operation.ALL_TO_ALL:
        return _halving_doubling(operation, members, size, end, message, reduction)
    if algorithm is AlgorithmName.DOUBLE_BINARY_TREE and operation is Operation.ALL_REDUCE:
        # Two trees, each with half of the bytes, up and down again (decided here).
        depth = (members - 1).bit_length()
        half = -(-size // 2)
        return end + 2 * depth * (message(half) + end) + depth * reduction(half)
    raise ValueError(
        f"algorithm must be able to do {operation.value}, not {algorithm.value}: see suitable()"
    )


def _halving_doubling(
    operation: Operation,
    members: int,
    size: int,
    end: int,
    message: Callable[[int], int],
    reduction: Callable[[int], int],
) -> int:
    steps = members.bit_length() - 1
    scatter = sum(message(size >> i) + end for i in range(1, steps + 1))
    scatter += sum(reduction(size >> i) for i in range(2, steps + 1))
    if operation is Operation.REDUCE_SCATTER:
        return end + scatter
    shard = size if operation is Operation.ALL_GATHER else size >> steps
    gather = sum(message(shard << i) for i in range(steps)) + end * steps
    return end + gather + (scatter if operation is Operation.ALL_REDUCE else 0)
