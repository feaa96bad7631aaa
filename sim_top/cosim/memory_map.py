"""Where things lie in the memory beside each NPU, and what a payload is filled with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sw_model.collective.numerics import element_type
from sw_model.collective.plan import Collective, Operation
from sw_model.errors import InputError
from sw_model.platform import Platform

__all__ = ["MemoryMap", "Region", "Regions", "payload"]

_ONE_IN = 64
"""Of so many elements, one is of any bits at all, or special."""

_FRACTION_BITS = {"fp16": 10, "bf16": 7, "fp32": 23}

_EXPONENTS = range(-9, 3)
"""Of most values."""


@dataclass(frozen=True)
class Region:
    """``flits`` flits of every rank's memory, from flit ``first`` on."""

    first: int
    flits: int


@dataclass(frozen=True)
class Regions:
    """Sizes of the two regions that a collective has in every rank's memory."""

    source_bytes: int
    source_flits: int
    result_flits: int

    @classmethod
    def of(cls, collective: Collective, platform: Platform) -> Regions:
        """An all-gather's result is its group's size times its source; a reduce-scatter's the
        largest block of it, an all-to-all's one such block from everybody."""
        flit = platform.engine.flit_bytes
        group = collective.group_size(platform.topology)
        source = result = collective.elements * collective.element_bytes
        if collective.operation is Operation.ALL_GATHER:
            result = source * group
        elif collective.operation in (Operation.REDUCE_SCATTER, Operation.ALL_TO_ALL):
            result = -(-collective.elements // group) * collective.element_bytes
            if collective.operation is Operation.ALL_TO_ALL:
                result *= group
        return cls(source, -(-source // flit), -(-result // flit))


class MemoryMap:
    """Hands out memory from the bottom up, alike on every rank; nothing is ever given back, so
    that all results can be compared at the end.

    Parameters
    ----------
    words : flits of one memory
    """

    def __init__(self, words: int) -> None:
        self.words = words
        self.used = 0

    def take(self, flits: int, what: str, *, lower: str = "the payload scale") -> Region:
        """The next ``flits`` flits. ``lower`` is what else than a larger memory would help.

        Raises
        ------
        InputError
            where the memory is too small for them.
        """
        if self.used + flits > self.words:
            raise InputError(
                f"{what} needs {flits} flits on top of {self.used}, and the memory inside the "
                f"simulation has {self.words}: raise memory.words, or lower {lower}"
            )
        region = Region(self.used, flits)
        self.used += flits
        return region


def payload(collective: Collective, *, seed: int, number: int, rank: int) -> NDArray[np.generic]:
    """Random elements for one rank's source buffer, as the storage type of the data type.

    Floating-point values are uniform over sign, mantissa and the exponents around 1, so that sums
    round and cancel; those of FP16 sometimes go subnormal. One element in 64 or so is any value
    instead, or one of the special ones: zeros, subnormals, the largest, infinities, NaNs. Integers
    are uniform.
    """
    generator = np.random.default_rng((seed, number, rank))
    kind = element_type(collective.data_type)
    if kind.nan is None:
        return generator.integers(-(2**31), 2**31, collective.elements, dtype=np.int32)
    bits = generator.integers(0, 1 << 8 * kind.bytes, collective.elements, dtype=kind.bits)
    fraction, sign = _FRACTION_BITS[kind.name], 1 << 8 * kind.bytes - 1
    bias = (1 << 8 * kind.bytes - 2 - fraction) - 1
    exponent = (bits >> fraction) % len(_EXPONENTS) + (bias + _EXPONENTS[0])
    near_one = (bits & (sign | (1 << fraction) - 1)) | (exponent << fraction).astype(kind.bits)
    special = _special(fraction, sign)
    choice = generator.integers(0, 2 * _ONE_IN, collective.elements)
    near_or_any = np.where(choice == 0, bits, near_one)
    chosen = np.where(choice == 1, special.astype(kind.bits)[bits % len(special)], near_or_any)
    return chosen.view(kind.storage)


def _special(fraction: int, sign: int) -> NDArray[np.uint64]:
    """Bits of both zeros, the ends of the subnormal and the normal numbers, both infinities, and
    signalling and quiet NaNs."""
    infinity = sign - (1 << fraction)
    sizes = (0, 1, (1 << fraction) - 1, 1 << fraction, infinity - 1, infinity, infinity + 1)
    quiet = infinity | 1 << fraction - 1
    return np.array([top | size for top in (0, sign) for size in (*sizes, quiet)], dtype=np.uint64)
