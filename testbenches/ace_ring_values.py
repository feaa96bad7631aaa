"""Contributions to ring collectives on one dim, and their results in the order of the ring."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rtl.common.packet import DataType
from testbenches.ace_records import RingChunks, bounds

__all__ = ["contributions", "results"]

_FLIT = 16
_DTYPES: dict[int, np.dtype] = {DataType.FP16: np.dtype("<f2"), DataType.INT32: np.dtype("<i4")}


def contributions(work: RingChunks, generator: np.random.Generator) -> NDArray:
    """Random inputs, (ranks, elements): of an all-gather as large as the largest share."""
    dtype = _DTYPES[work.data_type]
    elements = work.chunk_flits * work.chunks * _FLIT // dtype.itemsize
    if dtype.kind == "i":
        return generator.integers(-(2**31), 2**31, (work.ranks, elements)).astype(dtype)
    return generator.normal(0, 4, (work.ranks, elements)).astype(dtype)


def results(work: RingChunks, values: NDArray) -> list[NDArray]:
    """What lies in the result region of every rank."""
    per_flit = _FLIT // values.dtype.itemsize
    edge = [bound * per_flit for bound in bounds(work.chunk_flits, work.ranks)]
    out: list[list[NDArray]] = [[] for _ in range(work.ranks)]
    for chunk in range(work.chunks):
        if work.operation == "ag":
            parts = []
            for rank in range(work.ranks):
                size = work.shares(rank)[0] * per_flit
                parts.append(values[rank, chunk * size : (chunk + 1) * size])
            whole = np.concatenate(parts)
        else:
            size = work.chunk_flits * per_flit
            whole = _reduced(values[:, chunk * size : (chunk + 1) * size], edge)
        for rank in range(work.ranks):
            own = slice(edge[rank], edge[rank + 1]) if work.operation == "rs" else slice(None)
            out[rank].append(whole[own])
    return [np.concatenate(parts) for parts in out]


def _reduced(chunk: NDArray, edge: list[int]) -> NDArray:
    """The sum in ring order: shard s starts at rank s + 1 and ends at rank s."""
    ranks = len(chunk)
    out = np.empty_like(chunk[0])
    for s in range(ranks):
        part = slice(edge[s], edge[s + 1])
        total = chunk[(s + 1) % ranks, part]
        for step in range(2, ranks + 1):
            total = chunk[(s + step) % ranks, part] + total
        out[part] = total
    return out
