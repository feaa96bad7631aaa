"""sw_model.collective.numerics: the reference against values worked out by hand, and exact sums."""

import re
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from sw_model.collective.numerics import ELEMENT_TYPES, canonical, element_type, reduce

FLOATS = ("fp16", "bf16", "fp32")
MANTISSA = {"fp16": 10, "bf16": 7, "fp32": 23}
LOWEST = {"fp16": -24, "bf16": -133, "fp32": -149}  # exponent of the smallest subnormal


def bits(data_type, *values):
    kind = element_type(data_type)
    return np.array(values, kind.bits).view(kind.storage)


def one(data_type, operator, a, b):
    kind = element_type(data_type)
    return int(
        reduce(bits(data_type, a), bits(data_type, b), data_type, operator).view(kind.bits)[0]
    )


@pytest.mark.parametrize(
    ("operator", "a", "b", "result"),
    [
        ("sum", 0x3C00, 0x3C00, 0x4000),  # 1 + 1
        ("sum", 0x0001, 0x0001, 0x0002),  # subnormals
        ("sum", 0x03FF, 0x0001, 0x0400),  # into the normals
        ("sum", 0x3C00, 0x1000, 0x3C00),  # 1 + half an ulp: to even, down
        ("sum", 0x3C01, 0x1000, 0x3C02),  # 1 + ulp + half an ulp: to even, up
        ("sum", 0x3C00, 0x1001, 0x3C01),  # just more than half
        ("sum", 0x7BFF, 0x4C00, 0x7C00),  # the largest + half an ulp: to infinity
        ("sum", 0x7BFF, 0x4BFF, 0x7BFF),  # just less
        ("sum", 0x7C00, 0xFC00, 0x7E00),  # inf - inf
        ("sum", 0x7C00, 0x7BFF, 0x7C00),
        ("sum", 0xFC01, 0x3C00, 0x7E00),  # signalling, negative NaN: the canonical one
        ("sum", 0x8000, 0x8000, 0x8000),
        ("sum", 0x8000, 0x0000, 0x0000),
        ("sum", 0x3C00, 0xBC00, 0x0000),  # exact cancellation is +0
        ("max", 0x8000, 0x0000, 0x0000),
        ("min", 0x0000, 0x8000, 0x8000),
        ("max", 0x3C00, 0x7E01, 0x7E00),
        ("min", 0xFC01, 0x3C00, 0x7E00),
        ("max", 0xFC00, 0xBC00, 0xBC00),
        ("min", 0x0001, 0x8001, 0x8001),
    ],
)
def test_fp16_by_hand(operator, a, b, result):
    assert one("fp16", operator, a, b) == result
    assert one("fp16", operator, b, a) == result


@pytest.mark.parametrize(
    ("operator", "a", "b", "result"),
    [
        ("sum", 0x7FFFFFFF, 1, 0x80000000),
        ("sum", 0x80000000, 0x80000000, 0),
        ("max", 0x80000000, 0x7FFFFFFF, 0x7FFFFFFF),
        ("min", 0xFFFFFFFF, 0, 0xFFFFFFFF),
    ],
)
def test_int32_by_hand(operator, a, b, result):
    assert one("int32", operator, a, b) == result


def exact_value(data_type, pattern):
    """The number a finite bit pattern stands for."""
    mantissa = MANTISSA[data_type]
    width = 8 * element_type(data_type).bytes
    sign = -1 if pattern >> (width - 1) else 1
    field = (pattern & ((1 << (width - 1)) - 1)) >> mantissa
    fraction = pattern & ((1 << mantissa) - 1)
    significand = fraction | (1 << mantissa if field else 0)
    return sign * significand * Fraction(2) ** (max(field, 1) - 1 + LOWEST[data_type])


def rounded_pattern(data_type, value):
    """The magnitude bits of a positive number, rounded to nearest even, by rational arithmetic."""
    mantissa = MANTISSA[data_type]
    field = 1
    while value >= Fraction(2) ** (mantissa + field + LOWEST[data_type]):
        field += 1
    ulp = Fraction(2) ** (field - 1 + LOWEST[data_type])
    significand = round(value / ulp)  # Python rounds halves to even
    pattern = ((field - 1) << mantissa) + significand
    kind = element_type(data_type)
    top = (1 << (8 * kind.bytes - 1 - mantissa)) - 1
    return min(pattern, top << mantissa)


@pytest.mark.parametrize("data_type", FLOATS)
def test_sums_are_rounded_once(data_type):
    kind = element_type(data_type)
    rng = np.random.default_rng(3)
    count = 1000
    pairs = rng.integers(0, 1 << (8 * kind.bytes), (2, count), dtype=kind.bits)
    near = rng.integers(0, 1 << (MANTISSA[data_type] + 3), count, dtype=kind.bits)
    pairs[1, ::2] = (pairs[0] ^ near)[::2]
    a, b = pairs.view(kind.storage)
    got = reduce(a, b, data_type, "sum").view(kind.bits)
    sign_bit = 1 << (8 * kind.bytes - 1)
    checked = 0
    for x, y, result in zip(*pairs.tolist(), got.tolist(), strict=True):
        if not np.isfinite(bits(data_type, x, y)).all():
            continue
        total = exact_value(data_type, x) + exact_value(data_type, y)
        if total == 0:
            continue
        want = rounded_pattern(data_type, abs(total)) | (sign_bit if total < 0 else 0)
        assert result == want, f"{x:#x} + {y:#x} is {result:#x}, not {want:#x}"
        checked += 1
    assert checked > count // 2


def test_table():
    assert {t.name: (t.bytes, t.storage, t.nan) for t in ELEMENT_TYPES.values()} == {
        "fp16": (2, np.dtype("<f2"), 0x7E00),
        "bf16": (2, np.dtype(ml_dtypes.bfloat16), 0x7FC0),
        "fp32": (4, np.dtype("<f4"), 0x7FC00000),
        "int32": (4, np.dtype("<i4"), None),
    }


def test_canonical_keeps_shape_and_numbers():
    array = bits("fp16", 0xFE01, 0x7C00, 0x8000, 0x7D55).reshape(2, 2)
    assert canonical(array, "fp16").view(np.uint16).tolist() == [[0x7E00, 0x7C00], [0x8000, 0x7E00]]
    numbers = bits("int32", 5)
    assert canonical(numbers, "int32") is numbers


def test_wrong_arguments():
    a = np.zeros(1, np.float16)
    with pytest.raises(
        ValueError, match=r"^data_type must be one of fp16, bf16, fp32, int32, not 'fp8'$"
    ):
        element_type("fp8")
    with pytest.raises(ValueError, match=r"^operator must be one of sum, max, min, not 'mean'$"):
        reduce(a, a, "fp16", "mean")
    message = "operands of fp32 must be arrays of float32, not float16"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        reduce(a, a, "fp32", "sum")
