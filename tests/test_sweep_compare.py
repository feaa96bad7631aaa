"""``antiphon sweep`` and ``antiphon compare``."""

from __future__ import annotations

import json

import pytest

from sim_top import cli
from sim_top.cli.sweep import _Part
from sw_model.report.differences import differences
from sw_model.variants import combinations, parse_setting, variant
from tests.chakra_traces import all_reduce, write
from tests.test_run_files import EXPERIMENT, antiphon

__all__ = ["antiphon"]  # a fixture


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "w.txt").write_text(
        "DATA\n1\nconv1\t-1\t10\tNONE\t0\t11\tNONE\t0\t12\tALLREDUCE\t65536\t3\n"
    )
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_sweep_is_its_runs(folder, antiphon):
    status, out, err = antiphon(
        *("sweep", "e.yaml", "--json", "-"),
        *("--set", "schedule.scheduler=baseline,themis"),
        *("--set", "network.dims[1].bandwidth_per_npu=15 GB/s,10 GB/s"),
    )
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert found["experiment"] == "e.yaml"
    assert [run["settings"] for run in found["runs"]] == [
        {"schedule.scheduler": scheduler, "network.dims[1].bandwidth_per_npu": bandwidth}
        for scheduler in ("baseline", "themis")
        for bandwidth in ("15 GB/s", "10 GB/s")
    ]
    assert [run["dims"][1]["gb_per_s"] for run in found["runs"]] == [15, 10, 15, 10]
    for run in found["runs"][::2]:  # each is what `antiphon run` says
        scheduler = run.pop("settings")["schedule.scheduler"]
        _, out, _ = antiphon("run", "e.yaml", "--scheduler", scheduler, "--json", "-")
        assert json.loads(out) == run
    assert len({run["total_ns"] for run in found["runs"]}) > 2


def test_a_sweep_for_people(folder, antiphon):
    status, out, _ = antiphon("sweep", "e.yaml", "--set", "workload.compute_scale.3=1,64")
    assert status == 0
    lines = [line.split() for line in out.splitlines()]
    head = next(line for line in lines if "total" in line)
    assert head[0] == "3"
    rows = [line for line in lines if line and line[0] in ("1", "64")]
    assert rows[0][2] == "+0.00%"
    assert float(rows[1][1]) > float(rows[0][1])


def test_the_bar_of_a_sweep_does_not_go_back():
    shares: list[float] = []
    part = _Part(json_target="-")
    part.within(shares.append, 1, 2)
    for _ in range(2):  # reading, and then the run
        with part.progress("stage") as progress:
            for share in (0.0, 0.5, 1.0):
                progress(share)
    assert shares == [0.5, 0.75, 1.0, 1.0, 1.0, 1.0]


def test_a_sweep_over_traces(folder, antiphon):
    write(folder, *[[all_reduce(0, 1 << 20)]] * 4)
    status, out, _ = antiphon(
        "sweep", "e.yaml", "--set", "workload.file=w", "--set", "schedule.chunks=1,8", "--json", "-"
    )
    assert status == 0
    one, eight = json.loads(out)["runs"]
    assert one["semantics"] == "antiphon"
    assert eight["settings"] == {"workload.file": "w", "schedule.chunks": 8}
    assert eight["total_ns"] < one["total_ns"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["schedule.chunk=3"],
         "--set schedule.chunk=3: unknown key 'schedule.chunk' (did you mean 'chunks'?)"),
        (["schedul.chunks=3"],
         "--set schedul.chunks=3: unknown key 'schedul' (did you mean 'schedule'?)"),
        (["schedule.chunks=3,0"],
         "--set schedule.chunks=0: schedule.chunks must be a whole number of at least 1, not '0'"),
        (["schedule.chunks=2", "workload.ranks=4,8"],
         "--set schedule.chunks=2, workload.ranks=8: the sizes of the network must multiply to the "
         "8 ranks of the workload, not 2 x 2 = 4"),
        (["network.dims.0.size=3"],
         "--set network.dims.0.size: '0' must be an index such as [0] in e.yaml, where a list is"),
        (["network.dims[2].size=3"],
         "--set network.dims[2].size: [2] must be less than 2, the length of the list"),
        (["schedule[0]=3"], "--set schedule[0]: there is no list at [0] in e.yaml"),
        (["workload[0]=3"], "--set workload[0]: there is no list at [0] in e.yaml"),
        (["workload.file.x=3"],
         "--set workload.file.x: 'x' cannot be set in e.yaml, where 'w.txt' is no mapping"),
        (["workload..file=3"],
         "--set workload..file: a key must read such as network.dims[1].size"),
        (["cosim.scale={"], "--set cosim.scale: must be a value in YAML, not '{'"),
        (["cosim.scale=#"], "--set cosim.scale: must be a value in YAML, not '#'"),
        (["workload.file=x.txt"],
         "with workload.file=x.txt: x.txt: cannot be read: No such file or directory"),
        (["network=n.yml"], "n.yml: cannot be read: No such file or directory"),
        (["clock=1 GHz", "clock=2 GHz"], "--set must name each key once, not 'clock' 2 times"),
        (["clock"],
         "argument --set: must be KEY=VALUE,VALUE,..., not 'clock' (see 'antiphon sweep --help')"),
        (["clock=1 GHz,,2 GHz"],
         "argument --set: must have a value before and after every comma, not "
         "'clock=1 GHz,,2 GHz' (see 'antiphon sweep --help')"),
        (["clock=1 GHz,1 GHz"],
         "argument --set: must name each value once, not '1 GHz' 2 times "
         "(see 'antiphon sweep --help')"),
        ([f"{key}=" + ",".join(map(str, range(1, 102))) for key in ("a", "b")],
         "--set must lead to at most 10,000 runs, not 10,201"),
    ],
)  # fmt: skip
def test_wrong_settings(folder, antiphon, settings, message):
    options = [word for setting in settings for word in ("--set", setting)]
    assert antiphon("sweep", "e.yaml", *options) == (2, "", f"antiphon: {message}\n")


def test_a_sweep_of_a_wrong_file_blames_the_file(folder, antiphon):
    (folder / "e.yaml").write_text(EXPERIMENT + "clok: 1 GHz\n")
    assert antiphon("sweep", "e.yaml", "--set", "clock=1 GHz") == (
        2,
        "",
        "antiphon: e.yaml:8:1: unknown key 'clok' (did you mean 'clock'?)\n",
    )
    assert antiphon("sweep", "e.yaml")[0] == 2


def test_a_setting_leaves_aliases_alone(folder):
    (folder / "e.yaml").write_text(
        "workload: {file: w.txt}\n"
        "network:\n"
        "  dims:\n"
        "    - &dim {kind: Ring, size: 2, bandwidth_per_npu: 20 GB/s, latency: 8 ns}\n"
        "    - *dim\n"
        'clock: "1.25 GHz"\n'
    )
    dims = variant("e.yaml", {"network.dims[0].size": "4"}).network.dims
    assert [dim.size for dim in dims] == [4, 2]
    assert variant("e.yaml", {}).clock_hz == 1_250_000_000


def test_values_in_brackets_keep_their_commas():
    assert parse_setting("a.b = {x: 1, y: [2, 3]}, 4") == ("a.b", ("{x: 1, y: [2, 3]}", "4"))
    assert list(combinations([("a", "12"), ("b", "34")])) == [
        {"a": "1", "b": "3"}, {"a": "1", "b": "4"}, {"a": "2", "b": "3"}, {"a": "2", "b": "4"},
    ]  # fmt: skip


def test_what_changed(folder, antiphon):
    assert antiphon("run", "e.yaml", "--scheduler", "baseline", "--json", "a.json")[0] == 0
    assert antiphon("run", "e.yaml", "--scheduler", "themis", "--json", "b.json")[0] == 0
    status, out, err = antiphon("compare", "a.json", "b.json", "--json", "-")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert found["kind"] == "run"
    before, after = (json.loads((folder / name).read_text()) for name in ("a.json", "b.json"))
    total = found["differences"][0]
    assert total == {
        "key": "total_ns",
        "from": before["total_ns"],
        "to": after["total_ns"],
        "relative": after["total_ns"] / before["total_ns"] - 1,
        "only_in": None,
    }
    keys = [one["key"] for one in found["differences"]]
    assert "layers[conv1].exposed_ns" in keys
    assert "compute_ns" not in keys

    status, out, _ = antiphon("compare", "a.json", "b.json", "--rows", "3")
    assert status == 0
    assert f"{len(keys)} differences, 3 of them here" in out
    assert "total_ns" in out
    status, out, _ = antiphon("compare", "a.json", "a.json")
    assert (status, "no difference" in out) == (0, True)


def test_differences():
    def found(before, after):
        return [
            (d.key, d.before, d.after, d.relative, d.only_in) for d in differences(before, after)
        ]

    assert found({"a": 0, "b": 1, "c": True, "d": None}, {"a": 2, "b": 1.0, "c": 1, "d": None}) == [
        ("a", 0, 2, None, None),
        ("c", True, 1, None, None),
    ]
    named = [{"name": "x", "v": 4}, {"name": "y", "v": 1}]
    assert found({"l": named}, {"l": [named[1], {"name": "x", "v": 5}]}) == [
        ("l[x].v", 4, 5, 0.25, None)
    ]
    assert found({"l": [*named, named[0]]}, {"l": named}) == [
        ("l[2]", named[0], None, None, "from")
    ]
    assert found({"l": []}, {"l": [3], "m": "z"}) == [
        ("l[0]", None, 3, None, "to"),
        ("m", None, "z", None, "to"),
    ]
    assert found({"a": [1]}, {"a": {"b": 1}}) == [("a", [1], {"b": 1}, None, None)]


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (None, "b.json: cannot be read: No such file or directory"),
        (b"", "b.json:1:1: must be JSON: Expecting value"),
        (b'{\n"a": }', "b.json:2:6: must be JSON: Expecting value"),
        (b"\xff", "b.json: must be text in UTF-8"),
        (b"[]", "b.json: must be a JSON object, as --json writes it"),
        (b'{"total_ns": NaN}', "b.json: must be JSON: NaN is no number in it"),
        (b'{"x": 1}', "b.json: must be the result of an antiphon command, as --json writes it"),
        (b'{"time_ns": 1, "npus": 2}',
         "a.json and b.json must be results of one command, not of antiphon run and antiphon "
         "collective"),
    ],
)  # fmt: skip
def test_wrong_results(folder, antiphon, contents, message):
    (folder / "a.json").write_text('{"total_ns": 1, "layers": []}')
    if contents is not None:
        (folder / "b.json").write_bytes(contents)
    assert antiphon("compare", "a.json", "b.json") == (2, "", f"antiphon: {message}\n")


def test_rows_must_be_a_number(folder, capsys):
    assert cli.main(["compare", "a.json", "b.json", "--rows", "0"]) == 2
    assert "must be a whole number of at least 1, not '0'" in capsys.readouterr().err
