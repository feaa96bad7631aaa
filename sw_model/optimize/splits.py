"""A model's iteration under tensor, pipeline and data parallelism, and all ways to divide it.

The batch is of all replicas together, so that ways to divide it are comparable. With TP t, PP p and
DP d, m microbatches and stages s (decided here, after GPipe's schedule):

    iteration = sum_s t_s + (m - 1) max_s t_s + max_s (all-reduce of the stage's gradients)

where t_s is what a stage does for one microbatch: forward and backward compute of its blocks (a
roofline, docs/workloads.md), its tensor-parallel all-reduces, and a message to the next stage and
one back. Where the backward pass is one, without stages and microbatches, gradients are reduced
block by block, and may run beside it; else all together at the end. What runs beside what in a
backward pass is as for layers (`sw_model.optimize.iteration`). Embedding tables are spread over
the replicas: their looked-up rows, and the gradients of these, are exchanged all to all. Updates
are left out, as LIBRA does, and so is the reduction of words that two stages share. Groups fill the
network from inside: TP, PP, then DP.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from fractions import Fraction

from sw_model.collective.plan import Operation
from sw_model.errors import InputError
from sw_model.optimize.demand import Communicator, Demand, split_groups
from sw_model.optimize.iteration import (
    BackwardPass,
    Iteration,
    Overlap,
    Path,
    Step,
    backward_steps,
    merged,
    path,
    path_of_steps,
)
from sw_model.optimize.network import OpenNetwork
from sw_model.workload.machine import Machine
from sw_model.workload.model import Block, Model
from sw_model.workload.parallel import Parallelism

__all__ = ["STATE_BYTES", "DividedModel", "Division", "divisions", "fixed_division"]

#: Bytes of weights, gradients and Adam's states for a parameter (ZeRO, SC 2020, section 3.1).
STATE_BYTES = 16


_SHAPE = tuple(f.name for f in fields(Block) if f.name not in ("name", "layer"))


@dataclass(frozen=True, kw_only=True)
class DividedModel:
    """What is trained, before it is known how it is divided.

    Parameters
    ----------
    model, machine : see there
    batch : samples of an iteration, of all replicas together
    memory : bytes of an NPU for weights, gradients and optimizer states, or None for no limit
    overlap : what runs beside what in a backward pass
    forward_comm_count : how often a forward collective is done
    """

    model: Model
    machine: Machine
    batch: int
    memory: int | None = None
    overlap: Overlap = Overlap.NONE
    forward_comm_count: int = 1

    def fits(self, tensor: int, pipeline: int, data: int) -> bool:
        """Whether the largest stage fits the memory; embedding tables are spread over replicas."""
        if self.memory is None:
            return True

        def held(block: Block) -> int:
            return -(-block.held(tensor) // data) if block.exchanged else block.held(tensor)

        stages = self.model.stages(pipeline)
        most = max(sum(held(block) for block in stage) for stage in stages)
        return most * STATE_BYTES <= self.memory


@dataclass(frozen=True, kw_only=True)
class Division:
    """One way to divide a model."""

    divided: DividedModel
    network: OpenNetwork
    parallelism: Parallelism

    @property
    def name(self) -> str:
        """Such as ``TP 8, PP 2, DP 64, 4 microbatches``."""
        p = self.parallelism
        name = f"TP {p.tensor}, PP {p.pipeline}, DP {p.data}"
        return name + (f", {p.microbatches} microbatches" if p.microbatches > 1 else "")

    def iteration(self) -> Iteration:
        """See the module.

        Raises
        ------
        InputError
            where the groups do not fit the dims.
        """
        p = self.parallelism
        groups = split_groups(
            self.network, (p.tensor, p.pipeline, p.data), ("tensor", "pipeline", "data")
        )
        samples = self.divided.batch // (p.data * p.microbatches)
        stages = self.divided.model.stages(p.pipeline)
        steps: list[Step] = []
        wholes = []
        for index, stage in enumerate(stages):
            parts = self._stage(stage, samples, groups, first=index == 0)
            if p.pipeline > 1:
                parts.append(Step((self._messages(index, samples, groups[1]),)))
            steps += parts
            wholes.append(parts)
        if p.microbatches > 1:
            slowest = tuple(dict.fromkeys(path_of_steps(parts) for parts in wholes))
            steps.append(Step(slowest, p.microbatches - 1, apart=True))
        if not self._reduced_beside:
            reductions = tuple(self._reduction(stage, groups[2]) for stage in stages)
            steps.append(Step(tuple(dict.fromkeys(reductions)), apart=True))
        return merged(steps)

    @property
    def _reduced_beside(self) -> bool:
        """Whether gradients are reduced block by block, in the backward pass: where it is one."""
        return self.parallelism.pipeline == 1 and self.parallelism.microbatches == 1

    def _stage(
        self,
        stage: tuple[Block, ...],
        samples: int,
        groups: tuple[Communicator, ...],
        *,
        first: bool,
    ) -> list[Step]:
        """A microbatch's passes of a stage."""
        tensor, machine = self.parallelism.tensor, self.divided.machine
        size = machine.element_bytes * samples

        def reduce(elements: int) -> Demand:
            return Demand(Operation.ALL_REDUCE, size * elements, groups[0])

        forward, passes = [], []
        known: dict[tuple[object, ...], tuple[Step, BackwardPass]] = {}
        for number, block in enumerate(stage):
            later = not first or number > 0
            # Layers that repeat differ by name and number only.
            key = (*(getattr(block, name) for name in _SHAPE), block.first and not later)
            if key in known:
                forward.append(known[key][0])
                passes.append(known[key][1])
                continue
            compute = machine.pass_ns(block, samples, tensor)
            there, back = reduce(block.forward_reduced), reduce(block.input_reduced)
            if block.exchanged:
                rows = size * block.exchanged
                there = back = Demand(Operation.ALL_TO_ALL, rows, groups[2])
            forward.append(Step((path(compute, (there, self.divided.forward_comm_count)),)))
            idle = block.first and (tensor > 1 or not later)
            passes.append(
                BackwardPass(
                    inputs_ns=Fraction(0 if idle else compute),
                    inputs=back,
                    weights_ns=Fraction(compute),
                    weights=self._gradients((block,) if self._reduced_beside else (), groups[2]),
                )
            )
            known[key] = forward[-1], passes[-1]
        return forward + backward_steps(passes, self.divided.overlap)

    def _messages(self, stage: int, samples: int, group: Communicator) -> Path:
        """Activations to the next stage, and gradients to the one before."""
        last = self.parallelism.pipeline - 1
        count = (stage < last) + (stage > 0)
        size = self.divided.machine.element_bytes * samples * self.divided.model.boundary
        return path(0, (Demand(None, size, group), count))

    def _gradients(self, blocks: tuple[Block, ...], group: Communicator) -> Demand:
        reduced = (block for block in blocks if not block.exchanged)
        held = sum(block.held(self.parallelism.tensor) for block in reduced)
        return Demand(Operation.ALL_REDUCE, self.divided.machine.element_bytes * held, group)

    def _reduction(self, stage: tuple[Block, ...], group: Communicator) -> Path:
        return path(0, (self._gradients(stage, group), 1))


def divisions(
    divided: DividedModel, network: OpenNetwork, *, microbatches: int | None = None
) -> Iterator[Division]:
    """All ways to divide a model on a network: TP and PP whose groups fill dims or parts of them
    and that the model and the memory allow, and with stages every number of microbatches that is a
    power of two (or the one that is given)."""
    npus, model = network.npus, divided.model
    for tensor in _divisors(npus, max(1, model.heads)):
        if model.heads % tensor if tensor > 1 else False:
            continue
        stages = max(1, model.layers) if model.boundary else 1
        for pipeline in _divisors(npus // tensor, stages):
            if pipeline > 1 and model.layers % pipeline:
                continue
            data = npus // (tensor * pipeline)
            if divided.batch % data or not divided.fits(tensor, pipeline, data):
                continue
            plain = Parallelism(tensor=tensor, pipeline=pipeline, data=data)
            try:
                split_groups(network, (tensor, pipeline, data), ("tensor", "pipeline", "data"))
            except InputError:
                continue
            for count in _counts(divided.batch // data, pipeline, microbatches):
                parallelism = replace(plain, microbatches=count)
                yield Division(divided=divided, network=network, parallelism=parallelism)


def _counts(samples: int, pipeline: int, wanted: int | None) -> list[int]:
    """Numbers of microbatches to be tried."""
    if wanted is not None:
        return [wanted] if samples % wanted == 0 else []
    if pipeline == 1:
        return [1]
    return [n for n in (2**k for k in range(samples.bit_length())) if samples % n == 0]


def _divisors(number: int, largest: int) -> list[int]:
    return [n for n in range(1, min(number, largest) + 1) if number % n == 0]


_OPTIONS = {"--tp": "tensor", "--pp": "pipeline", "--microbatches": "microbatches"}


def _in_words_of_the_file(message: str, replicas: int) -> str:
    """A message about options of a command, about the keys here; there a batch is a replica's."""
    option, _, rest = message.partition(" ")
    rest = rest.replace("the batch of", f"what each of {replicas} replicas has of the batch,")
    return f"{_OPTIONS.get(option, option)} {rest}"


def fixed_division(
    divided: DividedModel, network: OpenNetwork, tensor: int, pipeline: int, microbatches: int
) -> Division:
    """The division with these numbers; the replicas take what is left.

    Raises
    ------
    InputError
        where they do not divide NPUs, layers, heads or batch.
    """
    npus = network.npus
    if npus % (tensor * pipeline):
        raise InputError(
            f"tensor x pipeline must divide the {npus} NPUs of the network, not {tensor} x "
            f"{pipeline}"
        )
    data = npus // (tensor * pipeline)
    if divided.batch % data:
        raise InputError(f"batch must be a multiple of the {data} replicas, not {divided.batch}")
    parallelism = Parallelism(
        tensor=tensor, pipeline=pipeline, data=data, microbatches=microbatches
    )
    try:
        parallelism.check(divided.model, divided.batch // data)
    except InputError as error:
        raise InputError(_in_words_of_the_file(error.message, data)) from None
    if not divided.fits(tensor, pipeline, data):
        raise InputError(
            f"memory must hold {STATE_BYTES} bytes a parameter of the largest stage, which "
            f"{divided.memory} bytes do not with tensor {tensor} and pipeline {pipeline}"
        )
    division = Division(divided=divided, network=network, parallelism=parallelism)
    division.iteration()
    return division
