"""Faults in rtl.arith that the tests of values must notice."""

import numpy as np
import pytest

import rtl.arith.reduce
from rtl.arith.reduce import ReduceFlit
from rtl.common.packet import DataType, Operator
from testbenches.reduce_batch import build_batch
from tests import test_arith_values as values
from tests.mutants import mutant

pytestmark = pytest.mark.full

ADDER = [
    # ties go up instead of to even
    ("guard & (lowest | s.normal[: 3 + drop].any())", "guard"),
    # bits that fall off are forgotten
    ("Cat(lost.any(), kept)", "Cat(Const(0, 1), kept)"),
    # what is far away counts as near
    ("far.eq(distance[near_bits:].any())", "far.eq(0)"),
    # the sign of an exact cancellation
    ("& ~(subtract & same)", ""),
    # operands swapped where they are equal in magnitude but not in sign
    ("swap.eq(a.magnitude < b.magnitude)", "swap.eq(a.magnitude[1:] < b.magnitude[1:])"),
    # inf - inf
    ("| (y_top & subtract)", ""),
    # subnormals flushed to zero
    ("exponent.eq(Cat(field[0] | ~hidden, field[1:]))", "exponent.eq(field)"),
]
COMPARE = [
    # -0 and +0 alike, through their keys
    ("number.eq(~is_type", "number.eq(1 & ~is_type[DataType.FP16] & ~is_type"),
    # halves of a 32-bit element compared apart
    ("take_low = Mux(wide, joined, low_above)", "take_low = Mux(wide, low_above, low_above)"),
    # NaN only where the first operand is one
    ("_is_nan(self.a[part], form) | _is_nan(self.b[part], form)", "_is_nan(self.a[part], form)"),
]


@pytest.mark.parametrize(
    ("module", "name", "old", "new"),
    [("adder", "FloatAdder", *change) for change in ADDER]
    + [("compare", "MinMax", *change) for change in COMPARE],
)
def test_faults_are_caught(monkeypatch, module, name, old, new):
    monkeypatch.setattr(
        rtl.arith.reduce, name, getattr(mutant(f"rtl.arith.{module}", old, new), name)
    )
    dut = ReduceFlit(flit_bytes=16, data_types=set(DataType), operators=set(Operator), depth=3)
    executable = build_batch(dut)
    caught = 0
    for data_type in DataType:
        kind = values.element_type(values.name(data_type))
        bits = np.array(values.special_bits(data_type), kind.bits)
        a, b = (v.ravel().view(kind.storage) for v in np.meshgrid(bits, bits))
        for operator in Operator:
            try:
                values.check(dut, executable, a, b, data_type, operator)
            except pytest.fail.Exception:
                caught += 1
    assert caught
