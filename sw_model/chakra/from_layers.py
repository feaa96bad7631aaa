"""A layer workload (ASTRA-sim 1.0 text) as a Chakra trace.

Every rank has the same graph, whose collectives name their dims. A pass of a layer is a compute
node; the passes of a rank follow each other. A collective follows the pass that it belongs to. An
update is a node beside the accelerator that follows its collective.

Times are nanoseconds in the text and microseconds in Chakra. `duration_micros` gets the nearest
whole microsecond, and an attribute of our own (`sw_model.chakra.graph.NANOSECONDS`) the exact
time, so that nothing is lost here and no reader takes the one for the other.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from sw_model.chakra.files import SCHEMA_VERSION, Trace
from sw_model.chakra.graph import NANOSECONDS, TRAFFIC
from sw_model.chakra.messages import CollectiveKind, NodeKind, message
from sw_model.collective.plan import Operation
from sw_model.errors import InputError
from sw_model.topology import Topology
from sw_model.workload.layers import Layer, Part, Pass, Workload
from sw_model.workload.program import iteration
from sw_model.workload.spans import span_dims, split_for_group
from sw_model.workload.steps import Await, Compute, Issue, Step
from sw_model.workload.traffic import TrafficClass

__all__ = ["LayerTrace", "trace_of_layers"]

_KINDS = {
    Operation.ALL_REDUCE: CollectiveKind.ALL_REDUCE,
    Operation.ALL_GATHER: CollectiveKind.ALL_GATHER,
    Operation.REDUCE_SCATTER: CollectiveKind.REDUCE_SCATTER,
    Operation.ALL_TO_ALL: CollectiveKind.ALL_TO_ALL,
}


@dataclass(frozen=True)
class LayerTrace:
    """The trace of every rank of a layer workload.

    Attributes
    ----------
    topology : whose dims the collectives name
    starts : position of the first compute of every iteration
    layers : name of the layer of every node
    """

    trace: Trace
    topology: Topology
    starts: tuple[int, ...]
    layers: tuple[str, ...]


class _Writer:
    """Builds the nodes of one rank."""

    def __init__(self, workload: Workload, topology: Topology, fused: bool) -> None:
        self.workload, self.topology, self.fused = workload, topology, fused
        self.nodes: list[Any] = []
        self.layer = ""  # of the step
        self.last: list[int] = []  # what the next compute waits for
        self.pending: dict[tuple[int, Part], int] = {}
        self.layers: list[str] = []
        #: Gradients put off to the end of the iteration, by operation and dims: (layer, bytes).
        self.gradients: dict[tuple[Operation, tuple[int, ...]], list[tuple[int, int]]] = {}

    def add(self, name: str, kind: NodeKind, parents: list[int], on_cpu: bool = False) -> Any:
        node = message("Node")(id=len(self.nodes), name=name, type=kind, data_deps=parents)
        node.attr.add(name="is_cpu_op").bool_val = on_cpu
        self.nodes.append(node)
        self.layers.append(self.layer)
        return node

    def timed(self, name: str, nanoseconds: Any, parents: list[int], on_cpu: bool = False) -> int:
        time = int(nanoseconds)
        node = self.add(name, NodeKind.COMP, parents, on_cpu)
        node.duration_micros = (time + 500) // 1000
        if node.duration_micros * 1000 != time:
            node.attr.add(name=NANOSECONDS).uint64_val = time
        return int(node.id)

    def step(self, step: Step) -> None:
        layer = self.workload.layers[step.layer]
        self.layer = layer.name
        if isinstance(step, Compute):
            name = f"{layer.name} {step.part.value}"
            self.last = [self.timed(name, layer.compute_ns(step.part), self.last)]
        elif isinstance(step, Issue):
            self.issue(layer, step)
        elif (step.layer, step.part) in self.pending:
            # What has been awaited once need not be again.
            self.last = [*self.last, self.pending.pop((step.layer, step.part))]

    def issue(self, layer: Layer, step: Issue) -> None:
        assert isinstance(step.part, Pass), "the layers have no stages"
        communication = layer.communication(step.part)
        if communication.operation is None or communication.bytes == 0:
            return
        span = self.workload.span(step.layer, step.part)
        dims = span_dims(span, self.topology, self.workload.model_parallel_npus)
        if not any(self.topology.dims[dim].size > 1 for dim in dims):
            return
        if self.fused and step.part is Pass.WEIGHT_GRADIENT:
            same = self.gradients.setdefault((communication.operation, tuple(dims)), [])
            same.append((step.layer, communication.bytes))
            return
        name = f"{layer.name} {step.part.value} {communication.operation.value}"
        end = self.collective(name, communication.operation, communication.bytes, dims, step.part)
        self.pending[step.layer, step.part] = self.updated(step, end)

    def collective(
        self, name: str, operation: Operation, size: int, dims: Collection[int], part: Pass
    ) -> int:
        node = self.add(name, NodeKind.COMM_COLL, self.last)
        node.attr.add(name="comm_type").int64_val = _KINDS[operation]
        node.attr.add(name="comm_size").int64_val = size
        involved = [index in dims for index in range(len(self.topology.dims))]
        node.attr.add(name="involved_dim").bool_list.values.extend(involved)
        data = part is Pass.WEIGHT_GRADIENT
        traffic = TrafficClass.DATA if data else TrafficClass.MODEL
        node.attr.add(name=TRAFFIC).string_val = traffic.value
        return int(node.id)

    def updated(self, step: Issue, end: int) -> int:
        """What the users of a collective's result wait for."""
        layer = self.workload.layers[step.layer]
        if step.part is not Pass.WEIGHT_GRADIENT or not layer.update_ns:
            return end
        return self.timed(f"{layer.name} update", layer.update_ns, [end], on_cpu=True)

    def end_iteration(self) -> None:
        """Issue the gradients that were put off: one collective for an operation and its dims."""
        gradients, self.gradients = self.gradients, {}
        for (operation, dims), parts in gradients.items():
            self.layer = "all gradients"
            size = sum(size for _, size in parts)
            end = self.collective(
                f"all gradients {operation.value}", operation, size, dims, Pass.WEIGHT_GRADIENT
            )
            for index, _ in parts:
                self.layer = self.workload.layers[index].name
                step = Issue(index, Pass.WEIGHT_GRADIENT)
                self.pending[index, step.part] = self.updated(step, end)


def trace_of_layers(
    workload: Workload, network: Topology, *, iterations: int = 1, fused: bool = False
) -> LayerTrace:
    """The trace of every rank of ``network``, which has a dim split where the workload's
    model-parallel group ends inside it.

    Parameters
    ----------
    fused : an iteration's gradients of one operation and the same dims are one collective, issued
        after back-propagation

    Raises
    ------
    InputError
        where the workload's groups are none of the network, or it has stages.
    """
    if workload.pipeline is not None:
        raise InputError(
            "a workload with a pipeline runs on the platform's engines, not as a trace"
        )
    topology = split_for_group(network, workload)
    writer = _Writer(workload, topology, fused)
    program = iteration(workload)
    leading = len(list(takewhile(lambda step: isinstance(step, Await), program)))
    starts = []
    for _ in range(iterations):
        for step in program[:leading]:
            writer.step(step)
        starts.append(len(writer.nodes))
        for step in program[leading:]:
            writer.step(step)
        writer.end_iteration()
    if not writer.nodes:
        writer.add("nothing", NodeKind.METADATA, [])
    metadata = message("GlobalMetadata")(version=SCHEMA_VERSION)
    metadata.attr.add(name="source").string_val = f"ASTRA-sim 1.0 text, {workload.mode.value}"
    trace = Trace(metadata, writer.nodes, workload.path or "layers")
    return LayerTrace(trace, topology, tuple(starts), tuple(writer.layers))
