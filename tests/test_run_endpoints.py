"""Runs on endpoints that are not ideal: by hand, against single collectives, and the command."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from sim_top.cli.frame import main
from sw_model.astra.system import SystemConfig
from sw_model.chakra.from_layers import trace_of_layers
from sw_model.chakra.graph import build_graph
from sw_model.chakra.workload import assemble
from sw_model.collective.cost import algorithms_of
from sw_model.collective.plan import Collective, Operation
from sw_model.endpoint.kinds import KINDS, EndpointSettings
from sw_model.errors import InputError
from sw_model.replay.overlapped import Schedule
from sw_model.replay.run import Semantics, TraceResult, replay_trace
from sw_model.schedule.endpoints import evaluate_endpoint
from sw_model.schedule.outcome import evaluate
from sw_model.schedule.single import Instance
from sw_model.topology import Dim, DimKind, Topology
from sw_model.workload.layers import Communication, Layer, Mode, Workload

GB = 10**9
KIND_NAMES = tuple(KINDS)
NOTHING = Communication()


def torus(*sizes: int) -> Topology:
    """The platform of the ACE paper: rings of 200, 25 and 25 GB/s; 90 and 500 ns a hop."""
    dims = [Dim(DimKind.RING, sizes[0], Fraction(200 * GB), 90_000)]
    dims += [Dim(DimKind.RING, size, Fraction(25 * GB), 500_000) for size in sizes[1:]]
    return Topology(tuple(dims))


def data_parallel(*layers: tuple[int, int], operation=Operation.ALL_REDUCE) -> Workload:
    """Layers of (ns of every pass, bytes of gradients)."""
    return Workload(
        mode=Mode.DATA,
        layers=tuple(
            Layer(
                name=f"layer {number}",
                forward_ns=time,
                forward=NOTHING,
                input_gradient_ns=time,
                input_gradient=NOTHING,
                weight_gradient_ns=time,
                weight_gradient=Communication(operation, size) if size else NOTHING,
                update_ns=0,
            )
            for number, (time, size) in enumerate(layers)
        ),
    )


def run(workload: Workload, network: Topology, kind: str | None, **more) -> TraceResult:
    schedule = more.pop("schedule", Schedule(chunks=16))
    passes = more.pop("passes", "operations")
    fused = kind is not None and not KINDS[kind].overlaps
    made = trace_of_layers(workload, network, fused=fused, iterations=more.pop("iterations", 1))
    graphs = [build_graph(made.trace)] * made.topology.npus
    result = replay_trace(
        assemble("layers", graphs, made.topology),
        SystemConfig(),
        schedule=schedule,
        endpoint=EndpointSettings(kind=kind, passes=passes),
        **more,
    )
    for rank in result.ranks:
        assert rank.finish == rank.compute + rank.exposed + rank.host + rank.bubble
    return result


@pytest.mark.parametrize("kind", KIND_NAMES)
@pytest.mark.parametrize("scheduler", [("baseline", "fifo"), ("themis", "scf")])
@pytest.mark.parametrize("operation", list(Operation)[:4])
def test_one_collective_takes_what_it_takes_alone(kind, scheduler, operation):
    """Two programs: the replay's fabric, and the models of a single collective."""
    network, size = torus(4, 2, 2), 2**21
    name, intra = scheduler
    found = run(
        data_parallel((0, size), operation=operation),
        network,
        kind,
        schedule=Schedule(name, intra, 16),
    )
    asked = Collective(operation, size // 2, dims=(0, 1, 2))
    instance = Instance(asked, network, algorithms_of(network.dims, operation, None))
    options = {"scheduler": name, "intra": intra, "chunks": 16}
    if kind == "ideal":
        alone, memory = evaluate(instance, **options).time, None
    elif kind == "ace" and operation is Operation.ALL_TO_ALL:
        return  # the model of a single collective has no engine for it
    else:
        outcome, use = evaluate_endpoint(instance, KINDS[kind], **options)
        alone, memory = outcome.time, use.exact
    near = 0.05 if kind == "ace" else 1e-4  # partitions there, one pool here; roundings to a unit
    assert found.ns(found.latest.finish) == pytest.approx(float(alone * 10**9), rel=near)
    assert found.memory == memory
    assert found.endpoint == kind


def test_what_the_kinds_leave_to_compute():
    work = data_parallel((74_000, 0), (78_000, 0))
    whole = 2 * 74_000 + 3 * 78_000  # the first layer has no input gradient
    for kind, operations, memory in (
        ("ideal", Fraction(1), Fraction(1)),
        ("baseline-no-overlap", Fraction(1), Fraction(1)),
        ("baseline-comm-opt", Fraction(80, 74), Fraction(900, 450)),
        ("baseline-comp-opt", Fraction(80, 78), Fraction(900, 772)),
        ("ace", Fraction(1), Fraction(900, 772)),
    ):
        found = run(work, torus(4, 2, 2), kind)
        assert found.ns(found.latest.compute) == pytest.approx(float(whole * operations), abs=0.01)
        found = run(work, torus(4, 2, 2), kind, passes="memory")
        assert found.ns(found.latest.compute) == pytest.approx(float(whole * memory), abs=0.01)


def test_a_pass_whose_bytes_are_known_is_on_a_roofline():
    kind = KINDS["baseline-comm-opt"]  # 74 of 80 SMs, half of the bandwidth
    assert kind.memory_ns(900) == 1
    assert kind.pass_time(100, 20) == Fraction(100 * 80, 74)
    assert kind.pass_time(100, 60) == 120
    assert kind.pass_time(100, 100) == 200
    assert kind.pass_time(100, 300) == 200  # it has not taken longer than it has
    assert KINDS["ideal"].pass_time(100, 60) == 100


def test_without_overlap_gradients_are_one_collective_after_back_propagation():
    work = data_parallel((50_000, 2**20), (50_000, 2**20), (50_000, 2**20))
    network = torus(4, 2, 2)
    found = run(work, network, "baseline-no-overlap")
    ((_, issued, start, end),) = found.logs[0].communication
    assert issued == start == found.latest.compute
    assert found.ns(found.latest.compute) == 8 * 50_000
    asked = Collective(Operation.ALL_REDUCE, 3 * 2**19, dims=(0, 1, 2))
    instance = Instance(asked, network, algorithms_of(network.dims, Operation.ALL_REDUCE, None))
    alone, _ = evaluate_endpoint(instance, KINDS["baseline-no-overlap"], chunks=16)
    assert found.ns(end - start) == pytest.approx(float(alone.time * 10**9), rel=1e-4)
    gradients = {node.name: node.bytes for node in found.nodes}["all gradients all-reduce"]
    assert gradients == 3 * 2**20
    # The second iteration computes nothing before they are there.
    both = run(work, network, "baseline-no-overlap", iterations=2)
    assert both.latest.finish == 2 * found.latest.finish


def test_without_overlap_nothing_computes_while_a_collective_runs():
    """An all-to-all beside the bottom layer waits for it, and then all else waits."""
    layers = data_parallel((40_000, 0), (30_000, 2**20), (20_000, 2**20)).layers
    exchange = Communication(Operation.ALL_TO_ALL, 2**20)
    work = Workload(
        mode=Mode.HYBRID_DLRM,
        layers=(replace(layers[0], forward=exchange, input_gradient=exchange), *layers[1:]),
        last_bottom_layer=1,
    )
    for kind, overlaps in (("baseline-no-overlap", False), ("baseline-comm-opt", True)):
        log = run(work, torus(4, 2, 2), kind).logs[0]
        together = [
            (begin, end)
            for _, begin, end in log.compute
            for _, _, start, done in log.communication
            if begin < done and start < end
        ]
        assert bool(together) is overlaps


def test_two_collectives_share_the_memory(monkeypatch):
    """Two dims of 8 GB/s. Each ring of two sends S and reads 2 S, so both together need 32 GB/s of
    memory; there are 6."""
    layers = data_parallel((0, 0), (0, 2**20)).layers
    exchange = Communication(Operation.ALL_REDUCE, 2**20)
    work = Workload(  # input gradients over dim 1, weight gradients over dim 2
        mode=Mode.HYBRID_DATA_MODEL,
        layers=(layers[0], replace(layers[1], input_gradient=exchange)),
    )
    network = Topology(tuple(Dim(DimKind.RING, 2, Fraction(8 * GB), 0) for _ in range(2)))
    small = replace(KINDS["baseline-comm-opt"], memory_bandwidth=Fraction(6 * GB))
    monkeypatch.setitem(KINDS, "small", small)
    apart = run(work, network, "ideal", schedule=Schedule(chunks=4))
    assert len(apart.logs[0].communication) == 2
    assert apart.ns(apart.latest.finish) == pytest.approx(2**20 / 8, abs=1)
    found = run(work, network, "small", schedule=Schedule(chunks=4))
    assert found.memory is not None
    assert found.memory.reads == 2 * 2 * 2**20
    assert found.ns(found.latest.finish) == pytest.approx(2 * 2 * 2**20 / 6, rel=1e-3)


def test_refused(capsys, tmp_path):
    with pytest.raises(InputError) as caught:
        run(
            data_parallel((0, 1024)),
            torus(4, 2, 2),
            "ace",
            semantics=Semantics.ASTRA_SIM,
        )
    assert str(caught.value) == (
        "an endpoint other than ideal is for the semantics antiphon, not astra-sim"
    )
    network = tmp_path / "n.yml"
    network.write_text(
        "dims:\n  - {kind: Ring, size: 4, bandwidth_per_npu: 1 GB/s, latency: 1 ns}\n"
    )
    options = ["run", "--workload", "examples/resnet50.txt", "--network", str(network)]
    assert main([*options, "--endpoint", "asce"]) == 2
    assert capsys.readouterr().err.endswith("unknown endpoint 'asce' (did you mean 'ace'?)\n")
    assert main([*options, "--endpoint", "ace", "--semantics", "astra-sim"]) == 2
    assert capsys.readouterr().err.endswith(
        "--endpoint is for the semantics antiphon, not astra-sim\n"
    )


def test_the_key_and_the_command(capsys, tmp_path):
    network = tmp_path / "n.yml"
    network.write_text(
        "dims:\n"
        "  - {kind: Ring, size: 4, bandwidth_per_npu: 200 GB/s, latency: 90 ns}\n"
        "  - {kind: Switch, size: 2, bandwidth_per_npu: 25 GB/s, latency: 500 ns}\n"
    )
    text = tmp_path / "w.txt"
    text.write_text(
        "DATA\n2\n"
        "a -1 1000 NONE 0 1000 NONE 0 1000 ALLREDUCE 65536 10\n"
        "b -1 1000 NONE 0 1000 NONE 0 1000 ALLREDUCE 65536 10\n"
    )
    file = tmp_path / "e.yaml"
    file.write_text(
        f"workload: {{file: {text}}}\nnetwork: {network}\n"
        "endpoint: {kind: baseline-comp-opt, passes: memory}\n"
    )
    assert main(["run", str(file), "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["endpoint"] == "baseline-comp-opt"
    assert found["compute_ns"] == pytest.approx(2 * 5 * 1000 * 900 / 772, abs=0.01)
    assert found["memory_read_bytes_per_npu"] > 4 * 65536
    assert 0 < found["bound_ns"] < found["total_ns"]
    assert main(["run", str(file), "--endpoint", "ace", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["endpoint"] == "ace"
    assert found["memory_read_bytes_per_npu"] == found["memory_write_bytes_per_npu"] == 4 * 65536
    assert main(["sweep", str(file), "--set", "endpoint.kind=ideal,ace", "--json", "-"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [one["endpoint"] for one in runs] == ["ideal", "ace"]
    assert runs[0]["memory_read_bytes_per_npu"] is None


def test_the_rtl_has_its_own_engines(capsys, tmp_path):
    text = (
        Path("examples/resnet50.yaml")
        .read_text()
        .replace("resnet50.txt", str(Path("examples/resnet50.txt").resolve()))
    )
    file = tmp_path / "e.yaml"
    file.write_text(f"{text}\nendpoint:\n  kind: ace\n")
    assert main(["cosim", str(file)]) == 2
    where, message = capsys.readouterr().err.split(": ", 2)[1:]
    assert where.startswith(str(file))
    assert message == (
        "endpoint.kind must be left out, not 'ace': the RTL is the platform's own engines\n"
    )
    file.write_text(f"{text}\nendpoint:\n  kind: asce\n")
    assert main(["run", str(file)]) == 2
    assert "'asce'" in capsys.readouterr().err


@pytest.mark.parametrize("kind", KIND_NAMES)
@pytest.mark.parametrize("scheduler", ["baseline", "themis"])
def test_no_layer_communicates_for_less_than_its_bound(kind, scheduler):
    work = data_parallel((5_000, 300_000), (1_000, 2**20), (0, 77_776))
    found = run(work, torus(4, 4, 2), kind, schedule=Schedule(scheduler, "scf", 8), iterations=2)
    assert 0 < found.bounds.whole.ns <= found.ns(found.latest.finish)
    for node in found.nodes:
        bound = found.bounds.layers[node.name].ns if node.bytes else 0.0
        assert bound <= found.ns(node.communication)
        assert bool(bound) == bool(node.bytes)
