"""The main job: a training workload with the RTL in the loop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sim_top.cli import main
from sim_top.cosim import run as cosim_run
from sim_top.cosim.outcome import Job, SingleCollectives, save
from sim_top.cosim.run import run_job
from sim_top.crosscheck import matrix
from sim_top.platform.build import platform_model
from sim_top.simulator.run import SimulationError
from sw_model.collective.plan import Collective, Operation
from sw_model.errors import DeadlockError, InputError
from sw_model.experiment import read_experiment
from sw_model.schedule.options import ScheduleOptions

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "resnet50.yaml"


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, dict, Path]:
    folder = tmp_path_factory.mktemp("cosim")
    target = folder / "result.json"
    status = main(
        ["cosim", str(EXAMPLE), "--scale", "1/1024", "--json", str(target),
         "--output", str(folder / "out")]
    )  # fmt: skip
    return status, json.loads(target.read_text()), folder / "out"


def test_the_main_job_passes(result: tuple[int, dict, Path]) -> None:
    status, found, _ = result
    assert status == 0
    crosscheck = found["crosscheck"]
    assert crosscheck["ok"]
    assert crosscheck["max_error"] <= 0.03
    # Baseline and Themis: two iterations of 54 layers and the whole run each.
    assert len(crosscheck["cases"]) == 2 * (2 * 54 + 1)
    for case in crosscheck["cases"]:
        assert case["data_ok"], case
        assert case["counters_ok"], case


def test_the_json_has_the_promised_keys(result: tuple[int, dict, Path]) -> None:
    _, found, _ = result
    assert found["npus"] == found["ranks_simulated"] == 16
    assert len(found["iterations_ns"]) == 2
    assert found["total_ns"] == pytest.approx(sum(found["iterations_ns"]), abs=1)
    assert found["total_ns"] == pytest.approx(
        found["compute_ns"] + found["exposed_comm_ns"] + found["update_wait_ns"], abs=1
    )
    assert [dim["kind"] for dim in found["dims"]] == ["Ring", "Fred"]
    for dim in found["dims"]:
        assert 0 < dim["utilisation"] <= 1
        assert dim["busy_ns"] > 0
    check_busy(found)
    assert len(found["layers"]) == 54
    assert found["rtl_cycles"] >= found["rtl_cycles_simulated"] > 0


def test_idle_cycles_are_skipped(result: tuple[int, dict, Path]) -> None:
    """The forward pass of the first iteration has nothing outstanding."""
    _, found, _ = result
    skipped = found["rtl_cycles"] - found["rtl_cycles_simulated"]
    assert skipped > found["rtl_cycles"] / 20


def test_pictures_are_left(result: tuple[int, dict, Path]) -> None:
    _, _, out = result
    names = sorted(path.name for path in out.iterdir())
    assert names == [
        "resnet50.json", "resnet50_full.png", "resnet50_full.svg", "resnet50_rtl.png",
        "resnet50_rtl.svg",
    ]  # fmt: skip
    assert (out / "resnet50_rtl.png").read_bytes().startswith(b"\x89PNG")


def run_example(name: str, folder: Path, *options: str) -> dict:
    """The cross-check that `antiphon cosim` finds on an example."""
    return run_whole_example(name, folder, *options)["crosscheck"]


def run_whole_example(name: str, folder: Path, *options: str) -> dict:
    """What `antiphon cosim` finds on an example; every case must pass."""
    target = folder / "result.json"
    command = ["cosim", str(ROOT / "examples" / name), "--json", str(target), *options]
    assert main(command) == 0
    found = json.loads(target.read_text())
    crosscheck = found["crosscheck"]
    assert crosscheck["ok"]
    for case in crosscheck["cases"]:
        assert case["data_ok"], case
        assert case["counters_ok"], case
    check_busy(found)
    return found


def check_busy(found: dict) -> None:
    """Of the busiest NPU, on both; the parts of a pipeline are not equally busy."""
    for level, other in zip(found["rtl"].values(), found["tlm"].values(), strict=True):
        for dim, model in zip(level["dims"], other["dims"], strict=True):
            assert model["busy_ns"] == pytest.approx(dim["busy_ns"], rel=0.02)


def test_a_recommendation_model_exchanges_and_reduces(tmp_path: Path) -> None:
    """DLRM: an all-to-all each way and eight all-reduces an iteration."""
    crosscheck = run_example("dlrm.yaml", tmp_path, "--scale", "1/128")
    names = [case["name"] for case in crosscheck["cases"]]
    assert len(names) == 2 * (2 * 10 + 1)
    assert sum("embedding" in name for name in names) == 2 * 2 * 2
    # Classes that share one lane do not interrupt each other, and nothing is allowed for it.
    assert not any(case["packet_cycles"] for case in crosscheck["cases"])


@pytest.mark.full
@pytest.mark.parametrize("example", ["wafer_stages.yaml", "wafer_3d.yaml"])
def test_a_transformer_with_three_kinds_of_parallelism_on_a_wafer(
    example: str, tmp_path: Path
) -> None:
    """Two stages, four microbatches: two all-reduces of eight layers and what is handed over, each
    four times, and eight gradients, in two iterations."""
    found = run_whole_example(example, tmp_path, "--interruptions")
    crosscheck = found["crosscheck"]
    names = [case["name"] for case in crosscheck["cases"]]
    assert len(names) == 2 * (4 * (2 * 8 + 2) + 8) + 1
    assert sum("activations" in name for name in names) == 2 * 4 * 2
    check_contention(found["rtl"]["baseline, RTL"], found["tlm"]["baseline, TLM"])
    # A packet that comes to a link or a switch at any time is within a cycle of one of another
    # class, of 257 cycles, in 3 of 257 cases; a collective has 16 of them (docs/tlm.md).
    assert crosscheck["cases_by_packet"] <= 16 * 3 / 257 * crosscheck["cases_beside"]


def check_contention(rtl: dict, tlm: dict) -> None:
    """Gradients are interrupted by both classes above them, on the RTL as in the model. No rank
    has tensor traffic while it sends to the next stage, for it computes a layer first, and that
    takes longer; but the switch lets tensor traffic of the other stage go first."""
    for run in (rtl, tlm):
        assert run["interrupted_packets"]["dp"]["mp"] > 0
        assert run["interrupted_packets"]["dp"]["pp"] > 0
        assert run["interrupted_packets"]["pp"]["mp"] == 0
    assert tlm["overtaken_packets"]["pp"]["mp"] > 0
    assert tlm["overtaken_packets"]["dp"]["mp"] > 0


def test_nothing_is_interrupted_where_classes_share_links(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["cosim", str(EXAMPLE), "--interruptions"]) == 2
    message = capsys.readouterr().err.strip()
    assert message == (
        f"antiphon: {EXAMPLE}: --interruptions must be left out: packets interrupt each other on a "
        "tree of FRED switches (network.dims[0].tree) with engine.classes"
    )


def test_a_payload_over_the_memory_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cosim", str(EXAMPLE), "--scale", "1"]) == 2
    message = capsys.readouterr().err.strip()
    assert message.startswith("antiphon: ")
    assert message.endswith("raise memory.words, or lower the payload scale")
    assert "\n" not in message


def test_a_rank_that_is_never_told_is_named() -> None:
    """One of 16 ranks does not enter: the watchdog says who waits for what, and who is missing."""
    experiment = read_experiment(EXAMPLE)
    where = experiment.platform()
    request = Collective(Operation.ALL_REDUCE, 64, dims=(0, 1))
    job = Job(
        platform=where,
        schedule=experiment.schedule,
        work=SingleCollectives((request,), absent=(5,)),
        watchdog=2000,
    )
    with pytest.raises(DeadlockError) as caught:
        run_job(platform_model(where), job)
    message = str(caught.value)
    assert "nothing moved for 2000 cycles" in message
    lines = message.splitlines()
    grant = "waits for the grant of the receiver of its next message"
    assert [line for line in lines if line.endswith(grant)] == [
        f"rank 4, dim 1: op 0 of collective 0, 0 messages sent and 2 received, {grant}"
    ]
    assert lines[-1] == "collective 0 has not been entered by ranks [5]"


def test_what_ended_a_job_is_told_even_where_the_simulator_crashed_over_it(monkeypatch) -> None:
    """A simulator that is ended before its first cycle may crash."""
    platform = next(matrix("quick")).setting.platform
    job = Job(platform=platform, schedule=ScheduleOptions(), work=SingleCollectives(()))
    ended: list[InputError] = [InputError("the plan must fit")]

    def crash(model, *, parameters, **settings):
        if ended:
            save(ended.pop(), Path(parameters["job"]).with_suffix(".outcome"))
        raise SimulationError("the simulator ended with status -11")

    monkeypatch.setattr(cosim_run, "run_cocotb", crash)
    with pytest.raises(InputError, match=r"^the plan must fit$"):
        run_job(None, job)
    with pytest.raises(SimulationError, match=r"status -11$"):
        run_job(None, job)
