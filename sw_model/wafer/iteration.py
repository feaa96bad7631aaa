"""A training iteration on the wafer (FRED, ISCA 2025, evaluation).

*Weight stationary*: every replica of DP takes 16 samples in microbatches (GPipe). All communication
is exposed: after each pass of a stage its tensor-parallel all-reduces and the message to the next
stage, at the end the all-reduce of the gradients. The replicas do the same at the same time, so
one kind of communication shares the links with itself only. The printed gain of in-network switches
over the same tree without shows that gradients are all-reduced and not reduce-scattered and
gathered as ZeRO-2 would: those would gain nothing.

*Weight streaming*: weights pass from the I/O controllers to the NPUs once forward and once
backward, gradients leave once. All controllers stream at once and every stream goes to all NPUs. A
mesh has a link that carries (2N - 1) of them (:func:`sw_model.wafer.fabric.broadcast_uses`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sw_model.wafer.collectives import all_reduce_seconds, send_seconds
from sw_model.wafer.fabric import COLUMNS, IO_CONTROLLERS, ROWS, Fabric, broadcast_uses
from sw_model.workload.model import Model

__all__ = [
    "IO_BANDWIDTH",
    "SAMPLES",
    "Strategy",
    "communication_seconds",
    "compute_seconds",
    "implied_compute",
    "io_share",
    "streaming_seconds",
]

#: Bytes per second of an I/O controller.
IO_BANDWIDTH = 128 * 10**9
#: Of a replica and iteration.
SAMPLES = 16
_ELEMENT = 2  # FP16


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """How a model is divided: NPU = t + MP x (stage + PP x replica)."""

    tensor: int
    data: int
    pipeline: int
    microbatches: int = 1

    @property
    def name(self) -> str:
        """As the paper writes it."""
        return f"MP({self.tensor})-DP({self.data})-PP({self.pipeline})"

    def npu(self, tensor: int, data: int, stage: int) -> int:
        """Where a worker is placed."""
        return tensor + self.tensor * (stage + self.pipeline * data)

    def tensor_groups(self) -> list[tuple[int, ...]]:
        """Groups that share a replica and a stage."""
        return [
            tuple(self.npu(t, d, s) for t in range(self.tensor))
            for d in range(self.data)
            for s in range(self.pipeline)
        ]

    def data_groups(self) -> list[tuple[int, ...]]:
        """Groups that share what they hold of the model."""
        return [
            tuple(self.npu(t, d, s) for d in range(self.data))
            for s in range(self.pipeline)
            for t in range(self.tensor)
        ]

    def stage_pairs(self) -> list[tuple[int, int]]:
        """Each worker and the one in its place of the next stage."""
        return [
            (self.npu(t, d, s), self.npu(t, d, s + 1))
            for d in range(self.data)
            for s in range(self.pipeline - 1)
            for t in range(self.tensor)
        ]


def communication_seconds(fabric: Fabric, model: Model, strategy: Strategy) -> Fraction:
    """All exposed communication of an iteration, weight stationary."""
    samples = Fraction(SAMPLES, strategy.microbatches)
    exchanged = sum(block.forward_reduced + block.input_reduced for block in model.blocks)
    tensor = _per_byte(fabric, strategy.tensor_groups())
    stage = tensor * exchanged / strategy.pipeline
    sent = Fraction(0)
    if strategy.pipeline > 1:  # activations one way, their gradients the other
        pairs = strategy.stage_pairs()
        back = [(target, source) for source, target in pairs]
        unit = 10**9
        both = send_seconds(fabric, pairs, unit) + send_seconds(fabric, back, unit)
        sent = both / unit * Fraction(model.boundary, strategy.tensor)
    passes = strategy.microbatches + strategy.pipeline - 1
    slots = passes * samples * _ELEMENT * (stage + sent)
    gradients = Fraction(model.parameters * _ELEMENT, strategy.tensor * strategy.pipeline)
    return slots + _per_byte(fabric, strategy.data_groups()) * gradients


def _per_byte(fabric: Fabric, groups: list[tuple[int, ...]]) -> Fraction:
    unit = 10**9
    return all_reduce_seconds(fabric, groups, unit) / unit


def compute_seconds(model: Model, strategy: Strategy, *, operations_per_second: int) -> Fraction:
    """Three passes of every microbatch through a stage, one after another, with the bubble."""
    operations = 6 * sum(block.multiply_adds for block in model.blocks)
    stage = Fraction(operations, strategy.tensor * strategy.pipeline)
    passes = strategy.microbatches + strategy.pipeline - 1
    samples = Fraction(SAMPLES, strategy.microbatches)
    return stage * samples * passes / operations_per_second


def implied_compute(gain: Fraction, before: Fraction, after: Fraction) -> Fraction:
    """The compute that makes communication of ``before`` and ``after`` seconds a gain of ``gain``.

    From gain = (compute + before) / (compute + after).

    Raises
    ------
    ValueError
        where no compute time gives that gain.
    """
    if not 1 < gain <= before / after:
        raise ValueError(
            f"a gain must be above 1 and at most {float(before / after):.3f} to be had by "
            f"communication, not {float(gain):g}"
        )
    return (before - gain * after) / (gain - 1)


def io_share(fabric: Fabric) -> Fraction:
    """Of the I/O bandwidth, what the fabric can spread to all NPUs."""
    if not fabric.mesh_link:
        return Fraction(1)
    hottest = max(broadcast_uses(ROWS, COLUMNS).values())
    return min(Fraction(1), Fraction(fabric.mesh_link, hottest * IO_BANDWIDTH))


def streaming_seconds(fabric: Fabric, model: Model) -> Fraction:
    """Weights in twice and gradients out once, at what the fabric lets through."""
    rate = IO_CONTROLLERS * IO_BANDWIDTH * io_share(fabric)
    return 3 * model.parameters * _ELEMENT / rate
