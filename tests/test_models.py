"""Models from public shapes: parameters and operations against published numbers, and texts."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from sw_model.collective.plan import Operation
from sw_model.errors import InputError
from sw_model.workload import astra_text, resnet50
from sw_model.workload.catalogue import MODELS, model_named
from sw_model.workload.layered import layered
from sw_model.workload.layers import Mode
from sw_model.workload.machine import Machine
from sw_model.workload.model import Block
from sw_model.workload.parallel import Parallelism
from tests.chakra_traces import TRACES, needs_shared


@pytest.mark.parametrize("name", MODELS)
def test_published_parameters(name) -> None:
    model = model_named(name)
    assert abs(model.parameters - model.published) <= model.tolerance * model.published
    assert len({block.name for block in model.blocks}) == len(model.blocks)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("resnet50", 25_557_032),
        ("resnet152", 60_192_808),
        ("gnmt", 280_858_880),
        ("dlrm", 26_137_996_161),
        ("dlrm-kaggle", 540_677_217),
        ("transformer-17b", 17_176_845_728),
        ("gpt3", 174_604_259_328),
        ("transformer-1t", 1_008_038_758_400),
    ],
)
def test_parameters_as_documented(name, parameters) -> None:
    assert model_named(name).parameters == parameters


def test_published_operations() -> None:
    """ResNet-152: 11.51 G multiply-adds an image. GNMT: 214 M a token, without embeddings. A
    transformer: 96 L s h^2 (1 + s / 6h + V / 16 L h) operations with recomputation, of which a
    forward pass is a quarter (Narayanan et al., SC 2021, equation 3)."""

    def adds(name: str) -> int:
        return sum(block.multiply_adds for block in model_named(name).blocks)

    assert adds("resnet152") == 11_513_626_624
    assert abs(adds("gnmt") / 50 / 214e6 - 1) < 0.01
    for name, layers, h, s, words in (
        ("transformer-17b", 78, 4256, 1024, 50_257),
        ("gpt3", 96, 12_288, 2048, 50_257),
        ("transformer-1t", 128, 25_600, 2048, 51_200),
    ):
        whole = 96 * layers * s * h * h * (1 + Fraction(s, 6 * h))
        # The paper recomputes the layers but not the output: a third of its term.
        output = 6 * s * h * words
        assert whole / 4 + output / 3 == 2 * adds(name)


def test_an_unknown_name() -> None:
    with pytest.raises(InputError) as caught:
        model_named("gpt-3")
    assert str(caught.value) == "unknown model 'gpt-3' (did you mean 'gpt3'?)"


def test_tensor_parallel_shares() -> None:
    block = Block(name="b", parameters=103, replicated=3)
    assert [block.held(n) for n in (1, 2, 3, 4)] == [103, 53, 37, 28]
    model = model_named("gpt3")
    h, words = 12_288, 50_257
    held = sum(block.held(8) for block in model.blocks)
    assert held == 96 * (12 * h * h // 8 + 7 * h // 8 + 6 * h) + -(-words * h // 8) + 2050 * h


def test_stages() -> None:
    model = model_named("gpt3")
    parts = model.stages(4)
    assert [len(part) for part in parts] == [49, 48, 48, 50]
    assert sum(parts, ()) == model.blocks
    with pytest.raises(ValueError, match="96 layers do not divide by 5"):
        model.stages(5)


def test_the_roofline() -> None:
    machine = Machine(
        peak_tflops=Fraction(2), efficiency=Fraction(1, 2), memory_bandwidth=Fraction(10**9)
    )
    block = Block(name="b", parameters=1000, multiply_adds=10**6, outer_elements=10)
    # 2 operations x 10^6 x 3 at 10^12 a second; 2 bytes x (1000 + 3 x 10) at 10^9.
    assert machine.pass_ns(block, 3) == 6000
    assert machine.pass_ns(block, 3, tensor=4) == 1500
    assert machine.pass_ns(replace(block, multiply_adds=10**5), 3) == 2060
    assert replace(machine, roofline=False).pass_ns(replace(block, multiply_adds=10**5), 3) == 600
    assert machine.update_ns(1000, 20) == 20_000
    # Of tables only the rows that are looked up are read.
    table = Block(name="t", parameters=10**9, outer_elements=100, exchanged=50)
    assert machine.pass_ns(table, 3) == 600


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"peak_tflops": Fraction(0)}, "peak_tflops must be positive, not 0"),
        ({"efficiency": Fraction(2)}, "efficiency must be above 0 and at most 1, not 2"),
        ({"memory_bandwidth": Fraction(-1)}, "memory_bandwidth must be positive, not -1"),
        ({"data_type": "int32"}, "data_type must be one of fp16, bf16, fp32, not 'int32'"),
    ],
)
def test_wrong_machines(parameters, message) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Machine(**parameters)


def test_the_example_is_one_of_these() -> None:
    text = layered(model_named("resnet50"), Parallelism(), Machine(roofline=False), 8)
    assert text == resnet50.generate()


@pytest.mark.parametrize("name", ["resnet152", "gnmt"])
def test_data_parallel_text(name) -> None:
    model = model_named(name)
    text = layered(model, Parallelism(), Machine(), 4)
    assert text.mode is Mode.DATA
    assert text.communication_bytes() == 2 * model.parameters
    assert astra_text.parse(astra_text.format_text(text)) == text


def test_tensor_parallel_text() -> None:
    model = model_named("transformer-17b")
    text = layered(model, Parallelism(tensor=4), Machine(data_type="fp32"), 2)
    assert (text.mode, text.model_parallel_npus) == (Mode.HYBRID_TRANSFORMER, 4)
    activation = 4 * 2 * 1024 * 4256
    forward = [layer.forward.bytes for layer in text.layers]
    backward = [layer.input_gradient.bytes for layer in text.layers]
    # Two a layer either way, and one for the words at either end.
    assert sum(forward) == sum(backward) == (2 * 78 + 1) * activation
    assert set(forward) == set(backward) == {0, activation}
    gradients = sum(layer.weight_gradient.bytes for layer in text.layers)
    assert gradients == 4 * sum(block.held(4) for block in model.blocks)
    assert astra_text.parse(astra_text.format_text(text)) == text


@needs_shared
def test_a_published_trace_of_the_same_shape() -> None:
    """LIBRA's Transformer-17B has the same activations, at a batch of 8, and the same matrices."""
    theirs = astra_text.read(TRACES / "10_libra_sc22" / "transformer_17B.txt").layers
    model = model_named("transformer-17b")
    assert theirs[5].forward.bytes == 2 * 8 * model.boundary == 69_730_304
    attention = sum(layer.weight_gradient.bytes for layer in theirs[:6])
    assert attention == 2 * (model.blocks[1].parameters - 6 * 4256)


def test_the_documented_table() -> None:
    rows = {}
    for line in (Path(__file__).parents[1] / "docs" / "workloads.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[0].strip("`") in MODELS:
            rows[cells[0].strip("`")] = cells[2]
    assert rows == {name: f"{model_named(name).parameters:,}" for name in MODELS}


def test_dlrm_text() -> None:
    text = layered(model_named("dlrm"), Parallelism(), Machine(), 512)
    assert (text.mode, text.last_bottom_layer) == (Mode.HYBRID_DLRM, 3)
    tables = text.layers[0]
    assert tables.forward.operation is Operation.ALL_TO_ALL
    assert tables.forward.bytes == tables.input_gradient.bytes == 2 * 512 * 26 * 128
    assert tables.weight_gradient.bytes == 0
    mlps = sum(layer.weight_gradient.bytes for layer in text.layers)
    assert mlps == 2 * (model_named("dlrm").parameters - 204_184_588 * 128)
    assert astra_text.parse(astra_text.format_text(text)) == text


@pytest.mark.parametrize(
    ("parameters", "option"),
    [({"pipeline": 2}, "--pp"), ({"microbatches": 2}, "--microbatches"), ({"zero": 1}, "--zero")],
)
def test_what_a_text_cannot_say(parameters, option) -> None:
    with pytest.raises(InputError, match=f"{option} must be . in a 1.0 text, which cannot say"):
        layered(model_named("gpt3"), Parallelism(**parameters), Machine(), 2)
