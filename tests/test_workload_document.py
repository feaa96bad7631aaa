"""Workloads in YAML: what they mean, and what is refused, word for word."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
import yaml

from sw_model.collective.plan import Operation
from sw_model.errors import InputError
from sw_model.experiment import read_experiment
from sw_model.workload.layers import Communication, Layer, Mode
from sw_model.workload.settings import check_ranks_named
from sw_model.workload.traffic import TrafficClass, parse_classes
from sw_model.workload.workload_document import WORKLOAD, read_workload
from tests.test_experiment import _check

ROOT = Path(__file__).resolve().parents[1]

LAYERS = """\
mode: HYBRID_TRANSFORMER
model_parallel_npus: 2
iterations: 3
layers:
  - name: block
    repeat: 2
    forward: {compute: 20 us, operation: all-reduce, size: 2 MiB}
    input_gradient: {compute: 0.5 us}
    weight_gradient: {compute: 30 us, operation: reduce-scatter, size: 1kB}
    update: 7 ns
  - name: head
    forward: {compute: 1 ms}
priorities: [pp, mp]
compute_scale: {3: 1.5}
jitter: 0.25
seed: 9
"""


@pytest.fixture
def read(tmp_path):
    def reader(text: str):
        path = tmp_path / "w.yaml"
        path.write_text(text)
        return read_workload(path)

    return reader


def test_layers(read) -> None:
    settings = read(LAYERS)
    work = settings.layers
    block = Layer(
        name="block.0",
        forward_ns=20_000,
        forward=Communication(Operation.ALL_REDUCE, 2 << 20),
        input_gradient_ns=500,
        input_gradient=Communication(),
        weight_gradient_ns=30_000,
        weight_gradient=Communication(Operation.REDUCE_SCATTER, 1000),
        update_ns=7,
    )
    assert work is not None
    assert work.layers[0] == block
    assert [layer.name for layer in work.layers] == ["block.0", "block.1", "head"]
    assert work.layers[2].forward_ns == 1_000_000
    assert (work.mode, work.model_parallel_npus) == (Mode.HYBRID_TRANSFORMER, 2)
    assert (settings.iterations, settings.seed) == (3, 9)
    assert settings.variation.compute_scale == {3: Fraction(3, 2)}
    assert settings.variation.jitter == Fraction(1, 4)
    assert settings.priorities == (TrafficClass.PIPELINE, TrafficClass.MODEL)


def test_jobs_and_models(read, tmp_path) -> None:
    (tmp_path / "inner.yaml").write_text(LAYERS)
    settings = read(
        "jobs:\n"
        "  - {name: a, ranks: 0-3, workload: inner.yaml}\n"
        "  - {name: b, ranks: [7, 4-6], priority: 2, workload: {model: {name: gnmt, dp: 4}}}\n"
        "  - {name: c, ranks: 8, workload: traces/w}\n"
    )
    a, b, c = settings.jobs
    assert a.workload.layers is not None
    assert (a.ranks, b.ranks, c.ranks) == ((0, 1, 2, 3), (7, 4, 5, 6), (8,))
    assert b.workload.model is not None
    assert (b.workload.model.name, b.workload.model.dp, b.priority) == ("gnmt", 4, 2)
    assert c.workload.file == tmp_path / "traces/w"


MINIMAL = "layers:\n  - name: a\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "iterations: 2\n",
            "1:1: a workload must have one of the keys 'file', 'layers', 'model' and 'jobs', "
            "not none",
        ),
        (
            MINIMAL + "file: x\n",
            "1:1: a workload must have one of the keys 'file', 'layers', 'model' and 'jobs', "
            "not 'file' and 'layers'",
        ),
        (MINIMAL + "laiers: x\n", "3:1: unknown key 'laiers' (did you mean 'layers'?)"),
        (
            "layers:\n  - name: a\n    foward: {}\n",
            "3:5: unknown key 'layers[0].foward' (did you mean 'forward'?)",
        ),
        (
            "layers:\n  - name: a\n    forward: {compute: 20}\n",
            "3:24: layers[0].forward.compute: time must have a unit, such as '500 ns', not '20'",
        ),
        (
            "layers:\n  - name: a\n    forward: {compute: 1 ps}\n",
            "3:24: layers[0].forward.compute must be a whole number of nanoseconds, not '1 ps'",
        ),
        (
            "layers:\n  - name: a\n    forward: {size: 1 MiB}\n",
            "3:14: operation must be given where there is a size",
        ),
        (
            "layers:\n  - name: a b\n",
            "2:11: layers[0].name must be one word, as in a 1.0 text, not 'a b'",
        ),
        (MINIMAL + "mode: DATTA\n", "3:7: mode must be one of "),
        (
            MINIMAL + "mode: HYBRID_DLRM\n",
            "3:7: mode HYBRID_DLRM needs the key 'last_bottom_layer'",
        ),
        (
            MINIMAL + "mode: HYBRID_DLRM\nlast_bottom_layer: 1\n",
            "4:20: last_bottom_layer must be in 0..0, not 1",
        ),
        (MINIMAL + "last_bottom_layer: 0\n", "3:20: last_bottom_layer is not for mode DATA"),
        (
            MINIMAL + "mode: HYBRID_CUSTOMIZED\n",
            "2:3: layers must each have a parallelism in mode HYBRID_CUSTOMIZED, and only there: "
            "see 'a'",
        ),
        (
            "file: x.txt\nmode: HYBRID_DLRM\n",
            "2:7: mode must be one of DATA, MODEL, HYBRID_DATA_MODEL, HYBRID_MODEL_DATA, "
            "HYBRID_CUSTOMIZED, MICRO for a text without header lines, not 'HYBRID_DLRM'",
        ),
        ("file: x\ncheckpoints: [1]\n", "2:1: checkpoints goes with 'layers', not with 'file'"),
        (
            "model: {name: gnmt}\ncomm_group: g.json\n",
            "2:1: comm_group goes with 'file', not with 'model'",
        ),
        (
            "iterations: 2\njobs: [{name: a, ranks: 0, workload: x}]\n",
            "1:1: iterations belongs to each of the jobs",
        ),
        (
            "jobs: [{name: a, ranks: x, workload: y}]\n",
            "1:25: jobs[0].ranks: a group must be ranks such as '0-7' or '0,2,8-11', not 'x'",
        ),
        (
            "jobs: [{name: a, ranks: [0-2, 1], workload: y}]\n",
            "1:25: jobs[0].ranks must name each rank once, not 1 twice",
        ),
        ("jobs: [{name: a, workload: y}]\n", "1:8: jobs[0] must have the key 'ranks'"),
        (
            "jobs: [{name: a, ranks: 0, workload: {jobs: []}}]\n",
            "1:39: unknown key 'jobs[0].workload.jobs' (known: ",
        ),
        (MINIMAL + "jitter: 1\n", "3:9: jitter must be at least 0 and below 1, not 1"),
        (MINIMAL + "jitter: two\n", "3:9: jitter must be a number of at most 1, not 'two'"),
        (MINIMAL + "priorities: [mp, mp]\n", "3:13: priorities must name each class once"),
        (
            MINIMAL + "priorities: [xp]\n",
            "3:14: priorities[0] must be one of mp, pp, dp, not 'xp'",
        ),
        (
            MINIMAL + "classes: [mp]\n",
            "3:10: classes must be a mapping from communicators to classes, not a list",
        ),
    ],
)  # fmt: skip
def test_messages(read, tmp_path, text, message) -> None:
    with pytest.raises(InputError) as caught:
        read(text)
    assert str(caught.value).startswith(f"{tmp_path / 'w.yaml'}:{message}")


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        (
            "[{name: a, ranks: 0-4, workload: x}]",
            "1: the ranks of job 'a' must be in 0..3, not 4",
        ),
        (
            "[{name: a, ranks: 0, workload: x}, {name: a, ranks: 1, workload: x}]",
            "1: jobs must have names of their own; two are 'a'",
        ),
        (
            "[{name: a, ranks: 0-1, workload: {file: x, ranks: 4}}]",
            "1: job 'a' must have the 4 ranks of its workload, not 2",
        ),
        (
            "[{name: a, ranks: 2-3, workload: {file: x, compute_scale: {2: 2}}}]",
            "1: workload.compute_scale must name ranks in 0..1, not 2",
        ),
    ],
)
def test_jobs_that_do_not_fit_the_network(read, tmp_path, jobs, message) -> None:
    settings = read(f"jobs: {jobs}\n")
    with pytest.raises(InputError) as caught:
        check_ranks_named(settings, 4)
    assert str(caught.value) == f"{tmp_path / 'w.yaml'}:{message}"


def test_classes_by_option() -> None:
    assert parse_classes("dp, mp") == (TrafficClass.DATA, TrafficClass.MODEL)
    with pytest.raises(
        ValueError, match=r"^must be some of mp, pp, dp, such as 'mp,pp,dp', not 'x'$"
    ):
        parse_classes("mp,x")
    with pytest.raises(ValueError, match=r"^must name each class once, not 'mp,mp'$"):
        parse_classes("mp,mp")


def test_an_experiment_may_name_a_workload_file(tmp_path) -> None:
    (tmp_path / "w.yaml").write_text(LAYERS)
    (tmp_path / "e.yaml").write_text(
        "workload: w.yaml\n"
        "network: {dims: [{kind: Switch, size: 4, bandwidth_per_npu: 1 GB/s, latency: 0}]}\n"
    )
    experiment = read_experiment(tmp_path / "e.yaml")
    assert experiment.load_workload().layers[2].name == "head"


@pytest.mark.parametrize(
    ("key", "workload"),
    [
        ("model", "{model: {name: gnmt, dp: 4}}"),
        ("jobs", "{jobs: [{name: a, ranks: 0-3, workload: x}]}"),
    ],
)
def test_what_the_platforms_engines_cannot_run(tmp_path, key, workload) -> None:
    (tmp_path / "e.yaml").write_text(
        f"workload: {workload}\n"
        "network: {dims: [{kind: Ring, size: 4, bandwidth_per_npu: 1 GB/s, latency: 0}]}\n"
    )
    with pytest.raises(InputError) as caught:
        read_experiment(tmp_path / "e.yaml").load_workload()
    assert str(caught.value) == (
        f"{tmp_path / 'e.yaml'}:1: {key!r} cannot run on the platform's engines: "
        "give a file or layers here"
    )


@pytest.mark.parametrize("name", ["two_jobs.yaml", "transformer.yaml"])
def test_the_examples_fit_the_schema(name) -> None:
    path = ROOT / "examples" / name
    read_workload(path)
    _check(WORKLOAD.schema(), yaml.safe_load(path.read_text()))
