"""The experiment file: what is read, what is refused and where, and the published schema."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest

from sw_model.errors import InputError
from sw_model.experiment import CosimSettings, json_schema, read_experiment
from sw_model.platform import EngineParameters, Partition
from sw_model.schedule.options import ScheduleOptions
from sw_model.topology import DimKind

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "resnet50.yaml"
MINIMAL = """\
workload:
  file: w.txt
network:
  dims:
    - {kind: Ring, size: 2, bandwidth_per_npu: 20 GB/s, latency: 8 ns}
"""
TRACE = "DATA\n1\nconv1 -1 10 NONE 0 11 NONE 0 12 ALLREDUCE 64 3\n"


@pytest.fixture
def write(tmp_path):
    (tmp_path / "w.txt").write_text(TRACE)

    def write(text: str) -> Path:
        path = tmp_path / "e.yaml"
        path.write_text(text)
        return path

    return write


def test_the_projects_own_example() -> None:
    experiment = read_experiment(EXAMPLE)
    assert experiment.name == "resnet50"
    assert [dim.kind for dim in experiment.network.dims] == [DimKind.RING, DimKind.FRED]
    assert experiment.network.npus == 16
    assert experiment.cosim.scale == Fraction(1, 64)
    assert len(experiment.load_workload().layers) == 54
    platform = experiment.platform()
    assert [link.rate for link in platform.links] == [1, Fraction(3, 4)]
    assert [link.latency for link in platform.links] == [20, 30]


def test_defaults(write) -> None:
    experiment = read_experiment(write(MINIMAL))
    assert experiment.workload.iterations == 2
    assert experiment.workload.data_type == "fp16"
    assert experiment.schedule == ScheduleOptions()
    assert experiment.engine == EngineParameters()
    assert experiment.cosim == CosimSettings()
    assert experiment.clock_hz == 1_250_000_000
    assert experiment.output is None


def test_everything(write, tmp_path) -> None:
    text = """\
workload:
  file: w.txt
  iterations: 3
  data_type: fp32
  ranks: 2
  mode: DATA
  compute_scale: {1: 1.5}
network: n.yml
schedule: {scheduler: baseline, intra: fifo, chunks: 4}
engine:
  flit_bytes: 32
  contexts: 2
  partitions: [{buffers: 1, flits: 8}, {buffers: 2, flits: 16}]
  sram_banks: 8
  packet_bytes: 1KiB
  program_steps: 64
  queue_depth: 4
memory: {read_latency: 10, write_latency: 5, words: 4096}
clock: 1 GHz
cosim: {scale: 1/8}
output: out
"""
    (tmp_path / "n.yml").write_text(
        "topology: [Ring]\nnpus_count: [2]\nbandwidth: [1]\nlatency: [2]"
    )
    experiment = read_experiment(write(text))
    assert experiment.workload.compute_scale == {1: Fraction(3, 2)}
    assert experiment.network.dims[0].bandwidth == 2**30
    assert experiment.schedule == ScheduleOptions("baseline", "fifo", 4)
    assert experiment.engine.partitions == (Partition(1, 8), Partition(2, 16))
    assert experiment.engine.packet_bytes == 1024
    assert experiment.memory.words == 4096
    assert experiment.clock_hz == 10**9
    assert experiment.output == tmp_path / "out"
    assert experiment.with_schedule(chunks=7).schedule.chunks == 7


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("network:", "netwerk:", "e.yaml:3:1: unknown key 'netwerk' (did you mean 'network'?)"),
        (
            "  file:",
            "  iteration: 2\n  file:",
            "e.yaml:2:3: unknown key 'workload.iteration' (did you mean 'iterations'?)",
        ),
        (
            "  file: w.txt",
            "  iterations: 2",
            "e.yaml:2:3: workload must have one of the keys 'file', 'layers', 'model' and 'jobs', "
            "not none",
        ),
        (
            "workload:",
            "clock: 20\nworkload:",
            "e.yaml:1:8: clock: frequency must have a unit, such as '1.25 GHz', not '20'",
        ),
        (
            "workload:",
            "cosim: {scale: 2}\nworkload:",
            "e.yaml:1:16: cosim.scale must be a number above 0 and at most 1, not '2'",
        ),
        (
            "workload:",
            "schedule: {scheduler: thermis}\nworkload:",
            "e.yaml:1:23: schedule.scheduler must be one of baseline, themis, balanced, "
            "not 'thermis' "
            "(did you mean 'themis'?)",
        ),
        (
            "workload:",
            "engine: {partitions: [{buffers: 1, flits: 1}]}\nworkload:",
            "e.yaml:1:22: engine.partitions must have at least 2 elements, not 1",
        ),
        (
            "  file:",
            "  ranks: 16\n  file:",
            "e.yaml:4: the sizes of the network must multiply to the 16 ranks of the workload, "
            "not 2 = 2",
        ),
        (
            "  file:",
            "  compute_scale: {2: 2}\n  file:",
            "e.yaml:2: workload.compute_scale must name ranks in 0..1, not 2",
        ),
        (
            "  file:",
            "  compute_scale: {one: 2}\n  file:",
            "e.yaml:2:19: workload.compute_scale.one must be a whole number of at least 0, "
            "not 'one'",
        ),
        (
            "  file:",
            "  iterations: true\n  file:",
            "e.yaml:2:15: workload.iterations must be a whole number of at least 1, not 'true'",
        ),
        ("  file: w.txt", "  file:", "e.yaml:2:8: workload.file must be a path, not nothing"),
        ("  file: w.txt", '  file: ""', "e.yaml:2:9: workload.file must be a path, not ''"),
        (
            "  file:",
            "  iterations: '2'\n  file:",
            "e.yaml:2:15: workload.iterations must be a whole number of at least 1, "
            "not the text '2'",
        ),
        (
            "  file:",
            '  jitter: "0.5"\n  file:',
            "e.yaml:2:11: workload.jitter must be a number of at most 1, not the text '0.5'",
        ),
    ],
)
def test_messages(write, old, new, message) -> None:
    path = write(MINIMAL.replace(old, new))
    with pytest.raises(InputError) as caught:
        read_experiment(path)
    assert str(caught.value) == str(path.parent / message)


def test_a_network_that_the_rtl_cannot_be(write) -> None:
    path = write(MINIMAL.replace("Ring", "Switch"))
    with pytest.raises(InputError) as caught:
        read_experiment(path).platform()
    assert str(caught.value) == (
        f"{path}:3: dim 1 must be a Ring, a FullyConnected or a Fred dim on this platform, "
        "not 'Switch'"
    )
    path = write(MINIMAL.replace("20 GB/s", "21 GB/s"))
    with pytest.raises(InputError) as caught:
        read_experiment(path).platform()
    assert str(caught.value) == (
        f"{path}:3: the bandwidth of dim 1 must be at most one flit per cycle (20 GB/s), "
        "not 21 GB/s"
    )


def test_payload_of_no_whole_elements_names_the_trace(write, tmp_path) -> None:
    path = write(MINIMAL)
    (tmp_path / "w.txt").write_text(TRACE.replace("64", "63"))
    with pytest.raises(InputError) as caught:
        read_experiment(path).load_workload()
    assert str(caught.value) == (
        f"{tmp_path / 'w.txt'}:3: the weight gradient communication of layer 'conv1' must be a "
        "multiple of 2 bytes, one fp16 element, not 63"
    )


def test_published_schema_is_this_one() -> None:
    """Made by ``antiphon schema --json docs/experiment.schema.json``."""
    published = json.loads((ROOT / "docs" / "experiment.schema.json").read_text())
    assert published == json_schema()


def _check(schema: dict, value: object, where: str = "") -> None:
    """As much of JSON schema as ours uses."""
    if "anyOf" in schema:
        for option in schema["anyOf"]:
            try:
                return _check(option, value, where)
            except AssertionError:
                continue
        raise AssertionError(f"{where}: {value!r} fits nothing")
    if "enum" in schema:
        assert value in schema["enum"], where
        return None
    kinds = {"object": dict, "array": list, "integer": int, "number": int | float, "string": str}
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    assert any(isinstance(value, kinds[name]) for name in names), f"{where}: {value!r}"
    if isinstance(value, dict):
        assert set(value) >= set(schema.get("required", ())), where
        for key, inner in value.items():
            known = schema.get("properties", {})
            if key not in known:
                (pattern, of_pattern), *_ = schema["patternProperties"].items()
                assert re.fullmatch(pattern, str(key)), f"{where}.{key}"
                known = {key: of_pattern}
            _check(known[key], inner, f"{where}.{key}")
        one = [set(option["required"]) <= set(value) for option in schema.get("oneOf", ())]
        assert not one or sum(one) == 1, where
    if isinstance(value, list):
        for inner in value:
            _check(schema["items"], inner, where)
    return None


def test_the_example_fits_the_schema() -> None:
    import yaml

    _check(json_schema(), yaml.safe_load(EXAMPLE.read_text()))
    with pytest.raises(KeyError):
        _check(json_schema(), {"workload": {"file": "x"}, "network": "n", "nonsense": 1})
