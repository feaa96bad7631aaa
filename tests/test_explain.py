"""``--explain``: one collective phase by phase, and why other algorithms are slower."""

from __future__ import annotations

import json

import pytest

from tests.chakra_traces import all_reduce, compute, write
from tests.test_run_files import antiphon, folder

__all__ = ["antiphon", "folder"]  # fixtures

NETWORK = "topology: [ {kind} ]\nnpus_count: [ 8 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n"
STEP = 500.0  # ns


def explanation(antiphon, *arguments: object) -> dict:
    status, out, _ = antiphon(*arguments, "--explain", "--json", "-")
    assert status == 0
    return json.loads(out)["explanation"]


def test_why_direct_beats_ring_on_a_switch(folder, antiphon):
    (folder / "n.yml").write_text(NETWORK.format(kind="Switch"))
    arguments = ("collective", "all-reduce", "1MiB", "--network", "n.yml", "--algorithm", "ring")
    found = explanation(antiphon, *arguments)
    assert [phase["operation"] for phase in found["phases"]] == ["reduce-scatter", "all-gather"]
    for phase in found["phases"]:
        assert phase["sent_bytes"] == phase["received_bytes"] == 7 * 2**17
        assert phase["payload_bytes"] == 2**20
        assert phase["steps"] == 7
        assert phase["latency_ns"] == 7 * STEP
        assert phase["transfer_ns"] == pytest.approx(7 * 2**17 / phase["usable_gb_per_s"])
        assert phase["time_ns"] == pytest.approx(phase["transfer_ns"] + phase["latency_ns"])
    assert found["reasons"][2] == (
        "dim 1 (Switch of 8, ring is used), reduce-scatter: direct beats ring by 3.000 us: both "
        "hold the port for 17.090 us; direct waits for 1 step, ring for 7 steps of 500 ns (direct "
        "sends to all peers at once, which a switch lets through side by side)"
    )
    # What it says is what the model does: one chunk alone takes the sum of its phases.
    status, out, _ = antiphon(*arguments, "--chunks", 1, "--json", "-")
    assert status == 0
    assert json.loads(out)["time_ns"] == pytest.approx(sum(p["time_ns"] for p in found["phases"]))
    status, out, _ = antiphon(*arguments, "--explain")
    assert status == 0
    for words in ("phase by phase", "RS 1", "AG 1", "direct beats ring by 3.000 us", "in sequence"):
        assert words in out


@pytest.mark.parametrize(
    ("kind", "algorithm", "words"),
    [
        ("Ring", "direct", "ring beats direct by"),
        ("Ring", "direct", "direct messages go round the ring over several links"),
        ("FullyConnected", "ring", "one of the two can use only 1/7 of the NPU's links"),
    ],
)
def test_reasons_by_kind(folder, antiphon, kind, algorithm, words):
    (folder / "n.yml").write_text(NETWORK.format(kind=kind))
    arguments = ("collective", "all-gather", "1MiB", "--network", "n.yml")
    found = explanation(antiphon, *arguments, "--algorithm", algorithm)
    assert any(words in reason for reason in found["reasons"])
    assert found["phases"][0]["payload_bytes"] == 8 * 2**20


def test_of_a_run_on_the_engines(folder, antiphon):
    text = (folder / "e.yaml").read_text()
    text = text.replace("ranks: 4", "ranks: 8").replace("Fred, size: 2", "Fred, size: 4")
    (folder / "e.yaml").write_text(text)
    found = explanation(antiphon, "run", "e.yaml")
    assert found["size_bytes"] == 65536
    assert found["collective"].endswith("weight gradient")
    assert [(phase["operation"], phase["algorithm"]) for phase in found["phases"]] == [
        ("reduce-scatter", "ring"),
        ("all-reduce", "in-network"),
        ("all-gather", "ring"),
    ]
    assert any("in-network, the switch itself reduces and copies" in r for r in found["reasons"])
    status, out, _ = antiphon("run", "e.yaml", "--explain")
    assert status == 0
    assert "phase by phase" in out


def test_of_a_trace(folder, antiphon):
    (folder / "n.yml").write_text(NETWORK.format(kind="Switch"))
    write(
        folder,
        *[[compute(0, 5), all_reduce(1, 64), all_reduce(2, 1 << 20, name="[big]", data=[1])]] * 8,
    )
    arguments = ("run", "--workload", "w", "--network", "n.yml", "--algorithm", "direct")
    found = explanation(antiphon, *arguments)
    assert (found["collective"], found["size_bytes"]) == ("[big]", 2**20)
    assert {phase["algorithm"] for phase in found["phases"]} == {"direct"}
    status, out, _ = antiphon(*arguments, "--explain")
    assert status == 0
    assert "[big], all-reduce of 1.049 MB: phase by phase" in out
    assert antiphon(*arguments, "--explain", "--semantics", "astra-sim") == (
        2,
        "",
        "antiphon: --explain is for the semantics antiphon, not astra-sim\n",
    )


def test_of_a_trace_without_collectives(folder, antiphon):
    (folder / "n.yml").write_text(NETWORK.format(kind="Switch"))
    write(folder, *[[compute(0, 5)]] * 8)
    status, out, _ = antiphon(
        "run", "--workload", "w", "--network", "n.yml", "--explain", "--json", "-"
    )
    assert status == 0
    assert "explanation" not in json.loads(out)


def test_of_the_layer_that_exposes_most(folder, antiphon):
    """Not of the largest, which has time to hide: also where layers' names stand for nodes'."""
    (folder / "n.yml").write_text(NETWORK.format(kind="Switch"))
    (folder / "w.txt").write_text(
        "DATA\n2\nfirst\t-1\t10\tNONE\t0\t11\tNONE\t0\t12\tALLREDUCE\t65536\t3\n"
        "last\t-1\t10\tNONE\t0\t900000\tNONE\t0\t12\tALLREDUCE\t262144\t3\n"
    )
    arguments = ("run", "--workload", "w.txt", "--network", "n.yml", "--iterations", 1)
    found = explanation(antiphon, *arguments)
    assert found["size_bytes"] == 65536
    assert found["collective"].startswith("first")
    assert explanation(antiphon, "run", "e.yaml")["collective"] == "first weight gradient"
