"""Every micro-switch computes the function of its mode, at its latency."""

from __future__ import annotations

from collections.abc import Iterator

from amaranth.hdl import Assert, Cat, Const, Cover, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

from rtl.common.packet import POISONED_BIT, DataType, Operator
from rtl.fred.micro_switch import lane_layout
from testbenches.formal.property import Property

__all__ = ["FREE_BITS", "SMALL_ADDER", "MicroSwitchComputesItsMode", "narrow_lane"]

SMALL_ADDER = {
    "flit_bytes": 16,
    "data_types": frozenset({DataType.INT32}),
    "operators": frozenset({Operator.SUM}),
}
"""The adder of the proofs: four INT32 sums a flit, the narrowest flit that there is."""

_CENTRE = {
    "IDLE": ((), ()),
    "STRAIGHT": ((0,), (1,)),
    "CROSS": ((1,), (0,)),
    "ADD_0": ((0, 1), ()),
    "ADD_1": ((), (0, 1)),
    "ADD_BOTH": ((0, 1), (0, 1)),
    "BROADCAST_0": ((0,), (0,)),
    "BROADCAST_1": ((1,), (1,)),
    "ONLY_0_TO_0": ((0,), ()),
    "ONLY_0_TO_1": ((), (0,)),
    "ONLY_1_TO_0": ((1,), ()),
    "ONLY_1_TO_1": ((), (1,)),
}
"""Inputs that each of RD's two outputs combines, in the order of the modes' codes."""

FREE_BITS = 3
"""Free bits of every 32 bits of a flit's data."""


def narrow_lane(flit_bytes: int) -> data.StructLayout:
    """What is free of an input: its members are those of a lane, ``data`` the low bits only."""
    lane = lane_layout(flit_bytes)
    return data.StructLayout(
        {
            "valid": 1,
            "data": data.ArrayLayout(FREE_BITS, flit_bytes // 4),
            "head": 1,
            "last": 1,
            "data_type": lane["data_type"].shape,
            "operator": lane["operator"].shape,
        }
    )


class MicroSwitchComputesItsMode(Property):
    """What goes in with a mode in cycle t comes out in cycle t + ``latency`` where the mode says.

    In every cycle each output holds exactly the flit that its mode names, or the element-wise sum
    of the two, or none; so nothing is lost, doubled, made up or early. A sum of two flits comes
    out where both are there, and a header that is reduced is that of side 0, poisoned if either
    is (a bit that is zero in the proof, as most are). All inputs and modes
    are free, codes that name no mode included: they are idle.

    The elements are INT32: the proof is of what is added to what and when, not of the float
    adders, which ``tests/test_arith.py`` compares with NumPy. Of each 32 bits only the lowest
    :data:`FREE_BITS` are free and the others zero, which keeps the solver quick: a micro-switch
    treats all bits of an element alike but for the carries of its sum.

    Parameters
    ----------
    kind : "R", "D", "RD", "demux" or "mux"
    design : of that kind, with the adder of :data:`SMALL_ADDER` where it has one
    """

    def __init__(self, kind: str, design: wiring.Component):
        self.kind = kind
        self.design = design
        lane = narrow_lane(design.flit_bytes)
        super().__init__(
            {
                "i": In(lane).array(1 if kind == "demux" else len(design.i)),
                "mode": In(design.signature.members["mode"].shape),
            }
        )

    def state(self, m: Module) -> None:
        m.submodules.design = design = self.design
        inputs = [design.i] if self.kind == "demux" else list(design.i)
        outputs = [design.o] if self.kind == "mux" else list(design.o)
        m.d.comb += Value.cast(design.mode).eq(Value.cast(self.mode))
        for lane, free in zip(inputs, self.i, strict=True):
            words = [Cat(bits, Const(0, 32 - FREE_BITS)) for bits in free.data]
            m.d.comb += [
                lane.valid.eq(free.valid),
                *(lane.flit[name].eq(free[name]) for name in ("head", "last")),
                *(lane[name].eq(free[name]) for name in ("data_type", "operator")),
                lane.flit.data.eq(Cat(words)),
            ]
        for number, output in enumerate(outputs):
            expected = Signal.like(output, name=f"expected_{number}")
            for condition, sides in self._cases(number, len(inputs)):
                with m.If(condition):
                    _combine(m, expected, [inputs[side] for side in sides])
            for cycle in range(design.latency):
                later = Signal.like(expected, name=f"expected_{number}_{cycle + 1}")
                m.d.sync += later.eq(expected)
                expected = later
            m.d.comb += [
                Assert(output.valid == expected.valid),
                Assert(~output.valid | (Value.cast(output) == Value.cast(expected))),
                Cover(output.valid & output.flit.head),
            ]

    def _cases(self, output: int, inputs: int) -> Iterator[tuple[Value, tuple[int, ...]]]:
        """Conditions on the mode that exclude each other, with what ``output`` then combines."""
        mode = self.mode
        if self.kind == "R":
            first, second = (side == output + 1 for side in mode)
            yield first & ~second, (0,)
            yield second & ~first, (1,)
            yield first & second, (0, 1)
        elif self.kind == "RD":
            for code, heard in enumerate(_CENTRE.values()):
                if heard[output]:
                    yield Value.cast(mode) == code, heard[output]
        elif self.kind == "demux":
            yield mode == output + 1, (0,)
        else:
            way = mode[output] if self.kind == "D" else mode
            for number in range(inputs):
                yield way == number + 1, (number,)


def _combine(m: Module, expected, lanes: list) -> None:
    """``expected`` is what these lanes make together."""
    m.d.comb += [
        expected.eq(lanes[0]),
        expected.valid.eq(Cat(lane.valid for lane in lanes).all()),
    ]
    if len(lanes) == 2:
        first, second = (lane.flit.data for lane in lanes)
        sums = Cat(
            (first.word_select(k, 32) + second.word_select(k, 32))[:32]
            for k in range(len(first) // 32)
        )
        poisoned = second & (1 << POISONED_BIT)
        m.d.comb += expected.flit.data.eq(Mux(lanes[0].flit.head, first | poisoned, sums))
