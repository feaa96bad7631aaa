"""Micro-switches and what each can be told to do.

An *edge* switch joins one or two ports to the ``m`` middle copies. Its mode names, for each port
side, the way (the copy) that side uses, or None where the side is idle. Two sides that name the
same way reduce (input edge) or receive a broadcast (output edge). At m = 2 that gives exactly
the paper's R {straight, cross, add to 0, add to 1} and D {straight, cross, broadcast 0,
broadcast 1}, and the same with one side or both idle.

The *centre* switch RD is the whole of FRED_m(2). Its modes are the union of both, and add to
both outputs.

Source: FRED, ISCA 2025, micro-switches; the minimal mode sets and the codes are decided here.
"""

from __future__ import annotations

import enum

__all__ = [
    "ADD_0",
    "ADD_1",
    "BROADCAST_0",
    "BROADCAST_1",
    "CROSS",
    "STRAIGHT",
    "CentreMode",
    "EdgeMode",
    "Kind",
    "Mode",
    "edge_side_bits",
    "mode_bits",
    "mode_code",
    "mode_from_code",
]  # fmt: skip


class Kind(enum.Enum):
    """What a micro-switch is; the value is its name in the paper (and the odd port's pair)."""

    REDUCE = "R"
    DISTRIBUTE = "D"
    REDUCE_DISTRIBUTE = "RD"
    DEMULTIPLEX = "demux"
    MULTIPLEX = "mux"

    @property
    def sides(self) -> int:
        """Ports on the outer side."""
        return 1 if self in (Kind.DEMULTIPLEX, Kind.MULTIPLEX) else 2


class CentreMode(enum.IntEnum):
    """Modes of the RD switch; the value is the code in a configuration."""

    IDLE = 0
    STRAIGHT = 1
    CROSS = 2
    ADD_0 = 3
    ADD_1 = 4
    ADD_BOTH = 5
    BROADCAST_0 = 6
    BROADCAST_1 = 7
    ONLY_0_TO_0 = 8
    ONLY_0_TO_1 = 9
    ONLY_1_TO_0 = 10
    ONLY_1_TO_1 = 11

    @property
    def sources(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """For output 0 and output 1, the inputs that are combined into it."""
        return _CENTRE_SOURCES[self]

    @classmethod
    def from_sources(cls, output_0: tuple[int, ...], output_1: tuple[int, ...]) -> CentreMode:
        """The mode that gives each output those inputs.

        Raises
        ------
        ValueError
            where no mode does.
        """
        for mode, sources in _CENTRE_SOURCES.items():
            if sources == (output_0, output_1):
                return mode
        raise ValueError(
            f"the sources of an RD switch must be one of its modes, not {(output_0, output_1)!r}"
        )


_CENTRE_SOURCES: dict[CentreMode, tuple[tuple[int, ...], tuple[int, ...]]] = {
    CentreMode.IDLE: ((), ()),
    CentreMode.STRAIGHT: ((0,), (1,)),
    CentreMode.CROSS: ((1,), (0,)),
    CentreMode.ADD_0: ((0, 1), ()),
    CentreMode.ADD_1: ((), (0, 1)),
    CentreMode.ADD_BOTH: ((0, 1), (0, 1)),
    CentreMode.BROADCAST_0: ((0,), (0,)),
    CentreMode.BROADCAST_1: ((1,), (1,)),
    CentreMode.ONLY_0_TO_0: ((0,), ()),
    CentreMode.ONLY_0_TO_1: ((), (0,)),
    CentreMode.ONLY_1_TO_0: ((1,), ()),
    CentreMode.ONLY_1_TO_1: ((), (1,)),
}

EdgeMode = tuple[int | None, ...]
"""Way of each outer side of an edge switch (two sides), or of the odd port's pair (one side)."""

Mode = CentreMode | EdgeMode

STRAIGHT: EdgeMode = (0, 1)
CROSS: EdgeMode = (1, 0)
ADD_0: EdgeMode = (0, 0)
ADD_1: EdgeMode = (1, 1)
BROADCAST_0: EdgeMode = (0, 0)
BROADCAST_1: EdgeMode = (1, 1)


def edge_side_bits(middle_copies: int) -> int:
    """Bits of one side of an edge mode: 0 is idle, 1 + k is way k."""
    return middle_copies.bit_length()


def mode_bits(kind: Kind, middle_copies: int) -> int:
    """Bits of a mode of ``kind``."""
    if kind is Kind.REDUCE_DISTRIBUTE:
        return 4
    return kind.sides * edge_side_bits(middle_copies)


def mode_code(kind: Kind, middle_copies: int, mode: Mode) -> int:
    """The bits of ``mode``; side 0 in the least significant bits.

    Raises
    ------
    ValueError
        where ``kind`` does not have ``mode``.
    """
    if kind is Kind.REDUCE_DISTRIBUTE:
        if not isinstance(mode, CentreMode):
            raise ValueError(f"the mode of an RD switch must be a CentreMode, not {mode!r}")
        return int(mode)
    if isinstance(mode, CentreMode) or len(mode) != kind.sides:
        raise ValueError(
            f"the mode of a {kind.value} switch must name {kind.sides} ways, not {mode!r}"
        )
    code = 0
    for side, way in enumerate(mode):
        if way is not None and not 0 <= way < middle_copies:
            raise ValueError(f"a way must be in 0..{middle_copies - 1} or None, not {way!r}")
        code |= (0 if way is None else way + 1) << (side * edge_side_bits(middle_copies))
    return code


def mode_from_code(kind: Kind, middle_copies: int, code: int) -> Mode:
    """Inverse of :func:`mode_code`.

    Raises
    ------
    ValueError
        where ``code`` is no mode of ``kind``.
    """
    if kind is Kind.REDUCE_DISTRIBUTE:
        return CentreMode(code)
    bits = edge_side_bits(middle_copies)
    ways: list[int | None] = []
    for _ in range(kind.sides):
        value = code & ((1 << bits) - 1)
        if value > middle_copies:
            raise ValueError(f"a way must be in 0..{middle_copies - 1} or None, not {value - 1!r}")
        ways.append(value - 1 if value else None)
        code >>= bits
    if code:
        raise ValueError(f"the code of a {kind.value} switch must fit {kind.sides * bits} bits")
    return tuple(ways)
