"""Floating-point addition, IEEE-754 round to nearest even, with subnormals."""

from types import SimpleNamespace

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.arith.formats import DATA_TYPE_BITS, FLOAT_FORMATS, check_data_types
from rtl.common.packet import DataType

__all__ = ["FloatAdder", "leading_zeros"]

# Where the registers stand, by their number. The logic has six pieces: 1 unpack and compare,
# 2 align, 3 add, 4 count zeros, 5 normalise, 6 round; "3" is a register behind piece 3.
_CUTS = {0: (), 1: (3,), 2: (2, 4), 3: (2, 3, 5), 4: (1, 2, 3, 5), 5: (1, 2, 3, 4, 5)}


def leading_zeros(m: Module, value: Value, *, name: str = "zeros") -> Signal:
    """Number of zeros above the highest one of ``value``, by a tree of halvings.

    The result has as many bits as it takes to count ``len(value) - 1``; it is all ones where
    ``value`` is zero.
    """
    levels = max(1, (len(value) - 1).bit_length())
    bits = []
    rest = Cat(Const(0, (1 << levels) - len(value)), value)
    for level in reversed(range(levels)):
        half = 1 << level
        this = Signal(2 * half, name=f"{name}_field{level}")
        zero = Signal(name=f"{name}_bit{level}")
        m.d.comb += [this.eq(rest), zero.eq(this[half:] == 0)]
        rest = Mux(zero, this[:half], this[half:])
        bits.append(zero)
    return Cat(*reversed(bits))


class FloatAdder(wiring.Component):
    """Adds two floating-point numbers of one of several formats in one datapath.

    Round to nearest even, subnormals exact, infinities, NaN gives the canonical quiet one
    (docs/arithmetic.md). The datapath has the widest exponent and the widest mantissa of its
    formats; a narrower format stands left-aligned in it and is rounded at its own place.

    Latency: exactly ``depth`` loads; the output is combinational behind the last register, so
    that a user may select among several results in front of the output register. Throughput: one
    sum per cycle. Nothing is reset: validity is the user's.

    Parameters
    ----------
    data_types : floating-point types it adds; narrower ones stand in the low bits
    depth : register levels, 0 (combinational) to 5

    Members
    -------
    a, b : operands
    data_type : code of :class:`~rtl.common.packet.DataType`, one of ``data_types``
    load : bit k lets register level k take its input, else it holds
    o : sum

    Raises
    ------
    ValueError
        for parameters out of range.
    """

    def __init__(self, *, data_types: frozenset[DataType], depth: int):
        data_types = check_data_types(data_types)
        if not data_types <= FLOAT_FORMATS.keys():
            raise ValueError(f"data_types must be floating-point types, not {sorted(data_types)!r}")
        if not isinstance(depth, int) or depth not in _CUTS:
            raise ValueError(f"depth must be an integer from 0 to 5, not {depth!r}")
        self.data_types = data_types
        self.depth = depth
        self.formats = {t: FLOAT_FORMATS[t] for t in sorted(data_types)}
        self.exponent = max(f.exponent for f in self.formats.values())
        self.mantissa = max(f.mantissa for f in self.formats.values())
        self.width = max(f.width for f in self.formats.values())
        super().__init__(
            {
                "a": In(self.width),
                "b": In(self.width),
                "data_type": In(DATA_TYPE_BITS),
                "load": In(depth),
                "o": Out(self.width),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        significand = self.mantissa + 1

        # 1: unpack; the larger magnitude is x, the smaller y. A NaN, if any, is x.
        selected = Signal(len(self.formats))
        m.d.comb += selected.eq(Cat(self.data_type == code for code in self.formats))
        a, b = self._unpack(m, self.a, selected, "a"), self._unpack(m, self.b, selected, "b")
        swap, same, subtract = Signal(name="swap"), Signal(name="same"), Signal(name="subtract")
        x_magnitude, y_magnitude = (
            Signal(len(a.magnitude), name=f"{name}_magnitude") for name in "xy"
        )
        x_top, y_top = Signal(name="x_top"), Signal(name="y_top")
        m.d.comb += [
            swap.eq(a.magnitude < b.magnitude),
            same.eq(a.magnitude == b.magnitude),
            subtract.eq(a.sign ^ b.sign),
            x_magnitude.eq(Mux(swap, b.magnitude, a.magnitude)),
            y_magnitude.eq(Mux(swap, a.magnitude, b.magnitude)),
            x_top.eq(Mux(swap, b.top, a.top)),
            y_top.eq(Mux(swap, a.top, b.top)),
        ]
        s = self._cut(
            m,
            1,
            x=x_magnitude,
            y=y_magnitude,
            subtract=subtract,
            sign=Mux(swap, b.sign, a.sign) & ~(subtract & same),
            infinite=x_top,
            nan=x_top & (x_magnitude[: self.mantissa].any() | (y_top & subtract)),
            selected=selected,
        )

        # 2: move y right by the difference of the exponents; what falls off is sticky. Where y is
        # far below x, less than a quarter of x's last place even if x is a power of two, it
        # cannot change the rounded sum.
        x_exponent, x_significand = self._widen(m, s.x, "x")
        y_exponent, y_significand = self._widen(m, s.y, "y")
        distance = Signal(self.exponent)
        m.d.comb += distance.eq(x_exponent - y_exponent)
        near_bits = (significand + 2).bit_length()
        reach = (1 << near_bits) - 1
        moved = Signal(significand + reach)
        far = Signal()
        m.d.comb += [
            far.eq(distance[near_bits:].any()),
            moved.eq(Cat(Const(0, reach), y_significand) >> distance[:near_bits]),
        ]
        kept, lost = moved[reach - 2 :], moved[: reach - 2]
        s = self._cut(
            m,
            2,
            x=x_significand,
            y=Mux(far, 0, Cat(lost.any(), kept)),
            # What the exponent field is if the first one turns out to be the carry.
            exponent=(x_exponent + 1)[: self.exponent],
            # A one where normalising has to stop, since the exponent would fall below 1.
            stop=Const(1 << (significand + 3), significand + 4) >> x_exponent,
            subtract=s.subtract,
            **_tail(s),
        )

        # 3: add magnitudes, or subtract the smaller; the top bit is the carry.
        total = Signal(significand + 5)
        addend = Mux(s.subtract, ~Cat(s.y, Const(0, 1)), s.y)
        m.d.comb += total.eq(Cat(Const(1, 4), s.x, Const(0, 1)) + Cat(s.subtract, addend))
        s = self._cut(m, 3, total=total[1:], exponent=s.exponent, stop=s.stop, **_tail(s))

        # 4 and 5: the first one goes to the top; the exponent field falls by as much.
        s = self._cut(
            m, 4, zeros=leading_zeros(m, s.total | s.stop), total=s.total, exponent=s.exponent,
            **_tail(s),
        )  # fmt: skip
        normal = Signal(significand + 4)
        field = (s.exponent - s.zeros)[: self.exponent]
        m.d.comb += normal.eq(s.total << s.zeros)
        s = self._cut(
            m, 5, normal=normal[:-1], exponent=Mux(normal[-1], field, 0), **_tail(s)
        )  # fmt: skip

        # 6: round each format at its own place, all in one adder, and pack.
        m.d.comb += self.o.eq(self._round(m, s))
        return m

    def _chosen(self, selected: Value, choices: list[Value]) -> Value:
        """The choice of the format in use, whose bit is set; nothing to select among one."""
        if len(choices) == 1:
            return choices[0]
        chosen = choices[-1]
        for bit, choice in zip(selected, choices[:-1], strict=False):
            chosen = Mux(bit, choice, chosen)
        return chosen

    def _unpack(self, m: Module, value: Value, selected: Value, name: str) -> SimpleNamespace:
        """Sign, magnitude in the widest format, and whether the exponent is the top one."""
        magnitude = Signal(self.exponent + self.mantissa, name=f"{name}_magnitude")
        sign, top = Signal(name=f"{name}_sign"), Signal(name=f"{name}_top")
        signs, magnitudes, tops = [], [], []
        for form in self.formats.values():
            exponent = value[form.mantissa : form.mantissa + form.exponent]
            signs.append(value[form.width - 1])
            magnitudes.append(
                Cat(
                    Const(0, self.mantissa - form.mantissa),
                    value[: form.mantissa],
                    exponent,
                    Const(0, self.exponent - form.exponent),
                )
            )
            tops.append(exponent.all())
        m.d.comb += [
            sign.eq(self._chosen(selected, signs)),
            magnitude.eq(self._chosen(selected, magnitudes)),
            top.eq(self._chosen(selected, tops)),
        ]
        return SimpleNamespace(sign=sign, magnitude=magnitude, top=top)

    def _widen(self, m: Module, magnitude: Value, name: str) -> tuple[Value, Value]:
        """Effective exponent (1 for subnormals) and significand with its hidden bit."""
        field = magnitude[self.mantissa :]
        hidden = Signal(name=f"{name}_hidden")
        exponent = Signal(self.exponent, name=f"{name}_exponent")
        m.d.comb += [hidden.eq(field.any()), exponent.eq(Cat(field[0] | ~hidden, field[1:]))]
        return exponent, Cat(magnitude[: self.mantissa], hidden)

    def _round(self, m: Module, s: SimpleNamespace) -> Value:
        """Round ``s.normal``, the mantissa and four bits below, and put the special cases in."""
        ups, tops = [], []
        for form in self.formats.values():
            drop = self.mantissa - form.mantissa
            guard, lowest = s.normal[3 + drop], s.normal[4 + drop]
            ups.append(Cat(Const(0, drop), guard & (lowest | s.normal[: 3 + drop].any())))
        rounded = Signal(self.exponent + self.mantissa)
        m.d.comb += rounded.eq(Cat(s.normal[4:], s.exponent) + self._chosen(s.selected, ups))
        for form in self.formats.values():
            tops.append(rounded[self.mantissa : self.mantissa + form.exponent].all())
        infinite = Signal()
        m.d.comb += infinite.eq(s.infinite | self._chosen(s.selected, tops))
        results = []
        for form in self.formats.values():
            drop = self.mantissa - form.mantissa
            mantissa = rounded[drop : self.mantissa]
            exponent = rounded[self.mantissa : self.mantissa + form.exponent]
            finite = Cat(mantissa, exponent, s.sign)
            infinity = Cat(Const(form.infinity, form.width - 1), s.sign)
            results.append(Mux(s.nan, form.nan, Mux(infinite, infinity, finite)))
        return self._chosen(s.selected, results)

    def _cut(self, m: Module, piece: int, **values: Value) -> SimpleNamespace:
        """A register level behind ``piece`` if one stands there, else names for the values."""
        cuts = _CUTS[self.depth]
        out = SimpleNamespace()
        for name, value in values.items():
            signal = Signal(len(value), name=f"{name}_{piece}", reset_less=True)
            setattr(out, name, signal)
            if piece in cuts:
                with m.If(self.load[cuts.index(piece)]):
                    m.d.sync += signal.eq(value)
            else:
                m.d.comb += signal.eq(value)
        return out


def _tail(s: SimpleNamespace) -> dict[str, Value]:
    """What only travels along."""
    return {name: getattr(s, name) for name in ("sign", "infinite", "nan", "selected")}
