"""Where things lie in the memory beside each NPU, and what a payload is filled with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sw_model.collective.plan import Collective, Operation
from sw_model.errors import InputError
from sw_model.platform import Platform

__all__ = ["MemoryMap", "Region", "Regions", "payload"]

_ONE_IN = 64
"""Of so many elements, one is of any bits at all, or special."""

_SPECIAL = np.array(
    [
        sign | size
        for sign in (0, 0x8000)
        for size in (0, 1, 0x03FF, 0x0400, 0x7BFF, 0x7C00, 0x7C01, 0x7E00)
    ],
    dtype=np.uint16,
)
"""FP16: zero, the subnormal and normal ends, infinity, signalling and quiet NaN; both signs."""


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

    def take(self, flits: int, what: str) -> Region:
        """The next ``flits`` flits.

        Raises
        ------
        InputError
            where the memory is too small for them.
        """
        if self.used + flits > self.words:
            raise InputError(
                f"{what} needs {flits} flits on top of {self.used}, and the memory inside the "
                f"simulation has {self.words}: raise memory.words, or lower the payload scale"
            )
        region = Region(self.used, flits)
        self.used += flits
        return region


def payload(collective: Collective, *, seed: int, number: int, rank: int) -> NDArray[np.generic]:
    """Random elements for one rank's source buffer, as the storage type of the data type.

    Floating-point values are uniform over sign, mantissa and the exponents around 1, so that sums
    round, cancel and sometimes go subnormal. One element in 64 or so is any value instead, or one
    of the special ones: zeros, subnormals, the largest, infinities, NaNs. Integers are uniform.

    Raises
    ------
    ValueError
        for a data type that the RTL platform is not built for.
    """
    generator = np.random.default_rng((seed, number, rank))
    if collective.data_type == "fp16":
        bits = generator.integers(0, 1 << 16, collective.elements, dtype=np.uint16)
        exponent = (bits >> 10) % 12 + 6
        near_one = (bits & 0x83FF) | (exponent << 10).astype(np.uint16)
        kind = generator.integers(0, 2 * _ONE_IN, collective.elements)
        near_or_any = np.where(kind == 0, bits, near_one)
        return np.where(kind == 1, _SPECIAL[bits % len(_SPECIAL)], near_or_any).view(np.float16)
    if collective.data_type == "int32":
        return generator.integers(-(2**31), 2**31, collective.elements, dtype=np.int32)
    raise ValueError(
        f"data_type must be fp16 or int32 on this platform, not {collective.data_type!r}"
    )
