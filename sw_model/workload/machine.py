"""How long an NPU computes: a roofline.

A pass of a block takes the longer of operations / (peak x efficiency) and bytes / memory bandwidth.
A multiply-add is two operations. The bytes are the weights, once, and the activations.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sw_model.collective.plan import ELEMENT_BYTES
from sw_model.errors import InputError
from sw_model.units import LARGEST_TIME_NS
from sw_model.workload.model import Block

__all__ = ["Machine"]

_FLOATS = tuple(name for name in ELEMENT_BYTES if name != "int32")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One NPU and the data type of weights, gradients and activations.

    Parameters
    ----------
    peak_tflops : 10^12 operations a second
    efficiency : the share of it that is reached, above 0 and at most 1
    memory_bandwidth : bytes per second
    data_type : fp16, bf16 or fp32
    roofline : False where only operations count, as if memory were as fast as it need be; updates
        take their bytes in any case
    """

    peak_tflops: Fraction = Fraction(120)
    efficiency: Fraction = Fraction(1, 2)
    memory_bandwidth: Fraction = Fraction(900 * 10**9)
    data_type: str = "fp16"
    roofline: bool = True

    def __post_init__(self) -> None:
        if self.peak_tflops <= 0:
            raise ValueError(f"peak_tflops must be positive, not {float(self.peak_tflops):g}")
        if not 0 < self.efficiency <= 1:
            raise ValueError(
                f"efficiency must be above 0 and at most 1, not {float(self.efficiency):g}"
            )
        if self.memory_bandwidth <= 0:
            raise ValueError(
                f"memory_bandwidth must be positive, not {float(self.memory_bandwidth):g}"
            )
        if self.data_type not in _FLOATS:
            raise ValueError(
                f"data_type must be one of {', '.join(_FLOATS)}, not {self.data_type!r}"
            )

    @property
    def element_bytes(self) -> int:
        """Of the data type."""
        return ELEMENT_BYTES[self.data_type]

    def pass_ns(self, block: Block, samples: int, tensor: int = 1) -> int:
        """One pass of a block on a rank of a tensor-parallel group of ``tensor``, to the nearest
        nanosecond, at least one."""
        operations = self.pass_operations(block, samples, tensor)
        time = operations / (self.peak_tflops * self.efficiency * 1000)
        if self.roofline:
            moved = self.pass_bytes(block, samples, tensor)
            time = max(time, moved * 10**9 / self.memory_bandwidth)
        return _nanoseconds(time)

    @staticmethod
    def pass_operations(block: Block, samples: int, tensor: int = 1) -> Fraction:
        """Of one pass of a block."""
        return Fraction(2 * block.multiply_adds * samples, tensor)

    def pass_bytes(self, block: Block, samples: int, tensor: int = 1) -> Fraction:
        """That one pass of a block reads and writes."""
        weights = block.tied // tensor if block.copy else block.held(tensor)
        if block.exchanged or (block.first and not block.multiply_adds):
            weights = 0  # of a table only the rows that are looked up are read
        activations = block.outer_elements + Fraction(block.inner_elements, tensor)
        return self.element_bytes * (weights + samples * activations)

    def update_ns(self, parameters: int, bytes_each: int) -> int:
        """The update of so many parameters, to the nearest nanosecond, at least one."""
        return _nanoseconds(bytes_each * parameters * 10**9 / self.memory_bandwidth)


def _nanoseconds(time: Fraction) -> int:
    """To the nearest, at least one.

    Raises
    ------
    InputError
        for more than `LARGEST_TIME_NS`.
    """
    if time > LARGEST_TIME_NS:
        raise InputError(
            "no pass and no update of a block may take more than 10^6 s: raise peak_tflops, "
            "efficiency or the memory bandwidth, or lower the batch"
        )
    return max(1, round(time))
