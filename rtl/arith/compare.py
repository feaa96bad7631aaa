"""Maximum and minimum of integers and floating-point numbers."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.arith.formats import (
    DATA_TYPE_BITS,
    ELEMENT_BITS,
    FLOAT_FORMATS,
    OPERATOR_BITS,
    FloatFormat,
    check_data_types,
)
from rtl.common.packet import DataType, Operator

__all__ = ["MinMax"]


class MinMax(wiring.Component):
    """Larger or smaller of two operands: 32 bits that hold one or two elements.

    A pair of 16-bit comparators serves all types: side by side for 16-bit elements, joined for
    32-bit ones. Operands are compared as unsigned keys: the sign bit flipped, and for negative
    floating-point numbers the others too, so that +0 > -0. A NaN on either side gives the
    canonical quiet NaN (docs/arithmetic.md). Combinational.

    Parameters
    ----------
    data_types : types it can compare

    Members
    -------
    a, b : operands, 32 bits
    data_type : code of :class:`~rtl.common.packet.DataType`, one of ``data_types``
    operator : ``MAX``, anything else means ``MIN``
    o : per element the larger or the smaller one

    Raises
    ------
    ValueError
        for ``data_types`` out of range.
    """

    def __init__(self, *, data_types: frozenset[DataType]):
        self.data_types = check_data_types(data_types)
        super().__init__(
            {
                "a": In(32),
                "b": In(32),
                "data_type": In(DATA_TYPE_BITS),
                "operator": In(OPERATOR_BITS),
                "o": Out(32),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        is_type = {t: self._is_type(m, t) for t in sorted(self.data_types)}
        wide = Signal()
        number = Signal()
        m.d.comb += [
            wide.eq(Cat(is_type[t] for t in is_type if ELEMENT_BITS[t] == 32).any()),
            number.eq(~is_type.get(DataType.INT32, Const(0))),
        ]

        keys = []
        for name, operand in (("a", self.a), ("b", self.b)):
            high, low = operand[16:], operand[:16]
            high_invert, low_invert = Signal(name=f"{name}_high"), Signal(name=f"{name}_low")
            m.d.comb += [
                high_invert.eq(high[15] & number),
                low_invert.eq(Mux(wide, high_invert, low[15])),
            ]
            keys.append((_key(high, high_invert, Const(1)), _key(low, low_invert, ~wide)))
        (a_high, a_low), (b_high, b_low) = keys
        high_above, high_equal = Signal(name="high_above"), Signal(name="high_equal")
        low_above, joined = Signal(name="low_above"), Signal(name="joined")
        want_max = Signal()
        m.d.comb += [
            high_above.eq(a_high > b_high),
            high_equal.eq(a_high == b_high),
            low_above.eq(a_low > b_low),
            joined.eq(high_above | (high_equal & low_above)),
            want_max.eq(self.operator == Operator.MAX),
        ]

        take_high = Mux(wide, joined, high_above) == want_max
        take_low = Mux(wide, joined, low_above) == want_max
        chosen = Signal(32)
        m.d.comb += chosen.eq(
            Cat(Mux(take_low, self.a[:16], self.b[:16]), Mux(take_high, self.a[16:], self.b[16:]))
        )
        # Per type the result with NaNs put in; as one expression, since event-driven simulators
        # run a process that writes a vector in parts over and over.
        result = chosen
        for data_type, selected in is_type.items():
            if data_type not in FLOAT_FORMATS:
                continue
            form = FLOAT_FORMATS[data_type]
            elements = []
            for element in range(32 // form.width):
                part = slice(form.width * element, form.width * (element + 1))
                nan = Signal(name=f"nan_{data_type.name.lower()}_{element}")
                m.d.comb += nan.eq(_is_nan(self.a[part], form) | _is_nan(self.b[part], form))
                elements.append(Mux(nan, form.nan, chosen[part]))
            result = Mux(selected, Cat(elements), result)
        m.d.comb += self.o.eq(result)
        return m

    def _is_type(self, m: Module, data_type: DataType) -> Signal:
        out = Signal(name=f"is_{data_type.name.lower()}")
        m.d.comb += out.eq(1 if len(self.data_types) == 1 else self.data_type == data_type)
        return out


def _is_nan(value: Value, form: FloatFormat) -> Value:
    return value[form.mantissa : form.width - 1].all() & value[: form.mantissa].any()


def _key(half: Value, invert: Value, signed: Value) -> Value:
    """Order-preserving unsigned key of 16 bits, of which the top one is the sign if ``signed``."""
    top = Mux(signed, ~half[15], half[15] ^ invert)
    return Cat(Mux(invert, ~half[:15], half[:15]), top)
