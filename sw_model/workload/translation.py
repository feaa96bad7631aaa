"""GNMT: Wu et al., *Google's Neural Machine Translation System*, 2016.

Eight encoder layers of LSTM, the first in both directions, and eight decoder layers, each of which
also sees the attention's context; 1024 units, 32,000 word pieces a side. A layer of n units over m
inputs has 4 n (m + n) weights and 4 n biases, all of which every token passes once.
"""

from __future__ import annotations

from sw_model.workload.model import Block

__all__ = ["gnmt_blocks"]


def _lstm(name: str, inputs: int, units: int, tokens: int, directions: int = 1) -> Block:
    weights = directions * 4 * units * (inputs + units)
    return Block(
        name=name,
        parameters=weights + directions * 4 * units,
        multiply_adds=tokens * weights,
        # Inputs and outputs; four gates, written and read.
        outer_elements=tokens * (inputs + directions * 9 * units),
    )


def gnmt_blocks(
    *, units: int, vocabulary: int, tokens: int, encoders: int, decoders: int
) -> tuple[Block, ...]:
    """All layers; ``tokens`` of a sentence, either side."""

    def embedding(name: str) -> Block:
        return Block(
            name=name,
            parameters=vocabulary * units,
            outer_elements=2 * tokens * units,
            first=True,
        )

    blocks = [embedding("encoder.embedding")]
    for layer in range(encoders):
        inputs = 2 * units if layer == 1 else units
        directions = 2 if layer == 0 else 1
        blocks.append(_lstm(f"encoder{layer}", inputs, units, tokens, directions))
    blocks.append(embedding("decoder.embedding"))
    for layer in range(decoders):
        blocks.append(_lstm(f"decoder{layer}", 2 * units, units, tokens))
        if layer == 0:
            # Additive: keys from the encoder, queries from this layer, and a vector of weights.
            blocks.append(
                Block(
                    name="attention",
                    parameters=2 * units * units + units,
                    multiply_adds=2 * tokens * units * units + 2 * tokens * tokens * units,
                    outer_elements=4 * tokens * units + 2 * tokens * tokens,
                )
            )
    blocks.append(
        Block(
            name="softmax",
            parameters=vocabulary * units + vocabulary,
            multiply_adds=tokens * vocabulary * units,
            outer_elements=tokens * (units + 2 * vocabulary),
        )
    )
    return tuple(blocks)
