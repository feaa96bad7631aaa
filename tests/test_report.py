"""Reports: keys and units of JSON, what tables say, and that pictures are reproducible."""

from __future__ import annotations

import io
import json
from fractions import Fraction

import pytest
from rich.console import Console

from sw_model.collective.plan import Collective, Operation
from sw_model.report import json_report, tables
from sw_model.report.timeline import draw_timeline
from sw_model.results import (
    CollectiveResult,
    CosimResult,
    Crosscheck,
    CrosscheckCase,
    DimBar,
    DimResult,
    Interval,
    LayerResult,
    RankResult,
    RunResult,
    TrainingResult,
    to_ns,
)
from sw_model.schedule.joint_bound import NO_BOUND, JointBound
from sw_model.topology import Dim, DimKind, Topology
from sw_model.workload import resnet50
from sw_model.workload.layers import Pass


def run(label: str = "themis") -> RunResult:
    """Two ranks, 1000 cycles of 0.8 ns."""
    collective = Collective(Operation.ALL_REDUCE, 4000, dims=(0,), name="a weight gradient")
    part = Pass.WEIGHT_GRADIENT
    training = TrainingResult(
        total=1000,
        iterations=(400, 600),
        layers=(LayerResult("a", 700, 300, 250, 50, 8000), LayerResult("b", 0, 0, 0, 0, 0)),
        ranks=(RankResult(0, 900, 650, 200, 50), RankResult(3, 1000, 700, 250, 50)),
        collectives=(CollectiveResult(0, collective, 0, 0, part, 1, 2, 300, 302),),
        intervals=(
            Interval("compute", 3, 0, 0, Pass.FORWARD, 0, 700),
            Interval("exposed", 3, 0, 0, part, 700, 950),
            Interval("update", 3, 0, 0, part, 950, 1000),
            Interval("communication", 3, 0, 0, part, 650, 950),
            Interval("compute", 0, 0, 0, Pass.FORWARD, 0, 650),
        ),
    )
    dims = (
        DimResult("dim 1", "Ring", 4, Fraction(20 * 10**9), 800, 8000),
        DimResult("dim 2", "Fred", 4, Fraction(15 * 10**9), 0, 0),
    )
    bound = JointBound(Fraction(6, 10**7), (1, 0))
    return RunResult(
        label,
        training,
        dims,
        16,
        1_250_000_000,
        (DimBar(0, 100, 900),),
        bound=bound,
        layer_bounds=(JointBound(Fraction(1, 10**7), (0,)), NO_BOUND),
    )


def crosscheck(*cycles: int, data_ok: bool = True, mean: float = 0.06) -> Crosscheck:
    return Crosscheck(
        tuple(
            CrosscheckCase(f"case {index}", data_ok, True, 1000, tlm, ("port 3 of rank 2 differs",))
            for index, tlm in enumerate(cycles)
        ),
        bound=0.05,
        mean_bound=mean,
    )


def text(*things: object) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=120)
    for thing in things:
        console.print(thing)
    return stream.getvalue()


def test_run_json() -> None:
    report = json_report.run_json(run())
    assert report["total_ns"] == 800.0
    assert report["iterations_ns"] == [320.0, 480.0]
    assert report["compute_ns"] == 560.0
    assert report["exposed_comm_ns"] == 200.0
    assert report["update_wait_ns"] == 40.0
    assert report["latest_rank"] == 3
    assert report["ranks"]["compute_ns"] == {"min": 520.0, "mean": 540.0, "max": 560.0}
    assert report["ranks_simulated"] == 2
    assert report["npus"] == 16
    assert report["dims"][0] == {
        "name": "dim 1",
        "kind": "Ring",
        "size": 4,
        "gb_per_s": 20.0,
        "busy_ns": 640.0,
        "utilisation": 0.5,
        "bytes_per_npu": 8000,
    }
    assert report["layers"][0] == {
        "name": "a",
        "compute_ns": 560.0,
        "comm_ns": 240.0,
        "exposed_ns": 200.0,
        "update_wait_ns": 40.0,
        "bytes": 8000,
        "bound_ns": 100.0,
    }
    assert (report["bound_ns"], report["bound_dims"]) == (600.0, ["dim 2", "dim 1"])
    assert report["layers"][1]["bound_ns"] == 0.0
    assert report["endpoint"] == "platform"
    assert report["interrupted_packets"] is report["overtaken_packets"] is None
    json.dumps(report, allow_nan=False)


def test_crosscheck_json() -> None:
    report = json_report.crosscheck_json(crosscheck(990, 1020))
    assert report["ok"] is True
    assert report["max_error"] == pytest.approx(0.02)
    assert report["mean_error"] == pytest.approx(0.015)
    assert (report["cases_beside"], report["cases_by_packet"]) == (0, 0)
    assert report["cases"][0]["error"] == pytest.approx(-0.01)
    assert set(report["cases"][0]) == {
        "name", "data_ok", "counters_ok", "rtl_cycles", "tlm_cycles", "error", "bank_collisions",
        "packet_cycles", "one_chunk", "uncontended", "notes",
    }  # fmt: skip
    assert report["stalled"] == []


def test_durations_under_random_stalls_are_not_compared() -> None:
    """Data and counters are; the case counts in no error, and is listed apart."""
    stalled = CrosscheckCase("slow", True, True, 1500, 1000, timed=False, bank_collisions=7)
    near = CrosscheckCase("near", True, True, 1000, 1005)
    check = Crosscheck((near, stalled))
    assert check.ok
    assert check.max_error == pytest.approx(0.005)
    assert check.mean_error == pytest.approx(0.005)
    report = json_report.crosscheck_json(check)
    assert [case["name"] for case in report["cases"]] == ["near"]
    assert report["stalled"] == [
        {
            "name": "slow",
            "data_ok": True,
            "counters_ok": True,
            "rtl_cycles": 1500,
            "tlm_cycles": 1000,
            "bank_collisions": 7,
            "packet_cycles": 0,
            "one_chunk": False,
            "uncontended": False,
            "notes": [],
        }
    ]
    wrong = CrosscheckCase("slow", True, False, 1500, 1000, timed=False)
    assert not Crosscheck((near, wrong)).ok


@pytest.mark.parametrize(("cycles", "ok"), [(1257, True), (1258, False), (743, True), (742, False)])
def test_beside_other_classes_a_case_may_be_off_by_a_packet(cycles: int, ok: bool) -> None:
    near = CrosscheckCase("near", True, True, 100_000, 100_000)
    beside = CrosscheckCase("beside", True, True, 1000, cycles, packet_cycles=257)
    check = Crosscheck((near, beside), mean_bound=1.0)
    assert check.passes(beside) is ok
    assert check.ok is ok


@pytest.mark.parametrize(("cycles", "needed"), [(1030, 0), (970, 0), (1031, 1), (969, 1)])
def test_cases_that_only_a_packet_excuses_are_counted(cycles: int, needed: int) -> None:
    near = CrosscheckCase("near", True, True, 1000, 1030)
    beside = CrosscheckCase("beside", True, True, 1000, cycles, packet_cycles=257)
    check = Crosscheck((near, beside), mean_bound=1.0)
    report = json_report.crosscheck_json(check)
    assert (report["cases_beside"], report["cases_by_packet"]) == (1, needed)
    assert f"1 beside other classes, {needed} of them within a packet only" in text(
        tables.crosscheck_table(check)
    )


@pytest.mark.parametrize(
    ("check", "ok"),
    [
        (crosscheck(1050), True),
        (crosscheck(1051), False),
        (crosscheck(949), False),
        (crosscheck(1000, data_ok=False), False),
        (crosscheck(1019, 1000, mean=0.01), True),
        (crosscheck(1022, 1000, mean=0.01), False),
        (Crosscheck((CrosscheckCase("c", True, True, 100, 108),), 0.03, 8, 1), True),
        (Crosscheck((CrosscheckCase("c", True, True, 100, 91),), 0.03, 8, 1), False),
        (Crosscheck((CrosscheckCase("c", True, True, 1000, 1030),), 0.03, 8, 1), True),
        (Crosscheck((CrosscheckCase("c", True, True, 1000, 969),), 0.03, 8, 1), False),
        (Crosscheck((CrosscheckCase("c", True, False, 1, 1),), 0.05), False),
        (Crosscheck((), 0.05), False),
    ],
)
def test_when_a_crosscheck_passes(check, ok) -> None:
    assert check.ok is ok


def test_error_of_nothing() -> None:
    assert CrosscheckCase("c", True, True, 0, 0).error == 0.0
    assert CrosscheckCase("c", True, True, 0, 5).error == float("inf")
    assert Crosscheck((), 0.05).max_error == 0.0
    assert Crosscheck((), 0.05).mean_error == 0.0


def test_crosscheck_json_without_rtl_cycles() -> None:
    check = Crosscheck((CrosscheckCase("c", True, True, 0, 5),), 0.05)
    assert not check.ok
    report = json_report.crosscheck_json(check)
    assert report["cases"][0]["error"] is None
    json.dumps(report, allow_nan=False)


def test_cosim_json() -> None:
    result = CosimResult(
        full_size=(run("baseline"), run("themis")),
        scale=Fraction(1, 64),
        tlm=(run("baseline, TLM"), run("themis, TLM")),
        rtl=(run("baseline, RTL"), run("themis, RTL")),
        crosscheck=crosscheck(1000),
        cycles_simulated=600,
        seconds=1.5,
    )
    report = json_report.cosim_json(result)
    assert report["rtl_cycles"] == 1000
    assert report["rtl_cycles_simulated"] == 600
    assert report["scale"] == "1/64"
    assert list(report["full_size"]) == ["baseline", "themis"]
    assert report["crosscheck"]["ok"] is True
    assert report["total_ns"] == 800.0
    assert report["tlm"]["themis, TLM"]["total_ns"] == 800.0
    assert list(report["rtl"]) == ["baseline, RTL", "themis, RTL"]


def test_to_ns_is_exact_to_a_picosecond() -> None:
    assert to_ns(1, 1_250_000_000) == 0.8
    assert to_ns(1, 3_000_000_000) == 0.333


def test_tables() -> None:
    topology = Topology((Dim(DimKind.RING, 4, Fraction(20 * 10**9), 16_000),))
    said = text(
        tables.workload_table(resnet50.generate(), data_type="fp16", iterations=2),
        tables.network_table(topology),
        tables.runs_table("Time", [run("baseline"), run("themis")]),
        tables.utilisation_table("Dims", [run("baseline"), run("themis")]),
        tables.layers_table("Layers", run(), rows=1),
        tables.crosscheck_table(crosscheck(1000, 2000)),
    )
    for part in (
        "51.11 MB of fp16 per NPU",
        "3.24 ms",
        "20 GB/s",
        "16 ns",
        "exposed communication",
        "collectives take at least",
        "0.6 (dim 2, dim 1)",
        "50.0%",
        "dim 1, Ring 4: utilisation",
        "sent per NPU",
        "8 kB",
        "+100.00%",
        "port 3 of rank 2 differs",
        "2 cases, error at most 100.00%, 50.00% in the mean: FAILED",
    ):
        assert part in said


def test_a_long_crosscheck_shows_what_fails_and_the_worst() -> None:
    cases = [CrosscheckCase(f"c{i}", True, True, 1000, 1000 + i) for i in range(20)]
    cases[0] = CrosscheckCase("wrong", False, True, 1000, 1000)
    said = text(tables.crosscheck_table(Crosscheck(tuple(cases), 0.05), rows=3))
    assert "wrong" in said
    assert "c19" in said
    assert "c5 " not in said
    assert "and 17 more, all within" in said


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_timeline_is_reproducible(tmp_path, suffix) -> None:
    paths = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for path in paths:
        draw_timeline([run("baseline"), run("themis")], path)
    first, second = (path.read_bytes() for path in paths)
    assert first == second
    assert len(first) > 5000


def test_timeline_says_what_it_shows(tmp_path) -> None:
    import matplotlib

    path = tmp_path / "t.svg"
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        draw_timeline([run()], path)
    drawn = path.read_text()
    for part in ("themis: 1 us", "dim 1, Ring 4: 50%", "rank 3", "exposed communication"):
        assert part in drawn
