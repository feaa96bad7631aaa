"""Reduction of whole flits: what FRED's micro-switches and the ACE receive path share."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.arith.adder import FloatAdder
from rtl.arith.compare import MinMax
from rtl.arith.formats import (
    DATA_TYPE_BITS,
    ELEMENT_BITS,
    FLOAT_FORMATS,
    OPERATOR_BITS,
    check_data_types,
    check_operators,
)
from rtl.common.packet import DataType, Operator

__all__ = ["ReduceFlit", "ReduceLane", "check_depth"]

_DEEPEST = 6


def check_depth(depth: object, name: str = "depth") -> int:
    """A depth of reduction units, called ``name``, that they can have; a ValueError otherwise."""
    if not isinstance(depth, int) or not 1 <= depth <= _DEEPEST:
        raise ValueError(f"{name} must be an integer from 1 to {_DEEPEST}, not {depth!r}")
    return depth


class ReduceLane(wiring.Component):
    """Reduces 32 bits: one 32-bit element or two 16-bit ones, in little-endian order.

    The float adder of the low half also adds the 32-bit format, where there is one. Integer sums,
    maxima and minima are found in the first stage and travel beside the adder.

    Latency: exactly ``depth`` loads. Throughput: one result per cycle. Not reset.

    Parameters
    ----------
    data_types, operators : what it can do; other codes give an unspecified result
    depth : register levels, 1 to 6; the last is the output

    Members
    -------
    a, b : operands, 32 bits; the order matters to none of the operators
    data_type, operator : codes
    load : bit k lets register level k take its input, else it holds
    o : result

    Raises
    ------
    ValueError
        for parameters out of range.
    """

    def __init__(
        self, *, data_types: frozenset[DataType], operators: frozenset[Operator], depth: int
    ):
        self.data_types = check_data_types(data_types)
        self.operators = check_operators(operators)
        self.depth = check_depth(depth)
        super().__init__(
            {
                "a": In(32),
                "b": In(32),
                "data_type": In(DATA_TYPE_BITS),
                "operator": In(OPERATOR_BITS),
                "load": In(depth),
                "o": Out(32),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        sums = Operator.SUM in self.operators
        floats = sorted(self.data_types & FLOAT_FORMATS.keys()) if sums else []
        beside = self._beside(m, sums)
        result = Signal(32)

        if not floats:
            m.d.comb += result.eq(self._delayed(m, beside, "beside"))
        else:
            total = self._float_sum(m, floats)
            if beside is None:
                m.d.comb += result.eq(total)
            else:
                is_float = self.data_type != DataType.INT32
                if self.operators != {Operator.SUM}:
                    is_float = is_float & (self.operator == Operator.SUM)
                use_sum = self._delayed(m, is_float, "use_sum")
                other = self._delayed(m, beside, "beside")
                m.d.comb += result.eq(Mux(use_sum, total, other))
        output = Signal(32, reset_less=True)
        with m.If(self.load[-1]):
            m.d.sync += output.eq(result)
        m.d.comb += self.o.eq(output)
        return m

    def _beside(self, m: Module, sums: bool) -> Signal | None:
        """All results but float sums, combinational; None if there are no others."""
        integer_sum = sums and DataType.INT32 in self.data_types
        if not integer_sum and self.operators == {Operator.SUM}:
            return None
        out = Signal(32, name="beside")
        if self.operators != {Operator.SUM}:
            m.submodules.min_max = min_max = MinMax(data_types=self.data_types)
            m.d.comb += [
                min_max.a.eq(self.a),
                min_max.b.eq(self.b),
                min_max.data_type.eq(self.data_type),
                min_max.operator.eq(self.operator),
                out.eq(min_max.o),
            ]
            if integer_sum:
                with m.If(self.operator == Operator.SUM):
                    m.d.comb += out.eq(self.a + self.b)
        else:
            m.d.comb += out.eq(self.a + self.b)
        return out

    def _float_sum(self, m: Module, floats: list[DataType]) -> Signal:
        """The float adders, one register level short of ``depth``."""
        narrow = [t for t in floats if ELEMENT_BITS[t] == 16]
        out = Signal(32, name="total")
        high = None
        low = FloatAdder(data_types=floats, depth=self.depth - 1)
        m.submodules.low_adder = low
        self._connect(m, low, self.a, self.b)
        m.d.comb += out.eq(low.o)
        if narrow:
            high = FloatAdder(data_types=narrow, depth=self.depth - 1)
            m.submodules.high_adder = high
            self._connect(m, high, self.a[16:], self.b[16:])
            joined = Cat(low.o[:16], high.o)
            if low.width == 32:
                is_wide = self._delayed(m, self.data_type == DataType.FP32, "is_wide")
                m.d.comb += out.eq(Mux(is_wide, low.o, joined))
            else:
                m.d.comb += out.eq(joined)
        return out

    def _connect(self, m: Module, adder: FloatAdder, a, b) -> None:
        m.d.comb += [
            adder.a.eq(a),
            adder.b.eq(b),
            adder.data_type.eq(self.data_type),
            adder.load.eq(self.load[:-1]),
        ]

    def _delayed(self, m: Module, value, name: str):
        """``value`` behind all register levels but the last."""
        for level in range(self.depth - 1):
            register = Signal(len(value), name=f"{name}_{level + 1}", reset_less=True)
            with m.If(self.load[level]):
                m.d.sync += register.eq(value)
            value = register
        return value


class ReduceFlit(wiring.Component):
    """Reduces two flits element by element: ``o = a (operator) b``.

    Arithmetic as in docs/ace.md: IEEE-754 round to nearest even with subnormals and infinities, NaN
    gives the canonical quiet NaN, maxima and minima propagate it, +0 > -0, INT32 wraps.

    Latency: ``o`` and ``o_valid`` of what is put in with ``valid`` in cycle t appear in cycle
    t + ``depth``, counting only cycles with ``enable``; ``depth`` registers, the last one at the
    output. Throughput: one flit per cycle. Data registers take only valid data, so an idle unit
    neither toggles nor costs simulation time; ``o`` keeps the last result. Only validity is
    reset.

    Parameters
    ----------
    flit_bytes : bytes of a flit, a multiple of 4
    data_types, operators : what it can do; other codes give an unspecified result
    depth : register levels, 1 to 6

    Members
    -------
    a, b : operands: by convention the local one and the received one
    data_type : code of :class:`~rtl.common.packet.DataType`, taken with the operands
    operator : code of :class:`~rtl.common.packet.Operator`, taken with the operands
    valid : the operands count; 1 where it is left unconnected
    enable : everything moves by one stage, else everything holds; 1 where left unconnected
    o : result
    o_valid : ``o`` is a result

    Raises
    ------
    ValueError
        for parameters out of range.
    """

    def __init__(
        self,
        *,
        flit_bytes: int,
        data_types: frozenset[DataType],
        operators: frozenset[Operator],
        depth: int,
    ):
        if not isinstance(flit_bytes, int) or flit_bytes < 4 or flit_bytes % 4:
            raise ValueError(f"flit_bytes must be a positive multiple of 4, not {flit_bytes!r}")
        self.flit_bytes = flit_bytes
        self.data_types = check_data_types(data_types)
        self.operators = check_operators(operators)
        self.depth = check_depth(depth)
        super().__init__(
            {
                "a": In(8 * flit_bytes),
                "b": In(8 * flit_bytes),
                "data_type": In(DATA_TYPE_BITS),
                "operator": In(OPERATOR_BITS),
                "valid": In(1, init=1),
                "enable": In(1, init=1),
                "o": Out(8 * flit_bytes),
                "o_valid": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        # Bit k: what stands in front of register level k is valid.
        valid = Signal(self.depth + 1)
        load = Signal(self.depth)
        m.d.comb += [
            valid[0].eq(self.valid),
            load.eq(Mux(self.enable, valid[:-1], 0)),
            self.o_valid.eq(valid[-1]),
        ]
        behind = Signal(self.depth)
        m.d.comb += valid[1:].eq(behind)
        with m.If(self.enable):
            m.d.sync += behind.eq(valid)

        for index in range(self.flit_bytes // 4):
            lane = ReduceLane(
                data_types=self.data_types, operators=self.operators, depth=self.depth
            )
            m.submodules[f"lane_{index}"] = lane
            m.d.comb += [
                lane.a.eq(self.a.word_select(index, 32)),
                lane.b.eq(self.b.word_select(index, 32)),
                lane.data_type.eq(self.data_type),
                lane.operator.eq(self.operator),
                lane.load.eq(load),
                self.o.word_select(index, 32).eq(lane.o),
            ]
        return m
