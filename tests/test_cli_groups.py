"""``antiphon collective``: rooted operations, groups, algorithms by dim, and bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sim_top.cli.frame import main

NETWORK = """\
dims:
  - {kind: Ring, size: 4, bandwidth_per_npu: 4 GB/s, latency: 100 ns}
  - {kind: FullyConnected, size: 3, bandwidth_per_npu: 2 GB/s, latency: 10 ns}
  - {kind: Switch, size: 8, bandwidth_per_npu: 1 GB/s, latency: 1 us}
"""
FLAT = (
    "a group that is not all combinations of some coordinates of each dim is laid flat on the real "
    "links"
)


@pytest.fixture
def network(tmp_path) -> Path:
    path = tmp_path / "network.yml"
    path.write_text(NETWORK)
    return path


def _json(capsys, network, *arguments: str) -> dict:
    assert main(["collective", *arguments, "--network", str(network), "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_broadcast_and_a_reduce(capsys, network):
    """One chunk, dim by dim, the payload on each; steps 2 x 1 us, 2 x 10 ns, 3 x 100 ns."""
    for operation in ("broadcast", "reduce"):
        found = _json(capsys, network, operation, "8MB", "--chunks", "1")
        assert found["time_ns"] == 8e6 / 4 + 8e6 / 2 + 8e6 / 1 + 2 * 1000 + 2 * 10 + 3 * 100
        assert [dim["bytes_per_npu"] for dim in found["dims"]] == [8_000_000] * 3
        assert found["ideal_ns"] == pytest.approx(8e6 / 7)
        assert found["bound_ns"] == 8e6
        assert _json(capsys, network, operation, "8MB", "--root", "5") | {
            "planning_seconds": 0
        } == _json(capsys, network, operation, "8MB") | {"planning_seconds": 0}
    assert _json(capsys, network, "broadcast", "8MB")["orders"] == {"BC 3 2 1": 64}
    assert _json(capsys, network, "reduce", "8MB")["orders"] == {"RED 1 2 3": 64}


def test_a_send(capsys, network):
    """From 0 to 95: three hops of the ring, one link of two, the switch; cut through."""
    found = _json(capsys, network, "send", "1MB")
    assert found["npus"] == 2
    assert found["time_ns"] == pytest.approx(1e6 + 3 * 100 + 10 + 1000)
    assert [dim["busy_ns"] for dim in found["dims"]] == [0.25e6, 1e6, 1e6]
    assert found["notes"] == ["a send goes over the real links"]
    back = _json(capsys, network, "send", "1MB", "--group", "3,4", "--root", "4")
    assert back["time_ns"] == pytest.approx(1e6 + 3 * 100 + 10)
    here = _json(capsys, network, "send", "1MB", "--root", "7", "--target", "7")
    assert (here["time_ns"], here["utilisation"]) == (0, 1)


def test_algorithms_by_dim(capsys, network):
    names = "bidirectional-ring,direct,double-binary-tree"
    found = _json(capsys, network, "all-reduce", "12MB", "--algorithm", names, "--chunks", "1")
    assert [dim["algorithm"] for dim in found["dims"]] == names.split(",")
    assert found["orders"] == {"RS 1 2, AR 3, AG 2 1": 1}
    # 2 x 3/4 of it, 2 x 2/3 of a quarter, and twice what is left: a twelfth, and 4 NPUs or more.
    assert [dim["bytes_per_npu"] for dim in found["dims"]] == [18_000_000, 4_000_000, 2_000_000]
    # Steps: 2 + 2 round the ring, 1 + 1, 3 + 3.
    assert found["time_ns"] == 18e6 / 4 + 4e6 / 2 + 2e6 + 4 * 100 + 2 * 10 + 6 * 1000


def test_the_tree_of_a_system_file(capsys, network, tmp_path):
    """ASTRA-sim's name of it is ours."""
    system = tmp_path / "system.json"
    system.write_text(
        '{"preferred-dataset-splits": 1,\n'
        ' "all-reduce-implementation": ["ring", "direct", "doubleBinaryTree"]}\n'
    )
    found = _json(capsys, network, "all-reduce", "12MB", "--system", str(system))
    assert [dim["algorithm"] for dim in found["dims"]] == [
        "ring", "direct", "double-binary-tree",
    ]  # fmt: skip
    assert found["dims"][2]["bytes_per_npu"] == 2_000_000


def test_endpoints_without_an_engine(capsys, network):
    """A broadcast is read once and written once on every dim, by who passes it on."""
    found = _json(capsys, network, "broadcast", "8MB", "--endpoint", "baseline-comm-opt")
    assert found["memory_read_bytes"] == found["memory_write_bytes"] == 3 * 8e6


@pytest.mark.parametrize("operation", ["all-to-all", "broadcast", "reduce"])
def test_an_engine_reads_and_writes_once(capsys, network, operation):
    found = _json(capsys, network, operation, "9.6MB", "--endpoint", "ace")
    assert found["memory_read_bytes"] == found["memory_write_bytes"] == 9.6e6
    assert 0 < found["bound_utilisation"] <= 1


def test_groups_that_share_nothing(capsys, network):
    """Two rings: each as if alone. The note says how they are laid."""
    alone = _json(capsys, network, "all-reduce", "1MB", "--group", "0-3")
    assert alone["notes"][-1] == "the group is a network of its own, 4 x 1 x 1"
    both = _json(capsys, network, "all-reduce", "1MB", "--group", "0-3", "--group", "4-7")
    assert both["time_ns"] == alone["time_ns"]
    assert [(g["ranks"], g["time_ns"]) for g in both["groups"]] == [
        ("0-3", alone["time_ns"]), ("4-7", alone["time_ns"]),
    ]  # fmt: skip
    assert both["notes"][-1].startswith("the groups share no link and are networks of their own")
    # Unlike groups: the slowest is shown in full.
    unlike = _json(capsys, network, "all-reduce", "1MB", "--group", "0-3", "--group", "4,16")
    assert unlike["time_ns"] == unlike["groups"][1]["time_ns"] > unlike["groups"][0]["time_ns"]
    assert unlike["npus"] == 2


def test_groups_that_share_a_ring(capsys, network):
    """Both have half of every link of the ring: 2 x 1/2 of the payload each, and 2 hops a step."""
    found = _json(capsys, network, "all-reduce", "1MB", "--group", "0,2", "--group", "1,3")
    assert found["time_ns"] == pytest.approx(2 * 1e6 / 4 + 2 * 2 * 100)
    assert found["npus"] == 4
    assert found["notes"] == ["groups that share links are laid flat on the real links"]
    assert found["dims"][0]["bytes_per_npu"] == 2_000_000
    assert found["scheduler"] == "ring on the real links"


def test_any_group_by_any_algorithm(capsys, network):
    for algorithm in ("ring", "direct", "halving-doubling", "double-binary-tree"):
        options = ("--group", "0,5,17,95", "--algorithm", algorithm)
        found = _json(capsys, network, "all-reduce", "1MB", *options)
        assert found["scheduler"] == f"{algorithm} on the real links"
        assert found["notes"] == [FLAT]
        assert 0 < found["bound_utilisation"] <= 1


def test_nothing_takes_no_time(capsys, network):
    for operation in (
        "all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast", "reduce", "send",
    ):  # fmt: skip
        for options in ((), ("--group", "0,5,17")):
            found = _json(capsys, network, operation, "0", *options)
            assert (found["time_ns"], found["chunks"], found["utilisation"]) == (0, 0, 1)
            assert "the collective is empty and takes no time" in found["notes"]
            assert {dim["bytes_per_npu"] for dim in found["dims"]} == {0}


def test_fewer_elements_than_chunks(capsys, network):
    found = _json(capsys, network, "broadcast", "10", "--chunks", "64")
    assert found["chunks"] == 5
    assert found["notes"] == ["5 chunks instead of 64: there are no more elements to cut"]
    found = _json(capsys, network, "all-reduce", "10", "--chunks", "64")
    assert found["chunks"] == 1
    assert found["notes"] == [
        "1 chunk instead of 64: a chunk is a multiple of the 96 ranks in elements"
    ]


@pytest.mark.parametrize("endpoint", ["ideal", "baseline-comp-opt", "ace"])
@pytest.mark.parametrize("scheduler", ["baseline", "themis", "balanced"])
def test_every_endpoint_and_scheduler_says_so(capsys, network, scheduler, endpoint):
    options = ["--scheduler", scheduler, "--endpoint", endpoint, "--chunks"]
    found = _json(capsys, network, "all-reduce", "300", *options, "7")  # 150 elements, 96 ranks
    least = "there is no more to cut" if endpoint == "ace" else "a chunk is a multiple of the 96"
    assert found["chunks"] <= 2
    assert found["notes"][0].startswith(f"{found['chunks']} chunk")
    assert f"instead of 7: {least}" in found["notes"][0]
    found = _json(capsys, network, "all-reduce", "0", *options, "7")
    assert (found["time_ns"], found["chunks"]) == (0, 0)
    assert found["notes"] == ["the collective is empty and takes no time"]
    found = _json(capsys, network, "all-reduce", "38400", *options, "2")  # enough of it
    assert found["notes"] == []


@pytest.mark.parametrize("endpoint", ["ideal", "baseline-comm-opt", "ace"])
def test_initial_loads_on_every_endpoint(capsys, tmp_path, endpoint):
    """Dim 2 is faster but begins with a second's load: no chunk begins with it any more."""
    path = tmp_path / "network.yml"
    path.write_text(
        "dims:\n"
        "  - {kind: Switch, size: 4, bandwidth_per_npu: 10 GB/s, latency: 0 ns}\n"
        "  - {kind: Switch, size: 4, bandwidth_per_npu: 40 GB/s, latency: 1 ms}\n"
    )
    for load, some in (("zero", True), ("latency", False)):
        options = ("--scheduler", "themis", "--initial-load", load, "--endpoint", endpoint)
        found = _json(capsys, path, "reduce-scatter", "64kB", *options, "--chunks", "8")
        assert any(order.startswith("RS 2") for order in found["orders"]) is some


def test_tables(capsys, network):
    arguments = ["collective", "all-reduce", "1MB", "--network", str(network)]
    assert main([*arguments, "--group", "0,2", "--group", "1,3"]) == 0
    shown = capsys.readouterr().out
    assert "link by link" in shown
    assert "Groups" in shown
    assert "note: groups that share links" in shown
    assert main([*arguments, "--group", "0-3", "--group", "4-7"]) == 0
    assert "0-3" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("all-reduce 8 --scheduler temis", "unknown scheduler 'temis' (did you mean 'themis'?)"),
        ("all-reduce 8 --endpoint acme", "unknown endpoint 'acme' (did you mean 'ace'?)"),
        (
            "all-reduce 8 --chunks 0",
            "argument --chunks: must be a whole number of at least 1, not '0' "
            "(see 'antiphon collective --help')",
        ),
        ("all-reduce 8 --group 0,96", "a rank of the group must be in 0..95, not 96"),
        (
            "all-reduce 8 --group 0 --root 0",
            "--root is for broadcast, reduce and send, not for all-reduce",
        ),
        ("reduce 8 --target 3", "--target is for send, not for reduce"),
        ("broadcast 8 --group 0-3 --root 4", "--root must be a rank of the group, not 4"),
        ("send 8 --target 96", "--target must be a rank of the group, not 96"),
        (
            "send 8 --target x",
            "argument --target: must be a rank such as 3, not 'x' "
            "(see 'antiphon collective --help')",
        ),
        ("all-reduce 8 --group 0,5 --chunks 4", f"--chunks must be left out: {FLAT}"),
        (
            "all-reduce 8 --group 0,2 --group 1,3 --intra scf",
            "--intra must be left out: groups that share links are laid flat on the real links",
        ),
        (
            "send 8 --endpoint ace",
            "--endpoint must be left out: a send goes over the real links",
        ),
        (
            "all-reduce 8 --group 0,5 --algorithm ring,ring",
            "--algorithm must name one algorithm for groups on the real links, not 2",
        ),
        (
            "all-reduce 8 --group 0,5 --algorithm rings",
            "unknown algorithm 'rings' (did you mean 'ring'?)",
        ),
        (
            "broadcast 8 --semantics astra-sim",
            "a broadcast is for the semantics antiphon, not astra-sim",
        ),
        (
            "broadcast 8 --endpoint baseline-comm-opt --algorithm ring,direct,halving-doubling",
            "the memory traffic of a broadcast by halving-doubling is not counted: "
            "the endpoint must be ideal",
        ),
        (
            "all-reduce 8 --algorithm double-binary-tree,direct,direct",
            "a Ring dim runs ring, direct, bidirectional-ring, not 'double-binary-tree'",
        ),
        (
            "all-reduce 8 --algorithm ring,double-binary-tree,direct",
            "double-binary-tree makes whole all-reduces: of several dims it is for the outermost, "
            "dim 3, not for dim 2",
        ),
    ],
)
def test_bad_input(arguments, message, capsys, network):
    assert main(["collective", *arguments.split(), "--network", str(network)]) == 2
    captured = capsys.readouterr()
    assert captured.err == f"antiphon: {message}\n"
    assert captured.out == ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("4 GB/s", "0 GB/s"),
            "2:46: dims[0].bandwidth_per_npu: bandwidth must be positive, not '0 GB/s'",
        ),
        (
            ("size: 4", "size: 0"),
            "2:24: dims[0].size must be a whole number of at least 1, not '0'",
        ),
    ],
)
def test_bad_networks(change, message, capsys, network):
    network.write_text(NETWORK.replace(*change))
    assert main(["collective", "all-reduce", "8", "--network", str(network)]) == 2
    assert capsys.readouterr().err == f"antiphon: {network}:{message}\n"


def test_a_list_that_is_too_short(capsys, tmp_path):
    path = tmp_path / "n.yml"
    path.write_text(
        "topology: [ Ring, Switch ]\nnpus_count: [ 4 ]\nbandwidth: [ 1, 1 ]\nlatency: [ 1, 1 ]\n"
    )
    assert main(["collective", "all-reduce", "8", "--network", str(path)]) == 2
    assert capsys.readouterr().err == (
        f"antiphon: {path}:2:13: npus_count must have 2 entries, one for each dim of topology, "
        "not 1\n"
    )
