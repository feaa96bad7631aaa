"""Values of rtl.arith against NumPy and ml_dtypes, by the emitted RTL in a bare Verilator loop."""

import numpy as np
import pytest

from rtl.arith.formats import FLOAT_FORMATS
from rtl.arith.reduce import ReduceFlit
from rtl.common.packet import DataType, Operator
from sw_model.collective.numerics import element_type, reduce
from testbenches.reduce_batch import build_batch, run_batch

ALL = {"data_types": set(DataType), "operators": set(Operator)}
FIRST = {"data_types": {DataType.FP16, DataType.INT32}, "operators": {Operator.SUM}}
CASES = [(t, o) for t in DataType for o in Operator]


def name(case):
    return case.name.lower()


def float_boundaries(form):
    """Magnitudes at every edge of the format, and beside the powers of two around the middle."""
    one_ulp = 1
    middle = (form.top_exponent // 2) << form.mantissa
    smallest_normal = 1 << form.mantissa
    largest = form.infinity - 1
    values = {0, one_ulp, 2, 3, smallest_normal // 2}
    for edge in (smallest_normal, 2 * smallest_normal, middle, largest, form.infinity, form.nan):
        values |= {edge - 1, edge, edge + 1}
    for step in range(1, form.mantissa + 4):
        for exponent in (middle - (step << form.mantissa), middle + (step << form.mantissa)):
            if 0 <= exponent < form.infinity:
                values |= {exponent, exponent + 1, exponent | (smallest_normal - 1)}
        values |= {1 << min(step, form.mantissa - 1), largest - (1 << min(step, form.mantissa))}
    values |= {form.infinity | 1, form.infinity | (smallest_normal - 1)}
    return sorted(v for v in values if 0 <= v < 1 << (form.width - 1))


def special_bits(data_type):
    """All special and boundary values of a type, both signs."""
    if data_type in FLOAT_FORMATS:
        magnitudes = float_boundaries(FLOAT_FORMATS[data_type])
        sign = 1 << (FLOAT_FORMATS[data_type].width - 1)
        return magnitudes + [sign | v for v in magnitudes]
    edges = {0, 1, 2, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1}
    return sorted(edges | {2**32 - v for v in edges if v})


def random_pairs(data_type, count, seed):
    """Half of the pairs anywhere, a quarter close in magnitude, a quarter cancelling."""
    kind = element_type(name(data_type))
    width = 8 * kind.bytes
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << width, (2, count), dtype=kind.bits)
    quarter = count // 4
    mantissa = FLOAT_FORMATS[data_type].mantissa if data_type in FLOAT_FORMATS else width // 2
    near = rng.integers(0, 1 << (mantissa + 2), 2 * quarter, dtype=kind.bits)
    bits[1, : 2 * quarter] = bits[0, : 2 * quarter] ^ near
    bits[1, :quarter] ^= kind.bits.type(1 << (width - 1))
    return bits[0].view(kind.storage), bits[1].view(kind.storage)


def check(dut, executable, a, b, data_type, operator):
    kind = element_type(name(data_type))
    got = run_batch(executable, dut, a, b, data_type, operator).view(kind.bits)
    want = reduce(a, b, kind.name, name(operator)).view(kind.bits)
    wrong = np.flatnonzero(got != want)
    if len(wrong):
        at = wrong[0]
        x, y = (int(v.view(kind.bits)[at]) for v in (a, b))
        pytest.fail(
            f"{len(wrong)} of {len(a)} wrong; first: {name(operator)} of {x:#x} and {y:#x} "
            f"is {int(got[at]):#x}, not {int(want[at]):#x}"
        )


@pytest.fixture(scope="module")
def whole():
    dut = ReduceFlit(flit_bytes=16, depth=3, **ALL)
    return dut, build_batch(dut)


@pytest.fixture(scope="module")
def first():
    dut = ReduceFlit(flit_bytes=16, depth=3, **FIRST)
    return dut, build_batch(dut)


@pytest.mark.parametrize(("data_type", "operator"), CASES, ids=name)
def test_all_pairs_of_special_values(whole, data_type, operator):
    kind = element_type(name(data_type))
    bits = np.array(special_bits(data_type), kind.bits)
    a, b = (v.ravel().view(kind.storage) for v in np.meshgrid(bits, bits))
    check(*whole, a, b, data_type, operator)


@pytest.mark.parametrize(("data_type", "operator"), CASES, ids=name)
def test_random_pairs(whole, data_type, operator):
    check(*whole, *random_pairs(data_type, 200_000, seed=1), data_type, operator)


@pytest.mark.parametrize("data_type", sorted(FIRST["data_types"]), ids=name)
def test_the_small_build(first, data_type):
    kind = element_type(name(data_type))
    bits = np.array(special_bits(data_type), kind.bits)
    a, b = (v.ravel().view(kind.storage) for v in np.meshgrid(bits, bits))
    check(*first, a, b, data_type, Operator.SUM)
    check(*first, *random_pairs(data_type, 500_000, seed=2), data_type, Operator.SUM)


@pytest.mark.full
@pytest.mark.parametrize(("data_type", "operator"), CASES, ids=name)
@pytest.mark.parametrize("depth", range(1, 7))
def test_millions_at_every_depth(depth, data_type, operator):
    dut = ReduceFlit(flit_bytes=16, depth=depth, **ALL)
    executable = build_batch(dut)
    for seed in range(2):
        check(dut, executable, *random_pairs(data_type, 2_000_000, seed), data_type, operator)


@pytest.mark.full
@pytest.mark.parametrize("data_type", [DataType.FP16, DataType.BF16], ids=name)
@pytest.mark.parametrize("operator", Operator, ids=name)
def test_every_value_with_every_special_one(whole, data_type, operator):
    kind = element_type(name(data_type))
    every = np.arange(1 << 16, dtype=kind.bits)
    for special in special_bits(data_type):
        other = np.full_like(every, special)
        check(*whole, every.view(kind.storage), other.view(kind.storage), data_type, operator)
