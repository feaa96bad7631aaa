"""``antiphon optimize``: LIBRA's own files as they are, our experiment, and bad input."""

from __future__ import annotations

import csv
import json
from itertools import pairwise
from pathlib import Path

import pytest

from sim_top import cli
from sw_model.optimize.experiment import json_schema
from tests.chakra_traces import TRACES, needs_shared

ROOT = Path(__file__).parents[1]
KEYS = {
    "objective", "bandwidth_gbps", "time_ns", "cost_usd", "bound", "speedup_over_equal",
}  # fmt: skip
LAYERS = (
    "q -1 1000 ALLREDUCE 64000 1000 ALLREDUCE 64000 1000 ALLREDUCE 32000 10\n"
    "k -1 1000 NONE 0 1000 ALLGATHER 4000 1000 ALLREDUCE 32000 10\n"
)
FILES = {
    "n.yml": "Topology: [ Ring, FullyConnected, Switch ]\nNpusCount: [ 4, 2, 4 ]\n"
    "CostDimension: [ InterPackage, InterNode, InterPod ]\n",
    "c.yml": "Forward: [ 4, -1, -1 ]\nInputGrad: [ 4, -1, -1 ]\nWeightGrad: [ -1, 2, 4 ]\n",
    "p.yml": "InterPackage:\n  Link: 4.00001\n  Switch: 13\nInterNode:\n  Link: 4\n"
    "InterPod:\n  Link: 7.8\n  Switch: 18.0\n  Nic: 31.6\n",
    "w.txt": LAYERS,
    "h.txt": f"HYBRID_TRANSFORMER\tmodel_parallel_NPU_group: 4\n2\n{LAYERS}",
    "n.json": '{"total-bandwidth": 100, "npus-count": [4, 8], "topology": ["Ring", "Switch"],\n'
    ' "network-type": ["Package", "Pod"]}\n',
    "p.json": '{"Package": {"Link": 4.0}, "Pod": {"Link": 7.8, "Switch": 18.0, "Nic": 31.6}}\n',
}
EXPERIMENT = """\
network: n.yml
workloads:
  - file: w.txt
    communicators: c.yml
constraints:
  - B1 + B2 + B3 = 100
prices: p.yml
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def solve(*arguments):
    assert cli.main(["optimize", *map(str, arguments), "--json", "out.json"]) == 0
    return json.loads(Path("out.json").read_text())


def test_keys_and_figures(folder, capsys):
    found = solve("e.yaml")
    assert set(found) >= KEYS
    assert found["objective"] == found["time_ns"]
    assert found["bound"] <= found["objective"] <= found["bound"] * 1.001
    assert sum(found["bandwidth_gbps"]) == pytest.approx(100)
    price = (4.00001, 4, 7.8 + 18 + 31.6)
    cost = 32 * sum(p * b for p, b in zip(price, found["bandwidth_gbps"], strict=True))
    assert found["cost_usd"] == pytest.approx(cost)
    # 6000 ns of compute, 2 all-reduces on a ring of 4, 2 over dims 2 and 3, an all-gather.
    b1, b2, b3 = found["bandwidth_gbps"]
    time = 6000 + (2 * 1.5 * 64000 + 12000) / b1 + 2 * max(32000 / b2, 24000 / b3)
    assert found["time_ns"] == pytest.approx(time)
    equal = 6000 + (2 * 1.5 * 64000 + 12000 + 64000) * 3 / 100
    assert found["speedup_over_equal"] == pytest.approx(equal / time)
    (workload,) = found["workloads"]
    assert workload["unexplained_ns"] == 0
    shown = capsys.readouterr().out
    for text in ("certified bound", "speed-up over equal bandwidths", "Ring4_FC2_SW4, 32 NPUs"):
        assert text in shown


def test_standard_output_is_json_alone(folder, capsys):
    assert cli.main(["optimize", "e.yaml", "--json", "-"]) == 0
    assert set(json.loads(capsys.readouterr().out)) >= KEYS


def test_the_artifacts_files(folder):
    Path("a.yaml").write_text(
        "network: n.json\nworkloads: [{file: h.txt, forward_comm_count: 2}]\nprices: p.json\n"
        "objective: perf-per-cost\n"
    )
    found = solve("a.yaml")
    b1, b2 = found["bandwidth_gbps"]
    assert b1 + b2 == pytest.approx(100)  # its file says so
    assert found["cost_usd"] == pytest.approx(32 * (2 * b1 + 57.4 * b2))  # links are shared
    assert found["objective"] == pytest.approx(found["time_ns"] * found["cost_usd"])
    whole = solve("a.yaml", "--objective", "perf")
    assert whole["time_ns"] <= found["time_ns"]
    Path("b.yaml").write_text(Path("a.yaml").read_text() + "shared_links: false\n")
    unshared = solve("b.yaml")
    b1, b2 = unshared["bandwidth_gbps"]
    assert unshared["cost_usd"] == pytest.approx(32 * (4 * b1 + 57.4 * b2))


@needs_shared
def test_released_files_unchanged(folder):
    at = TRACES / "07_libra_gpt3_3d"
    Path("g.yaml").write_text(
        f"network: {at}/3d_network.yml\nworkloads:\n  - file: {at}/GPT_3.txt\n"
        f"    communicators: {at}/GPT_3_3d.yml\nprices: {at}/3d_cost_model.yml\n"
        "constraints: [total = 100]\n"
    )
    found = solve("g.yaml", "--no-simulate")
    assert found["speedup_over_equal"] == pytest.approx(1.241, abs=0.005)
    assert found["npus"] == 4096
    at = TRACES / "10_libra_sc22"
    Path("a.yaml").write_text(
        f"network: {at}/3d.json\nprices: {at}/cost.json\nworkloads:\n"
        f"  - {{file: {at}/transformer_17B.txt, forward_comm_count: 2}}\n"
        f"  - {{file: {at}/transformer_175B.txt, forward_comm_count: 2}}\n"
        f"  - {{file: {at}/transformer_1T.txt, forward_comm_count: 2}}\n"
    )
    found = solve("a.yaml", "--no-simulate")
    assert found["bandwidth_gbps"] == pytest.approx([80.95, 10.80, 8.25], abs=0.02)


def test_front_and_plot(folder, capsys):
    found = solve("e.yaml", "--front", "f.csv", "--plot", "f.svg", "--points", 6, "--no-simulate")
    lines = Path("f.csv").read_text().splitlines()
    rows = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(lines)]
    assert len(rows) == len(found["front"]) == 6
    assert list(rows[0]) == [
        "cost_usd", "time_ns", "bound_ns", "b1_gb_per_s", "b2_gb_per_s", "b3_gb_per_s",
    ]  # fmt: skip
    for before, after in pairwise(rows):
        assert before["cost_usd"] < after["cost_usd"]
        assert before["time_ns"] > after["time_ns"]
    for row in rows:
        assert row["bound_ns"] <= row["time_ns"] <= row["bound_ns"] * 1.001
    assert rows[-1]["time_ns"] == pytest.approx(found["time_ns"])
    assert Path("f.svg").read_text().startswith("<?xml")
    assert "front of 6 points: f.csv, f.svg" in capsys.readouterr().out


def test_no_point_of_the_front_beats_another_budget(folder):
    """Half the cost of the fastest, as a constraint, gives a time between those of its
    neighbours."""
    found = solve("e.yaml", "--front", "f.csv", "--points", 12, "--no-simulate")
    half = found["cost_usd"] / 2
    text = EXPERIMENT.replace("= 100", f"= 100\n  - cost <= {half}")
    Path("h.yaml").write_text(text)
    time = solve("h.yaml", "--no-simulate")["time_ns"]
    times = [(row["cost_usd"], row["time_ns"]) for row in found["front"]]
    assert max(t for c, t in times if c >= half) <= time <= min(t for c, t in times if c <= half)


def test_search(folder):
    Path("s.yaml").write_text(
        "network:\n  dims:\n    - {kind: Ring, size: 4}\n    - {kind: Switch, size: 8}\n"
        "workloads: [{model: transformer-17b, batch: 64, search: true}]\n"
        "constraints: [total = 100]\n"
    )
    found = solve("s.yaml", "--no-simulate")
    ways = found["divisions"]
    assert found["division"] == ways[0]["name"]
    assert [way["time_ns"] for way in ways] == sorted(way["time_ns"] for way in ways)
    assert ways[0]["time_ns"] == found["time_ns"]
    name = "TP 4, PP 1, DP 8"
    (same,) = [way for way in ways if way["name"] == name]
    text = Path("s.yaml").read_text().replace("search: true", "tensor: 4")
    Path("f.yaml").write_text(text)
    assert solve("f.yaml", "--no-simulate")["time_ns"] == same["time_ns"]


def test_the_example(folder):
    found = solve(ROOT / "examples" / "optimize.yaml", "--no-simulate")
    assert found["bound"] <= found["objective"] <= found["bound"] * 1.001
    b1, b2, b3 = found["bandwidth_gbps"]
    assert b1 + b2 + b3 <= 300.000001
    assert b1 >= b2
    assert b3 >= 10


def test_every_key_has_a_schema():
    schema = json_schema()
    assert set(schema["properties"]) >= {"network", "workloads", "constraints", "prices"}
    assert schema["required"] == ["network", "workloads"]
    kept = json.loads((ROOT / "docs" / "optimize.schema.json").read_text())
    assert kept == json.loads(json.dumps(schema)), "run antiphon schema optimize --json"


@pytest.fixture
def refuse(folder, capsys):
    """Run a command line; check that it is refused in one message and leaves nothing."""

    def refuse(*arguments, message):
        before = sorted(folder.rglob("*"))
        assert cli.main(["optimize", *arguments]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err == f"antiphon: {message}\n"
        assert sorted(folder.rglob("*")) == before

    return refuse


LONGER = "    communicators: c.yml\n"
UNUSED = "-1 where the dim is not spanned"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "B1 + B2 + B3 = 100",
            "B1 + B2 = 50\n  - B1 >= 60\n  - B3 <= 7",
            "e.yaml:6:5: the constraints 'B1 + B2 = 50' in line 6 and 'B1 >= 60' in line 7 cannot "
            "all hold (every bandwidth is at least 0.001 GB/s); without any one of them the others "
            "can",
        ),
        (
            "B1 + B2 + B3 = 100",
            "total = 100\n  - B2 = 0",
            "e.yaml:7:5: the bandwidth of a dim must be above 0: 'B2 = 0' leaves B2 0 GB/s",
        ),
        (
            "B1 + B2 + B3 = 100",
            "total = 0",
            "e.yaml:6:5: the constraint 'total = 0' in line 6 cannot hold: every bandwidth is at "
            "least 0.001 GB/s",
        ),
        (
            "constraints:",
            "minimum: 0 GB/s\nconstraints:",
            "e.yaml:5:10: minimum: bandwidth must be positive, not '0 GB/s'",
        ),
        ("B2 + B3", "B2 + B4", "e.yaml:6:5: unknown dim 'B4': the network has B1..B3"),
        (
            LONGER,
            "",
            "e.yaml:3:5: workloads[0] must have communicators, or tensor: w.txt has no header that "
            "says which dims its collectives span",
        ),
        (
            "prices: p.yml",
            "prices: {inter-package: {link: 4}, inter-node: {link: 0}}",
            "e.yaml:7:55: prices.inter-node.link must be a number above 0, not '0'",
        ),
        (
            "prices: p.yml",
            "prices: {inter-package: {link: 4}, inter-node: {link: -3}}",
            "e.yaml:7:55: prices.inter-node.link must be a number above 0, not '-3'",
        ),
        (
            "prices: p.yml",
            "prices: {inter-package: {link: 4}, inter-node: {link: 3}}",
            "e.yaml:7:9: prices must have inter-pod, the tier of dim 3",
        ),
        (
            "prices: p.yml",
            "prices: {inter-package: {switch: 4}}",
            "e.yaml:7:25: prices.inter-package must have the key 'link'",
        ),
        (
            "prices: p.yml",
            "objective: perf-per-cost",
            "e.yaml:7:12: prices must be given for the objective perf-per-cost",
        ),
        (
            "prices: p.yml",
            "price: p.yml",
            "e.yaml:7:1: unknown key 'price' (did you mean 'prices'?)",
        ),
        (
            "constraints:\n  - B1 + B2 + B3 = 100\n",
            "",
            "e.yaml:1:1: the document must have the key 'constraints': nothing limits the "
            "bandwidths",
        ),
        (
            "B1 + B2 + B3 = 100",
            "B1 + B3 <= 100",
            "e.yaml:6:5: the constraints must limit every bandwidth, but B2 can grow for ever: add "
            "one such as 'B1 + B2 + B3 <= 100'",
        ),
        (
            "communicators: c.yml",
            "communicators: {forward: [4, -1], input_gradient: [4, 1, 1], "
            "weight_gradient: [1, 2, 4]}",
            "e.yaml:4:30: workloads[0].communicators.forward must have 3 entries, one for each dim "
            "of the network, not 2",
        ),
        (
            "communicators: c.yml",
            "communicators: {forward: [4, 1, 3], input_gradient: [4, 1, 1], "
            "weight_gradient: [1, 2, 4]}",
            "e.yaml:4:30: workloads[0].communicators.forward must divide the 4 NPUs of dim 3, "
            "not 3",
        ),
        (
            "communicators: c.yml",
            "communicators: {forward: [0, 1, 3]}",
            "e.yaml:4:31: workloads[0].communicators.forward[0] must be a whole number of NPUs, or "
            f"{UNUSED}, not '0'",
        ),
        (
            LONGER,
            "    tensor: 3\n",
            "e.yaml:3:5: workloads[0]: tensor must divide the 32 NPUs of the network, not 3",
        ),
        (
            LONGER,
            "    communicators: c.yml\n    tensor: 4\n",
            "e.yaml:5:13: workloads[0].tensor must not stand beside communicators",
        ),
        (
            LONGER,
            "    search: true\n",
            "e.yaml:4:13: workloads[0].search is for a model, not for a file",
        ),
        (
            "file: w.txt\n" + LONGER,
            "model: gpt3\n",
            "e.yaml:3:5: a model must have the key 'batch': samples of all replicas together",
        ),
        (
            "file: w.txt\n" + LONGER,
            "weight: 2\n",
            "e.yaml:3:5: a workload must have the key 'file' or the key 'model'",
        ),
        (
            "file: w.txt\n" + LONGER,
            "model: gpt4\n",
            "e.yaml:3:12: workloads[0].model must be one of resnet50, resnet152, gnmt, dlrm, "
            "dlrm-kaggle, transformer-17b, gpt3, transformer-1t, not 'gpt4' (did you mean 'gpt3'?)",
        ),
        (
            "file: w.txt\n" + LONGER,
            "model: gpt3\n    batch: 30\n    tensor: 8\n",
            "e.yaml:3:5: workloads[0]: batch must be a multiple of the 4 replicas, not 30",
        ),
        (
            "file: w.txt\n" + LONGER,
            "model: gpt3\n    batch: 32\n    tensor: 8\nmachine: {memory: 1GB}\n",
            "e.yaml:3:5: workloads[0]: memory must hold 16 bytes a parameter of the largest stage, "
            "which 1000000000 bytes do not with tensor 8 and pipeline 1",
        ),
        (
            "file: w.txt\n" + LONGER,
            "model: gpt3\n    batch: 32\n    search: true\nmachine: {memory: 1GB}\n",
            "e.yaml:3:5: gpt3 cannot be divided on Ring4_FC2_SW4: no tensor x pipeline x data fits "
            "the dims, the batch and the memory",
        ),
        (
            "file: w.txt\n" + LONGER,
            "model: resnet50\n    batch: 32\n    tensor: 2\n",
            "e.yaml:3:5: workloads[0]: tensor must be 1 for ResNet-50, which is only "
            "data-parallel, not 2",
        ),
        (
            "file: w.txt\n" + LONGER,
            "model: resnet50\n    batch: 32\n    pipeline: 2\n",
            "e.yaml:3:5: workloads[0]: pipeline must be 1 for ResNet-50, which is not cut in "
            "stages, not 2",
        ),
        (
            "file: w.txt\n" + LONGER,
            "model: gpt3\n    batch: 64\n    tensor: 4\n    pipeline: 2\n    microbatches: 5\n",
            "e.yaml:3:5: workloads[0]: microbatches must divide what each of 4 replicas has of the "
            "batch, 16, not 5",
        ),
        (
            "prices: p.yml",
            "shared_links: true",
            "e.yaml:7:15: shared_links must stand beside prices",
        ),
        (
            "B1 + B2 + B3 = 100",
            "B1 * B2 <= 50",
            "e.yaml:6:5: a constraint must be a sum such as '2 B1 + B2', not '* B2'",
        ),
        (
            "B1 + B2 + B3 = 100",
            "'B1 =='",
            "e.yaml:6:5: a constraint must be a sum such as '2 B1 + B2', not the end",
        ),
        (
            "network: n.yml",
            "network: {dims: [{kind: Mesh2D, size: 4}]}",
            "e.yaml:1:25: network.dims[0].kind must be one of Ring, FullyConnected, Switch, Fred, "
            "not 'Mesh2D'",
        ),
        (
            "network: n.yml",
            "network: {size: 4}",
            "e.yaml:1:10: network must have the key 'dims' (our own description), 'Topology' "
            "(LIBRA's) or 'npus-count' (its artifact's)",
        ),
    ],
)
def test_bad_experiments(refuse, old, new, message):
    text = EXPERIMENT.replace(old, new)
    assert text != EXPERIMENT
    Path("e.yaml").write_text(text)
    refuse("e.yaml", message=message)


def test_a_clash_between_two_files(refuse, folder):
    text = EXPERIMENT.replace("network: n.yml", "network: n.json")
    text = text.replace("B1 + B2 + B3 = 100", "total = 99").replace("prices: p.yml\n", "")
    (folder / "e.yaml").write_text(text.replace(LONGER, "    tensor: 4\n"))
    refuse(
        "e.yaml",
        message="n.json:1: the constraints 'total = 100' in line 1 and 'total = 99' in line 6 of "
        "e.yaml cannot all hold (every bandwidth is at least 0.001 GB/s); without any one of them "
        "the others can",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--json", "e.yaml"),
            "--json must name another file than the experiment, not e.yaml",
        ),
        (
            ("--front", "f.csv", "--json", "./f.csv"),
            "--json must name another file than --front, not f.csv",
        ),
    ],
)
def test_outputs_over_each_other(refuse, arguments, message):
    refuse("e.yaml", *arguments, message=message)


def test_bad_files_of_libra(refuse, folder):
    (folder / "n.yml").write_text(FILES["n.yml"].replace("Switch ]", "Swich ]"))
    refuse(
        "e.yaml",
        message="n.yml:1:35: Topology[2] must be one of Ring, FullyConnected, Switch, not 'Swich' "
        "(did you mean 'Switch'?)",
    )
    (folder / "n.yml").write_text(FILES["n.yml"].replace("[ 4, 2, 4 ]", "[ 4, 2 ]"))
    refuse(
        "e.yaml",
        message="n.yml:2:12: NpusCount must have 3 entries, one for each dim of Topology, not 2",
    )
    (folder / "n.yml").write_text(FILES["n.yml"])
    (folder / "c.yml").write_text(FILES["c.yml"].replace("WeightGrad", "WeightGrads"))
    refuse("e.yaml", message="c.yml:3:1: unknown key 'WeightGrads' (did you mean 'WeightGrad'?)")
    (folder / "c.yml").write_text(FILES["c.yml"])
    (folder / "p.yml").write_text(FILES["p.yml"].replace("31.6", "0"))
    refuse("e.yaml", message="p.yml:9:8: InterPod.Nic must be a number above 0, not '0'")
    (folder / "p.yml").write_text(FILES["p.yml"].replace("  Nic: 31.6\n", ""))
    refuse("e.yaml", message="e.yaml:7:9: prices must have nic for inter-pod: dim 3 is a Switch")
    (folder / "w.txt").write_text(LAYERS.replace("ALLGATHER", "ALLGATER"))
    (folder / "p.yml").write_text(FILES["p.yml"])
    refuse(
        "e.yaml",
        message="w.txt:2: field 7 (input-gradient communication type) of layer 'k': unknown "
        "collective 'ALLGATER' (did you mean 'ALLGATHER'?)",
    )
    Path("a.yaml").write_text(
        "network: n.json\nworkloads: [{file: h.txt}]\nconstraints: [total = 90]\n"
    )
    refuse(
        "a.yaml",
        message="n.json:1: the constraints 'total = 100' in line 1 and 'total = 90' in line 3 of "
        "a.yaml cannot all hold (every bandwidth is at least 0.001 GB/s); without any one of them "
        "the others can",
    )


def test_bad_arguments(refuse):
    Path("q.yaml").write_text(EXPERIMENT.replace("prices: p.yml\n", ""))
    refuse("q.yaml", "--front", "f.csv", message="q.yaml: prices must be given for --front")
    refuse(
        "q.yaml",
        "--objective",
        "perf-per-cost",
        message="q.yaml: prices must be given for --objective perf-per-cost",
    )
    refuse("e.yaml", "--plot", "f.jpg", message="--plot must end in .svg or .png, not 'f.jpg'")
    refuse("e.yaml", "--front", "f.txt", message="--front must end in .csv, not 'f.txt'")
    refuse(
        "e.yaml",
        "--points",
        "1",
        message="argument --points: must be in 2..1000, not 1 (see 'antiphon optimize --help')",
    )
    refuse("none.yaml", message="none.yaml: cannot be read: No such file or directory")
