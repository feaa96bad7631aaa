"""``antiphon collective`` and ``antiphon reproduce`` from the outside."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sim_top.cli.frame import main
from sim_top.reproduce.registry import Row, rows_of
from sw_model.schedule.native.library import library

ROOT = Path(__file__).resolve().parents[1]
NETWORK = ROOT / "examples" / "four_dims.yml"

ASTRA = """\
topology: [ Ring, FullyConnected, Ring, Switch ]
npus_count: [ {sizes} ]
bandwidth: [ 375, 25, 150, 100 ]
latency: [ 20, 700, 700, 1700 ]
"""


def _json(capsys, *arguments: str) -> dict:
    assert main([*arguments, "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def _collective(capsys, operation, size, *options, network=NETWORK):
    return _json(capsys, "collective", operation, size, "--network", str(network), *options)


@pytest.fixture
def astra(tmp_path):
    path = tmp_path / "network.yml"
    path.write_text(ASTRA.format(sizes="4, 8, 4, 8"))
    return path


def test_keys(capsys):
    found = _collective(capsys, "all-reduce", "64MiB", "--scheduler", "themis", "--intra", "scf")
    assert {
        "time_ns", "ideal_ns", "utilisation", "bound_ns", "bound_utilisation", "npus", "dims",
    } <= set(found)  # fmt: skip
    assert found["npus"] == 1024
    assert found["chunks"] == 64
    n, size, bandwidth = 1024, 64 * 2**20, 600e9
    assert found["ideal_ns"] == pytest.approx(2 * size * (n - 1) / n / bandwidth * 1e9)
    assert found["utilisation"] == pytest.approx(found["ideal_ns"] / found["time_ns"])
    assert found["bound_utilisation"] == pytest.approx(found["bound_ns"] / found["time_ns"])
    assert found["bound_utilisation"] <= 1
    for number, dim in enumerate(found["dims"]):
        assert dim["name"] == f"dim {number + 1}"
        moved = dim["bytes_per_npu"] / (dim["gb_per_s"] * found["time_ns"])
        assert dim["utilisation"] == pytest.approx(moved)
        assert dim["busy_ns"] <= found["time_ns"]
    assert [dim["kind"] for dim in found["dims"]] == ["Ring", "Switch", "Switch", "Switch"]


def test_both_kinds_of_file_mean_the_same(capsys, astra, tmp_path):
    own = tmp_path / "own.yml"
    own.write_text(
        "dims:\n"
        "  - {kind: Ring, size: 4, bandwidth_per_npu: 375 GiB/s, latency: 20 ns}\n"
        "  - {kind: FullyConnected, size: 8, bandwidth_per_npu: 175 GiB/s, latency: 700 ns}\n"
        "  - {kind: Ring, size: 4, bandwidth_per_npu: 150 GiB/s, latency: 700 ns}\n"
        "  - {kind: Switch, size: 8, bandwidth_per_npu: 100 GiB/s, latency: 1700 ns}\n"
    )
    for operation in ("all-reduce", "reduce-scatter", "all-gather", "all-to-all"):
        first, second = (
            _collective(capsys, operation, "1MiB", network=path) for path in (astra, own)
        )
        for found in (first, second):
            found.pop("planning_seconds")
        assert first == second


def test_ideal_by_collective(capsys):
    n, size, bandwidth = 1024, 2**20, 600e9
    for operation, moved in (
        ("all-reduce", 2 * size * (n - 1) / n),
        ("reduce-scatter", size * (n - 1) / n),
        ("all-to-all", size * (n - 1) / n),
        ("all-gather", size * (n - 1)),
    ):
        found = _collective(capsys, operation, "1MiB", "--chunks", "4")
        assert found["ideal_ns"] == pytest.approx(moved / bandwidth * 1e9)


def test_options(capsys):
    base = _collective(capsys, "all-reduce", "1MiB")
    serial = _collective(capsys, "all-reduce", "1MiB", "--latency-model", "serial")
    assert serial["time_ns"] > base["time_ns"]
    direct = _collective(capsys, "all-reduce", "1MiB", "--algorithm", "direct")
    assert {dim["algorithm"] for dim in direct["dims"]} == {"direct"}
    group = _collective(capsys, "all-reduce", "1MiB", "--group", "0-7")
    assert group["npus"] == 8
    assert [dim["size"] for dim in group["dims"]] == [4, 2, 1, 1]
    wide = _collective(capsys, "all-reduce", "1MiB", "--dtype", "fp32", "--chunks", "1")
    assert wide["dims"] == _collective(capsys, "all-reduce", "1MiB", "--chunks", "1")["dims"]
    empty = _collective(capsys, "all-reduce", "0")
    assert (empty["time_ns"], empty["utilisation"]) == (0, 1)


def test_balanced(capsys):
    if library() is None:
        pytest.skip("there is no C++ compiler")
    best = _collective(capsys, "all-reduce", "64MiB", "--scheduler", "balanced")
    simple = _collective(capsys, "all-reduce", "64MiB", "--scheduler", "themis", "--intra", "scf")
    assert best["time_ns"] < simple["time_ns"]
    searched = _collective(
        capsys, "all-reduce", "64MiB", "--scheduler", "balanced", "--plan-seconds", "0"
    )
    assert best["time_ns"] <= searched["time_ns"] <= simple["time_ns"]


def test_system_file(capsys, tmp_path):
    system = tmp_path / "system.json"
    system.write_text(
        '{"preferred-dataset-splits": 8, "inter-dimension-scheduling": "themis",\n'
        ' "intra-dimension-scheduling": "SCF",\n'
        ' "all-reduce-implementation": ["ring", "halvingDoubling", "oneDirect", "direct"]}\n'
    )
    found = _collective(capsys, "all-reduce", "64MiB", "--system", str(system))
    assert (found["chunks"], found["scheduler"]) == (8, "themis scf")
    assert [dim["algorithm"] for dim in found["dims"]] == [
        "ring", "halving-doubling", "direct", "direct",
    ]  # fmt: skip
    more = _collective(capsys, "all-reduce", "64MiB", "--system", str(system), "--chunks", "16")
    assert more["chunks"] == 16


def test_astra_semantics(capsys, tmp_path):
    """The worked example: 4 x (10 + 14 x (1110 + 10) + 7 x 3 x 655) ns."""
    network = tmp_path / "ring.yml"
    network.write_text(
        "topology: [ Ring ]\nnpus_count: [ 8 ]\nbandwidth: [ 50 ]\nlatency: [ 500 ]\n"
    )
    system = tmp_path / "system.json"
    system.write_text(
        '{"endpoint-delay": 10, "preferred-dataset-splits": 4, "local-mem-bw": 50,\n'
        ' "all-reduce-implementation": ["ring"]}\n'
    )
    options = ("--semantics", "astra-sim", "--system", str(system))
    found = _collective(capsys, "all-reduce", "1MiB", *options, network=network)
    # 131072 / 4 bytes at 50 x 2^30 B/s and a step latency of 500 ns; the published 117,780 is
    # the congestion-aware figure for the same.
    assert found["time_ns"] == 117_780


def test_a_group_that_does_not_fold(capsys):
    found = _collective(capsys, "all-reduce", "1MiB", "--group", "0,5,17")
    assert found["npus"] == 3
    assert 0 < found["bound_utilisation"] <= 1
    assert [dim["size"] for dim in found["dims"]] == [4, 4, 8, 8]
    arguments = ["collective", "all-reduce", "1MiB", "--network", str(NETWORK)]
    assert main([*arguments, "--group", "0,5,17"]) == 0
    assert "link by link" in capsys.readouterr().out


def test_endpoints(capsys):
    found = _collective(capsys, "all-reduce", "1MiB", "--endpoint", "ace")
    assert found["memory_reads_per_payload_byte"] == 1
    found = _collective(capsys, "all-reduce", "1MiB", "--endpoint", "baseline-comp-opt")
    assert found["memory_read_bytes"] > 2 * 2**20
    assert found["steady_reads_per_payload_byte"] == pytest.approx(1.5 * 2 * 1023 / 1024)
    arguments = ["collective", "all-reduce", "1MiB", "--network", str(NETWORK)]
    assert main([*arguments, "--endpoint", "baseline-no-overlap"]) == 0
    assert "Main memory of one NPU" in capsys.readouterr().out


def test_explain(capsys):
    arguments = ["collective", "all-reduce", "1MiB", "--network", str(NETWORK), "--explain"]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "RS 1 2 3 4, AG 4 3 2 1" in shown
    assert "no schedule is faster" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["all-redcue", "1"], "unknown collective 'all-redcue' (did you mean 'all-reduce'?)"),
        (["all-reduce", "3"], "SIZE must be whole elements of 2 bytes (fp16), not 3 bytes"),
        (["all-reduce", "1.5"], "size must be a whole number of bytes, not '1.5'"),
        (
            ["all-reduce", "8", "--dtype", "fp8"],
            "unknown data type 'fp8' (known: bf16, fp16, fp32, int32)",
        ),
        (["all-reduce", "8", "--scheduler", "temis"], "unknown scheduler 'temis'"),
        (["all-reduce", "8", "--intra", "sfc"], "unknown intra-dim order 'sfc'"),
        (["all-reduce", "8", "--endpoint", "acme"], "unknown endpoint 'acme'"),
        (["all-reduce", "8", "--semantics", "antifon"], "unknown semantics 'antifon'"),
        (["all-reduce", "8", "--semantics", "astra-sim", "--endpoint", "ace"], "--endpoint is for"),
        (["all-reduce", "8", "--chunks", "0"], "must be a whole number of at least 1, not '0'"),
        (["all-reduce", "8", "--plan-seconds", "-1"], "must be seconds, at least 0, not '-1'"),
        (["all-reduce", "8", "--group", "0-2000"], "a rank of the group must be in 0..1023"),
        (
            ["all-reduce", "8", "--group", "0,5", "--scheduler", "themis"],
            "--scheduler must be left",
        ),
        (["all-reduce", "8", "--group", "x"], "a group must be ranks such as '0-7'"),
        (
            ["all-reduce", "8", "--algorithm", "in-network"],
            "runs ring, direct, bidirectional-ring, not",
        ),
        (["all-reduce", "8", "--semantics", "astra-sim", "--scheduler", "themis"], "--scheduler"),
        (["all-reduce", "8", "--semantics", "astra-sim", "--algorithm", "rong"], "'rong'"),
    ],
)
def test_bad_input(arguments, message, capsys):
    assert main(["collective", *arguments, "--network", str(NETWORK)]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("375", "0"), "bandwidth[0] must be a number above 0, not '0'"),
        (("4, 8, 4, 8", "4, 8, 4"), "npus_count must have 4 entries"),
        (("Ring,", "Rong,"), "Ring"),
    ],
)
def test_bad_networks(change, message, tmp_path, capsys):
    path = tmp_path / "bad.yml"
    path.write_text(ASTRA.format(sizes="4, 8, 4, 8").replace(*change))
    assert main(["collective", "all-reduce", "8", "--network", str(path)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert str(path) in error


def test_start_up_is_light(astra):
    """Neither a solver nor NumPy nor the table library where JSON is asked for; the cost does not
    grow with the NPUs."""
    script = (
        "import sys, resource\n"
        "from sim_top.cli.frame import main\n"
        "assert main(sys.argv[1:]) == 0\n"
        "heavy = {'numpy', 'scipy', 'numba', 'rich', 'ctypes', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\n"
        # Not ru_maxrss: that is inherited from the process that started this one.
        "status = dict(line.split(':', 1) for line in open('/proc/self/status'))\n"
        "peak = status['VmHWM'].split()[0]\n"
        "print(used.ru_utime + used.ru_stime, peak, file=sys.stderr)\n"
    )
    seconds = {}
    for sizes in ("4, 8, 4, 8", "32, 32, 32, 32"):
        astra.write_text(ASTRA.format(sizes=sizes))
        options = ["64MiB", "--network", str(astra), "--scheduler", "themis", "--json", "-"]
        done = subprocess.run(
            [sys.executable, "-c", script, "collective", "all-reduce", *options],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        used, peak = done.stderr.split()
        seconds[json.loads(done.stdout)["npus"]] = float(used)
        assert int(peak) < 300_000  # KiB
    assert seconds[1024] < 0.8
    assert seconds[1 << 20] < 1.5 * seconds[1024] + 0.1


def test_rows():
    row = Row("a", 1.0, 1.1, "somebody", 0.2, "s")
    assert row.ok
    assert row.json() == {
        "name": "a", "ours": 1.0, "reference": 1.1, "provenance": "somebody",
        "tolerance": 0.2, "unit": "s", "ok": True, "reason": "",
    }  # fmt: skip
    assert not Row("a", 1.0, 1.3, "", 0.2).ok
    assert Row("a", 9.0, 1.3, "", 0, at_least=True).ok
    assert not Row("a", 1.2, 1.3, "", 0, at_least=True).ok


def test_reproduce_bad_input(capsys):
    assert main(["reproduce", "themes"]) == 2
    assert "unknown set of results 'themes' (did you mean 'themis'?)" in capsys.readouterr().err
    assert main(["reproduce", "themis", "--plot", "a.txt"]) == 2
    assert "--plot must end in .svg or .png, not 'a.txt'" in capsys.readouterr().err


@pytest.mark.full
def test_reproduce_themis(tmp_path):
    rows = rows_of("themis", lambda share: None)
    assert [row.name for row in rows if not row.explained] == []
    assert all("samples an NPU" in row.name for row in rows if not row.ok)
    assert main(["reproduce", "themis", "--plot", str(tmp_path / "t.svg")]) == 0
    assert (tmp_path / "t.svg").stat().st_size > 10_000


@pytest.mark.parametrize("asked", [("all-reduce",), ("send", "--root", "0", "--target", "7")])
def test_a_tree_of_switches_is_taken_for_one_and_that_is_said(capsys, tmp_path, asked):
    dim = "{kind: Fred, size: 20, bandwidth_per_npu: 20 GB/s, latency: 20 ns%s}"
    one, tree = tmp_path / "one.yml", tmp_path / "tree.yml"
    one.write_text("dims:\n  - " + dim % "")
    tree.write_text("dims:\n  - " + dim % ", tree: {ranks: 4, ups: 4, tops: 2}")
    said = (
        f"antiphon: warning: {tree}: the tree is taken for one switch; "
        "`antiphon run` and `antiphon cosim` model it packet by packet\n"
    )
    times = []
    for network, warning in ((one, ""), (tree, said)):
        operation, *options = asked
        size = ["64KiB", "--network", str(network), "--json", "-"]
        assert main(["collective", operation, *size, *options]) == 0
        out, err = capsys.readouterr()
        assert err == warning
        times.append(json.loads(out)["time_ns"])
    assert times[0] == times[1]
