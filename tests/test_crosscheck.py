"""The TLM against the RTL: data, counters and cycles of every case of the matrix."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from sim_top.cosim.memory_map import MemoryMap, Region, payload
from sim_top.cosim.outcome import Issued
from sim_top.cosim.verify import counter_differences, expected_results, first_difference
from sim_top.crosscheck import Case, matrix
from sim_top.crosscheck.run import check_case
from sw_model.collective.plan import Collective, Operation
from sw_model.endpoint.counters import DimCounters, RankCounters, difference
from sw_model.errors import InputError
from sw_model.results import Crosscheck
from sw_model.schedule.planner import plan_collective

BOUND = 0.05


def check(case: Case) -> None:
    result = Crosscheck(cases=tuple(check_case(case)), bound=BOUND)
    failing = [
        f"{c.name}: data {c.data_ok}, counters {c.counters_ok}, {c.rtl_cycles} cycles on the RTL, "
        f"{c.tlm_cycles} on the TLM; {c.notes}"
        for c in result.cases
        if not result.passes(c)
    ]
    assert not failing, "\n".join(failing)
    assert len(result.cases) == len(case.collectives)


@pytest.mark.parametrize("case", list(matrix("quick")), ids=lambda case: case.setting.name)
def test_quick(case: Case) -> None:
    check(case)


@pytest.mark.full
@pytest.mark.parametrize("case", list(matrix("full")), ids=lambda case: case.setting.name)
def test_full(case: Case) -> None:
    check(case)


def test_quick_is_wide_enough() -> None:
    cases = [c for case in matrix("quick") for c in case.collectives]
    assert len(cases) >= 24
    assert {c.operation for c in cases} == {
        Operation.ALL_REDUCE,
        Operation.REDUCE_SCATTER,
        Operation.ALL_GATHER,
    }
    assert {c.data_type for c in cases} == {"fp16", "int32"}
    assert min(c.elements for c in cases) == 1
    assert {case.setting.schedule.scheduler for case in matrix("quick")} == {"baseline", "themis"}
    assert any(case.setting.stalls for case in matrix("quick"))


def test_an_unknown_matrix_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^the matrix must be 'quick' or 'full', not 'half'$"):
        list(matrix("half"))


def issued() -> Issued:
    where = next(matrix("quick")).setting.platform
    request = Collective(Operation.ALL_REDUCE, 37, dims=(0, 1))
    plan = plan_collective(request, where, chunks=1)
    return Issued(plan, Region(0, 5), Region(5, 5), {0: 0}, {0: 10})


def images(one: Issued) -> list[np.ndarray]:
    out = []
    for right in expected_results(one.plan, seed=3, number=0):
        image = np.zeros(5 * 16, dtype=np.uint8)
        image[: right.nbytes] = right.view(np.uint8)
        out.append(image)
    return out


def test_right_data_passes() -> None:
    one = issued()
    assert first_difference(one, images(one), seed=3, number=0) is None


@pytest.mark.parametrize("byte", [0, 73, 74, 79])
def test_one_wrong_bit_is_found_and_named(byte: int) -> None:
    """Within the payload, and behind its end, where nothing may be written."""
    one = issued()
    results = images(one)
    results[11][byte] ^= 1
    found = first_difference(one, results, seed=3, number=0)
    assert found is not None
    assert re.match(rf"^rank 11, element {byte // 2} of 37: 0x.{{4}} in memory, 0x.{{4}} ", found)


def test_expected_data_is_that_of_another_order_in_integers() -> None:
    """INT32 sums do not depend on the order: NumPy's own sum is an independent reference."""
    where = next(matrix("quick")).setting.platform
    request = Collective(Operation.ALL_REDUCE, 100, "int32", dims=(0, 1))
    plan = plan_collective(request, where, chunks=3)
    sources = [payload(request, seed=3, number=5, rank=rank) for rank in range(16)]
    total = np.sum(sources, axis=0, dtype=np.int32)
    for result in expected_results(plan, seed=3, number=5):
        np.testing.assert_array_equal(result, total)


def test_payloads_differ_and_have_no_nan() -> None:
    request = Collective(Operation.ALL_REDUCE, 1000, dims=(0,))
    one = payload(request, seed=1, number=0, rank=0)
    assert one.dtype == np.float16
    assert np.isfinite(one).all()
    assert len(np.unique(one)) > 500
    for other in ({"seed": 2}, {"number": 1}, {"rank": 1}):
        keys = {"seed": 1, "number": 0, "rank": 0, **other}
        assert (payload(request, **keys) != one).any()
    with pytest.raises(ValueError, match="data_type must be fp16 or int32 on this platform"):
        payload(replace(request, data_type="bf16"), seed=1, number=0, rank=0)


COUNTERS = RankCounters(10, 20, 30, (DimCounters(1, 2, 3, 4), DimCounters(5, 6, 7, 8)))


def test_every_counter_is_compared() -> None:
    assert counter_differences([COUNTERS], [COUNTERS]) == []
    changed = [
        replace(COUNTERS, memory_read_bytes=11),
        replace(COUNTERS, memory_written_bytes=11),
        replace(COUNTERS, descriptor_bytes=11),
        *(
            replace(COUNTERS, dims=(COUNTERS.dims[0], replace(COUNTERS.dims[1], **{name: 11})))
            for name in ("flits_sent", "flits_received", "headers_sent", "reductions")
        ),
    ]
    for other in changed:
        assert len(counter_differences([COUNTERS, COUNTERS], [COUNTERS, other])) == 1
    assert counter_differences([COUNTERS], [changed[0]]) == [
        "rank 0: memory_read_bytes is 10 on the RTL and 11 on the TLM"
    ]


def test_readings_of_counters_subtract() -> None:
    twice = RankCounters(20, 40, 60, (DimCounters(2, 4, 6, 8), DimCounters(10, 12, 14, 16)))
    assert difference([twice], [COUNTERS]) == [COUNTERS]
    assert difference([twice], None) == [twice]


def test_memory_is_given_out_once() -> None:
    memory = MemoryMap(10)
    assert [memory.take(4, "a").first, memory.take(6, "b").first] == [0, 4]
    with pytest.raises(
        InputError,
        match=r"^c needs 1 flits on top of 10, and the memory inside the simulation has 10: "
        r"raise memory.words, or lower the payload scale$",
    ):
        memory.take(1, "c")
