"""Decoder-only transformers, as blocks that Megatron divides.

A layer of hidden size h has 12 h^2 + 13 h parameters: 4 h^2 of the attention, 8 h^2 of the MLP,
their biases and two layer norms. Embeddings are (V + s) h, and the output uses those of the V
words again. A forward pass of a sequence of s tokens has 12 s h^2 + 2 s^2 h multiply-adds a layer
and s h V for the output (Narayanan et al., *Efficient Large-Scale Language Model Training on GPU
Clusters Using Megatron-LM*, SC 2021, section 3 and appendix).

Tensor parallelism (Shoeybi et al., *Megatron-LM*, 2019): attention by heads, MLP by columns and
then rows, words by vocabulary. An all-reduce of s h elements a sample after the attention and
after the MLP in the forward pass, and as many in the backward pass; one more after the embedding
forward and one of the output backward. Layer norms, the biases of the second matrices and
positions are on every rank.
"""

from __future__ import annotations

from sw_model.workload.model import Block

__all__ = ["decoder_blocks"]


def decoder_blocks(
    *, layers: int, hidden: int, heads: int, sequence: int, vocabulary: int
) -> tuple[Block, ...]:
    """The blocks of the whole network: an embedding, two a layer, an output."""
    h, s = hidden, sequence
    activation = s * h
    words = vocabulary * h
    blocks = [
        Block(
            name="embedding",
            parameters=words + activation,
            replicated=activation,
            outer_elements=2 * activation,
            forward_reduced=activation,
            first=True,
            tied=words,
        )
    ]
    for layer in range(layers):
        blocks += [
            Block(
                name=f"layer{layer}.attention",
                parameters=4 * h * h + 6 * h,
                replicated=3 * h,
                multiply_adds=4 * s * h * h + 2 * s * s * h,
                outer_elements=4 * activation,
                inner_elements=8 * activation + 4 * heads * s * s,
                forward_reduced=activation,
                input_reduced=activation,
                layer=layer,
            ),
            Block(
                name=f"layer{layer}.mlp",
                parameters=8 * h * h + 7 * h,
                replicated=3 * h,
                multiply_adds=8 * s * h * h,
                outer_elements=4 * activation,
                inner_elements=16 * activation,
                forward_reduced=activation,
                input_reduced=activation,
                layer=layer,
            ),
        ]
    blocks += [
        Block(
            name="norm",
            parameters=2 * h,
            replicated=2 * h,
            outer_elements=2 * activation,
        ),
        Block(
            name="output",
            multiply_adds=activation * vocabulary,
            outer_elements=activation,
            inner_elements=2 * s * vocabulary,
            input_reduced=activation,
            tied=words,
            copy=True,
        ),
    ]
    return tuple(blocks)
