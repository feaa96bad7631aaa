"""What a co-simulation cannot be is told in one line, before anything runs, is built or written."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from sim_top import cli
from sim_top.cosim import run
from sim_top.cosim.placement import Placement
from sim_top.platform.build import flow_tables
from sim_top.simulator.toolchain import verilator_version
from sw_model.experiment import read_experiment
from sw_model.fabric.backend import TlmBackend
from sw_model.fabric.folding import Folding
from sw_model.schedule.options import PlanBook
from sw_model.simulation import simulate_on
from sw_model.workload.spans import collectives_of, issued

EXAMPLES = Path(__file__).parents[1] / "examples"
WORKLOAD = """\
DATA
2
conv1 -1 10 NONE 0 11 NONE 0 12 ALLREDUCE 4096 3
conv2 -1 10 NONE 0 11 NONE 0 12 ALLREDUCE 2048 3
"""
PAYLOADS = 2 * (4096 + 2048) // 16
"""Flits of the sources and of the results."""

RING = "- {kind: Ring, size: 2, bandwidth_per_npu: 20 GB/s, latency: 8 ns}"
FRED = "- {kind: Fred, size: %d, bandwidth_per_npu: 20 GB/s, latency: 8 ns}"
EXPERIMENT = f"""\
workload: {{file: w.txt, iterations: 1}}
network:
  dims:
    {RING}
schedule: {{scheduler: themis, intra: scf, chunks: 16}}
memory: {{words: 262144}}
cosim: {{scale: 1}}
output: results
"""


class ReachedError(Exception):
    """The experiment was not refused."""


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Where nothing is to appear, ``build`` neither; what runs or builds first raises."""

    def reached(*_: object, **__: object) -> None:
        raise ReachedError

    for name in ("simulate_on", "platform_model", "build", "run_jobs"):
        monkeypatch.setattr(run, name, reached)
    monkeypatch.setenv("ANTIPHON_BUILD", str(tmp_path / "build"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.txt").write_text(WORKLOAD)
    return tmp_path


def written(folder: Path, *changes: tuple[str, str]) -> Path:
    """The experiment with changes."""
    text = EXPERIMENT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "e.yaml"
    path.write_text(text)
    return path


def without_simulator(monkeypatch) -> None:
    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)


def without_compilers(monkeypatch) -> None:
    monkeypatch.setenv("PATH", "")


FLOWS = """\
engine: {classes: [mp, pp, dp], data_types: [fp16, bf16, fp32, int32], operators: [sum, max, min]}
memory:"""


@pytest.mark.parametrize(
    ("changes", "missing", "message"),
    [
        pytest.param(
            [("262144", str(PAYLOADS - 1))],
            None,
            f"the payloads need {PAYLOADS} flits beside each NPU, and the memory inside the "
            f"simulation has {PAYLOADS - 1}: raise memory.words, or lower the payload scale",
            id="payloads",
        ),
        pytest.param(
            [("262144", str(PAYLOADS))],
            None,
            "collective 1 needs 256 flits on top of ",
            id="no room for descriptors",
        ),
        pytest.param(
            [], without_simulator, "the package 'verilator' must be installed; run `make setup`",
            id="no simulator",
        ),
        pytest.param(
            [], without_compilers, "make must be installed and on PATH; run `make setup`",
            id="no compilers",
        ),
        pytest.param(
            [(RING, FRED % 65)],
            None,
            "the FRED switches of dim 1: ports must be an integer in 2..64, not 65",
            id="ports",
        ),
        pytest.param(
            [(RING, FRED % 64), ("memory:", FLOWS)],
            None,
            "the FRED switches of dim 1 must have at most 4096 configurations, not 6912: fewer ",
            id="configurations",
        ),
        pytest.param(
            [("memory:", "engine: {contexts: 256}\nmemory:")],
            None,
            "e.yaml:6:20: engine.contexts must be a power of two of at most 128, not 256",
            id="state machines",
        ),
        pytest.param(
            [(RING, "\n    ".join([RING] + [RING.replace("2", "1", 1)] * 15))],
            None,
            "the engines: dims must be 1 to 15 dims, not 16",
            id="dims",
        ),
        pytest.param(
            [("8 ns", "1 ms")],
            None,
            "the links of dim 1 must take at most 65536 cycles on the RTL, not 1250000: a lower ",
            id="latency",
        ),
        pytest.param(
            [("memory:", "engine: {program_steps: 1}\nmemory:")],
            None,
            "an op on dim 1 has 2 steps, and the program memory 1: raise engine.program_steps",
            id="program memory",
        ),
    ],
)  # fmt: skip
def test_refused_before_anything_is_built(
    folder, monkeypatch, capsys, changes, missing, message
) -> None:
    written(folder, *changes)
    before = sorted(folder.rglob("*"))
    if missing is not None:
        verilator_version.cache_clear()
        missing(monkeypatch)
    try:
        status = cli.main(["cosim", "e.yaml", "--json", "result.json"])
    finally:
        verilator_version.cache_clear()
    captured = capsys.readouterr()
    assert status == 2
    assert captured.out == ""
    assert captured.err.startswith(f"antiphon: {message}")
    assert captured.err.count("\n") == 1
    assert sorted(folder.rglob("*")) == before


def descriptor_flits(path: Path) -> int:
    """By the TLM, whose counts of records are those of the RTL: a descriptor is as long as the
    longest of all ranks."""
    experiment = read_experiment(path)
    workload = experiment.load_workload().scaled(experiment.cosim.scale, "fp16")
    backend = simulate_on(experiment, workload, folding=Folding.NONE).backend
    assert isinstance(backend, TlmBackend)
    return sum(
        -(-max(rank.descriptor_bytes for rank in entry.counters.values()) // 16)
        for entry in backend.entries
    )


def test_descriptors_fit_to_the_flit(folder, capsys) -> None:
    descriptors = descriptor_flits(written(folder))
    words = PAYLOADS + descriptors
    written(folder, ("262144", str(words)))
    with pytest.raises(ReachedError):
        cli.main(["cosim", "e.yaml"])
    capsys.readouterr()
    written(folder, ("262144", str(words - 1)))
    before = sorted(folder.rglob("*"))
    assert cli.main(["cosim", "e.yaml"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("antiphon: the descriptor of collective 1 needs ")
    assert error.endswith(
        f" flits on top of {words - descriptors // 2}, and the memory inside the simulation has "
        f"{words - 1}: raise memory.words, or lower schedule.chunks or the payload scale\n"
    )
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("name", ["dlrm", "wafer_stages"])
def test_what_is_placed_is_what_runs(name) -> None:
    """Collectives in the order in which the training loop enters them, and as many records as the
    TLM counts: of several classes, and of the stages of a pipeline."""
    experiment = read_experiment(EXAMPLES / f"{name}.yaml")
    settings = experiment.workload
    platform = experiment.platform()
    workload = experiment.load_workload().scaled(experiment.cosim.scale, settings.data_type)
    collectives = collectives_of(workload, platform.topology, settings.data_type)
    sequence = issued(workload, collectives) * settings.iterations
    backend = simulate_on(experiment, workload, folding=Folding.NONE).backend
    assert sequence == [entry.plan.collective for entry in backend.entries]
    book = PlanBook(platform, experiment.schedule, collectives=collectives.values())
    placement = Placement(book, flow_tables(platform, book.flows))
    for number, (one, entry) in enumerate(zip(sequence, backend.entries, strict=True)):
        placed = placement.place(number, one)
        assert placed.plan == entry.plan
        assert [len(block) for block in placed.blocks] == [
            entry.counters[rank].descriptor_bytes for rank in range(platform.topology.npus)
        ]
