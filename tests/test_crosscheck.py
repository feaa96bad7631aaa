"""The TLM against the RTL: data, counters and cycles of every case of the matrix."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product

import ml_dtypes
import numpy as np
import pytest

from sim_top import cli
from sim_top.cosim.memory_map import MemoryMap, Region, payload
from sim_top.cosim.outcome import Issued, Job, SingleCollectives
from sim_top.cosim.verify import (
    beside_others,
    counter_differences,
    expected_results,
    first_difference,
)
from sim_top.crosscheck import ONE_CHUNK, Case, matrix
from sim_top.crosscheck.page import draw, explanation, page
from sim_top.crosscheck.run import check_case
from sw_model.collective.numerics import ELEMENT_TYPES
from sw_model.collective.plan import Collective, Operation
from sw_model.endpoint.counters import DimCounters, RankCounters, difference
from sw_model.errors import InputError
from sw_model.results import Crosscheck, CrosscheckCase
from sw_model.schedule.options import ScheduleOptions
from sw_model.schedule.planner import plan_collective

SCHEDULERS = {"baseline", "themis", "balanced"}
ARITHMETIC = set(product(ELEMENT_TYPES, ("sum", "max", "min")))


def check(case: Case) -> None:
    result = Crosscheck(cases=tuple(check_case(case)))
    failing = [
        f"{c.name}: data {c.data_ok}, counters {c.counters_ok}, {c.rtl_cycles} cycles on the RTL, "
        f"{c.tlm_cycles} on the TLM; {c.notes}"
        for c in result.cases
        if not result.passes(c)
    ]
    assert not failing, "\n".join(failing)
    assert result.ok, f"a mean error of {result.mean_error:.2%}"
    assert len(result.cases) == len(case.collectives)
    if case.setting.name.endswith(ONE_CHUNK):  # the rule of `Crosscheck` has something to hold
        uncontended = [c for c in result.cases if c.uncontended]
        assert 4 * len(uncontended) >= len(result.cases)
        assert all(c.tlm_cycles == c.rtl_cycles for c in uncontended)


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
        Operation.ALL_TO_ALL,
        Operation.SEND,
    }
    assert {(c.data_type, c.operator) for c in cases} == ARITHMETIC
    assert min(c.elements for c in cases) == 1
    assert len({case.setting.platform for case in matrix("quick")}) == 2
    assert {case.setting.schedule.scheduler for case in matrix("quick")} == SCHEDULERS
    stalled = [c for case in matrix("quick") if case.setting.stalls for c in case.collectives]
    assert {c.operation for c in stalled} == {c.operation for c in cases}
    assert max(c.elements for c in stalled) > 4000


def test_memories_refuse_on_every_platform() -> None:
    """Every operation on as large a platform and payload as without, under two schedules."""
    settings = [case for case in matrix("full") if not case.setting.name.endswith("large")]
    stalled = [case for case in settings if case.setting.stalls]
    platforms = {
        c.setting.platform for c in settings if len(c.setting.platform.engine.operators) == 1
    }
    assert {case.setting.platform for case in stalled} >= platforms
    assert {c.setting.schedule.scheduler for c in stalled} == SCHEDULERS
    for dims in {case.setting.platform.topology.dims for case in stalled}:
        kinds = {
            c.operation
            for case in stalled
            for c in case.collectives
            if case.setting.platform.topology.dims == dims
        }
        assert len(kinds) >= (5 if dims[0].tree is None else 2)
    assert max(c.elements for case in stalled for c in case.collectives) > 40_000


def test_full_is_wide_enough() -> None:
    """At least 400 timed cases; every choice of a schedule, four dims' worth of platforms, one
    element to 4 MiB, groups that span a part of the dims."""
    cases = [case for case in matrix("full") if not case.setting.stalls]
    collectives = [c for case in cases for c in case.collectives]
    assert len(collectives) >= 400
    names = [case.setting.name for case in matrix("full")]
    assert len(set(names)) == len(names)
    assert all(case.setting.name in names for case in matrix("quick"))
    schedules = {case.setting.schedule for case in cases}
    assert {s.scheduler for s in schedules} == SCHEDULERS
    assert {s.intra for s in schedules} == {"fifo", "scf"}
    assert min(s.chunks for s in schedules) == 1
    assert min(c.elements for c in collectives) == 1
    assert max(c.elements * c.element_bytes for c in collectives) == 4 << 20
    assert {len(c.dims) for c in collectives} == {0, 1, 2, 3}
    assert {len(c.groups) for c in collectives} == {0, 1, 2}
    assert {c.operation for c in collectives} == {
        Operation.ALL_REDUCE,
        Operation.REDUCE_SCATTER,
        Operation.ALL_GATHER,
        Operation.ALL_TO_ALL,
        Operation.SEND,
    }
    assert {(c.data_type, c.operator) for c in collectives} == ARITHMETIC
    assert any(
        len(c.dims) < len(case.setting.platform.topology.dims)
        for case in cases
        for c in case.collectives
    )


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


def test_who_ran_beside_another_class() -> None:
    """At the same time on one rank, be it for a cycle; its own class does not count."""
    mp, dp = range(2)
    found = beside_others(
        [
            (mp, {0: 5, 1: 0}, {0: 90, 1: 100}),
            (dp, {0: 99, 1: 120}, {0: 200, 1: 180}),
            (mp, {0: 200, 1: 210}, {0: 300, 1: 310}),  # begins when dp has ended
            (mp, {0: 205, 1: 175}, {0: 400, 1: 400}),  # on rank 1, until 180
        ]
    )
    assert found == [False, True, False, True]
    assert beside_others([]) == []


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


def test_payloads_differ_and_few_values_are_extreme() -> None:
    """Sums of 16 ranks round and cancel, and some elements meet what is special: infinities of
    both signs, NaNs, subnormals."""
    request = Collective(Operation.ALL_REDUCE, 1000, dims=(0,))
    one = payload(request, seed=1, number=0, rank=0)
    assert one.dtype == np.float16
    assert len(np.unique(one.view(np.uint16))) > 500
    many = payload(replace(request, elements=1 << 20), seed=1, number=0, rank=0)
    size = np.abs(many.astype(np.float64))
    near_one = (size >= 2**-9) & (size < 2**3)
    odd = (20 / 32 + 1) / 128  # of any bits 20 of 32 exponents, and all special ones
    assert np.mean(~near_one) == pytest.approx(odd, rel=0.05)
    assert set(many[np.isinf(many)].tolist()) == {np.inf, -np.inf}
    assert np.isnan(many).any()
    assert ((size > 0) & (size < 2**-14)).any()
    for other in ({"seed": 2}, {"number": 1}, {"rank": 1}):
        keys = {"seed": 1, "number": 0, "rank": 0, **other}
        assert (payload(request, **keys).view(np.uint16) != one.view(np.uint16)).any()


@pytest.mark.parametrize("data_type", ["bf16", "fp32"])
def test_payloads_of_other_types(data_type: str) -> None:
    request = Collective(Operation.ALL_REDUCE, 1 << 18, data_type, dims=(0,))
    values = payload(request, seed=1, number=0, rank=0)
    kind = ELEMENT_TYPES[data_type]
    assert values.dtype == kind.storage
    with np.errstate(invalid="ignore"):
        size = np.abs(values.astype(np.float64))
    near_one = (size >= 2**-9) & (size < 2**3)
    odd = (1 - 12 / 256 + 1) / 128  # of any bits those of other exponents, and all special ones
    assert np.mean(~near_one) == pytest.approx(odd, rel=0.05)
    found = set(values.view(kind.bits).tolist())
    info = ml_dtypes.finfo(kind.storage)
    special = [0.0, -0.0, info.smallest_subnormal, info.smallest_normal, info.max, np.inf, -np.inf]
    assert {int(np.array(v, kind.storage).view(kind.bits)) for v in special} <= found
    assert np.isnan(size).any()


def test_what_the_reduction_units_cannot_do_is_refused() -> None:
    platform = next(matrix("quick")).setting.platform
    schedule = ScheduleOptions()
    request = Collective(Operation.ALL_REDUCE, 8, "bf16", dims=(0,), name="gradients")
    with pytest.raises(InputError) as caught:
        Job(platform=platform, schedule=schedule, work=SingleCollectives((request,)))
    assert str(caught.value) == (
        "engine.data_types must have 'bf16', which gradients needs, not fp16, int32 alone"
    )
    largest = replace(request, data_type="fp16", operator="max", name="")
    with pytest.raises(InputError) as caught:
        Job(platform=platform, schedule=schedule, work=SingleCollectives((largest,)))
    assert str(caught.value) == (
        "engine.operators must have 'max', which all-reduce needs, not sum alone"
    )


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


def found(*cycles: tuple[int, int], wrong: str = "") -> Crosscheck:
    cases = [
        CrosscheckCase(f"ring 4, {'ab'[n % 2]}: {n} one", True, True, rtl, tlm)
        for n, (rtl, tlm) in enumerate(cycles)
    ]
    if wrong:
        cases.append(CrosscheckCase("ring 4, a: 9 bad", False, True, 100, 100, (wrong,)))
    cases.append(CrosscheckCase("stalls: 0 x", True, True, 500, 100, timed=False))
    return Crosscheck(tuple(cases))


def test_page() -> None:
    text = page(
        found((1000, 1000), (1000, 1010), (500, 495)), "images/v.png", command="antiphon crosscheck"
    )
    for line in (
        "| timed | 3 | all | all | 1 | 0.67% | 1.00% | passed |",
        "| memories refuse at random | 1 | all | all | | | | |",
        "| of these, no bank has refused | 0 | all | all | 0 | 0.00% | 0.00% | |",
        "| ring 4, a | 2 | 1 | 0 | 0 | 0.50% | 1.00% | 500 to 1,000 |",
        "| ring 4, b | 1 | 0 | 0 | 0 | 1.00% | 1.00% | 1,000 to 1,000 |",
        "| ring 4, b: 1 one | 1,000 | 1,010 | +10 | +1.00% | not known |",
        "| ring 4, a: 2 one | 500 | 495 | -5 | -1.00% | not known |",
        "![cycles of the TLM against those of the RTL, and the error](images/v.png)",
    ):
        assert line in text.splitlines()
    assert "Made by `antiphon crosscheck`" in text
    assert "What fails" not in text


@pytest.mark.parametrize(
    ("cycles", "collisions", "text"),
    [
        (1000, 5, "equal"),
        (990, 1200, "banks refused 1,200 requests"),
        (990, 10, "banks refused 10 requests"),
        (990, 9, "banks refused 9 requests, and messages went in another order"),
        (1010, 5, "banks refused 5 requests, and messages went in another order"),
        (991, 0, "no bank refused a request"),
        (991, None, "not known"),
    ],
)
def test_explanations(cycles: int, collisions: int | None, text: str) -> None:
    case = CrosscheckCase("one", True, True, 1000, cycles, bank_collisions=collisions)
    assert explanation(case) == text


def test_where_no_bank_has_refused_cycles_must_be_equal() -> None:
    """One cycle is too much for a collective of one chunk, on the page and for the verdict; unless
    that is not known, or memories refuse at random."""
    one = CrosscheckCase(
        "ring 4, a: 0 x", True, True, 1000, 1001, bank_collisions=0, one_chunk=True
    )
    assert not Crosscheck((one,)).ok
    assert Crosscheck((replace(one, tlm_cycles=1000),)).ok
    assert Crosscheck((replace(one, bank_collisions=1),)).ok
    assert Crosscheck((replace(one, bank_collisions=None),)).ok
    assert Crosscheck((replace(one, timed=False),)).ok
    assert Crosscheck((replace(one, one_chunk=False),)).ok
    refused = CrosscheckCase("ring 4, b: 0 y", True, True, 1000, 1001, bank_collisions=2)
    text = page(Crosscheck((one, refused)), "v.png", command="antiphon")
    assert "| of these, no bank has refused | 1 | all | all | 0 | 0.10% | 0.10% | |" in text
    assert "| of these, one chunk | 1 | all | all | 0 | 0.10% | 0.10% | |" in text
    assert "0 of 1 are equal to the cycle, and none is off by more than 1." in text
    assert "| ring 4, a | 1 | 0 | 1 | 0 | 0.10% | 0.10% | 1,000 to 1,000 |" in text
    assert "* ring 4, a: 0 x: 1,000 cycles on the RTL, 1,001 on the TLM" in text


def test_page_of_a_failure() -> None:
    text = page(found((1000, 1100), wrong="rank 2 differs"), "v.png", command="antiphon")
    assert "**failed**" in text
    assert "2 of 2" not in text
    assert "* ring 4, a: 0 one: 1,000 cycles on the RTL, 1,100 on the TLM" in text
    assert (
        "* ring 4, a: 9 bad: the data are wrong; 100 cycles on the RTL, 100 on the TLM; "
        "rank 2 differs" in text
    )
    assert "| timed | 2 | 1 of 2 | all |" in text


def test_plot_is_reproducible(tmp_path) -> None:
    check = found((1000, 1000), (300, 299))
    for name in "ab":
        draw(check, tmp_path / f"{name}.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    draw(found(), tmp_path / "none.png")


def test_a_page_of_what_an_earlier_run_has_left(monkeypatch, tmp_path, capsys) -> None:
    """Nothing runs; page, plot, verdict and JSON are those of the run."""
    import sim_top.crosscheck

    monkeypatch.chdir(tmp_path)
    for name, cycles in (("good", (500, 500)), ("bad", (500, 600))):
        result = found((1000, 1000), cycles)
        first, *others = result.cases
        mixed = Crosscheck((replace(first, bank_collisions=0, one_chunk=True), *others))
        monkeypatch.setattr(
            sim_top.crosscheck, "run_crosscheck", lambda name, *, progress, mixed=mixed: mixed
        )
        status = cli.main(["crosscheck", "full", "--json", f"{name}.json", "--page", f"{name}.md"])
        assert status == (name == "bad")
        monkeypatch.setattr(sim_top.crosscheck, "run_crosscheck", None)
        again = ["crosscheck", "full", "--from", f"{name}.json", "--json", "repeated.json"]
        assert cli.main([*again, "--page", "repeated.md"]) == status
        for kind in ("md", "json"):
            text = (tmp_path / f"repeated.{kind}").read_text()
            assert text.replace("repeated", name) == (tmp_path / f"{name}.{kind}").read_text()
    (tmp_path / "list.json").write_text("[]")
    capsys.readouterr()
    for text, message in (
        ("absent.json", "--from must be a file that can be read: No such file or directory"),
        ("list.json", "--from must be what antiphon crosscheck --json writes: "),
        ("good.md", "--from must be what antiphon crosscheck --json writes: "),
    ):
        assert cli.main(["crosscheck", "--from", text]) == 2
        assert message in capsys.readouterr().err


def test_page_goes_where_it_can(monkeypatch, tmp_path, capsys) -> None:
    import sim_top.crosscheck

    monkeypatch.setattr(
        sim_top.crosscheck, "run_crosscheck", lambda name, *, progress: found((500, 500))
    )
    monkeypatch.chdir(tmp_path)
    assert cli.main(["crosscheck", "--page", "v.md"]) == 0
    assert (tmp_path / "images" / "v.png").stat().st_size > 1000
    assert "Made by `antiphon crosscheck quick --page v.md`" in (tmp_path / "v.md").read_text()
    capsys.readouterr()
    assert cli.main(["crosscheck", "--page", "v.txt"]) == 2
    assert "--page must end in .md, not 'v.txt'" in capsys.readouterr().err
    assert cli.main(["crosscheck", "--page", "absent/v.md"]) == 2
    assert "--page must name a file in an existing folder, not absent" in capsys.readouterr().err
