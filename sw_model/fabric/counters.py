"""Sums of traffic counters."""

from __future__ import annotations

from collections.abc import Iterable

from sw_model.endpoint.counters import DimCounters, RankCounters

__all__ = ["total"]


def total(counters: Iterable[RankCounters], dims: int) -> RankCounters:
    """Sum over collectives, or over ranks, of counters with ``dims`` dims."""
    read = written = descriptors = 0
    flits = [[0, 0, 0, 0] for _ in range(dims)]
    for one in counters:
        read += one.memory_read_bytes
        written += one.memory_written_bytes
        descriptors += one.descriptor_bytes
        for sums, dim in zip(flits, one.dims, strict=True):
            sums[0] += dim.flits_sent
            sums[1] += dim.flits_received
            sums[2] += dim.headers_sent
            sums[3] += dim.reductions
    return RankCounters(read, written, descriptors, tuple(DimCounters(*s) for s in flits))
