"""Drives and checks the bare interconnect, or any part of it that moves lanes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rtl.fred.micro_switch import lane_layout
from sw_model.collective.numerics import ELEMENT_TYPES, reduce
from sw_model.fred.table import OPERATOR_CODES, TYPE_CODES
from testbenches.bench import Part

__all__ = ["Lane", "LaneChecker", "LaneDriver", "combine", "random_data"]

_POISONED = 1 << 108  # of a header
_TYPES = {code: name for name, code in TYPE_CODES.items()}
_OPERATORS = {code: name for name, code in OPERATOR_CODES.items()}
_SPECIAL = {
    "fp16": (0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0x7D01),
    "bf16": (0x0000, 0x8000, 0x0001, 0x7F7F, 0x7F80, 0xFF80, 0x7FC1),
    "fp32": (0x00000000, 0x80000000, 0x00000001, 0x7F7FFFFF, 0x7F800000, 0x7FC00001),
    "int32": (0x00000000, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000),
}


@dataclass(frozen=True)
class Lane:
    """One valid flit on a wire of the interconnect."""

    data: int
    head: bool
    last: bool
    data_type: int
    operator: int

    def pack(self, flit_bytes: int) -> int:
        """The bits of the wire."""
        width = 8 * flit_bytes
        flit = self.data | self.head << width | self.last << (width + 1)
        layout = lane_layout(flit_bytes)
        return (
            1 << layout["valid"].offset
            | flit << layout["flit"].offset
            | self.data_type << layout["data_type"].offset
            | self.operator << layout["operator"].offset
        )

    @classmethod
    def unpack(cls, bits: int, flit_bytes: int) -> Lane | None:
        """Inverse of :meth:`pack`; None where the wire is idle."""
        layout = lane_layout(flit_bytes)

        def field(name: str) -> int:
            return bits >> layout[name].offset & ((1 << layout[name].width) - 1)

        if not field("valid"):
            return None
        flit, width = field("flit"), 8 * flit_bytes
        return cls(
            data=flit & ((1 << width) - 1),
            head=bool(flit >> width & 1),
            last=bool(flit >> (width + 1) & 1),
            data_type=field("data_type"),
            operator=field("operator"),
        )


def random_data(generator: random.Random, flit_bytes: int, data_type: str) -> int:
    """Payload of a flit: mostly random bits, with special values among them."""
    size = ELEMENT_TYPES[data_type].bytes
    bits = generator.getrandbits(8 * flit_bytes)
    for element in range(flit_bytes // size):
        if generator.random() < 0.15:
            shift = 8 * size * element
            bits &= ~(((1 << 8 * size) - 1) << shift)
            bits |= generator.choice(_SPECIAL[data_type]) << shift
    return bits


def combine(flit_bytes: int) -> Callable[[Lane, Lane], Lane]:
    """What an adder makes of two flits: their reduction, or the left header, poisoned if one is."""

    def apply(left: Lane, right: Lane) -> Lane:
        if left.head:
            return replace(left, data=left.data | right.data & _POISONED)
        kind = ELEMENT_TYPES[_TYPES[left.data_type]]
        a, b = (
            np.frombuffer(lane.data.to_bytes(flit_bytes, "little"), kind.storage)
            for lane in (left, right)
        )
        result = reduce(a, b, kind.name, _OPERATORS[left.operator])
        return Lane(
            int.from_bytes(result.tobytes(), "little"),
            left.head,
            left.last,
            left.data_type,
            left.operator,
        )

    return apply


class LaneDriver(Part):
    """Drives input wires and modes from a plan: for every cycle the modes and the lanes.

    Parameters
    ----------
    inputs : handles of the input wires
    modes : handle of the modes
    plan : called each cycle; gives the modes word and the lanes by input
    """

    def __init__(
        self,
        inputs: list[Any],
        modes: Any,
        plan: Callable[[], tuple[int, dict[int, Lane]]],
        flit_bytes: int,
    ):
        self.inputs = inputs
        self.modes = modes
        self.plan = plan
        self.flit_bytes = flit_bytes

    def drive(self, cycle: int) -> None:
        """Set modes and wires."""
        word, lanes = self.plan()
        self.modes.value = word
        for number, wire in enumerate(self.inputs):
            wire.value = lanes[number].pack(self.flit_bytes) if number in lanes else 0


class LaneChecker(Part):
    """Watches inputs and modes, and expects the model's outputs ``latency`` cycles later.

    Parameters
    ----------
    model : called as ``model(modes word, lanes by input)``; gives the lanes by output

    Attributes
    ----------
    checked : valid output flits seen so far
    """

    def __init__(
        self,
        inputs: list[Any],
        modes: Any,
        outputs: list[Any],
        latency: int,
        model: Callable[[int, dict[int, Lane]], dict[int, Lane]],
        flit_bytes: int,
    ):
        self.inputs = inputs
        self.modes = modes
        self.outputs = outputs
        self.latency = latency
        self.model = model
        self.flit_bytes = flit_bytes
        self.checked = 0
        self._due: dict[int, dict[int, Lane]] = {}

    def _lanes(self, wires: list[Any]) -> dict[int, Lane]:
        lanes = {}
        for number, wire in enumerate(wires):
            lane = Lane.unpack(int(wire.value), self.flit_bytes)
            if lane is not None:
                lanes[number] = lane
        return lanes

    def sample(self, cycle: int) -> None:
        """Feed the model, and compare what was due in this cycle."""
        self._due[cycle + self.latency] = self.model(
            int(self.modes.value), self._lanes(self.inputs)
        )
        expected = self._due.pop(cycle, {})
        found = self._lanes(self.outputs)
        self.checked += len(found)
        assert found == expected, f"cycle {cycle}: outputs {found}, expected {expected}"
