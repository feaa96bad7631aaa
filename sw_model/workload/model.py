"""A network to be trained, as blocks: what each holds, computes, moves and exchanges.

Everything is counted for one sample (an image, a sentence pair, a sequence of tokens) and is a
number of elements, so that batch, data type and parallelisation come in afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Block", "Model"]


@dataclass(frozen=True, kw_only=True)
class Block:
    """A layer, or the part of one between two exchanges of a tensor-parallel group.

    Attributes
    ----------
    parameters : that it trains
    replicated : those of them that every rank of a tensor-parallel group keeps whole
    multiply_adds : of a forward pass; each of the two backward passes has as many
    outer_elements : activations read and written that every rank of such a group has whole
    inner_elements : those that the group divides
    forward_reduced : elements that the group all-reduces after the forward pass
    input_reduced : after the input gradient
    exchanged : elements of a rank's all-to-all after the forward pass, and of the one back: the
        block is a set of embedding tables, spread over the data-parallel ranks
    joins : needs what the embedding tables have exchanged
    first : has no input gradient to compute
    tied : parameters that are those of another block's
    copy : has no parameters of its own but the tied ones, which it borrows on the same rank, and
        of which it keeps a copy on another
    layer : number of the repeated layer it belongs to; layers are what stages are made of
    """

    name: str
    parameters: int = 0
    replicated: int = 0
    multiply_adds: int = 0
    outer_elements: int = 0
    inner_elements: int = 0
    forward_reduced: int = 0
    input_reduced: int = 0
    exchanged: int = 0
    joins: bool = False
    first: bool = False
    tied: int = 0
    copy: bool = False
    layer: int | None = None

    def held(self, tensor: int) -> int:
        """Parameters on a rank of a tensor-parallel group of ``tensor``: what cannot be divided
        evenly is padded."""
        return self.replicated - (self.replicated - self.parameters) // tensor


@dataclass(frozen=True, kw_only=True)
class Model:
    """A network.

    Attributes
    ----------
    title : for people
    blocks : in forward order
    published : its number of parameters, as published
    tolerance : relative, by which the sum of the blocks may differ: the publication rounds
    source : of shapes and number
    sample : what a batch counts
    batch : default samples of a data-parallel replica and iteration
    update_bytes : that the optimizer moves for a parameter, with weights and gradients of 2 bytes:
        20 for SGD with momentum, 28 for Adam, with master weights and moments of 4
    boundary : elements of a sample that a stage sends to the next; 0 where it is not cut in stages
    heads : of attention, the most that a tensor-parallel group may be; 0 where there is none
    """

    title: str
    blocks: tuple[Block, ...]
    published: int
    tolerance: float
    source: str
    sample: str
    batch: int
    update_bytes: int
    boundary: int = 0
    heads: int = 0

    @property
    def parameters(self) -> int:
        """The sum over the blocks."""
        return sum(block.parameters for block in self.blocks)

    @property
    def layers(self) -> int:
        """Repeated layers, of which stages are made."""
        return len({block.layer for block in self.blocks} - {None})

    def stages(self, count: int) -> tuple[tuple[Block, ...], ...]:
        """The blocks of each of ``count`` stages, with as many layers each; what comes before the
        layers is in the first, what comes after them in the last.

        Raises
        ------
        ValueError
            where the layers do not divide by ``count``.
        """
        if count == 1:
            return (self.blocks,)
        if self.layers % count or not self.layers:
            raise ValueError(f"{self.layers} layers do not divide by {count}")
        size = self.layers // count
        parts: list[list[Block]] = [[] for _ in range(count)]
        stage = 0
        for block in self.blocks:
            if block.layer is not None:
                stage = block.layer // size
            parts[stage].append(block)
        return tuple(tuple(part) for part in parts)
