"""What ASTRA-sim 2.0's analytical back-ends say, in our ``astra-sim`` semantics: to the nanosecond.

Single collectives, single collectives with congestion, a collective by an algorithm's own trace,
and whole training steps, made here as traces. Published figures come with that program; measured
ones are of its master of March 2026, with the analytical congestion-unaware back-end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from sim_top.reproduce import astra_resnet
from sim_top.reproduce.registry import Row
from sw_model.astra.collective import cut, run_collective
from sw_model.astra.rounds import congested_ns
from sw_model.astra.system import AlgorithmName, SystemConfig
from sw_model.chakra.graph import Graph, TraceNode
from sw_model.chakra.messages import NodeKind
from sw_model.chakra.workload import assemble
from sw_model.collective.plan import Operation
from sw_model.replay.astra_fabric import algorithm_ns
from sw_model.replay.run import Semantics, replay_trace
from sw_model.topology import Dim, DimKind, Topology

__all__ = ["rows"]

_PUBLISHED = "published with ASTRA-sim 2.0"
_MEASURED = "measured on ASTRA-sim 2.0"
_MIB = 2**20
_KINDS = {"r": DimKind.RING, "fc": DimKind.FULLY_CONNECTED, "sw": DimKind.SWITCH}
_ALGORITHMS = {
    "ring": AlgorithmName.RING,
    "direct": AlgorithmName.DIRECT,
    "hd": AlgorithmName.HALVING_DOUBLING,
}
_AR, _RS, _AG, _A2A = (
    Operation.ALL_REDUCE,
    Operation.REDUCE_SCATTER,
    Operation.ALL_GATHER,
    Operation.ALL_TO_ALL,
)

# Network (kind, size, GiB/s of a link), collective, MiB, algorithms, splits, ns.
_COLLECTIVES = (
    ("r8@100", _AR, 1, "ring", 1, 25_931),
    ("r8@100", _AR, 1024, "ring", 16, 19_375_712),
    ("r8@100", _RS, 64, "ring", 4, 671_228),
    ("r8@100", _AG, 64, "ring", 4, 4_389_320),
    ("r8@100", _A2A, 64, "ring", 4, 2_244_632),
    ("fc8@100", _AR, 64, "direct", 4, 176_088),
    ("fc8@100", _RS, 64, "direct", 4, 95_924),
    ("fc8@100", _AG, 64, "direct", 4, 627_080),
    ("fc8@100", _A2A, 64, "direct", 4, 80_204),
    ("sw8@100", _AR, 64, "hd", 4, 1_165_196),
    ("sw8@100", _RS, 64, "hd", 4, 606_204),
    ("sw8@100", _AG, 64, "hd", 4, 4_387_160),
    ("sw8@100", _A2A, 64, "direct", 4, 82_204),
    ("r4@200 fc8@100 sw4@50", _AR, 1, "ring direct hd", 1, 18_556),
    ("r4@200 fc8@100 sw4@50", _AR, 64, "ring direct hd", 16, 612_272),
    ("r4@200 fc8@100 sw4@50", _RS, 64, "ring direct hd", 16, 359_199),
    ("r4@200 fc8@100 sw4@50", _AG, 64, "ring direct hd", 16, 30_417_815),
    ("r4@200 fc8@100 sw4@50", _A2A, 64, "ring direct direct", 16, 543_745),
    ("r2@250 fc8@200 r8@100 sw8@50", _AR, 64, "ring direct ring hd", 4, 317_064),
    ("r2@250 fc8@200 r8@100 sw8@50", _RS, 64, "ring direct ring hd", 4, 216_437),
)


def _network(text: str, latency_ps: int = 500_000) -> Topology:
    """``r4@200 fc8@100``: kind, size, and GiB/s of a link."""
    dims = []
    for word in text.split():
        name, _, speed = word.partition("@")
        kind = name.rstrip("0123456789")
        size = int(name[len(kind) :])
        links = size - 1 if kind == "fc" else 1
        dims.append(Dim(_KINDS[kind], size, Fraction(int(speed) * 2**30 * links), latency_ps))
    return Topology(tuple(dims))


def _system(
    operation: Operation, names: str, splits: int, memory: int, **more: Any
) -> SystemConfig:
    return SystemConfig(
        splits=splits,
        local_memory_bandwidth=Fraction(memory),
        algorithms={operation: tuple(_ALGORITHMS[name] for name in names.split())},
        **more,
    )


def _collectives() -> list[Row]:
    out = []
    for network, operation, size, names, splits, reference in _COLLECTIVES:
        system = _system(operation, names, splits, 1600)
        ours = run_collective(operation, size * _MIB, _network(network), system).time_ns
        name = f"{operation.value} {size} MiB, {network.replace('@', ' at ')}, {splits} splits"
        out.append(Row(name, ours, reference, _MEASURED, 0, "ns"))
    return out


def _congested(operation: Operation, size: int, topology: Topology, system: SystemConfig) -> int:
    chunk, chunks = cut(operation, size, system.splits, topology.npus)
    ranks = range(topology.npus)
    return congested_ns(operation, AlgorithmName.RING, chunk, chunks, ranks, topology, system)


def _golden() -> list[Row]:
    eight = _network("r8@50")
    slow = _system(_AR, "ring", 4, 50)
    gather, scatter = _system(_AG, "ring", 4, 1600), _system(_RS, "ring", 4, 1600)
    h100 = _network("sw8@400", 936_250)
    pairs = _system(_AR, "ring", 4, 3350, active_chunks=2)
    return [
        Row("all-reduce 1 MiB, ring of 8", run_collective(_AR, _MIB, eight, slow).time_ns,
            117_780, _PUBLISHED, 0, "ns"),
        Row("all-reduce 1 MiB, ring of 8, congestion-aware", _congested(_AR, _MIB, eight, slow),
            117_780, _PUBLISHED, 0, "ns"),
        Row("all-gather 1 MiB, ring of 16",
            run_collective(_AG, _MIB, _network("r16@50"), gather).time_ns,
            323_560, _PUBLISHED, 0, "ns"),
        Row("reduce-scatter 1 MiB, ring of 4",
            run_collective(_RS, _MIB, _network("r4@50"), scatter).time_ns,
            22_240, _PUBLISHED, 0, "ns"),
        Row("all-reduce 1 MiB, HGX-H100", run_collective(_AR, _MIB, h100, pairs).time_ns,
            55_222, _PUBLISHED, 0, "ns"),
        Row("all-reduce 1 MiB, HGX-H100, congestion-aware", _congested(_AR, _MIB, h100, pairs),
            57_426, _PUBLISHED, 0, "ns"),
        Row("all-reduce 1 MiB by a ring algorithm's own trace", _custom_ring(eight),
            90_174, _PUBLISHED, 0, "ns"),
    ]  # fmt: skip


def _custom_ring(topology: Topology) -> int:
    """A ring all-reduce as messages: 14 sends and receives of a shard, a reduction of 7 us after
    each of the first 7."""
    npus, size = topology.npus, _MIB // topology.npus
    graphs = []
    for rank in range(npus):
        nodes: list[TraceNode] = []

        def add(kind: NodeKind, nodes: list[TraceNode] = nodes, **more: Any) -> None:
            parents = (len(nodes) - 1,) if nodes else ()
            nodes.append(TraceNode(len(nodes), kind.name, kind, parents, **more))

        for step in range(2 * (npus - 1)):
            add(NodeKind.COMM_SEND, destination=(rank + 1) % npus, size=size)
            add(NodeKind.COMM_RECV, source=(rank - 1) % npus, size=size)
            if step < npus - 1:
                add(NodeKind.COMP, duration_ns=7000)
        graphs.append(Graph(tuple(nodes), {}))
    workload = assemble("ring", graphs, topology)
    return algorithm_ns(workload, tuple(range(npus)), topology, SystemConfig())


def _training_step() -> Graph:
    """Data parallelism: 8 layers of 200 us forward and 400 us backward, an all-reduce of 64 MiB
    after each backward, and 10 us of update after all of them."""
    nodes = [
        TraceNode(i, f"forward {i}", NodeKind.COMP, (i - 1,) if i else (), 200_000)
        for i in range(8)
    ]
    last = 7
    reductions = []
    for layer in reversed(range(8)):
        here = len(nodes)
        nodes.append(TraceNode(here, f"backward {layer}", NodeKind.COMP, (last,), 400_000))
        reduction = TraceNode(here + 1, f"gradient {layer}", NodeKind.COMM_COLL, (here,))
        reduction.operation, reduction.size = _AR, 64 * _MIB
        nodes.append(reduction)
        reductions.append(here + 1)
        last = here
    nodes.append(TraceNode(len(nodes), "update", NodeKind.COMP, (last, *reductions), 10_000))
    return Graph(tuple(nodes), {})


def _pipeline() -> Sequence[Graph]:
    """GPipe: 4 stages, 8 micro-batches of 200 us forward and 400 us backward, 16 MiB between."""
    stages, batches, size = 4, 8, 16 * _MIB
    graphs = []
    for stage in range(stages):
        nodes: list[TraceNode] = []
        last: int | None = None
        for back in (False, True):
            before, after = (stage + 1, stage - 1) if back else (stage - 1, stage + 1)
            for batch in range(batches):
                parents = [] if last is None else [last]
                tag = batch + 1000 * back
                if 0 <= before < stages:
                    parents.append(len(nodes))
                    nodes.append(
                        TraceNode(len(nodes), f"receive {tag}", NodeKind.COMM_RECV, (),
                                  size=size, source=before, tag=tag)
                    )  # fmt: skip
                last = len(nodes)
                time = 400_000 if back else 200_000
                nodes.append(TraceNode(last, f"work {tag}", NodeKind.COMP, tuple(parents), time))
                if 0 <= after < stages:
                    nodes.append(
                        TraceNode(len(nodes), f"send {tag}", NodeKind.COMM_SEND, (last,),
                                  size=size, destination=after, tag=tag)
                    )  # fmt: skip
        graphs.append(Graph(tuple(nodes), {}))
    return graphs


def _steps() -> list[Row]:
    out = []
    step = _training_step()
    for network, names, splits, reference in (
        ("r8@100", "ring", 1, 11_697_856),
        ("r8@100", "ring", 16, 12_552_720),
        ("sw8@100", "hd", 4, 11_331_568),
        ("fc8@100", "direct", 4, 4_986_088),
    ):
        topology = _network(network)
        result = replay_trace(
            assemble("step", [step] * topology.npus, topology),
            _system(_AR, names, splits, 1600),
            semantics=Semantics.ASTRA_SIM,
        )
        name = f"data-parallel step, {network.replace('@', ' at ')}, {splits} splits"
        out.append(Row(name, result.latest.finish, reference, _MEASURED, 0, "ns"))
    four = _network("r4@100")
    result = replay_trace(
        assemble("gpipe", _pipeline(), four), SystemConfig(), semantics=Semantics.ASTRA_SIM
    )
    name = "GPipe of 4 stages, 8 micro-batches"
    out.append(Row(name, result.latest.finish, 7_540_500, _MEASURED, 0, "ns"))
    out.append(astra_resnet.row(_network("r8@100")))
    return out


def rows(progress: Callable[[float], object]) -> list[Row]:
    """All figures."""
    out: list[Row] = []
    for number, part in enumerate((_golden, _collectives, _steps), start=1):
        out += part()
        progress(number / 3)
    return out
