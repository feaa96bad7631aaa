"""The models that can be generated, by name, with what has been published about each."""

from __future__ import annotations

from collections.abc import Callable

from sw_model.errors import InputError, nearest
from sw_model.workload import resnet50
from sw_model.workload.model import Block, Model
from sw_model.workload.recommendation import KAGGLE_ROWS, TERABYTE_ROWS, dlrm_blocks
from sw_model.workload.transformer import decoder_blocks
from sw_model.workload.translation import gnmt_blocks

__all__ = ["MODELS", "model_named"]

_SGD_BYTES, _ADAM_BYTES = 20, 28
_ROUNDED = 0.005  # a number with three figures
_TWO_FIGURES = 0.03


def _resnet(title: str, depths: tuple[int, ...], published: int) -> Model:
    blocks = tuple(
        Block(
            name=shape.name,
            parameters=shape.parameters,
            multiply_adds=shape.multiply_adds,
            outer_elements=shape.activations,
            first=shape.name == "conv1",
        )
        for shape in resnet50.shapes(depths)
    )
    return Model(
        title=title,
        blocks=blocks,
        published=published,
        tolerance=0.0,
        source="He et al., CVPR 2016, Table 1; parameters: num_params of torchvision's weights",
        sample="image",
        batch=8 if title == "ResNet-50" else 16,
        update_bytes=_SGD_BYTES,
    )


def _gnmt() -> Model:
    return Model(
        title="GNMT",
        blocks=gnmt_blocks(units=1024, vocabulary=32_000, tokens=50, encoders=8, decoders=8),
        published=278_000_000,
        tolerance=0.015,
        source="8 + 8 layers of 1,024 units: Wu et al., 2016; Wikipedia, 'Google Neural Machine "
        "Translation', has 278 million among other counts; recalled: that it is from Shazeer et "
        "al., ICLR 2017, Table 2",
        sample="sentence pair of 50 tokens a side",
        batch=128,
        update_bytes=_ADAM_BYTES,
    )


def _dlrm() -> Model:
    return Model(
        title="DLRM",
        blocks=dlrm_blocks(
            rows=TERABYTE_ROWS, dimension=128, bottom=(512, 256, 128), top=(1024, 1024, 512, 256, 1)
        ),
        published=25_000_000_000,
        tolerance=0.05,
        source="rows and widths: MLPerf's reference (dlrm_main.py, --num_embeddings_per_feature); "
        "parameters (25+ billion): Desai and Shrivastava, NeurIPS 2022, abstract",
        sample="click",
        batch=512,
        update_bytes=_SGD_BYTES,
    )


def _dlrm_kaggle() -> Model:
    return Model(
        title="DLRM, Kaggle",
        blocks=dlrm_blocks(
            rows=KAGGLE_ROWS, dimension=16, bottom=(512, 256, 64, 16), top=(512, 256, 1)
        ),
        published=540_000_000,
        tolerance=_ROUNDED,
        source="rows and widths: --arch-embedding-size of the public dlrm scripts for Kaggle; "
        "recalled: 540 million parameters, Naumov et al., 2019, section 5",
        sample="click",
        batch=512,
        update_bytes=_SGD_BYTES,
    )


def _transformer(
    title: str,
    published: int,
    tolerance: float,
    source: str,
    *,
    layers: int,
    hidden: int,
    heads: int,
    sequence: int,
    vocabulary: int,
) -> Model:
    return Model(
        title=title,
        blocks=decoder_blocks(
            layers=layers, hidden=hidden, heads=heads, sequence=sequence, vocabulary=vocabulary
        ),
        published=published,
        tolerance=tolerance,
        source=source,
        sample=f"sequence of {sequence} tokens",
        batch=16,
        update_bytes=_ADAM_BYTES,
        boundary=sequence * hidden,
        heads=heads,
    )


#: Makers by the name that the command knows.
MODELS: dict[str, Callable[[], Model]] = {
    "resnet50": lambda: _resnet("ResNet-50", (3, 4, 6, 3), 25_557_032),
    "resnet152": lambda: _resnet("ResNet-152", (3, 8, 36, 3), 60_192_808),
    "gnmt": _gnmt,
    "dlrm": _dlrm,
    "dlrm-kaggle": _dlrm_kaggle,
    "transformer-17b": lambda: _transformer(
        "Transformer-17B",
        17_000_000_000,
        _TWO_FIGURES,
        "Rosset, Turing-NLG, Microsoft Research, 2020 (78 layers, 4,256, 28 heads, 17 billion); "
        "recalled: vocabulary of GPT-2, 1,024 tokens",
        layers=78,
        hidden=4256,
        heads=28,
        sequence=1024,
        vocabulary=50_257,
    ),
    "gpt3": lambda: _transformer(
        "GPT-3",
        175_000_000_000,
        _ROUNDED,
        "Brown et al., NeurIPS 2020, Table 2.1 (96 layers, 12,288, 96 heads, 2,048 tokens, 175 "
        "billion); recalled: vocabulary of GPT-2",
        layers=96,
        hidden=12_288,
        heads=96,
        sequence=2048,
        vocabulary=50_257,
    ),
    "transformer-1t": lambda: _transformer(
        "Transformer-1T",
        1_008_000_000_000,
        0.0005,
        "2,048 tokens, 51,200 words: README of Megatron-LM; recalled: 128 layers, 25,600, 160 "
        "heads, 1,008.0 billion, Narayanan et al., SC 2021, Table 1",
        layers=128,
        hidden=25_600,
        heads=160,
        sequence=2048,
        vocabulary=51_200,
    ),
}


def model_named(name: str) -> Model:
    """The model of a name.

    Raises
    ------
    InputError
        where there is none: names the nearest.
    """
    if name not in MODELS:
        raise InputError(f"unknown model {name!r}{nearest(name, MODELS)}")
    return MODELS[name]()
