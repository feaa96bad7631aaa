"""A model as an ASTRA-sim 1.0 text: where every layer has its collectives, and no stages.

Data-parallel: mode DATA. Tensor-parallel: HYBRID_TRANSFORMER, whose header says how many ranks a
group has. DLRM: HYBRID_DLRM, the tables first.
"""

from __future__ import annotations

from sw_model.collective.plan import Operation
from sw_model.errors import InputError
from sw_model.workload.layers import Communication, Layer, Mode, Workload
from sw_model.workload.machine import Machine
from sw_model.workload.model import Block, Model
from sw_model.workload.parallel import Parallelism

__all__ = ["layered"]


def layered(model: Model, parallelism: Parallelism, machine: Machine, batch: int) -> Workload:
    """The layers of one iteration.

    Raises
    ------
    InputError
        where the format cannot say it: stages, microbatches, ZeRO.
    """
    parallelism.check(model, batch)
    for option, value, plain in (
        ("--pp", parallelism.pipeline, 1),
        ("--microbatches", parallelism.microbatches, 1),
        ("--zero", parallelism.zero, 0),
    ):
        if value != plain:
            raise InputError(
                f"{option} must be {plain} in a 1.0 text, which cannot say more, not {value}: "
                "give --out a prefix for Chakra traces"
            )
    if parallelism.recompute:
        raise InputError("--recompute is for Chakra traces, not for a 1.0 text")
    layers = tuple(_layer(model, block, parallelism, machine, batch) for block in model.blocks)
    bottoms = [n for n, block in enumerate(model.blocks) if block.name.startswith("bottom")]
    if model.blocks[0].exchanged:
        return Workload(mode=Mode.HYBRID_DLRM, layers=layers, last_bottom_layer=bottoms[-1])
    if parallelism.tensor > 1:
        return Workload(
            mode=Mode.HYBRID_TRANSFORMER,
            layers=layers,
            model_parallel_npus=parallelism.tensor,
        )
    return Workload(mode=Mode.DATA, layers=layers)


def _layer(
    model: Model, block: Block, parallelism: Parallelism, machine: Machine, batch: int
) -> Layer:
    tensor = parallelism.tensor
    size = machine.element_bytes * batch

    def communication(operation: Operation, count: int) -> Communication:
        return Communication(operation, count) if count else Communication()

    nanoseconds = machine.pass_ns(block, batch, tensor)
    weights = 0 if block.exchanged else block.held(tensor)
    updated = block.exchanged * batch or weights
    shared, later = tensor > 1, block is not model.blocks[0]
    forward = communication(Operation.ALL_REDUCE, size * block.forward_reduced * shared)
    backward = communication(Operation.ALL_REDUCE, size * block.input_reduced * shared)
    if block.exchanged:
        forward = backward = Communication(Operation.ALL_TO_ALL, size * block.exchanged)
    return Layer(
        name=block.name,
        forward_ns=nanoseconds,
        forward=forward,
        # In mode DATA and in HYBRID_DLRM that of the first layer is never computed anyway.
        input_gradient_ns=0 if block.first and (shared or later) else nanoseconds,
        input_gradient=backward,
        weight_gradient_ns=nanoseconds,
        weight_gradient=communication(Operation.ALL_REDUCE, machine.element_bytes * weights),
        update_ns=machine.update_ns(updated, model.update_bytes) if updated else 0,
    )
