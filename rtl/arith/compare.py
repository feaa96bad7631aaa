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
    canonical quiet NaN (2-ace *Arithmetic*). Combinational.

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
        integer = Signal()
        m.d.comb += [
            wide.eq(Cat(is_type[t] for t in is_type if ELEMENT_BITS[t] == 32).any()),
            integer.eq(is_type.get(DataType.INT32, 0)),
        ]

        keys = []
        for operand in (self.a, self.b):
            high, low = operand[16:], operand[:16]
            high_invert = high[15] & ~integer
            low_invert = Mux(wide, high_invert, low[15])
            keys.append((_key(high, high_invert, Const(1)), _key(low, low_invert, ~wide)))
        (a_high, a_low), (b_high, b_low) = keys
        high_above, high_equal, low_above, joined = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            high_above.eq(a_high > b_high),
            high_equal.eq(a_high == b_high),
            low_above.eq(a_low > b_low),
            joined.eq(high_above | (high_equal & low_above)),
        ]

        chosen = Signal(32)
        for half, above in (
            (slice(0, 16), Mux(wide, joined, low_above)),
            (slice(16, 32), Mux(wide, joined, high_above)),
        ):
            take_a = above == (self.operator == Operator.MAX)
            m.d.comb += chosen[half].eq(Mux(take_a, self.a[half], self.b[half]))

        m.d.comb += self.o.eq(chosen)
        for data_type, selected in is_type.items():
            if data_type not in FLOAT_FORMATS:
                continue
            form = FLOAT_FORMATS[data_type]
            for element in range(32 // form.width):
                part = slice(form.width * element, form.width * (element + 1))
                a_nan, b_nan = (_is_nan(x[part], form) for x in (self.a, self.b))
                with m.If(selected & (a_nan | b_nan)):
                    m.d.comb += self.o[part].eq(form.nan)
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
    return Cat(half[:15] ^ invert.replicate(15), top)
