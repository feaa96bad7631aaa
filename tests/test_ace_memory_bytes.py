"""Every payload byte is read once and written once, as the engines' own counters have it."""

from __future__ import annotations

from fractions import Fraction
from math import prod

import pytest

from sim_top.bench.ace import torus_platform, watch
from sw_model.collective.plan import Collective, Operation
from sw_model.platform import EngineParameters, Partition, Platform
from sw_model.topology import Dim, DimKind, Topology
from tests.test_memory_rate import platform as two_ranks

FULL = pytest.mark.full


def four_dims() -> Platform:
    """2 x 2 x 2 x 2."""
    ring = Dim(DimKind.RING, 2, Fraction(20 * 10**9), 8000)
    sizes = (64, 32, 16, 8, 8, 16, 32, 64)
    return Platform.from_topology(
        Topology((ring,) * 4),
        engine=EngineParameters(partitions=tuple(Partition(4, flits) for flits in sizes)),
    )


CASES = [
    ("ring", (0,)),
    *(pytest.param("torus", dims, marks=FULL) for dims in ((2,), (0, 1), (0, 1, 2))),
    *(pytest.param("four dims", dims, marks=FULL) for dims in ((0, 1, 2), (0, 1, 2, 3))),
]


@pytest.mark.parametrize(("name", "dims"), CASES)
@pytest.mark.parametrize("operation", list(Operation)[:3], ids=str)
def test_once_in_and_once_out(name: str, dims: tuple[int, ...], operation: Operation) -> None:
    """An all-reduce reads and writes its payload; a reduce-scatter writes a rank's block of what it
    reads, and an all-gather reads one of what it writes. Results are compared inside."""
    where = {"ring": lambda: two_ranks(Fraction(1), Fraction(1)), "torus": torus_platform}.get(
        name, four_dims
    )()
    ranks = prod(where.topology.dims[dim].size for dim in dims)
    block = 40 * 8  # FP16 in whole flits
    elements = block if operation is Operation.ALL_GATHER else block * ranks
    watched = watch(
        where, Collective(operation, elements, "fp16", dims=dims), chunks=4, every=1 << 16
    )
    whole, part = 2 * block * ranks, 2 * block
    read = part if operation is Operation.ALL_GATHER else whole
    written = part if operation is Operation.REDUCE_SCATTER else whole
    for counters in watched.progress.counters:
        assert (counters.memory_read_bytes, counters.memory_written_bytes) == (read, written)
