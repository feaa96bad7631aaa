"""Several jobs on one network, classes of communication, stragglers and jitter in a replay: closed
forms, on links of a byte a nanosecond without latency."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from sim_top.cli.frame import main
from sw_model.astra.system import AlgorithmName, SystemConfig
from sw_model.replay.preparation import prepare
from sw_model.replay.run import Semantics, TraceResult, replay_trace, schedule_of
from sw_model.topology import Dim, DimKind, Topology
from sw_model.workload.settings import JobSettings, WorkloadSettings
from sw_model.workload.traffic import TrafficClass
from tests.chakra_traces import all_reduce, compute, receive, send, write

MODEL, PIPELINE, DATA = TrafficClass
TRAFFIC = "antiphon_traffic_class"


def network(*sizes: int, kind: DimKind = DimKind.SWITCH) -> Topology:
    return Topology(tuple(Dim(kind, size, Fraction(10**9), 0) for size in sizes))


def run(settings, topology, *, splits=4, semantics=Semantics.ANTIPHON, fold=True) -> TraceResult:
    system = SystemConfig(splits=splits, endpoint_delay=0)
    system = system.with_algorithm(AlgorithmName.HALVING_DOUBLING, len(topology.dims))
    prepared = prepare(settings, topology)
    return replay_trace(
        prepared.workload,
        system,
        semantics=semantics,
        schedule=schedule_of(system),
        jobs=prepared.jobs,
        fold_ranks=fold,
    )


def ends(result: TraceResult, rank: int = 0) -> dict[str, float]:
    """When the communication of a simulated rank has ended, by node."""
    index = next(i for i, one in enumerate(result.ranks) if one.rank == rank)
    nodes = result.workload.graphs[rank].nodes
    return {nodes[p].name: result.ns(end) for p, _, _, end in result.logs[index].communication}


@pytest.mark.parametrize("classes", [(MODEL, PIPELINE, DATA), (DATA, MODEL)])
def test_priorities_between_classes(tmp_path, classes):
    """An all-reduce among 4 holds its lanes for 1.5 x its bytes, in 2 ops a chunk. The one that
    comes later goes first if its class does, as soon as the op under way has ended."""
    gradients, activations, splits = 80_000, 8_000, 4
    rank = [
        all_reduce(0, gradients, name="gradients", **{TRAFFIC: "dp"}),
        compute(1, 35),
        all_reduce(2, activations, name="activations", data=[1], **{TRAFFIC: "mp"}),
    ]
    settings = WorkloadSettings(file=write(tmp_path, *[rank] * 4), priorities=classes)
    found = ends(run(settings, network(4), splits=splits))
    op = gradients * 3 / 4 / splits
    all_of_it = 1.5 * (gradients + activations)
    if classes[0] is MODEL:
        begin = -(-35_000 // op) * op
        assert found == {"activations": begin + 1.5 * activations, "gradients": all_of_it}
    else:
        assert found == {"gradients": 1.5 * gradients, "activations": all_of_it}


def test_messages_are_pipelines_and_communicators_may_be_named(tmp_path):
    """Classes of a foreign trace: messages pp, collectives dp but for those that are named."""
    size = 10_000
    ranks = [
        [
            all_reduce(0, size, name="first", pg_name="g"),
            all_reduce(1, size, name="second"),
            send(2, 2, size),
            all_reduce(3, size, name="named", pg_name="g"),
        ],
        [all_reduce(0, size, pg_name="g"), all_reduce(1, size), all_reduce(3, size, pg_name="g")],
        [all_reduce(1, size), receive(2, 0, size)],
        [all_reduce(1, size)],
    ]  # fmt: skip
    (tmp_path / "g.json").write_text('{"g": [0, 1]}')
    settings = WorkloadSettings(
        file=write(tmp_path, *ranks),
        comm_group=tmp_path / "g.json",
        classes={"g": MODEL},
        priorities=(PIPELINE, MODEL, DATA),
    )
    found = ends(run(settings, network(4), splits=1))
    # The message first (its lane in is rank 2's), then both of {0, 1}, then that of all.
    assert found["n2"] == size
    assert found["first"] == 2 * size
    assert found["named"] == 3 * size
    assert found["second"] == 3 * size + 1.5 * size


def two_jobs(tmp_path, ranks_a, ranks_b, *, priority_b=0, size=40_000) -> WorkloadSettings:
    a = write(tmp_path, *[[compute(0, 5), all_reduce(1, size, data=[0])]] * len(ranks_a), name="a")
    b = write(tmp_path, *[[compute(0, 3), all_reduce(1, size, data=[0])]] * len(ranks_b), name="b")
    return WorkloadSettings(
        jobs=(
            JobSettings(name="a", ranks=ranks_a, workload=WorkloadSettings(file=a)),
            JobSettings(
                name="b", ranks=ranks_b, workload=WorkloadSettings(file=b), priority=priority_b
            ),
        )
    )


def totals(result: TraceResult) -> dict[str, float]:
    for job in result.jobs:
        for rank in job.ranks:
            assert rank.finish == rank.compute + rank.exposed + rank.host + rank.bubble
    return {job.name: result.ns(job.latest.finish) for job in result.jobs}


@pytest.mark.parametrize("semantics", [Semantics.ANTIPHON, Semantics.ASTRA_SIM])
def test_jobs_on_ranks_of_their_own_do_not_meet_at_a_switch(tmp_path, semantics):
    settings = two_jobs(tmp_path, (0, 2, 4, 6), (1, 3, 5, 7))
    result = run(settings, network(8), semantics=semantics, splits=1)
    alone = {}
    for job in settings.jobs:
        one = run(job.workload, network(4), semantics=semantics, splits=1)
        alone[job.name] = one.ns(one.latest.finish)
    assert totals(result) == alone
    assert [sum(job.sizes) for job in result.jobs] == [4, 4]
    assert len(result.ranks) == 2  # a rank of each job stands for all of it
    assert result.latest.finish == max(job.latest.finish for job in result.jobs)


def test_jobs_share_a_rings_links(tmp_path):
    """Interleaved on a ring of 8: b begins after 3 us, a 2 us later; every link carries both, one
    op at a time, a phase being 30 us, the older collective first."""
    settings = two_jobs(tmp_path, (0, 2, 4, 6), (1, 3, 5, 7))
    system = SystemConfig(splits=1).with_algorithm(AlgorithmName.RING, 1)
    prepared = prepare(settings, network(8, kind=DimKind.RING))
    result = replay_trace(
        prepared.workload, system, schedule=schedule_of(system), jobs=prepared.jobs
    )
    phase = 40_000 * 3 // 4
    assert totals(result) == {"b": 3_000 + 2 * phase, "a": 3_000 + 4 * phase}


@pytest.mark.parametrize("priority", [0, 1])
def test_jobs_on_the_same_ranks(tmp_path, priority):
    """One accelerator: a's 5 us, then b's 3 us; a's all-reduce is under way when b's comes, which
    goes first all the same if its job does."""
    settings = two_jobs(tmp_path, (0, 1, 2, 3), (0, 1, 2, 3), priority_b=priority)
    result = run(settings, network(4), splits=10)
    op = 40_000 * 3 / 4 / 10
    all_of_it = 5_000 + 2 * 1.5 * 40_000
    first = 5_000 + -(-3_000 // op) * op  # the end of a's op under way when b's comes
    if priority:
        assert totals(result) == {"a": all_of_it, "b": first + 1.5 * 40_000}
    else:
        assert totals(result) == {"a": 5_000 + 1.5 * 40_000, "b": all_of_it}
    (rank,) = result.ranks
    assert result.ns(rank.compute) == 8_000


def test_groups_dims_and_messages_of_a_job_are_placed(tmp_path):
    """Job ranks 0..3 on 6, 4, 2, 0: its dims, its communicators and its ends go with them."""
    size = 10_000
    nodes = [
        [all_reduce(0, size, involved_dim=[True]), all_reduce(1, size, pg_name="h"), send(2, 3, 8)],
        [all_reduce(0, size, involved_dim=[True])],
        [all_reduce(0, size, involved_dim=[True])],
        [
            all_reduce(0, size, involved_dim=[True]),
            all_reduce(1, size, pg_name="h"),
            receive(2, 0, 8),
        ],
    ]
    (tmp_path / "g.json").write_text('{"h": [0, 3]}')
    own = WorkloadSettings(file=write(tmp_path, *nodes), comm_group=tmp_path / "g.json")
    job = JobSettings(name="j", ranks=(6, 4, 2, 0), workload=own)
    prepared = prepare(WorkloadSettings(jobs=(job,)), network(8))
    work = prepared.workload
    assert work.groups == {"j": (0, 2, 4, 6), "j/h": (0, 6)}
    assert [len(graph.nodes) for graph in work.graphs] == [3, 0, 1, 0, 1, 0, 3, 0]
    ((_, match), *_) = work.matches.items()
    assert (match.source, match.destination) == (6, 0)


def test_a_straggler_in_a_trace(tmp_path):
    """One of four computes half as long again: everybody's all-reduce begins then, and only it and
    one of the others are simulated. In both semantics."""
    rank = [compute(0, 10), all_reduce(1, 40_000, data=[0])]
    prefix = write(tmp_path, *[rank] * 4)
    for semantics, moving in ((Semantics.ANTIPHON, 60_000), (Semantics.ASTRA_SIM, None)):
        plain = run(WorkloadSettings(file=prefix), network(4), splits=1, semantics=semantics)
        late = WorkloadSettings(file=prefix, compute_scale={2: Fraction(3, 2)})
        slow = run(late, network(4), splits=1, semantics=semantics)
        if moving is not None:
            assert plain.ns(plain.latest.finish) == 10_000 + moving
        assert slow.ns(slow.latest.finish) == plain.ns(plain.latest.finish) + 5_000
        assert (len(plain.ranks), len(slow.ranks)) == (1, 2)
        waiting = next(one for one in slow.ranks if one.rank == 0)
        assert slow.ns(waiting.bubble) == 5_000


def test_jitter_in_a_trace(tmp_path):
    """Every node of every rank has its own factor, the same however it is simulated."""
    rank = [compute(n, 10, data=[n - 1] if n else []) for n in range(5)]
    settings = WorkloadSettings(file=write(tmp_path, *[rank] * 4), jitter=Fraction(1, 10), seed=5)
    one = run(settings, network(4))
    assert len(one.ranks) == 4
    for rank_times in one.ranks:
        factors = [settings.variation.factor(rank_times.rank, "node", n) for n in range(5)]
        ticks = [int(10_000 * one.ticks_per_ns * f + Fraction(1, 2)) for f in factors]
        assert rank_times.finish == sum(ticks)
    assert run(settings, network(4), fold=False).ranks == one.ranks
    assert run(replace(settings, seed=6), network(4)).ranks != one.ranks


LAYERS = """\
iterations: 2
layers:
  - name: a
    forward: {compute: 10 us}
    input_gradient: {compute: 11 us}
    weight_gradient: {compute: 12 us, operation: all-reduce, size: 64kB}
    update: 2 us
  - name: b
    forward: {compute: 20 us}
    input_gradient: {compute: 21 us}
    weight_gradient: {compute: 22 us, operation: all-reduce, size: 32kB}
"""
TEXT = """\
DATA
2
a -1 10000 NONE 0 11000 NONE 0 12000 ALLREDUCE 64000 2000
b -1 20000 NONE 0 21000 NONE 0 22000 ALLREDUCE 32000 0
"""
NETWORK = """\
dims:
  - {kind: Ring, size: 4, bandwidth_per_npu: 1 GB/s, latency: 100 ns}
"""


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.yaml").write_text(LAYERS)
    (tmp_path / "w.txt").write_text(TEXT)
    (tmp_path / "n.yml").write_text(NETWORK)

    def run_command(*arguments):
        status = main(["run", "--network", "n.yml", "--json", "-", *arguments])
        out, err = capsys.readouterr()
        return status, json.loads(out[out.index("{") :]) if out else None, err

    return run_command


@pytest.mark.parametrize("more", [(), ("--endpoint", "ideal"), ("--semantics", "astra-sim")])
@pytest.mark.parametrize("vary", [(), ("--compute-scale", "1=1.5,3", "--jitter", "0.1")])
def test_layers_in_yaml_are_those_of_the_text(command, more, vary):
    """On the platform's engines, on ideal endpoints, and in the other semantics."""
    if vary:
        vary = ("--compute-scale", "1=1.5", "--compute-scale", "2-3=2", "--jitter", "0.1")
    status, written, _ = command("--workload", "w.yaml", *more, *vary)
    status_of_text, text, _ = command("--workload", "w.txt", *more, *vary)
    assert (status, status_of_text) == (0, 0)
    assert written == text
    assert written["ranks_simulated"] == (4 if vary else 1)
    again = command("--workload", "w.txt", *more, *vary)[1]
    assert again == text
    if vary:
        other = command("--workload", "w.txt", *more, *vary, "--seed", "1")[1]
        assert other["total_ns"] != text["total_ns"]


def test_a_generated_model_is_what_the_command_writes(command):
    path = Path("m.yaml")
    path.write_text("model: {name: resnet50, dp: 4, batch: 2}\niterations: 1\n")
    _, generated, _ = command("--workload", str(path))
    assert main(["workload", "resnet50", "--dp", "4", "--batch", "2", "--out", "t"]) == 0
    _, written, _ = command("--workload", "t")
    assert generated["total_ns"] == written["total_ns"]
    assert generated["layers"] == written["layers"]


def test_jobs_by_command(command):

    Path("jobs.yaml").write_text(
        "jobs:\n"
        "  - {name: one, ranks: 0-1, workload: w.yaml}\n"
        "  - {name: two, ranks: 2-3, workload: w.txt}\n"
    )
    status, found, err = command("--workload", "jobs.yaml", "--csv", ".")
    assert (status, err) == (0, "")
    assert [job["name"] for job in found["jobs"]] == ["one", "two"]
    assert [job["npus"] for job in found["jobs"]] == [2, 2]
    one, two = found["jobs"]
    assert one["layers"] == two["layers"]
    assert len(one["iterations_ns"]) == 2
    assert one["total_ns"] == sum(one["iterations_ns"]) == found["total_ns"]
    assert found["ranks_simulated"] == 1
    head = Path("jobs.csv").read_text().splitlines()[0]
    assert head.startswith("name,npus,total_ns,compute_ns,exposed_comm_ns")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--jitter", "1"), "--jitter must be at least 0 and below 1, not 1"),
        (
            ("--compute-scale", "9=2"),
            "workload.compute_scale must name ranks in 0..3, not 9",
        ),
        (
            ("--compute-scale", "2"),
            "argument --compute-scale: must read such as 3=1.5 or 0-7=2, not '2' "
            "(see 'antiphon run --help')",
        ),
        (
            ("--compute-scale", "2=0"),
            "argument --compute-scale: must have a factor above 0 and at most 1000, not '0' "
            "(see 'antiphon run --help')",
        ),
        (
            ("--priorities", "mp", "--semantics", "astra-sim"),
            "--priorities is for the semantics antiphon, not astra-sim",
        ),
        (("--comm-group", "g"), "--comm-group is for Chakra traces, not for a layer workload"),
    ],
)
def test_wrong_options(command, arguments, message):
    status, _, err = command("--workload", "w.txt", *arguments)
    assert (status, err) == (2, f"antiphon: {message}\n")


def test_a_warning_where_priorities_change_nothing(command):
    Path("p.yaml").write_text(LAYERS + "priorities: [mp, dp]\n")
    status, _, err = command("--workload", "p.yaml", "--semantics", "astra-sim")
    warning = "antiphon: warning: priorities have no effect with astra-sim semantics\n"
    assert (status, err) == (0, warning)


def test_a_model_must_fit_the_network(command):

    Path("m.yaml").write_text("model: {name: resnet50, dp: 2}\n")
    status, _, err = command("--workload", "m.yaml")
    assert (status, err) == (
        2,
        "antiphon: m.yaml:1: tp x pp x dp must be the 4 NPUs of the network, not 1 x 1 x 2 = 2\n",
    )
    Path("j.yaml").write_text("jobs: [{name: a, ranks: 0-3, workload: w.txt}]\n")
    status, _, err = command("--workload", "j.yaml", "--iterations", "3")
    assert (status, err) == (
        2,
        "antiphon: --iterations is for layer workloads, not for several jobs, each of which has "
        "its own\n",
    )
