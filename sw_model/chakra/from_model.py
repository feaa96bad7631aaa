"""The Chakra traces of a model that is trained in parallel: one graph for each rank.

The passes of a rank follow each other; collectives and messages run beside them. In a pass:

* forward, of each block: compute, then the all-reduce of the tensor-parallel group, for which the
  next block waits;
* backward, of each block: input gradient, its all-reduce, and beside that the weight gradient;
  without tensor parallelism the weight gradient comes first, so that its reduction begins sooner;
* with recomputation the forward pass of a layer comes again before its backward pass;
* a stage sends activations when its forward pass, and gradients when its backward pass of a
  microbatch has been computed, each rank to the rank in its place on the other stage;
* the gradients of a block are reduced over the replicas as soon as the last microbatch has given
  its own; an update follows, beside the accelerator, for which the block's next forward pass waits;
* with ZeRO-3 the parameters of a block are gathered while the block before it computes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sw_model.chakra.files import SCHEMA_VERSION, Trace
from sw_model.chakra.graph import NANOSECONDS, TRAFFIC
from sw_model.chakra.messages import CollectiveKind, NodeKind, message
from sw_model.workload.machine import Machine
from sw_model.workload.model import Block, Model
from sw_model.workload.parallel import Axis, Parallelism
from sw_model.workload.traffic import TrafficClass

__all__ = ["ModelTraces"]


@dataclass(frozen=True, kw_only=True)
class ModelTraces:
    """The traces of all ranks, made one by one.

    Parameters
    ----------
    model, parallelism, machine : what is trained, how it is divided, and where
    batch : samples of a replica and iteration
    iterations : how many

    Raises
    ------
    InputError
        where these do not go together
    """

    model: Model
    parallelism: Parallelism
    machine: Machine
    batch: int
    iterations: int = 1

    def __post_init__(self) -> None:
        self.parallelism.check(self.model, self.batch)

    def groups(self) -> dict[str, list[int]]:
        """Communicators by name, as in ASTRA-sim's file."""
        return {name: list(ranks) for ranks, name in self.parallelism.groups().items()}

    def __iter__(self) -> Iterator[Trace]:
        """The trace of every rank, ascending."""
        names = self.parallelism.groups()
        stages = self.model.stages(self.parallelism.pipeline)
        # In one group of all, the ranks' traces name no rank and are the same.
        alike = self.parallelism.ranks in (self.parallelism.data, self.parallelism.tensor)
        first: Trace | None = None
        for rank in range(self.parallelism.ranks):
            if first is None or not alike:
                first = _Rank(self, rank, stages, names).trace()
            yield first


class _Rank:
    """Builds the graph of one rank."""

    def __init__(
        self,
        made: ModelTraces,
        rank: int,
        stages: tuple[tuple[Block, ...], ...],
        names: dict[tuple[int, ...], str],
    ) -> None:
        self.made, self.how, self.machine = made, made.parallelism, made.machine
        self.number = rank
        self.place, self.stage, self.replica = self.how.place(rank)
        self.blocks = stages[self.stage]
        self.names = names
        self.samples = made.batch // self.how.microbatches
        self.nodes: list[Any] = []
        self.last: list[int] = []  # the compute node before
        self.ready: dict[str, int] = {}  # by block: what its weights wait for
        self.reduced: dict[str, list[int]] = {}  # by block: where its gradients are from
        self.exchange: list[int] = []  # the all-to-all under way
        self.outputs: dict[int, list[int]] = {}  # of the last stage, by microbatch
        self.before: list[int] = []  # the compute node before the last: parameters' prefetch
        self.tail: list[tuple[Block, list[int]]] = []  # tied gradients, to be summed at the end

    def trace(self) -> Trace:
        for iteration in range(self.made.iterations):
            order = self.how.passes(self.stage)
            for position, (forward, microbatch) in enumerate(order):
                if forward:
                    self.forward(iteration, microbatch)
                else:
                    self.backward(iteration, microbatch, position == len(order) - 1)
            for block, parents in self.tail:
                self.sum_tied(block, parents)
            self.tail = []
        metadata = message("GlobalMetadata")(version=SCHEMA_VERSION)
        how = self.how
        metadata.attr.add(
            name="source"
        ).string_val = f"{self.made.model.title}, TP {how.tensor}, PP {how.pipeline}, DP {how.data}"
        return Trace(metadata, self.nodes, f"rank {self.number}")

    # Nodes.

    def add(self, name: str, kind: NodeKind, parents: list[int], on_cpu: bool = False) -> Any:
        parents = sorted(set(parents))
        node = message("Node")(id=len(self.nodes), name=name, type=kind, data_deps=parents)
        node.attr.add(name="is_cpu_op").bool_val = on_cpu
        self.nodes.append(node)
        return node

    def timed(self, name: str, time: int, parents: list[int], on_cpu: bool = False) -> int:
        node = self.add(name, NodeKind.COMP, parents, on_cpu)
        node.duration_micros = (time + 500) // 1000
        if node.duration_micros * 1000 != time:
            node.attr.add(name=NANOSECONDS).uint64_val = time
        return int(node.id)

    def compute(self, block: Block, part: str, parents: list[int]) -> int:
        time = self.machine.pass_ns(block, self.samples, self.how.tensor)
        self.before = self.last
        self.last = [self.timed(f"{block.name} {part}", time, [*parents, *self.last])]
        if self.machine.roofline:
            # What a share of the NPU would take longer for (`sw_model.endpoint.kinds`).
            attributes = self.nodes[self.last[0]].attr
            work = (self.samples, self.how.tensor)
            operations = round(self.machine.pass_operations(block, *work))
            attributes.add(name="num_ops").int64_val = operations
            attributes.add(name="tensor_size").int64_val = round(
                self.machine.pass_bytes(block, *work)
            )
        return self.last[0]

    def collective(
        self, name: str, kind: CollectiveKind, size: int, axis: Axis, parents: list[int]
    ) -> list[int]:
        """The node as what others wait for; ``parents`` where the group is this rank alone."""
        members = self.how.members(axis, self.number)
        if len(members) == 1 or size == 0:
            return parents
        node = self.add(name, NodeKind.COMM_COLL, parents)
        node.attr.add(name="comm_type").int64_val = kind
        node.attr.add(name="comm_size").int64_val = size
        if members in self.names:
            node.attr.add(name="pg_name").string_val = self.names[members]
        data = axis is not Axis.TENSOR and kind is not CollectiveKind.ALL_TO_ALL
        traffic = TrafficClass.DATA if data else TrafficClass.MODEL
        node.attr.add(name=TRAFFIC).string_val = traffic.value
        return [int(node.id)]

    def end(self, name: str, sending: bool, stage: int, tag: int, parents: list[int]) -> int:
        """Of a message to or from the rank in this place on another stage."""
        node = self.add(name, NodeKind.COMM_SEND if sending else NodeKind.COMM_RECV, parents)
        peer = self.how.rank(self.place, stage, self.replica)
        size = self.made.model.boundary * self.samples * self.machine.element_bytes
        node.attr.add(name="comm_src").int64_val = self.number if sending else peer
        node.attr.add(name="comm_dst").int64_val = peer if sending else self.number
        node.attr.add(name="comm_size").int64_val = size
        node.attr.add(name="comm_tag").int64_val = tag
        node.attr.add(name=TRAFFIC).string_val = TrafficClass.PIPELINE.value
        return int(node.id)

    # Passes.

    def tag(self, iteration: int, microbatch: int, backward: bool) -> int:
        return (2 * iteration + backward) * self.how.microbatches + microbatch

    def forward(self, iteration: int, microbatch: int) -> None:
        tag = self.tag(iteration, microbatch, False)
        name = f"microbatch {microbatch} activations"
        inputs: list[int] = []
        if self.stage > 0:
            inputs = [self.end(f"{name} in", False, self.stage - 1, tag, [])]
        for block in self.blocks:
            parents = inputs + self.gather(block, "forward")
            if block.joins:
                parents += self.exchange
            made = [self.compute(block, "forward", parents)]
            size = self.machine.element_bytes * self.samples
            if block.exchanged:
                self.exchange = self.collective(
                    f"{block.name} forward all-to-all",
                    CollectiveKind.ALL_TO_ALL,
                    size * block.exchanged,
                    Axis.DATA,
                    made,
                )
                made = []
            else:
                made = self.reduce_activations(block, "forward", made)
            inputs = made
        if self.stage < self.how.pipeline - 1:
            self.end(f"{name} out", True, self.stage + 1, tag, inputs)
        else:
            self.outputs[microbatch] = inputs

    def reduce_activations(self, block: Block, part: str, parents: list[int]) -> list[int]:
        return self.collective(
            f"{block.name} {part} all-reduce",
            CollectiveKind.ALL_REDUCE,
            self.machine.element_bytes * self.samples * block.forward_reduced,
            Axis.TENSOR,
            parents,
        )

    def again(self, layer: int | None) -> list[int]:
        """The forward pass of a layer once more; what its backward pass waits for."""
        made: list[int] = []
        for block in self.blocks:
            if layer is not None and block.layer == layer:
                parents = made + self.gather(block, "forward again")
                made = [self.compute(block, "forward again", parents)]
                made = self.reduce_activations(block, "forward again", made)
        return made

    def backward(self, iteration: int, microbatch: int, last: bool) -> None:
        tag = self.tag(iteration, microbatch, True)
        name = f"microbatch {microbatch} gradients"
        inputs: list[int] = []
        if self.stage < self.how.pipeline - 1:
            inputs = [self.end(f"{name} in", False, self.stage + 1, tag, [])]
        else:
            inputs = self.outputs.pop(microbatch)
        layer: int | None = None
        again: list[int] = []
        for block in reversed(self.blocks):
            if self.how.recompute and block.layer != layer:
                layer = block.layer
                again = self.again(layer)
            parents = inputs + again + self.gather(block, "backward")
            if block.exchanged:
                parents += self.exchange
            if self.how.tensor > 1:
                inputs = self.input_gradient(block, parents)
                self.weight_gradient(block, parents, last)
            else:
                self.weight_gradient(block, parents, last)
                inputs = self.input_gradient(block, parents)
        if self.stage > 0:
            # When all of the pass has been computed.
            self.end(f"{name} out", True, self.stage - 1, tag, [*inputs, *self.last])

    def input_gradient(self, block: Block, parents: list[int]) -> list[int]:
        """What the block before waits for."""
        if block.first:
            return []
        made = [self.compute(block, "input gradient", parents)]
        size = self.machine.element_bytes * self.samples
        if block.joins:
            table = next(b for b in self.blocks if b.exchanged)
            self.exchange = self.collective(
                f"{table.name} backward all-to-all",
                CollectiveKind.ALL_TO_ALL,
                size * table.exchanged,
                Axis.DATA,
                made,
            )
        return self.collective(
            f"{block.name} input gradient all-reduce",
            CollectiveKind.ALL_REDUCE,
            size * block.input_reduced,
            Axis.TENSOR,
            made,
        )

    def weight_gradient(self, block: Block, parents: list[int], last: bool) -> None:
        gradient = self.compute(block, "weight gradient", parents)
        if last or self.how.zero >= 2:
            self.reduce(block, [gradient], last)

    # Weights and gradients.

    def weights(self, block: Block) -> int:
        """Parameters of a block on this rank, with the copy of tied ones."""
        if block.copy:
            return -(-block.tied // self.how.tensor) if self.how.pipeline > 1 else 0
        if block.exchanged:
            return 0  # the tables are nobody else's
        return block.held(self.how.tensor)

    def shard(self, block: Block) -> int:
        """A rank's part of a block's parameters with ZeRO, padded."""
        return -(-self.weights(block) // self.how.data)

    def gather(self, block: Block, part: str) -> list[int]:
        """What a pass of a block waits for before it may use its weights."""
        own = block
        if block.copy and self.how.pipeline == 1:
            own = next(b for b in self.blocks if b.tied and not b.copy)
        ready = [self.ready[own.name]] if own.name in self.ready else []
        if self.how.zero < 3 or not self.weights(own):
            return ready
        return self.collective(
            f"{block.name} {part} all-gather",
            CollectiveKind.ALL_GATHER,
            self.machine.element_bytes * self.shard(own),
            Axis.DATA,
            ready + self.before,
        )

    def reduce(self, block: Block, parents: list[int], last: bool) -> None:
        """Sum the gradients of a block over the replicas; update it after the last microbatch."""
        weights = self.weights(block)
        if weights == 0 and not block.exchanged:
            return
        each = self.machine.element_bytes
        if self.how.zero:
            kind, size = CollectiveKind.REDUCE_SCATTER, self.shard(block) * self.how.data * each
        else:
            kind, size = CollectiveKind.ALL_REDUCE, weights * each
        word = "reduce-scatter" if self.how.zero else "all-reduce"
        done = self.collective(
            f"{block.name} weight gradient {word}", kind, size, Axis.DATA, parents
        )
        earlier = self.reduced.setdefault(block.name, [])
        earlier += done
        if not last:
            return
        del self.reduced[block.name]
        if block.tied and self.how.pipeline > 1:
            self.tail.append((block, earlier))
        else:
            self.update(block, earlier)

    def sum_tied(self, block: Block, parents: list[int]) -> None:
        """Add up the gradients of the words on the first and on the last stage, after all else."""
        part = -(-block.tied // self.how.tensor)
        if self.how.zero:
            part = -(-part // self.how.data)
        done = self.collective(
            f"{block.name} tied all-reduce",
            CollectiveKind.ALL_REDUCE,
            part * self.machine.element_bytes,
            Axis.TIED,
            [*parents, *self.last],
        )
        self.update(block, done)

    def update(self, block: Block, parents: list[int]) -> None:
        count = self.shard(block) if self.how.zero else self.weights(block)
        if block.exchanged:
            count = block.exchanged * self.made.batch  # the rows that were looked up
        time = self.machine.update_ns(count, self.made.model.update_bytes)
        end = [self.timed(f"{block.name} update", time, parents, on_cpu=True)]
        if self.how.zero in (1, 2) and not block.exchanged:
            end = self.collective(
                f"{block.name} all-gather",
                CollectiveKind.ALL_GATHER,
                self.machine.element_bytes * self.shard(block),
                Axis.DATA,
                end,
            )
        self.ready[block.name] = end[0]
