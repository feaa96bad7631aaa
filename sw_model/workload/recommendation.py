"""DLRM: embedding tables spread over the ranks, multi-layer perceptrons on every rank.

Naumov et al., *Deep Learning Recommendation Model for Personalization and Recommendation Systems*,
2019: 13 dense features through the bottom MLP, 26 sparse ones through a table each; all pairs of
the 27 vectors are multiplied, and the products, with the bottom MLP's output, go through the top
MLP. The tables are model-parallel: an all-to-all brings every rank the vectors of its own samples,
beside the bottom MLP, and one brings the gradients back.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sw_model.workload.model import Block

__all__ = ["KAGGLE_ROWS", "TERABYTE_ROWS", "dlrm_blocks"]

#: Rows of the tables for Criteo's Kaggle data, as the authors' code counts them.
KAGGLE_ROWS = (
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194,
    27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572,
)  # fmt: skip
#: Of Criteo's terabyte of clicks, at most 40 million a table, as MLPerf uses them.
TERABYTE_ROWS = (
    40000000, 39060, 17295, 7424, 20265, 3, 7122, 1543, 63, 40000000, 3067956, 405282, 10,
    2209, 11938, 155, 4, 976, 14, 40000000, 40000000, 40000000, 590152, 12973, 108, 36,
)  # fmt: skip
_DENSE_FEATURES = 13


def dlrm_blocks(
    *, rows: Sequence[int], dimension: int, bottom: Sequence[int], top: Sequence[int]
) -> tuple[Block, ...]:
    """The tables, then the layers of the bottom and of the top MLP, of these widths."""
    vectors = len(rows) + 1
    looked_up = len(rows) * dimension
    interaction = dimension + vectors * (vectors - 1) // 2
    blocks = [
        Block(
            name="embedding",
            parameters=sum(rows) * dimension,
            outer_elements=2 * looked_up,
            exchanged=looked_up,
            first=True,
        )
    ]
    blocks += _layers("bottom", (_DENSE_FEATURES, *bottom))
    blocks += _layers("top", (interaction, *top), products=vectors * vectors * dimension)
    return tuple(blocks)


def _layers(name: str, widths: Sequence[int], products: int | None = None) -> list[Block]:
    """Fully connected layers; the first of the top also multiplies the vectors."""
    out = []
    for number, (before, after) in enumerate(pairwise(widths)):
        joins = number == 0 and products is not None
        out.append(
            Block(
                name=f"{name}{number}",
                parameters=before * after + after,
                multiply_adds=before * after + (products or 0 if joins else 0),
                outer_elements=before + after,
                joins=joins,
                first=number == 0 and products is None,
            )
        )
    return out
