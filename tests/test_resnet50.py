"""The ResNet-50 trace against published figures, and the example file against its generator."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest

from sw_model.workload import astra_text, program, resnet50
from sw_model.workload.layers import Mode

EXAMPLE = Path(__file__).parent.parent / "examples" / "resnet50.txt"


def test_published_parameter_count() -> None:
    """25,557,032 in the well-known implementations, batch norms (scale and shift) included."""
    layers = list(resnet50.shapes())
    assert sum(shape.parameters for shape in layers) == 25_557_032
    convolutions, classifier = layers[:-1], layers[-1]
    assert sum(shape.weights for shape in convolutions) == 23_454_912
    assert sum(shape.extra_parameters for shape in convolutions) == 53_120
    assert classifier.parameters == 2_049_000


def test_published_multiply_adds() -> None:
    """4.09 G an image at 224 x 224, for the form with the stride in the 3 x 3 convolution."""
    assert sum(shape.multiply_adds for shape in resnet50.shapes()) == 4_089_184_256


def test_layers() -> None:
    layers = list(resnet50.shapes())
    assert len(layers) == 54
    assert len({shape.name for shape in layers}) == 54
    assert [shape.name for shape in layers][:6] == [
        "conv1",
        "layer1.0.conv1",
        "layer1.0.conv2",
        "layer1.0.conv3",
        "layer1.0.downsample",
        "layer1.1.conv1",
    ]


def test_trace() -> None:
    workload = resnet50.generate()
    assert workload.mode is Mode.DATA
    assert workload.communication_bytes() == 2 * 25_557_032
    # conv1: 2 * 118,013,952 * 8 operations at 60 TFLOPS.
    assert workload.layers[0].forward_ns == round(2 * 118_013_952 * 8 / 60_000)
    # Three passes of all layers but the first, two of the first, each rounded by itself.
    exact = Fraction(2 * 8 * (3 * 4_089_184_256 - 118_013_952), 60_000)
    assert abs(program.compute_ns(workload) - exact) < 54 * 3 / 2
    # Update of the classifier: 20 bytes for each of 2,049,000 parameters at 900 GB/s.
    assert workload.layers[-1].update_ns == 45_533


def test_throughput_scales_time() -> None:
    slow = resnet50.generate(resnet50.Throughput(batch=16, efficiency=Fraction(1, 4)))
    fast = resnet50.generate(resnet50.Throughput(batch=4, efficiency=Fraction(1, 4)))
    ratio = Fraction(program.compute_ns(slow), program.compute_ns(fast))
    assert abs(ratio - 4) < Fraction(1, 1000)


def test_example_is_reproducible_byte_for_byte() -> None:
    assert EXAMPLE.read_bytes() == astra_text.format_text(resnet50.generate()).encode()
    assert astra_text.read(EXAMPLE) == resnet50.generate()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"batch": 0}, "batch must be at least 1, not 0"),
        ({"peak_tflops": Fraction(0)}, "peak_tflops must be positive, not 0"),
        ({"efficiency": Fraction(0)}, "efficiency must be above 0 and at most 1, not 0"),
        ({"efficiency": Fraction(3, 2)}, "efficiency must be above 0 and at most 1, not 1.5"),
        ({"memory_gb_per_s": Fraction(-1)}, "memory_gb_per_s must be positive, not -1"),
    ],
)
def test_wrong_parameters(parameters, message) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        resnet50.Throughput(**parameters)
