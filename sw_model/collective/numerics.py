"""Reference arithmetic of reductions, bit for bit what the engine and the switch compute.

Independent of the RTL: sums are NumPy's (``ml_dtypes``' for bfloat16), rounded to nearest even;
what NumPy leaves open is settled here as docs/arithmetic.md says: every NaN result is the
canonical quiet one, maximum and minimum propagate NaN, +0 > -0, INT32 wraps.

NumPy adds float16, and ml_dtypes bfloat16, in float32 and rounds twice. That equals one rounding,
since float32 has at least 2p + 2 bits of precision for p = 11 and p = 8 (Figueroa, *When is double
rounding innocuous?*, 1995).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from sw_model.collective.plan import OPERATORS

__all__ = ["ELEMENT_TYPES", "OPERATORS", "ElementType", "canonical", "element_type", "reduce"]


@dataclass(frozen=True)
class ElementType:
    """How elements of a data type are kept in NumPy.

    Attributes
    ----------
    name : as in :class:`~sw_model.collective.plan.Collective`
    bytes : of one element
    storage : dtype of arrays of elements
    bits : unsigned dtype of the same width, for looking at the bits with ``array.view``
    nan : bits of the canonical quiet NaN, None for integers
    """

    name: str
    bytes: int
    storage: np.dtype[Any]
    bits: np.dtype[Any]
    nan: int | None


ELEMENT_TYPES = {
    t.name: t
    for t in (
        ElementType("fp16", 2, np.dtype("<f2"), np.dtype("<u2"), 0x7E00),
        ElementType("bf16", 2, np.dtype(ml_dtypes.bfloat16), np.dtype("<u2"), 0x7FC0),
        ElementType("fp32", 4, np.dtype("<f4"), np.dtype("<u4"), 0x7FC00000),
        ElementType("int32", 4, np.dtype("<i4"), np.dtype("<u4"), None),
    )
}


def element_type(name: str) -> ElementType:
    """The entry of ``ELEMENT_TYPES``.

    Raises
    ------
    ValueError
        for an unknown name.
    """
    try:
        return ELEMENT_TYPES[name]
    except KeyError:
        known = ", ".join(ELEMENT_TYPES)
        raise ValueError(f"data_type must be one of {known}, not {name!r}") from None


def canonical(array: NDArray[Any], data_type: str) -> NDArray[Any]:
    """``array`` with every NaN replaced by the canonical one.

    Parameters
    ----------
    array : any shape, of the type's ``storage``
    data_type : name of the element type
    """
    kind = element_type(data_type)
    if kind.nan is None:
        return array
    bits = array.view(kind.bits)
    return np.where(np.isnan(array), kind.bits.type(kind.nan), bits).view(kind.storage)


def reduce(a: NDArray[Any], b: NDArray[Any], data_type: str, operator: str) -> NDArray[Any]:
    """``a (operator) b``, element by element.

    Parameters
    ----------
    a, b : equal shapes, of the type's ``storage``
    data_type : "fp16", "bf16", "fp32" or "int32"
    operator : "sum", "max" or "min"

    Raises
    ------
    ValueError
        for an unknown type or operator, or arrays of another dtype.
    """
    kind = element_type(data_type)
    if operator not in OPERATORS:
        raise ValueError(f"operator must be one of {', '.join(OPERATORS)}, not {operator!r}")
    for array in (a, b):
        if array.dtype != kind.storage:
            raise ValueError(
                f"operands of {data_type} must be arrays of {kind.storage}, not {array.dtype}"
            )
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        if operator == "sum":
            return canonical(np.add(a, b), data_type)
        if kind.nan is None:
            return np.maximum(a, b) if operator == "max" else np.minimum(a, b)
        # Equal numbers have equal bits, but for zeros: "and" then gives +0, "or" gives -0.
        x, y = a.view(kind.bits), b.view(kind.bits)
        if operator == "max":
            bits = np.where(a > b, x, np.where(a < b, y, x & y))
        else:
            bits = np.where(a < b, x, np.where(a > b, y, x | y))
        bits = np.where(np.isnan(a) | np.isnan(b), kind.bits.type(kind.nan), bits)
        return bits.view(kind.storage)
