"""Traces of models in parallel: bytes and time against closed forms, folding, bad input."""

from __future__ import annotations

import json
import re
from collections import Counter
from fractions import Fraction

import pytest

from sim_top import cli
from sw_model.astra.system import SystemConfig
from sw_model.chakra.from_layers import trace_of_layers
from sw_model.chakra.from_model import ModelTraces
from sw_model.chakra.graph import build_graph
from sw_model.chakra.messages import NodeKind
from sw_model.chakra.workload import ChakraWorkload, assemble
from sw_model.collective.plan import Operation
from sw_model.errors import InputError
from sw_model.replay.run import Semantics, TraceResult, replay_trace
from sw_model.topology import Dim, DimKind, Topology
from sw_model.workload.catalogue import model_named
from sw_model.workload.layered import layered
from sw_model.workload.machine import Machine
from sw_model.workload.model import Block, Model
from sw_model.workload.parallel import Parallelism, PipelineSchedule
from sw_model.workload.transformer import decoder_blocks

LAYERS, HIDDEN, SEQUENCE, WORDS, HEADS = 4, 64, 16, 480, 8
SMALL = Model(
    title="small",
    blocks=decoder_blocks(
        layers=LAYERS, hidden=HIDDEN, heads=HEADS, sequence=SEQUENCE, vocabulary=WORDS
    ),
    published=0,
    tolerance=0,
    source="",
    sample="",
    batch=8,
    update_bytes=28,
    boundary=SEQUENCE * HIDDEN,
    heads=HEADS,
)
BATCH = 8
ACTIVATION = 2 * SEQUENCE * HIDDEN  # bytes of a sample


def made(how: Parallelism, model: Model = SMALL, batch: int = BATCH, **more) -> ModelTraces:
    return ModelTraces(
        model=model, parallelism=how, machine=more.pop("machine", Machine()), batch=batch, **more
    )


def assembled(traces: ModelTraces, bandwidth: int = 10**11, latency: int = 0) -> ChakraWorkload:
    how = traces.parallelism
    sizes = (how.tensor, how.pipeline, how.data)
    topology = Topology(
        tuple(Dim(DimKind.SWITCH, size, Fraction(bandwidth), latency) for size in sizes)
    )
    groups = {name: tuple(ranks) for name, ranks in traces.groups().items()}
    return assemble("w", [build_graph(trace) for trace in traces], topology, groups)


def replayed(traces: ModelTraces, semantics=Semantics.ANTIPHON, **more) -> TraceResult:
    return replay_trace(assembled(traces, **more), SystemConfig(), semantics=semantics)


def antiphon(line: str) -> int:
    return cli.main(line.split())


def totals(workload: ChakraWorkload, rank: int) -> Counter:
    """Bytes of a rank by what is done and by the size of the group."""
    out: Counter = Counter()
    for node in workload.graphs[rank].nodes:
        if node.kind is NodeKind.COMM_COLL:
            members = workload.members(rank, node)
            out[node.operation, members[1] - members[0], len(members)] += node.size
        elif node.kind in (NodeKind.COMM_SEND, NodeKind.COMM_RECV):
            out[node.kind] += node.size
    return out


def test_placement() -> None:
    how = Parallelism(tensor=3, pipeline=2, data=3)
    assert [how.place(rank) for rank in range(7)] == [
        (0, 0, 0), (1, 0, 0), (2, 0, 0), (0, 1, 0), (1, 1, 0), (2, 1, 0), (0, 0, 1),
    ]  # fmt: skip
    assert all(how.rank(*how.place(rank)) == rank for rank in range(18))
    groups = list(how.groups())
    assert groups[:6] == [tuple(range(3 * n, 3 * n + 3)) for n in range(6)]
    assert groups[6:12] == [tuple(range(n, 18, 6)) for n in range(6)]
    assert (0, 3) in groups[12:]
    assert len(groups) == 6 + 6 + 9


def test_pipeline_orders() -> None:
    def order(schedule: PipelineSchedule, stage: int) -> str:
        how = Parallelism(pipeline=4, microbatches=5, schedule=schedule)
        return " ".join(f"{'bf'[forward]}{number}" for forward, number in how.passes(stage))

    assert order(PipelineSchedule.GPIPE, 1) == "f0 f1 f2 f3 f4 b4 b3 b2 b1 b0"
    assert order(PipelineSchedule.ONE_F_ONE_B, 3) == "f0 b0 f1 b1 f2 b2 f3 b3 f4 b4"
    assert order(PipelineSchedule.ONE_F_ONE_B, 1) == "f0 f1 f2 b0 f3 b1 f4 b2 b3 b4"
    short = Parallelism(pipeline=4, microbatches=2, schedule=PipelineSchedule.ONE_F_ONE_B)
    assert short.passes(0) == [(True, 0), (True, 1), (False, 0), (False, 1)]


def test_data_parallel_bytes() -> None:
    """The all-reduces sum up to parameters x bytes, however many microbatches."""
    workload = assembled(made(Parallelism(data=4, microbatches=2)))
    assert totals(workload, 1) == {(Operation.ALL_REDUCE, 1, 4): 2 * SMALL.parameters}
    assert len({id(graph) for graph in made(Parallelism(data=4))}) == 1


def test_tensor_parallel_bytes() -> None:
    """Two all-reduces of batch x sequence x hidden x bytes a layer forward, two backward; one more
    for the words at either end."""
    for count in (1, 4):
        workload = assembled(made(Parallelism(tensor=4, microbatches=count)))
        assert totals(workload, 3) == {
            (Operation.ALL_REDUCE, 1, 4): (4 * LAYERS + 2) * BATCH * ACTIVATION
        }
        nodes = workload.graphs[0].nodes
        sizes = {node.size for node in nodes if node.kind is NodeKind.COMM_COLL}
        assert sizes == {BATCH // count * ACTIVATION}


def test_recomputation() -> None:
    """Six all-reduces a layer instead of four, and four passes instead of three."""
    how = Parallelism(tensor=4, recompute=True)
    traces = made(how, uniform(4))
    workload = assembled(made(how))
    assert totals(workload, 0) == {
        (Operation.ALL_REDUCE, 1, 4): (6 * LAYERS + 2) * BATCH * ACTIVATION
    }
    nodes = workload.graphs[0].nodes
    place = {node.name: n for n, node in enumerate(nodes)}
    again = place["layer1.mlp forward again all-reduce"]
    assert again in nodes[place["layer1.mlp input gradient"]].parents
    kept = replayed(made(Parallelism(tensor=4), uniform(4)))
    assert replayed(traces).latest.compute * 3 == kept.latest.compute * 4


def test_mixed_bytes() -> None:
    """TP 2, PP 4, DP 3: every rank's messages, tensor and data collectives, and the tied words."""
    how = Parallelism(tensor=2, pipeline=4, data=3, microbatches=4)
    workload = assembled(made(how))
    stages = SMALL.stages(4)
    for rank in range(how.ranks):
        stage = how.place(rank)[1]
        found = totals(workload, rank)
        neighbours = (stage > 0) + (stage < 3)
        assert found[NodeKind.COMM_SEND] == neighbours * BATCH * ACTIVATION
        assert found[NodeKind.COMM_RECV] == neighbours * BATCH * ACTIVATION
        ends = 1 if stage in (0, 3) else 0
        expected = (4 * LAYERS // 4 + ends) * BATCH * ACTIVATION
        assert found[Operation.ALL_REDUCE, 1, 2] == expected
        words = WORDS * HIDDEN // 2
        held = sum(block.held(2) for block in stages[stage]) + (words if stage == 3 else 0)
        assert found[Operation.ALL_REDUCE, 8, 3] == 2 * held
        assert found[Operation.ALL_REDUCE, 6, 2] == (2 * words if ends else 0)


@pytest.mark.parametrize("microbatches", [1, 2])
def test_zero_bytes(microbatches) -> None:
    """With one microbatch stages 1 and 2 move 2 x parameters, like data parallelism, and stage 3
    moves 3 x parameters (Rajbhandari et al., section 7), the words of the output once more in
    either pass."""
    model = Model(**{**vars(SMALL), "blocks": SMALL.blocks[1:-1]})
    whole = 2 * model.parameters  # divides by 4
    for zero, scatters, gathers in (
        (1, 1, 1),
        (2, microbatches, 1),
        (3, microbatches, 2 * microbatches),
    ):
        how = Parallelism(data=4, zero=zero, microbatches=microbatches)
        assert totals(assembled(made(how, model)), 0) == {
            (Operation.REDUCE_SCATTER, 1, 4): scatters * whole,
            (Operation.ALL_GATHER, 1, 4): gathers * whole // 4,
        }


def test_zero_3_gathers_the_words_of_the_output() -> None:
    how = Parallelism(data=4, zero=3)
    found = totals(assembled(made(how)), 0)
    words = SMALL.blocks[0].parameters
    assert found[Operation.ALL_GATHER, 1, 4] == (SMALL.parameters + words) * 2 * 2 // 4


def test_dlrm_exchanges_beside_the_bottom_mlp() -> None:
    model = model_named("dlrm-kaggle")
    workload = assembled(made(Parallelism(data=4), model, 512, iterations=2))
    found = totals(workload, 0)
    tables = model.blocks[0]
    assert found[Operation.ALL_TO_ALL, 1, 4] == 2 * 2 * 2 * 512 * 26 * 16
    assert found[Operation.ALL_REDUCE, 1, 4] == 2 * 2 * (model.parameters - tables.parameters)
    nodes = workload.graphs[0].nodes
    place = {node.name: n for n, node in enumerate(nodes[: len(nodes) // 2])}
    exchange = place["embedding forward all-to-all"]
    assert exchange in nodes[place["top0 forward"]].parents
    assert exchange not in nodes[place["bottom0 forward"]].parents
    assert (
        place["embedding backward all-to-all"] in nodes[place["embedding weight gradient"]].parents
    )
    replayed(made(Parallelism(data=4), model, 512, iterations=2))


def uniform(layers: int) -> Model:
    """Equal layers without weights to reduce or activations to share."""
    blocks = tuple(Block(name=f"layer{n}", multiply_adds=10**9, layer=n) for n in range(layers))
    return Model(**{**vars(SMALL), "blocks": blocks, "boundary": 1})


@pytest.mark.parametrize("schedule", PipelineSchedule)
@pytest.mark.parametrize(("stages", "count"), [(4, 4), (4, 8), (2, 8), (8, 2)])
def test_bubble_of_a_pipeline(schedule, stages, count) -> None:
    """(p - 1) / (m + p - 1) of the time, for GPipe and for 1F1B, where messages take no time."""
    how = Parallelism(pipeline=stages, microbatches=count, schedule=schedule)
    result = replayed(made(how, uniform(8)), bandwidth=10**15)
    share = 1 - result.latest.compute / result.latest.finish
    assert share == pytest.approx((stages - 1) / (count + stages - 1), rel=1e-4)


@pytest.mark.parametrize("semantics", [Semantics.ANTIPHON, Semantics.ASTRA_SIM])
@pytest.mark.parametrize("schedule", PipelineSchedule)
@pytest.mark.parametrize("zero", range(4))
def test_mixtures_finish_and_fold(semantics, schedule, zero) -> None:
    """One rank is simulated for each stage."""
    how = Parallelism(tensor=2, pipeline=4, data=2, microbatches=4, zero=zero, schedule=schedule)
    result = replayed(made(how, iterations=2), semantics)
    assert len(result.ranks) == 4
    assert set(result.sizes) == {4}
    for rank in result.ranks:
        assert rank.finish == rank.compute + rank.exposed + rank.host + rank.bubble


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("small", Parallelism(tensor=4, data=2)),
        ("gnmt", Parallelism(data=8)),
        ("dlrm-kaggle", Parallelism(data=8)),
    ],
)
def test_a_text_and_traces_say_the_same(name, how) -> None:
    """Two writers, one model: the same compute, bytes and time."""
    model = SMALL if name == "small" else model_named(name)
    traces = made(how, model)
    direct = assembled(traces)
    text = layered(model, how, traces.machine, BATCH)
    layers = trace_of_layers(text, direct.topology)
    graph = build_graph(layers.trace)
    by_text = replay_trace(assemble("t", [graph] * how.ranks, layers.topology), SystemConfig())
    ours = replayed(traces)
    assert by_text.ns(by_text.latest.compute) == ours.ns(ours.latest.compute)
    sizes = [
        sum(node.size for node in one.nodes if node.kind is NodeKind.COMM_COLL)
        for one in (graph, direct.graphs[0])
    ]
    assert sizes[0] == sizes[1]
    assert by_text.ns(by_text.latest.finish) == ours.ns(ours.latest.finish)


def test_one_rank_for_all_without_stages() -> None:
    assert len(replayed(made(Parallelism(tensor=4, data=8))).ranks) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("gpt-3 --tp 2", "unknown model 'gpt-3' (did you mean 'gpt3'?)"),
        (
            "gpt3 --tp 2 --pp 2 --dp 2 --ranks 16",
            "--tp x --pp x --dp must be the 16 of --ranks, not 2 x 2 x 2 = 8",
        ),
        (
            "gpt3 --tp 3 --ranks 16",
            "--tp x --pp x --dp must be the 16 of --ranks, not 3 x 1 x 5 = 15",
        ),
        (
            "transformer-17b --pp 4",
            "--pp must divide the 78 layers of Transformer-17B (1, 2, 3, 6, 13, 26, 39, 78), not 4",
        ),
        ("resnet152 --pp 2", "--pp must be 1 for ResNet-152, which is not cut in stages, not 2"),
        ("dlrm --tp 2", "--tp must be 1 for DLRM, which is only data-parallel, not 2"),
        (
            "transformer-17b --tp 32",
            "--tp must be at most the 28 attention heads of Transformer-17B, not 32",
        ),
        ("gpt3 --microbatches 3", "--microbatches must divide the batch of 16, not 3"),
        (
            "gnmt --recompute",
            "--recompute is for the layers of transformers, which GNMT has not",
        ),
        (
            "gpt3 --recompute --out w.txt",
            "--recompute is for Chakra traces, not for a 1.0 text",
        ),
        ("gpt3 --batch 0", "batch must be at least 1, not 0"),
        ("gpt3 --tp 0", "argument --tp: must be a whole number of at least 1, not '0'"),
        ("gpt3 --zero 4", "argument --zero: invalid choice: 4"),
        ("gpt3 --peak-tflops 0", "peak_tflops must be positive, not 0"),
        ("gpt3 --memory-bandwidth 900", "argument --memory-bandwidth: "),
        ("resnet50 --out no/w", "--out must be in an existing folder, not no"),
        ("resnet50 --out w.txt --gzip", "--gzip is for Chakra traces, not for a 1.0 text"),
        ("resnet50 --out w.txt --iterations 2", "--iterations is for Chakra traces, not for a "),
        (
            "gpt3 --out w.txt --zero 2",
            "--zero must be 0 in a 1.0 text, which cannot say more, not 2: give --out a prefix",
        ),
    ],
)
def test_bad_arguments(arguments, message, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    words = arguments.split()
    words += [] if "--out" in words else ["--out", "w"]
    assert cli.main(["workload", *words]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"antiphon: {message}")
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"tensor": 0}, "tensor must be at least 1, not 0"),
        ({"zero": 4}, "zero must be 0, 1, 2 or 3, not 4"),
    ],
)
def test_wrong_divisions(parameters, message) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Parallelism(**parameters)


def test_the_command_writes_what_run_reads(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "n.yml").write_text(
        "topology: [Switch, Ring, Switch]\nnpus_count: [2, 2, 2]\n"
        "bandwidth: [300, 100, 50]\nlatency: [500, 500, 500]\n"
    )
    line = "workload transformer-17b --tp 2 --pp 2 --dp 2 --batch 2 --out w --json -"
    assert antiphon(line) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["ranks"], report["groups"]) == (8, 4 + 4 + 4)
    assert report["parameters"] == 17_176_845_728
    assert len(list(tmp_path.glob("w.*.et"))) == 8
    line = "run --workload w --network n.yml --comm-group w.comm_group.json --json -"
    assert antiphon(line) == 0
    ran = json.loads(capsys.readouterr().out)
    assert (ran["npus"], ran["ranks_simulated"]) == (8, 2)
    # Fewer ranks under the same name would leave old traces among the new.
    assert antiphon("workload transformer-17b --tp 2 --out w") == 2
    said = capsys.readouterr().err
    assert said == (
        "antiphon: w.2.et: is there from another workload: remove its traces or give another "
        "--out\n"
    )


def test_traces_of_another_ending_are_in_the_way(tmp_path) -> None:
    out = str(tmp_path / "w")
    assert cli.main(["workload", "resnet50", "--dp", "2", "--gzip", "--out", out]) == 0
    assert cli.main(["workload", "resnet50", "--dp", "2", "--gzip", "--out", out]) == 0
    assert cli.main(["workload", "resnet50", "--dp", "2", "--out", out]) == 2


def test_a_rank_that_cannot_be_in_a_text() -> None:
    with pytest.raises(InputError, match="--microbatches must divide the batch of 8, not 3"):
        made(Parallelism(microbatches=3))
