"""From the settings of a workload to graphs of all ranks of a network, ready to be replayed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sw_model.astra.groups import read_groups
from sw_model.chakra.from_layers import trace_of_layers
from sw_model.chakra.from_model import ModelTraces
from sw_model.chakra.graph import Graph, TraceNode, build_graph
from sw_model.chakra.messages import NodeKind
from sw_model.chakra.workload import ChakraWorkload, assemble, is_chakra, load_workload
from sw_model.replay.jobs import PlacedJob, combine
from sw_model.replay.shapes import shape_of
from sw_model.replay.variation import varied
from sw_model.topology import Topology
from sw_model.workload.loading import load_layers
from sw_model.workload.settings import JobSettings, WorkloadSettings
from sw_model.workload.traffic import TrafficClass

__all__ = ["Prepared", "prepare"]

_CLASSES = len(TrafficClass) + 1
Progress = Callable[[float], object]


@dataclass(frozen=True)
class Prepared:
    """A workload to be replayed; with several jobs where each of them is."""

    workload: ChakraWorkload
    jobs: tuple[PlacedJob, ...] = ()


def prepare(
    settings: WorkloadSettings,
    network: Topology,
    *,
    fused: bool = False,
    progress: Progress | None = None,
) -> Prepared:
    """Read or make the graphs of all ranks.

    Parameters
    ----------
    fused : of layers, the gradients of an iteration are one collective
    progress : called with the share of the files that is read

    Raises
    ------
    InputError
        for whatever is wrong in the files or between them and the network
    """
    if not settings.jobs:
        workload = _single(settings, network, fused, progress)
        return Prepared(_ordered(varied(workload, settings.variation), settings))
    workloads = []
    highest = max(job.priority for job in settings.jobs)
    for job in settings.jobs:
        own = job.workload
        if not own.priorities:
            own = replace(own, priorities=settings.priorities)
        made = _single(own, _network_of(job, network), fused, progress)
        made = varied(made, own.variation)
        workloads.append(_ordered(made, own, (highest - job.priority) * _CLASSES))
    names, ranks = (
        [job.name for job in settings.jobs],
        [job.ranks for job in settings.jobs],
    )
    combined, placed = combine(network, names, ranks, workloads)
    return Prepared(varied(combined, settings.variation), placed)


def _network_of(job: JobSettings, network: Topology) -> Topology:
    """The dims that a job sees: those of the network, as far as its ranks are a grid in it."""
    return shape_of(network, tuple(sorted(job.ranks))).topology


def _single(
    settings: WorkloadSettings, network: Topology, fused: bool, progress: Progress | None
) -> ChakraWorkload:
    if settings.model is not None:
        return _generated(settings, network)
    if settings.file is not None and is_chakra(settings.file):
        groups = None
        if settings.comm_group is not None:
            groups = read_groups(settings.comm_group, network.npus)
        return load_workload(settings.file, network, groups, progress=progress)
    if settings.comm_group is not None:
        raise settings.error("comm_group", "comm_group is for Chakra traces, not for layers")
    made = trace_of_layers(
        load_layers(settings, network), network, iterations=settings.iterations, fused=fused
    )
    graph = replace(build_graph(made.trace), layers=made.layers, starts=made.starts)
    return assemble(settings.name, [graph] * made.topology.npus, made.topology)


def _generated(settings: WorkloadSettings, network: Topology) -> ChakraWorkload:
    from sw_model.workload.catalogue import model_named
    from sw_model.workload.machine import Machine
    from sw_model.workload.parallel import Parallelism, PipelineSchedule

    asked = settings.model
    assert asked is not None
    parallelism = Parallelism(
        tensor=asked.tp,
        pipeline=asked.pp,
        data=asked.dp,
        microbatches=asked.microbatches or asked.pp,
        zero=asked.zero,
        schedule=PipelineSchedule(asked.schedule),
        recompute=asked.recompute,
    )
    if parallelism.ranks != network.npus:
        raise settings.error(
            "model",
            f"tp x pp x dp must be the {network.npus} NPUs of the network, "
            f"not {asked.tp} x {asked.pp} x {asked.dp} = {parallelism.ranks}",
        )
    model = model_named(asked.name)
    try:
        machine = Machine(
            peak_tflops=asked.peak_tflops,
            efficiency=asked.efficiency,
            memory_bandwidth=asked.memory_bandwidth,
            data_type=settings.data_type,
            roofline=asked.roofline,
        )
    except ValueError as error:
        raise settings.error("model", str(error)) from None
    made = ModelTraces(
        model=model,
        parallelism=parallelism,
        machine=machine,
        batch=asked.batch or model.batch,
        iterations=settings.iterations,
    )
    graphs: list[Graph] = []
    last: object = None
    for trace in made:
        graphs.append(graphs[-1] if trace is last else build_graph(trace))
        last = trace
    groups = {name: tuple(ranks) for name, ranks in made.groups().items()}
    return assemble(f"{model.title}", graphs, network, groups)


def _ordered(
    workload: ChakraWorkload, settings: WorkloadSettings, precedence: int = 0
) -> ChakraWorkload:
    """The workload with the precedence of each communication: ``precedence``, and the place of its
    class in the settings' order. The graphs are changed: nobody else has them."""
    order = {one: place for place, one in enumerate(settings.priorities)}
    for graph in {id(graph): graph for graph in workload.graphs}.values():
        for node in graph.nodes:
            if node.kind in (NodeKind.COMM_COLL, NodeKind.COMM_SEND):
                one = _class_of(node, settings)
                node.precedence = precedence + order.get(one, len(order))
    return workload


def _class_of(node: TraceNode, settings: WorkloadSettings) -> TrafficClass:
    """By communicator where the settings say it; else what the trace says; else messages belong
    to pipelines and collectives to data parallelism."""
    named = settings.classes.get(node.group) if node.group else None
    if named is not None or node.traffic is not None:
        return named or node.traffic  # type: ignore[return-value]
    return TrafficClass.DATA if node.kind is NodeKind.COMM_COLL else TrafficClass.PIPELINE
