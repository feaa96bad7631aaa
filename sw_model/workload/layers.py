"""A training workload as a list of layers, whatever file it came from.

Times are nanoseconds, whole in files and possibly fractions after scaling. Sizes are bytes of one
rank's buffer (all-gather: of one rank's shard).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sw_model.collective.plan import ELEMENT_BYTES, Operation
from sw_model.errors import InputError
from sw_model.workload.pipeline import Handover, Pipeline, stages_of_layers

__all__ = [
    "Communication", "Layer", "Mode", "Part", "Pass", "Span", "Workload",
]  # fmt: skip


class Mode(enum.Enum):
    """How a workload is parallelised: the first word of an ASTRA-sim 1.0 text."""

    DATA = "DATA"
    MODEL = "MODEL"
    HYBRID_DATA_MODEL = "HYBRID_DATA_MODEL"
    HYBRID_MODEL_DATA = "HYBRID_MODEL_DATA"
    HYBRID_DLRM = "HYBRID_DLRM"
    HYBRID_DLRM_ENHANCED = "HYBRID_DLRM_ENHANCED"
    HYBRID_TRANSFORMER = "HYBRID_TRANSFORMER"
    HYBRID_TRANSFORMER_FWD_IN_BCKWD = "HYBRID_TRANSFORMER_FWD_IN_BCKWD"
    HYBRID_CUSTOMIZED = "HYBRID_CUSTOMIZED"
    MICRO = "MICRO"

    @property
    def is_transformer(self) -> bool:
        """Whether the header names a model-parallel group."""
        return self in (Mode.HYBRID_TRANSFORMER, Mode.HYBRID_TRANSFORMER_FWD_IN_BCKWD)

    @property
    def is_dlrm(self) -> bool:
        """Whether the header names the last bottom-MLP layer."""
        return self in (Mode.HYBRID_DLRM, Mode.HYBRID_DLRM_ENHANCED)


class Pass(enum.Enum):
    """The three things a layer computes in one iteration."""

    FORWARD = "forward"
    INPUT_GRADIENT = "input gradient"
    WEIGHT_GRADIENT = "weight gradient"


Part = Pass | Handover
"""What a collective belongs to: a pass of a layer, or what a stage hands over."""


class Span(enum.Enum):
    """Which dims a collective spans, before the topology is known."""

    NONE = "no dim"
    ALL = "all dims"
    FIRST = "dim 1"
    REST = "all dims but dim 1"
    INNER = "the inner dims, up to the model-parallel group"
    OUTER = "the dims outside the model-parallel group"


#: Spans of (forward and input gradient, weight gradient) by mode.
_SPANS = {
    Mode.DATA: (Span.NONE, Span.ALL),
    Mode.MODEL: (Span.ALL, Span.NONE),
    Mode.HYBRID_DATA_MODEL: (Span.FIRST, Span.REST),
    Mode.HYBRID_MODEL_DATA: (Span.REST, Span.FIRST),
    Mode.HYBRID_TRANSFORMER: (Span.INNER, Span.OUTER),
    Mode.HYBRID_TRANSFORMER_FWD_IN_BCKWD: (Span.INNER, Span.OUTER),
    Mode.HYBRID_DLRM: (Span.NONE, Span.ALL),
    Mode.HYBRID_DLRM_ENHANCED: (Span.NONE, Span.ALL),
    Mode.MICRO: (Span.ALL, Span.ALL),
}


@dataclass(frozen=True)
class Communication:
    """The collective of one pass of a layer; ``operation`` None is NONE in the text."""

    operation: Operation | None = None
    bytes: int = 0


@dataclass(frozen=True)
class Layer:
    """One layer.

    Attributes
    ----------
    name : as in the file; need not be unique
    forward_ns, input_gradient_ns, weight_gradient_ns : compute time of each pass
    forward, input_gradient, weight_gradient : the collective that follows each
    update_ns : from the end of the weight-gradient collective to weights that may be used
    parallelism : the layer's own mode (HYBRID_CUSTOMIZED)
    reserved : the text's second field, kept so that a round trip is lossless
    line : in the file it came from
    """

    name: str
    forward_ns: int | Fraction
    forward: Communication
    input_gradient_ns: int | Fraction
    input_gradient: Communication
    weight_gradient_ns: int | Fraction
    weight_gradient: Communication
    update_ns: int | Fraction
    parallelism: Mode | None = None
    reserved: int = -1
    line: int | None = field(default=None, compare=False)

    def compute_ns(self, part: Pass) -> int | Fraction:
        """Compute time of ``part``."""
        return {
            Pass.FORWARD: self.forward_ns,
            Pass.INPUT_GRADIENT: self.input_gradient_ns,
            Pass.WEIGHT_GRADIENT: self.weight_gradient_ns,
        }[part]

    def communication(self, part: Pass) -> Communication:
        """The collective that follows ``part``."""
        return {
            Pass.FORWARD: self.forward,
            Pass.INPUT_GRADIENT: self.input_gradient,
            Pass.WEIGHT_GRADIENT: self.weight_gradient,
        }[part]


@dataclass(frozen=True)
class Workload:
    """A whole training iteration, layer by layer in forward order.

    Attributes
    ----------
    mode, layers : see there
    model_parallel_npus : size of the model-parallel group (HYBRID_TRANSFORMER*)
    last_bottom_layer : index of the last bottom-MLP layer (HYBRID_DLRM*)
    checkpoints, checkpoint_initiates : layers whose output is kept, and layers before whose
        backward pass the forward pass is computed again from the last checkpoint
    pipeline : cuts the layers into stages (HYBRID_TRANSFORMER on a tree of switches)
    path : file it came from
    """

    mode: Mode
    layers: tuple[Layer, ...]
    model_parallel_npus: int | None = None
    last_bottom_layer: int | None = None
    checkpoints: tuple[int, ...] = ()
    checkpoint_initiates: tuple[int, ...] = ()
    pipeline: Pipeline | None = None
    path: str | None = field(default=None, compare=False)

    @property
    def stages(self) -> tuple[int, ...]:
        """The stage of every layer."""
        if self.pipeline is None:
            return (0,) * len(self.layers)
        times = [sum(layer.compute_ns(part) for part in Pass) for layer in self.layers]
        return stages_of_layers(times, self.pipeline.stages)

    def stage_of(self, rank: int) -> int:
        """The stage of a rank."""
        if self.pipeline is None:
            return 0
        return self.pipeline.stage_of(rank, self.model_parallel_npus or 1)

    def times(self, part: Part) -> int:
        """How often an iteration issues the collective of a part of a layer."""
        if self.pipeline is None or part is Pass.WEIGHT_GRADIENT:
            return 1
        return self.pipeline.microbatches

    def span(self, layer: int, part: Pass) -> Span:
        """Which dims the collective of ``part`` of layer number ``layer`` spans."""
        mode = self.layers[layer].parallelism or self.mode
        if mode.is_dlrm and layer == 0:
            return Span.ALL
        activations, weights = _SPANS[mode]
        return weights if part is Pass.WEIGHT_GRADIENT else activations

    def communication_bytes(self) -> int:
        """Payload of one iteration on one rank, that of the stage with most."""
        own = [0] * (1 + max(self.stages, default=0))
        for layer, stage in zip(self.layers, self.stages, strict=True):
            own[stage] += sum(
                self.times(part) * layer.communication(part).bytes
                for part in Pass
                if layer.communication(part).operation is not None
            )
        pipeline = self.pipeline
        if pipeline is not None:
            for stage in range(pipeline.stages):
                sends = (stage > 0) + (stage + 1 < pipeline.stages)
                own[stage] += sends * pipeline.microbatches * pipeline.boundary
        return max(own)

    def check_elements(self, data_type: str) -> None:
        """Refuse a payload that is no whole number of elements.

        Raises
        ------
        InputError
            names file, line, layer and pass.
        """
        size = ELEMENT_BYTES[data_type]
        for layer in self.layers:
            for part in Pass:
                count = layer.communication(part).bytes
                if layer.communication(part).operation is not None and count % size:
                    raise InputError(
                        f"the {part.value} communication of layer {layer.name!r} must be a "
                        f"multiple of {size} bytes, one {data_type} element, not {count}",
                        path=self.path,
                        line=layer.line,
                    )
        if self.pipeline is not None and self.pipeline.boundary % size:
            raise InputError(
                f"pipeline.boundary must be a multiple of {size} bytes, one {data_type} element, "
                f"not {self.pipeline.boundary}",
                path=self.path,
            )

    def scaled(self, scale: Fraction, data_type: str) -> Workload:
        """The same workload with compute times and payloads multiplied by ``scale``.

        Times stay exact; a payload becomes the nearest whole number of elements, at least one, so
        that every collective of the original is still there.
        """
        if scale <= 0:
            raise ValueError(f"scale must be positive, not {scale!r}")
        if scale == 1:
            return self
        size = ELEMENT_BYTES[data_type]

        def smaller(count: int) -> int:
            return max(1, int(count * scale / size + Fraction(1, 2))) * size

        def payload(old: Communication) -> Communication:
            if old.operation is None or old.bytes == 0:
                return old
            return Communication(old.operation, smaller(old.bytes))

        pipeline = self.pipeline
        if pipeline is not None:
            pipeline = replace(pipeline, boundary=smaller(pipeline.boundary))
        return replace(
            self,
            pipeline=pipeline,
            layers=tuple(
                replace(
                    layer,
                    forward_ns=layer.forward_ns * scale,
                    forward=payload(layer.forward),
                    input_gradient_ns=layer.input_gradient_ns * scale,
                    input_gradient=payload(layer.input_gradient),
                    weight_gradient_ns=layer.weight_gradient_ns * scale,
                    weight_gradient=payload(layer.weight_gradient),
                    update_ns=layer.update_ns * scale,
                )
                for layer in self.layers
            ),
        )
