"""A platform of 4 x 2 x 2, rings only: every operation bit for bit, and its figures."""

import pytest

from sim_top.bench.ace import (
    CHUNKS,
    ELEMENTS,
    memory_share,
    model_cycles,
    torus_platform,
    utilisation,
    watch,
)
from sim_top.bench.ace_bounds import LEAST_SHARE
from sim_top.bench.bounds import AGREEMENT
from sim_top.crosscheck import Case
from sim_top.crosscheck.matrix import Setting
from sim_top.crosscheck.run import check_case
from sw_model.collective.plan import Collective, Operation
from sw_model.schedule.options import ScheduleOptions
from tests.test_ace_overhead import OVERHEAD

pytestmark = pytest.mark.full

_DIMS = (0, 1, 2)


@pytest.mark.parametrize("data_type", ["fp16", "int32"])
def test_operations(data_type: str) -> None:
    """Data and counters of every rank; cycles within 3 % of the model's, or 8."""
    flit = 8 if data_type == "fp16" else 4
    shapes = [
        (Operation.ALL_REDUCE, 1),
        (Operation.ALL_REDUCE, 5001),
        (Operation.REDUCE_SCATTER, 64 * 16 * flit),
        (Operation.ALL_GATHER, 48 * flit),
        (Operation.ALL_TO_ALL, 16 * flit),
        (Operation.ALL_TO_ALL, 16 * 12 * flit),
    ]
    collectives = tuple(
        Collective(operation, elements, data_type, dims=_DIMS) for operation, elements in shapes
    )
    schedule = ScheduleOptions("baseline", "fifo", 8)
    cases = check_case(Case(Setting("torus", torus_platform(), schedule), collectives))
    for case in cases:
        assert case.data_ok, case
        assert case.counters_ok, case
        assert abs(case.tlm_cycles - case.rtl_cycles) <= max(8, 0.03 * case.rtl_cycles), case
    assert len(cases) == len(shapes)


@pytest.mark.parametrize("memory_gb", [None, 250, 128])
def test_the_bottleneck_is_as_full_as_memory_lets_it(memory_gb: int | None) -> None:
    """97 % of the line rate of the vertical ring in the steady state; with 128 GB/s memory is the
    limit, and it is 97 % of what memory allows, records and headers counted. Every payload byte is
    read and written once, cycles are the model's within 1 %, and data are compared inside."""
    platform = torus_platform(memory_gb=memory_gb)
    request = Collective(Operation.ALL_REDUCE, ELEMENTS, "fp16", dims=_DIMS)
    watched = watch(platform, request, chunks=CHUNKS)
    share = utilisation(platform, watched, 1) / float(memory_share(platform))
    assert LEAST_SHARE <= share <= 1.001  # looked at every 64 cycles
    assert watched.issued.cycles == pytest.approx(model_cycles(platform), rel=AGREEMENT)
    for counters in watched.progress.counters:
        assert counters.memory_read_bytes == 2 * ELEMENTS
        assert counters.memory_written_bytes == 2 * ELEMENTS


def test_the_overhead_of_an_empty_collective() -> None:
    """One element per rank, from the doorbell to the last completion (docs/ace.md)."""
    one = Collective(Operation.ALL_REDUCE, 1, "fp16", dims=_DIMS)
    assert watch(torus_platform(), one, chunks=1).issued.cycles == OVERHEAD
