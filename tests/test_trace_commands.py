"""``antiphon run`` on traces, and ``antiphon convert``: results, messages, exit status."""

from __future__ import annotations

import json

import pytest

from sim_top import cli
from sw_model.chakra.files import encode_trace, read_trace
from sw_model.chakra.from_layers import trace_of_layers
from sw_model.chakra.graph import build_graph
from sw_model.network import read_network
from sw_model.workload import astra_text
from tests.chakra_traces import (
    REFERENCE,
    TRACES,
    all_reduce,
    compute,
    needs_shared,
    receive,
    send,
    trace,
    write,
)

OWN = TRACES / "own"
TEXT = """\
DATA
2
a\t-1\t1500\tNONE\t0\t700\tNONE\t0\t12\tALLREDUCE\t64\t3
b\t-1\t10\tNONE\t0\t1\tNONE\t0\t1\tALLREDUCE\t4096\t0
"""
NETWORK = "topology: [ {kind} ]\nnpus_count: [ {npus} ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a network of two NPUs, ``n.yml``, and a 1.0 text, ``w.txt``."""
    (tmp_path / "n.yml").write_text(NETWORK.format(kind="Ring", npus=2))
    (tmp_path / "w.txt").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def antiphon(capsys):
    def antiphon(*arguments: object) -> tuple[int, str, str]:
        status = cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return antiphon


def run_json(antiphon, *arguments: object) -> dict:
    status, out, _ = antiphon("run", *arguments, "--json", "-")
    assert status == 0
    return json.loads(out)


@needs_shared
def test_the_worked_example(antiphon):
    example = TRACES / "08_chakra_et_all_reduce_8npus_1MB"
    arguments = (
        "--workload", example / "all_reduce",
        "--network", example / "rt_template_network_cfg.yml",
        "--system", example / "rt_template_system_cfg.json",
    )  # fmt: skip
    found = run_json(antiphon, *arguments, "--semantics", "astra-sim")
    assert found["total_ns"] == found["exposed_comm_ns"] == 117_780
    assert (found["npus"], found["ranks_simulated"]) == (8, 1)
    assert found["layers"] == [
        {
            "name": "all_reduce_8npus_1MB",
            "compute_ns": 0.0,
            "comm_ns": 117_780.0,
            "exposed_ns": 117_780.0,
            "bytes": 1_048_576,
            "bound_ns": 34_179.688,  # 2 x 7/8 MiB at 50 GiB/s
        }
    ]
    assert (found["bound_ns"], found["bound_dims"]) == (34_179.688, ["dim 1"])
    assert found["dims"][0]["bytes_per_npu"] == 2 * 7 * 2**17
    ours = run_json(antiphon, *arguments)
    # 2 x 7/8 MiB at 50 GiB/s, and the 7 steps of the last all-gather, which nothing hides.
    assert ours["total_ns"] == pytest.approx(2**20 * 1.75 / 53.6870912 + 3500, abs=0.001)


@needs_shared
def test_a_trace_with_groups(antiphon):
    folder = OWN / "tp4dp2_8npus"
    found = run_json(
        antiphon,
        *("--workload", folder / "w", "--network", REFERENCE / "networks" / "sw8.yml"),
        *("--comm-group", folder / "comm_group.json"),
    )
    assert found["ranks_simulated"] == 1
    assert found["total_ns"] == (
        found["compute_ns"] + found["exposed_comm_ns"] + found["host_ns"] + found["bubble_ns"]
    )
    assert found["compute_ns"] == 4_810_000
    assert set(found["ranks"]) == {
        "finish_ns", "compute_ns", "exposed_comm_ns", "host_ns", "bubble_ns"
    }  # fmt: skip


def test_tables_for_people(folder, antiphon):
    write(folder, *[[compute(0, 5), all_reduce(1, 4096, data=[0])]] * 2)
    status, out, err = antiphon("run", "--workload", "w", "--network", "n.yml")
    assert (status, err) == (0, "")
    for words in ("2, 1 of them simulated", "exposed communication", "sent per NPU", "busy us"):
        assert words in out


def test_one_warning_for_keys_without_effect(folder, antiphon):
    write(folder, *[[compute(0, 5)]] * 2)
    (folder / "s.json").write_text('{"boost-mode": 1,\n"L": 3, "endpoint-delay": 10}')
    status, _, err = antiphon("run", "--workload", "w", "--network", "n.yml", "--system", "s.json")
    assert status == 0
    warning = "antiphon: warning: s.json:{}: {} has no effect with {} semantics\n"
    ours = [(1, "boost-mode"), (2, "L"), (2, "endpoint-delay")]
    assert err == "".join(warning.format(*key, "antiphon") for key in ours)
    arguments = ("--network", "n.yml", "--system", "s.json", "--semantics", "astra-sim")
    status, _, err = antiphon("run", "--workload", "w", *arguments)
    assert status == 0
    assert err == "".join(warning.format(*key, "astra-sim") for key in ours[:2])


def test_a_warning_for_a_message_that_nobody_receives(folder, antiphon):
    write(folder, [send(3, 1, 64)], [compute(0, 1)])
    status, _, err = antiphon("run", "--workload", "w", "--network", "n.yml")
    assert status == 0
    assert err == (
        "antiphon: warning: w.0.et: node 3 'n3': nobody receives this message (1 such in all)\n"
    )


def test_a_warning_for_another_algorithm(folder, antiphon):
    (folder / "n.yml").write_text(NETWORK.format(kind="Switch", npus=3))
    (folder / "s.json").write_text('{"all-reduce-implementation": ["halvingDoubling"]}')
    write(folder, *[[all_reduce(0, 4096)]] * 3)
    arguments = ("run", "--workload", "w", "--network", "n.yml", "--system", "s.json")
    assert antiphon(*arguments, "--semantics", "astra-sim")[2] == (
        "antiphon: warning: halvingDoubling cannot do all-reduce over 3 NPUs on dim 1: ring is "
        "used instead\n"
    )


@pytest.mark.parametrize(
    ("ranks", "more", "message"),
    [
        ([[compute(0, 1)]], (),
         "w.1.et: is missing: the network has 2 NPUs, each of which needs its trace"),
        ([[compute(5, 1, name="c", control=[0])]] * 2, (),
         "w.0.et: node 5 'c': its control dependency must be a node of this rank, not 0, which "
         "does not exist"),
        ([[compute(0, 1, data=[1]), compute(1, 1, data=[0])]] * 2, (),
         "w.0.et: dependencies must not form a cycle; the shortest: node 0 'n0' -> node 1 'n1' -> "
         "node 0 'n0', where each waits for the next"),
        ([[send(0, 1, 8)], [receive(0, 0, 9)]], (),
         "w.1.et: node 0 'n0': rank 1 must receive the 8 bytes that rank 0 sends with tag 0 "
         "(node 0 'n0', w.0.et), not 9"),
        ([[]] * 2, (), "w.0.et: must have at least one node, not only metadata"),
        ([[compute(0, 1)]] * 2, ("--iterations", "3"),
         "--iterations is for layer workloads, not for Chakra traces"),
        ([[compute(0, 1)]] * 2, ("--timeline", "t.svg"),
         "--timeline is for layer workloads on the platform's own endpoints"),
        ([[compute(0, 1)]] * 2, ("--semantics", "astra-sim", "--scheduler", "themis"),
         "--scheduler is for the semantics antiphon, not astra-sim"),
        ([[compute(0, 1)]] * 2, ("--semantics", "astra-sim", "--latency-model", "serial"),
         "--latency-model is for the semantics antiphon, not astra-sim"),
        ([[compute(0, 1)]] * 2, ("--system", "s.json"),
         "s.json: cannot be read: No such file or directory"),
        ([[compute(0, 1)]] * 2, ("--comm-group", "g.json"),
         "g.json: cannot be read: No such file or directory"),
    ],
)  # fmt: skip
def test_bad_input(folder, antiphon, ranks, more, message):
    write(folder, *ranks)
    status, out, err = antiphon("run", "--workload", "w", "--network", "n.yml", *more)
    assert (status, out, err) == (2, "", f"antiphon: {message}\n")


def test_a_truncated_trace(folder, antiphon):
    write(folder, *[[compute(0, 1)]] * 2)
    whole = (folder / "w.1.et").read_bytes()
    (folder / "w.1.et").write_bytes(whole[:-2])
    status, _, err = antiphon("run", "--workload", "w", "--network", "n.yml")
    assert status == 2
    assert err.startswith("antiphon: w.1.et: ends inside record 1 of the nodes: ")
    (folder / "w.1.et").write_bytes(b"")
    status, _, err = antiphon("run", "--workload", "w", "--network", "n.yml")
    assert (status, err) == (2, "antiphon: w.1.et: must be a Chakra trace, not an empty file\n")


def test_a_deadlock_ends_with_a_message(folder, antiphon):
    write(folder, [compute(0, 1)], [receive(3, 0, 64, 9)])
    status, out, err = antiphon("run", "--workload", "w", "--network", "n.yml")
    assert (status, out) == (1, "")
    assert err == (
        "antiphon: nothing can happen any more:\n"
        "rank 1, node 3 'n3': waits for 64 bytes with tag 9 from rank 0, which never sends them\n"
    )


def test_a_text_on_a_network_that_the_platform_cannot_be(folder, antiphon):
    (folder / "n.yml").write_text(NETWORK.format(kind="Switch", npus=4))
    status, out, err = antiphon(
        "run", "--workload", "w.txt", "--network", "n.yml", "--json", "-", "--iterations", 3
    )
    assert status == 0
    assert err == (
        "antiphon: warning: n.yml: dim 1 must be a Ring, a FullyConnected or a Fred dim on this "
        "platform, not "
        "'Switch'; ideal endpoints take the place of the platform's\n"
    )
    found = json.loads(out)
    assert found["compute_ns"] == 3 * (1500 + 10 + 12 + 1 + 1)
    assert len(found["iterations_ns"]) == 3
    assert sum(found["iterations_ns"]) == pytest.approx(found["total_ns"], abs=0.002)
    assert [(layer["name"], layer["bytes"]) for layer in found["layers"]] == [
        ("a", 64),
        ("b", 4096),
    ]


def test_a_text_in_the_peers_semantics(folder, antiphon):
    found = run_json(
        antiphon,
        *("--workload", "w.txt", "--network", "n.yml", "--iterations", 1),
        *("--semantics", "astra-sim"),
    )
    # Nothing is issued before b's weight gradient, which a's passes follow.
    assert found["semantics"] == "astra-sim"
    assert found["compute_ns"] == 1500 + 10 + 12 + 1 + 1
    status, _, err = antiphon(
        *("run", "--workload", "w.txt", "--network", "n.yml", "--comm-group", "g.json"),
        *("--semantics", "astra-sim"),
    )
    assert status == 2
    assert err == "antiphon: --comm-group is for Chakra traces, not for a layer workload\n"


@needs_shared
@pytest.mark.parametrize("path", sorted(TRACES.glob("0[1-4]_*.txt")), ids=lambda p: p.name[:2])
def test_real_texts_become_traces_in_exact_nanoseconds(path):
    workload = astra_text.read(path)
    network = read_network(REFERENCE / "networks" / "r4_fc8_s4.yml")
    made = trace_of_layers(workload, network)
    graph = build_graph(made.trace)
    from sw_model.workload.program import compute_ns

    on_accelerator = sum(n.duration_ns for n in graph.nodes if not n.on_cpu)
    assert on_accelerator == compute_ns(workload)
    if path.name.startswith("01"):
        assert on_accelerator == 1_082_450


def test_convert_a_text(folder, antiphon):
    status, out, _ = antiphon(
        "convert", "w.txt", "t", "--network", "n.yml", "--gzip", "--json", "-"
    )
    assert (status, json.loads(out)) == (0, {"nodes": 16, "ranks": 2})
    made = read_trace(folder / "t.1.et.gz")
    times = {node.name: node.duration_ns for node in build_graph(made).nodes}
    assert times["a forward"] == 1500
    assert {node.name: node.duration_micros for node in made.nodes}["a forward"] == 2
    assert run_json(antiphon, "--workload", "t", "--network", "n.yml")["compute_ns"] == 1524
    assert antiphon("convert", "w.txt", "again.txt")[0] == 0
    assert (folder / "again.txt").read_text().split() == TEXT.split()


def test_convert_traces(folder, antiphon):
    write(folder, [compute(0, 1)], [compute(0, 2), all_reduce(1, 8, involved_dim=[True])])
    assert antiphon("convert", "w", "v")[:2] == (0, "v: 3 nodes, 2 ranks\n")
    for target in ("x.json", "x.et.gz", "x.et"):
        assert antiphon("convert", "v.1.et", target)[0] == 0
    assert antiphon("convert", "x.json", "y.et")[0] == 0
    expected = (folder / "w.1.et").read_bytes()
    for name in ("v.1.et", "x.et", "y.et"):
        assert (folder / name).read_bytes() == expected


def test_a_broken_trace_leaves_nothing_behind(folder, antiphon):
    write(folder, *[[compute(0, 1)]] * 3)
    (folder / "w.2.et").write_bytes((folder / "w.2.et").read_bytes()[:-1])
    status, _, err = antiphon("convert", "w", "v")
    assert status == 2
    assert err.startswith("antiphon: w.2.et: ends inside record 1 of the nodes: ")
    assert not list(folder.glob("v*"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere", "v"), "nowhere: is no trace, and no prefix of traces PREFIX.RANK.et"),
        (("w", "v.et"), "OUT must be a prefix, as IN is, not a single file"),
        (("w.0.et", "v"), "OUT must be one file, .et, .et.gz or .json, as IN is"),
        (("w.0.et", "v.txt"), "OUT cannot be a 1.0 text: a trace has no layers"),
        (("w.txt", "v"), "--network must be given: the traces name its dims"),
        (("w.txt", "v.et"),
         "OUT must be a prefix for the traces of all ranks, or a 1.0 text (.txt)"),
        (("w", "no/v"), "OUT must be in an existing folder, not no"),
        (("w", "v/"),
         "argument OUT: must begin the names of files, such as 'v/w', not be the folder 'v/' "
         "(see 'antiphon convert --help')"),
        (("w", "old"),
         "old.7.et: is there from another workload: remove its traces or give another OUT"),
        (("w", "w", "--gzip"),
         "w.0.et: is there from another workload: remove its traces or give another OUT"),
        (("twice", "v"),
         "twice.1.et.gz: is a trace of rank 1, as twice.1.et is: remove one of them"),
        (("bad.json", "v.et"),
         "bad.json:1:2: must be JSON: Expecting property name enclosed in double quotes"),
        (("odd.json", "v.et"),
         "odd.json: must be a Chakra trace as JSON, with 'metadata' and 'nodes': 'metadata'"),
        (("gone.json", "v.et"), "gone.json: cannot be read: No such file or directory"),
    ],
)  # fmt: skip
def test_wrong_conversions(folder, antiphon, arguments, message):
    write(folder, [compute(0, 1)])
    for name in ("old.7.et", "twice.1.et", "twice.1.et.gz"):
        (folder / name).write_bytes(b"")
    (folder / "bad.json").write_text("{")
    (folder / "odd.json").write_text("{}")
    assert antiphon("convert", *arguments) == (2, "", f"antiphon: {message}\n")
    assert not list(folder.glob("v*"))


def test_the_peers_reader_gets_microseconds():
    """The converter of that program writes nanoseconds into the field of microseconds."""
    made = trace([compute(0, 7)])
    assert build_graph(made).nodes[0].duration_ns == 7000
    assert encode_trace(made)


@needs_shared
@pytest.mark.parametrize(
    ("network", "system", "semantics", "golden"),
    [
        ("rt_template_network_cfg.yml", "rt_template_system_cfg.json", "astra-sim", 117_780),
        ("HGX-H100-validated.yml", "HGX-H100-validated.json", "astra-sim", 55_222),
        ("HGX-H100-validated.yml", "HGX-H100-validated.json", "astra-sim-aware", 57_426),
        ("Ring_8npus.yml", None, "astra-sim", 90_174),
    ],
)
def test_goldens_by_the_collective_command(antiphon, tmp_path, network, system, semantics, golden):
    example = TRACES / "08_chakra_et_all_reduce_8npus_1MB"
    algorithm = TRACES / "09_collective_algo_custom_ring_allreduce_8npus" / "custom_allreduce"
    custom = {
        "scheduling-policy": "FIFO",
        "preferred-dataset-splits": 1,
        "local-mem-bw": 50,
        "all-reduce-implementation-custom": [str(algorithm)],
        "boost-mode": 0,
    }
    (tmp_path / "custom.json").write_text(json.dumps(custom))
    status, out, err = antiphon(
        *("collective", "all-reduce", "1MiB", "--network", example / network),
        *("--system", example / system if system else tmp_path / "custom.json"),
        *("--semantics", semantics, "--json", "-"),
    )
    assert (status, json.loads(out)["time_ns"]) == (0, golden)
    assert err.endswith(f"boost-mode has no effect with {semantics} semantics\n")
    assert err.count("\n") == 1


def test_a_run_without_a_system_file_has_the_chunks_of_a_collective(folder, antiphon):
    write(folder, *[[all_reduce(0, 1 << 20)]] * 2)
    found = run_json(antiphon, "--workload", "w", "--network", "n.yml", "--semantics", "astra-sim")
    status, out, _ = antiphon(
        "collective", "all-reduce", "1MiB", "--network", "n.yml", "--semantics", "astra-sim",
        "--json", "-",
    )  # fmt: skip
    assert (status, json.loads(out)["time_ns"]) == (0, found["total_ns"])


@pytest.mark.parametrize("semantics", ["antiphon", "astra-sim"])
def test_a_micro_line_with_a_forward_collective_only(folder, antiphon, semantics):
    (folder / "micro.txt").write_text(
        "MICRO\n1\nm\t-1\t0\tALLREDUCE\t4096\t0\tNONE\t0\t0\tNONE\t0\t0\n"
    )
    found = run_json(
        antiphon,
        *("--workload", "micro.txt", "--network", "n.yml", "--semantics", semantics),
        *("--latency-model", "serial") * (semantics == "antiphon"),
    )
    assert found["total_ns"] == found["exposed_comm_ns"] > 0
    assert found["layers"][0]["comm_ns"] > 0


def test_files_for_other_tools(folder, antiphon):
    write(
        folder,
        [compute(0, 5), all_reduce(1, 4096, data=[0]), all_reduce(2, 4096), send(3, 1, 64)],
        [compute(0, 9), all_reduce(1, 4096, data=[0]), all_reduce(2, 4096), receive(3, 0, 64)],
    )
    (folder / "out").mkdir()
    arguments = ("run", "--workload", "w", "--network", "n.yml", "--trace", "t.json")
    assert antiphon(*arguments, "--csv", "out")[0] == 0
    events = json.loads((folder / "t.json").read_text())["traceEvents"]
    bars = [event for event in events if event["ph"] == "X"]
    assert {(b["pid"], b["name"], b["ts"], b["dur"]) for b in bars if b["cat"] == "compute"} == {
        (0, "n0", 0, 5),
        (1, "n0", 0, 9),
    }
    late = next(b for b in bars if b["pid"] == 0 and b["name"] == "n1")
    assert late["ts"] == 9
    assert late["args"] == {"node": 1, "bytes": 4096, "waited_ns": 4000}
    for pid in (0, 1):  # bars of one row do not overlap
        rows: dict[int, float] = {}
        for bar in sorted((b for b in bars if b["pid"] == pid), key=lambda b: b["ts"]):
            assert bar["ts"] >= rows.get(bar["tid"], 0)
            rows[bar["tid"]] = bar["ts"] + bar["dur"]
    ranks = (folder / "out" / "ranks.csv").read_text().splitlines()
    assert ranks[0] == ("rank,ranks_alike,finish_ns,compute_ns,exposed_comm_ns,host_ns,bubble_ns")
    assert len(ranks) == 3
    assert (folder / "out" / "dims.csv").read_text().startswith("name,kind,size,gb_per_s,busy_ns,")
    layers = (folder / "out" / "layers.csv").read_text().splitlines()
    assert layers[0] == "name,compute_ns,comm_ns,exposed_ns,bytes,bound_ns"
    assert antiphon(*arguments, "--csv", "new/folder")[0] == 0
    assert (folder / "new" / "folder" / "layers.csv").read_text().splitlines() == layers


def test_an_experiment_file_with_traces(folder, antiphon):
    write(folder, *[[all_reduce(0, 1 << 20)]] * 2)
    (folder / "e.yaml").write_text(
        "workload:\n  file: w\nnetwork:\n  dims:\n"
        "    - {kind: Ring, size: 2, bandwidth_per_npu: 20 GB/s, latency: 8 ns}\n"
        "schedule:\n  scheduler: baseline\n  chunks: 1\n"
    )
    found = run_json(antiphon, "e.yaml")
    assert found["total_ns"] == 2 * ((1 << 19) / 20 + 8)
    assert run_json(antiphon, "e.yaml", "--chunks", 4)["total_ns"] < found["total_ns"]


def test_algorithms_by_option(folder, antiphon):
    (folder / "n.yml").write_text(NETWORK.format(kind="Switch", npus=4))
    write(folder, *[[all_reduce(0, 1 << 20)]] * 4)
    arguments = ("--workload", "w", "--network", "n.yml", "--chunks", 1)
    for semantics in ("antiphon", "astra-sim"):
        times = {
            name: run_json(antiphon, *arguments, "--semantics", semantics, "--algorithm", name)[
                "total_ns"
            ]
            for name in ("direct", "halving-doubling", "halvingDoubling", "ring")
        }
        assert times["direct"] < times["halving-doubling"] < times["ring"]
        assert times["halving-doubling"] == times["halvingDoubling"]
    for wrong, message in (
        ("rnig", "unknown algorithm 'rnig' (did you mean 'ring'?)"),
        ("ring,ring", "--algorithm must name one algorithm, or one for each of the 1 dims, not 2"),
    ):
        assert antiphon("run", *arguments, "--algorithm", wrong) == (
            2,
            "",
            f"antiphon: {message}\n",
        )


def test_a_workload_that_is_not_there(folder, antiphon):
    status, out, err = antiphon("run", "--workload", "gone", "--network", "n.yml")
    assert (status, out) == (2, "")
    assert err.endswith(
        "antiphon: gone: cannot be read: there is no such file, and no trace of rank 0, gone.0.et\n"
    )


def test_a_text_may_begin_with_a_byte_order_mark(folder, antiphon):
    (folder / "m.txt").write_bytes(b"\xef\xbb\xbf" + (folder / "w.txt").read_bytes())
    plain = run_json(antiphon, "--workload", "w.txt", "--network", "n.yml")
    assert run_json(antiphon, "--workload", "m.txt", "--network", "n.yml") == plain


def test_too_many_traces_are_refused_at_once(folder, antiphon):
    line = ("workload", "resnet50", "--dp", "100000000", "--out", "v")
    said = "antiphon: --out: 100,000,000 traces are more than 1,048,576\n"
    assert antiphon(*line) == (2, "", said)
    assert not list(folder.glob("v*"))


@pytest.mark.parametrize("seed", ["-1", "x", "1.5"])
def test_a_seed_is_a_whole_number(folder, antiphon, seed):
    said = antiphon("run", "--workload", "w.txt", "--network", "n.yml", "--seed", seed)
    message = f"argument --seed: must be a whole number in 0..2147483648, not {seed!r}"
    assert said == (2, "", f"antiphon: {message} (see 'antiphon run --help')\n")
