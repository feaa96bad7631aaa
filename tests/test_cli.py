"""The commands: exit status, one message for bad input, JSON, help with an example."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import types
from dataclasses import dataclass
from pathlib import Path

import pytest

from sim_top import cli
from sim_top.cli import frame
from sw_model.errors import DeadlockError
from sw_model.results import Crosscheck, CrosscheckCase
from tests.test_report import crosscheck, run

ROOT = Path(__file__).parent.parent
TRACE = "DATA\n1\nconv1\t-1\t10\tNONE\t0\t11\tNONE\t0\t12\tALLREDUCE\t64\t3\n"
EXPERIMENT = """\
workload:
  file: w.txt
  ranks: 4
network:
  dims:
    - {kind: Ring, size: 2, bandwidth_per_npu: 20 GB/s, latency: 8 ns}
    - {kind: Fred, size: 2, bandwidth_per_npu: 15 GB/s, latency: 8 ns}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a good experiment and a good trace."""
    (tmp_path / "w.txt").write_text(TRACE)
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def antiphon(capsys):
    def antiphon(*arguments: str) -> tuple[int, str, str]:
        status = cli.main(arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return antiphon


def put(monkeypatch, module: str, **contents: object) -> None:
    """Put a module in place of what a command would run."""
    fake = types.ModuleType(module)
    fake.__dict__.update(contents)
    monkeypatch.setitem(sys.modules, module, fake)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        (
            "w.txt",
            "\t11\tNONE\t0",
            "\t11\tNONE",
            "w.txt:3: a layer of DATA must have 12 fields, not 11: "
            "field 9 (weight-gradient compute time) is 'ALLREDUCE'",
        ),
        (
            "w.txt",
            "64",
            "-64",
            "w.txt:3: field 11 (weight-gradient communication bytes) of layer 'conv1' "
            "must not be negative, not -64",
        ),
        (
            "w.txt",
            "ALLREDUCE",
            "ALREDUCE",
            "w.txt:3: field 10 (weight-gradient communication type) of layer 'conv1': "
            "unknown collective 'ALREDUCE' (did you mean 'ALLREDUCE'?)",
        ),
        (
            "w.txt",
            "64",
            "63",
            "w.txt:3: the weight gradient communication of layer 'conv1' must be a multiple of "
            "2 bytes, one fp16 element, not 63",
        ),
        (
            "e.yaml",
            "ranks: 4",
            "ranks: 8",
            "e.yaml:4: the sizes of the network must multiply to the 8 ranks of the workload, "
            "not 2 x 2 = 4",
        ),
        (
            "e.yaml",
            "network:",
            "schedul: {}\nnetwork:",
            "e.yaml:4:1: unknown key 'schedul' (did you mean 'schedule'?)",
        ),
    ],
)
@pytest.mark.parametrize("command", ["run", "cosim"])
def test_bad_input_is_one_message_and_status_2(
    folder, antiphon, command, file, old, new, message
) -> None:
    path = folder / file
    path.write_text(path.read_text().replace(old, new, 1))
    assert antiphon(command, "e.yaml") == (2, "", f"antiphon: {message}\n")


def test_bad_input_of_a_process(folder) -> None:
    path = folder / "w.txt"
    path.write_text(path.read_text().replace("ALLREDUCE\t64", "ALLREDUCE"))
    done = subprocess.run(
        [sys.executable, "-m", "sim_top.cli", "cosim", "e.yaml"],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "antiphon: w.txt:3: a layer of DATA must have 12 fields, not 11: "
        "field 12 (update time) is missing\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "unknown command 'nonsense' (known: "),
        (["rute"], "unknown command 'rute' (did you mean 'route'?)"),
        (["cosim"], "the following arguments are required: EXPERIMENT.yaml (see 'antiphon cosim"),
        (["run"], "an EXPERIMENT.yaml, or --workload and --network, must be given"),
        (["run", "no.yaml"], "no.yaml: cannot be read: No such file or directory"),
        (["run", "e.yaml", "--chunks", "0"], "argument --chunks: must be a whole number of at lea"),
        (["run", "e.yaml", "--chunk", "1"], "unrecognized arguments: --chunk 1"),
        (["run", "e.yaml", "--scheduler", "x"], "argument --scheduler: invalid choice: 'x'"),
        (["run", "e.yaml", "--json", "no/x.json"], "--json must name a file in an existing folde"),
        (["cosim", "e.yaml", "--scale", "2"], "argument --scale: must be above 0 and at most 1"),
        (["cosim", "e.yaml", "--scale", "x"], "argument --scale: 'x' is not a number"),
        (["crosscheck", "half"], "argument matrix: invalid choice: 'half'"),
        (["emit", "fred"], "the following arguments are required: --out"),
        (["emit", "fred", "--out", "o", "--set", "p"], "argument --set: must be KEY=VALUE, not '"),
        (
            ["emit", "fred", "--out", "o", "--set", "p=1", "--set", "p=2"],
            "--set must name every key once",
        ),
        (["route", "--ports", "4", "0,x"], "a flow must read 0,1,2 or 0,4>1,3, not '0,x'"),
        (["workload", "alexnet", "--out", "w"], "unknown model 'alexnet'"),
        (["workload", "resnet50", "--out", "w", "--batch", "0"], "batch must be at least 1, not 0"),
        (
            ["workload", "resnet50", "--out", "no/w.txt"],
            "--out must name a file in an existing fol",
        ),
    ],
)
def test_bad_arguments(folder, antiphon, arguments, message) -> None:
    status, out, err = antiphon(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith(f"antiphon: {message}")
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", frame.COMMANDS)
def test_help_has_an_example(command, capsys) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main([command, "--help"])
    assert caught.value.code == 0
    said = capsys.readouterr().out
    assert f"example:\n  antiphon {command} " in said
    assert "--json FILE" in said


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("run", "of the training loop (default: the file's, else 2); not for Chakra traces"),
        ("convert", "of a 1.0 text (default 1; antiphon run makes 2 of the text itself)"),
    ],
)
def test_help_tells_how_many_iterations_there_are(command, said, capsys) -> None:
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    assert said in " ".join(capsys.readouterr().out.split())


def test_usage(antiphon) -> None:
    status, out, _ = antiphon("--help")
    assert status == 0
    assert all(command in out for command in frame.COMMANDS)
    assert antiphon()[0] == 2
    assert antiphon("--version")[1].startswith("antiphon")


def test_commands_do_not_import_what_they_do_not_need() -> None:
    """A command is there at once: nothing heavy comes with the frame or the arguments."""
    heavy = ["amaranth", "cocotb", "matplotlib", "numpy", "rich"]
    code = (
        "import sys; from sim_top.cli import main; main(['run', 'nowhere.yaml']); "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_workload_writes_the_example(folder, antiphon) -> None:
    status, out, err = antiphon(
        "workload", "resnet50", "--compute", "operations", "--out", "r.txt", "--json", "-"
    )
    assert (status, err) == (0, "")
    report = json.loads(out)
    assert (report["parameters"], report["layers"], report["ranks"]) == (25_557_032, 54, 1)
    assert (folder / "r.txt").read_bytes() == (ROOT / "examples" / "resnet50.txt").read_bytes()
    assert sorted(path.name for path in folder.iterdir()) == ["e.yaml", "r.txt", "w.txt"]


def test_route(folder, antiphon) -> None:
    status, out, _ = antiphon("route", "--ports", "8", "--m", "3", "0,1,2", "3,4", "--json", "-")
    assert status == 0
    report = json.loads(out)
    assert {"routable", "configurations", "microswitches", "stages"} <= set(report)
    status, out, _ = antiphon("route", "--ports", "8", "0,1,2", "3,4", "--json", "r.json")
    assert "FRED_3(8)" in out
    assert json.loads((folder / "r.json").read_text()) == report


def test_run_reports_and_draws(folder, antiphon, monkeypatch) -> None:
    seen = []

    def simulate(experiment, workload, *, progress):
        progress(0.5)
        seen.append((experiment.schedule.scheduler, experiment.workload.iterations))
        return run()

    put(monkeypatch, "sw_model.simulation", simulate=simulate)
    status, out, _ = antiphon(
        "run", "e.yaml", "--scheduler", "baseline", "--iterations", "5",
        "--json", "r.json", "--timeline", "t.svg",
    )  # fmt: skip
    assert status == 0
    assert seen == [("baseline", 5)]
    assert "exposed communication" in out
    assert json.loads((folder / "r.json").read_text())["total_ns"] == 800.0
    assert (folder / "t.svg").stat().st_size > 5000


def test_run_without_an_experiment_file(folder, antiphon, monkeypatch) -> None:
    (folder / "n.yml").write_text(
        "topology: [Ring]\nnpus_count: [2]\nbandwidth: [1]\nlatency: [1]\n"
    )
    seen = []

    def simulate(experiment, workload, *, progress):
        seen.append(experiment)
        return run()

    put(monkeypatch, "sw_model.simulation", simulate=simulate)
    assert antiphon("run", "--workload", "w.txt", "--network", "n.yml")[0] == 0
    assert antiphon("run", "e.yaml", "--network", "n.yml", "--workload", "w.txt")[0] == 0
    assert [experiment.network.npus for experiment in seen] == [2, 2]


def test_a_network_file_that_the_tlm_cannot_be_is_named(folder, antiphon) -> None:
    (folder / "n.yml").write_text(
        "topology: [Switch]\nnpus_count: [4]\nbandwidth: [1]\nlatency: [1]\n"
    )
    assert antiphon("run", "e.yaml", "--network", "n.yml") == (
        2,
        "",
        "antiphon: n.yml: dim 1 must be a Ring, a FullyConnected or a Fred dim on this platform, "
        "not 'Switch'\n",
    )


def test_another_network_is_checked_against_the_ranks(folder, antiphon) -> None:
    (folder / "n.yml").write_text(
        "topology: [Ring]\nnpus_count: [2]\nbandwidth: [1]\nlatency: [1]\n"
    )
    assert antiphon("run", "e.yaml", "--network", "n.yml") == (
        2,
        "",
        "antiphon: n.yml: the sizes of the network must multiply to the 4 ranks of the workload, "
        "not 2 = 2\n",
    )


def test_run_a_text_without_header(folder, antiphon, monkeypatch) -> None:
    (folder / "w.txt").write_text(TRACE.split("\n", 2)[2])
    put(monkeypatch, "sw_model.simulation", simulate=lambda *_, **__: run())
    status, _, err = antiphon("run", "e.yaml")
    assert status == 2
    assert err.endswith("a file without header needs its mode given\n")
    assert antiphon("run", "e.yaml", "--mode", "DATA")[0] == 0


def test_standard_output_is_json_alone(folder, antiphon, monkeypatch) -> None:
    put(monkeypatch, "sw_model.simulation", simulate=lambda *_, **__: run())
    status, out, err = antiphon("run", "e.yaml", "--json", "-")
    assert (status, err) == (0, "")
    assert json.loads(out)["npus"] == 16


def test_a_run_that_cannot_go_on(folder, antiphon, monkeypatch) -> None:
    def simulate(*_, **__):
        raise DeadlockError("rank 3 waits for ever")

    put(monkeypatch, "sw_model.simulation", simulate=simulate)
    assert antiphon("run", "e.yaml", "--json", "r.json") == (
        1,
        "",
        "antiphon: rank 3 waits for ever\n",
    )
    assert not (folder / "r.json").exists()


@pytest.mark.parametrize(("cycles", "status"), [(1000, 0), (1100, 1)])
def test_crosscheck(folder, antiphon, monkeypatch, cycles, status) -> None:
    asked = []

    def run_crosscheck(matrix, *, progress) -> Crosscheck:
        asked.append(matrix)
        return crosscheck(cycles)

    put(monkeypatch, "sim_top.crosscheck", run_crosscheck=run_crosscheck)
    found, out, _ = antiphon("crosscheck", "full", "--json", "c.json")
    assert (found, asked) == (status, ["full"])
    assert ("FAILED" in out) is (status == 1)
    assert json.loads((folder / "c.json").read_text())["ok"] is (status == 0)


def test_bench(folder, antiphon, monkeypatch) -> None:
    @dataclass
    class Result:
        name: str
        value: float
        unit: str

    def run_benches(prefix, *, progress):
        results = [Result("fred.latency.p8m3", 12, "cycles")]
        return [result for result in results if result.name.startswith(prefix)]

    put(monkeypatch, "sim_top.bench", run_benches=run_benches, names=lambda: ("fred.latency.p8m3",))
    for _ in range(2):
        assert antiphon("bench", "--history", "h/b.jsonl", "--json", "b.json")[0] == 0
    lines = (folder / "h" / "b.jsonl").read_text().splitlines()
    assert len(lines) == 2
    results = [{"name": "fred.latency.p8m3", "value": 12, "unit": "cycles"}]
    assert json.loads(lines[1])["results"] == results
    assert json.loads((folder / "b.json").read_text()) == {"results": results}
    for prefix in ("ace.", ""):
        status, _, err = antiphon("bench", "--only", prefix, "--history", "new/b.jsonl")
        message = f"antiphon: --only must begin the name of a benchmark, not {prefix!r}\n"
        assert (status, err) == (2, message)
        assert not (folder / "new").exists()


def test_bench_out_of_bounds(folder, antiphon, monkeypatch) -> None:
    """Status 1, the figure by name, and nothing in the history."""
    from sim_top.bench.registry import BenchError

    def run_benches(prefix, *, progress):
        raise BenchError("ace.x must be at least 0.9700, not 0.5000")

    put(monkeypatch, "sim_top.bench", run_benches=run_benches, names=lambda: ("ace.x",))
    status, _, err = antiphon("bench", "--history", "h/b.jsonl")
    assert status == 1
    assert err.endswith("antiphon: ace.x must be at least 0.9700, not 0.5000\n")
    assert not (folder / "h" / "b.jsonl").exists()


def test_emit(folder, antiphon, monkeypatch) -> None:
    def emit(top, out, *, preset, settings, period_ps, progress):
        progress(0.5)
        assert (top, out, preset, settings) == ("fred", Path("o"), "paper", {"ports": "8"})
        assert period_ps == 800
        return [out / "fred.sv", out / "fred.core"]

    put(monkeypatch, "sim_top.emit", emit=emit)
    arguments = ("emit", "fred", "--out", "o", "--preset", "paper", "--set", "ports=8")
    status, out, _ = antiphon(*arguments, "--period-ps", "800", "--json", "-")
    assert status == 0
    assert json.loads(out) == {"top": "fred", "files": ["o/fred.sv", "o/fred.core"]}


def test_cosim(folder, antiphon, monkeypatch) -> None:
    from fractions import Fraction

    from sw_model.results import CosimResult

    def run_cosim(experiment, workload, *, waves, interruptions, progress):
        assert not interruptions
        assert experiment.cosim.scale == Fraction(1, 8)
        assert waves is None
        return CosimResult(
            full_size=(run("baseline"), run("themis")),
            scale=experiment.cosim.scale,
            tlm=(run("tlm"),),
            rtl=(run("rtl"),),
            crosscheck=Crosscheck((CrosscheckCase("a", True, True, 200, 201),), 0.05),
            cycles_simulated=600,
            seconds=1.5,
        )

    importlib.import_module("sim_top.cosim")
    put(monkeypatch, "sim_top.cosim.run", run_cosim=run_cosim)
    status, out, _ = antiphon("cosim", "e.yaml", "--scale", "1/8", "--output", "out")
    assert status == 0
    assert "1 case, error at most 0.50%" in out
    assert "1,000 cycles, 600 of them simulated in 1.5 s" in out
    assert sorted(path.name for path in (folder / "out").iterdir()) == [
        "e.json",
        "e_full.png",
        "e_full.svg",
        "e_rtl.png",
        "e_rtl.svg",
    ]
    report = json.loads((folder / "out" / "e.json").read_text())
    assert {"total_ns", "dims", "layers", "rtl_cycles", "rtl_cycles_simulated"} <= set(report)


def test_schema_is_shown(antiphon) -> None:
    status, out, _ = antiphon("schema")
    assert status == 0
    assert json.loads(out)["title"] == "Antiphon experiment"


def test_a_reader_that_goes_away_is_no_error() -> None:
    code = f"{sys.executable} -m sim_top.cli schema | head -c 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", code], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "{", "")


def test_an_interrupt_is_no_traceback(folder, antiphon, monkeypatch) -> None:
    def simulate(*_, **__):
        raise KeyboardInterrupt

    put(monkeypatch, "sw_model.simulation", simulate=simulate)
    assert antiphon("run", "e.yaml") == (130, "", "antiphon: interrupted\n")


def test_a_bar_appears_only_on_a_terminal_and_only_after_a_while(monkeypatch) -> None:
    bar = frame._Bar("work")
    bar.update(0.5)
    assert bar.bar is None
    monkeypatch.setattr(frame._Bar, "DELAY", 0.0)
    bar.update(0.6)
    assert bar.bar is not None
    bar.close()
