"""The data-parallel ResNet-50 training trace, from the model's public layer shapes.

Shapes: He et al., *Deep Residual Learning for Image Recognition*, CVPR 2016, Table 1, in the
widespread "v1.5" form (the stride of a block is in its 3 x 3 convolution), 224 x 224 input, 1000
classes: 53 convolutions and the classifier, 25,557,032 parameters, 4.09 G multiply-adds an image.

* **Parameters.** A batch norm's scale and shift belong to the convolution in front of it and
  travel in the same all-reduce: 23,454,912 weights of convolutions, 53,120 of batch norms and
  2,049,000 of the classifier. In FP16 that is 51,114,064 bytes of gradients.
* **Compute.** The forward pass, the input gradient and the weight gradient of a layer take
  2 x multiply-adds x batch operations each, at ``peak x efficiency``. Batch norm, ReLU and pooling
  count as fused into the convolutions: the efficiency covers them.
* **Update.** SGD with momentum in mixed precision moves 20 bytes a parameter (reads: gradient 2,
  master weight 4, momentum 4; writes: weight 2, master weight 4, momentum 4) at the memory's
  bandwidth.

All of it decided here; every figure is a parameter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from sw_model.collective.plan import Operation
from sw_model.units import LARGEST_COUNT, LARGEST_TIME_NS
from sw_model.workload.layers import Communication, Layer, Mode, Workload

__all__ = ["Shape", "Throughput", "generate", "shapes"]

#: Blocks and inner channels of the four stages; a block puts out four times its inner channels.
_DEPTHS = (3, 4, 6, 3)
_INNER = (64, 128, 256, 512)
_EXPANSION = 4
_GRADIENT_BYTES = 2
_UPDATE_BYTES = 20


@dataclass(frozen=True)
class Shape:
    """A convolution, or the classifier as one of 1 x 1 on a single pixel.

    Attributes
    ----------
    name : as in the well-known implementations
    channels_in, channels_out, kernel : of the weights
    size_out : height and width of the output
    extra_parameters : scale and shift of the batch norm, or the classifier's bias
    stride : from output to output, in the input
    """

    name: str
    channels_in: int
    channels_out: int
    kernel: int
    size_out: int
    extra_parameters: int
    stride: int = 1

    @property
    def weights(self) -> int:
        """Weights of the convolution alone."""
        return self.channels_in * self.channels_out * self.kernel**2

    @property
    def parameters(self) -> int:
        """All that is trained here."""
        return self.weights + self.extra_parameters

    @property
    def multiply_adds(self) -> int:
        """For one image, forward."""
        return self.weights * self.size_out**2

    @property
    def activations(self) -> int:
        """Elements of input and output of one image."""
        size_in = self.stride * self.size_out
        return self.channels_in * size_in**2 + self.channels_out * self.size_out**2


def _convolution(
    name: str, channels_in: int, channels_out: int, kernel: int, size: int, stride: int = 1
) -> Shape:
    return Shape(name, channels_in, channels_out, kernel, size, 2 * channels_out, stride)


def shapes(depths: tuple[int, ...] = _DEPTHS) -> Iterator[Shape]:
    """All layers with weights, in forward order; ``depths`` are the blocks of the four stages,
    those of ResNet-50 if not given."""
    yield _convolution("conv1", 3, 64, 7, 112, 2)
    channels, size = 64, 56
    for stage, (blocks, inner) in enumerate(zip(depths, _INNER, strict=True), start=1):
        for block in range(blocks):
            name = f"layer{stage}.{block}"
            size_in, stride = size, 1
            if stage > 1 and block == 0:
                size, stride = size // 2, 2
            yield _convolution(f"{name}.conv1", channels, inner, 1, size_in)
            yield _convolution(f"{name}.conv2", inner, inner, 3, size, stride)
            yield _convolution(f"{name}.conv3", inner, _EXPANSION * inner, 1, size)
            if block == 0:
                outer = _EXPANSION * inner
                yield _convolution(f"{name}.downsample", channels, outer, 1, size, stride)
            channels = _EXPANSION * inner
    yield Shape("fc", channels, 1000, 1, 1, 1000)


@dataclass(frozen=True)
class Throughput:
    """What one NPU does with the model.

    Parameters
    ----------
    batch : images per NPU and iteration
    peak_tflops : 10^12 FP16 operations per second (a multiply-add is two)
    efficiency : the share of the peak that is reached, above 0 and at most 1
    memory_gb_per_s : 10^9 bytes per second, for the update
    """

    batch: int = 8
    peak_tflops: Fraction = Fraction(120)
    efficiency: Fraction = Fraction(1, 2)
    memory_gb_per_s: Fraction = Fraction(900)

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"batch must be at least 1, not {self.batch!r}")
        if self.batch > LARGEST_COUNT:
            raise ValueError(f"batch must be at most {LARGEST_COUNT}, not {self.batch!r}")
        if self.peak_tflops <= 0:
            raise ValueError(f"peak_tflops must be positive, not {float(self.peak_tflops):g}")
        if not 0 < self.efficiency <= 1:
            raise ValueError(
                f"efficiency must be above 0 and at most 1, not {float(self.efficiency):g}"
            )
        if self.memory_gb_per_s <= 0:
            raise ValueError(
                f"memory_gb_per_s must be positive, not {float(self.memory_gb_per_s):g}"
            )
        if max(max(self.pass_ns(s), self.update_ns(s)) for s in shapes()) > LARGEST_TIME_NS:
            raise ValueError(
                "batch, peak_tflops, efficiency and memory_gb_per_s must be such that no layer "
                "takes more than 10^6 s"
            )

    def pass_ns(self, shape: Shape) -> int:
        """One pass of a layer over the batch, to the nearest nanosecond, at least one."""
        operations = 2 * shape.multiply_adds * self.batch
        return max(1, round(operations / (self.peak_tflops * self.efficiency * 1000)))

    def update_ns(self, shape: Shape) -> int:
        """The update of a layer's parameters, to the nearest nanosecond, at least one."""
        return max(1, round(_UPDATE_BYTES * shape.parameters / self.memory_gb_per_s))


def generate(throughput: Throughput | None = None) -> Workload:
    """The trace of one iteration, mode DATA, 54 layers."""
    throughput = throughput or Throughput()
    nothing = Communication()
    layers = []
    for shape in shapes():
        nanoseconds = throughput.pass_ns(shape)
        gradients = Communication(Operation.ALL_REDUCE, _GRADIENT_BYTES * shape.parameters)
        layers.append(
            Layer(
                name=shape.name,
                forward_ns=nanoseconds,
                forward=nothing,
                input_gradient_ns=nanoseconds,
                input_gradient=nothing,
                weight_gradient_ns=nanoseconds,
                weight_gradient=gradients,
                update_ns=throughput.update_ns(shape),
            )
        )
    return Workload(mode=Mode.DATA, layers=tuple(layers))
