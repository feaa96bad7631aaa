"""Modes of the micro-switches: codes, layouts, and which codes exist.

The layout of all modes of FRED_m(P) is recursive like its construction: input edge switches, the
odd port's demultiplexer, the middle copies, output edge switches, the odd port's multiplexer; the
first stands in the least significant bits.
"""

from amaranth.hdl import Const, Value, unsigned
from amaranth.lib import data, enum

__all__ = ["CentreMode", "check_size", "edge_mode", "modes_layout", "modes_legal", "way_shape"]

MAX_PORTS = 64
MAX_COPIES = 64
MAX_SWITCHES = 1 << 17


class CentreMode(enum.IntEnum, shape=4):
    """Modes of an RD switch: the union of R's and D's, add to both, and one-sided ones."""

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


def check_size(ports: int, middle_copies: int) -> None:
    """Refuse a size that is not a FRED switch.

    Raises
    ------
    ValueError
        ``ports must be an integer in 2..64, not ...``,
        ``middle_copies must be an integer of at least 2, not ...``, or
        ``middle_copies must be at most 64, not ...``; where the micro-switches, whose number grows
        with the power of ``middle_copies`` by the stages, are more than 131072
    """
    if not isinstance(ports, int) or not 2 <= ports <= MAX_PORTS:
        raise ValueError(f"ports must be an integer in 2..{MAX_PORTS}, not {ports!r}")
    if not isinstance(middle_copies, int) or middle_copies < 2:
        raise ValueError(f"middle_copies must be an integer of at least 2, not {middle_copies!r}")
    if middle_copies > MAX_COPIES:
        raise ValueError(f"middle_copies must be at most {MAX_COPIES}, not {middle_copies!r}")
    count = _count(ports, middle_copies)
    if count > MAX_SWITCHES:
        raise ValueError(
            f"FRED_m(P) must have at most {MAX_SWITCHES} micro-switches, not {count}: "
            f"middle_copies {middle_copies!r} are too many for {ports!r} ports"
        )


def _count(ports: int, copies: int) -> int:
    """Micro-switches of FRED_m(P), odd ports' pairs included."""
    if ports == 2:
        return 1
    edges = -(-ports // 2)
    return 2 * edges + copies * _count(edges, copies)


def way_shape(middle_copies: int):
    """Shape of one side of an edge switch: 0 is idle, 1 + k is the way to or from copy k."""
    return unsigned(middle_copies.bit_length())


def edge_mode(middle_copies: int) -> data.ArrayLayout:
    """Mode of an R or D switch: the way of side 0 and of side 1.

    At m = 2 that is R {straight (1, 2), cross (2, 1), add to 0 (1, 1), add to 1 (2, 2)}, and
    D {straight, cross, broadcast 0, broadcast 1} with the same codes; 0 on a side idles it.
    """
    return data.ArrayLayout(way_shape(middle_copies), 2)


def modes_layout(ports: int, middle_copies: int) -> data.StructLayout:
    """Modes of all micro-switches of FRED_m(P).

    Members
    -------
    centre : CentreMode (P = 2 only)
    inputs, outputs : edge modes (P > 2)
    last_input, last_output : way of the odd port (odd P only)
    middle : modes of the copies (P > 2)
    """
    if ports == 2:
        return data.StructLayout({"centre": CentreMode})
    pairs, odd = divmod(ports, 2)
    edges = data.ArrayLayout(edge_mode(middle_copies), pairs)
    way = way_shape(middle_copies)
    middle = data.ArrayLayout(modes_layout(pairs + odd, middle_copies), middle_copies)
    return data.StructLayout(
        {"inputs": edges}
        | ({"last_input": way} if odd else {})
        | {"middle": middle, "outputs": edges}
        | ({"last_output": way} if odd else {})
    )


def modes_legal(modes: data.View, ports: int, middle_copies: int) -> Value:
    """1 if every micro-switch has the mode that ``modes`` names for it (combinational)."""
    return Const(1) if not (terms := list(_terms(modes, ports, middle_copies))) else _all(terms)


def _terms(modes: data.View, ports: int, middle_copies: int):
    if ports == 2:
        yield Value.cast(modes.centre) <= max(CentreMode)
        return
    pairs, odd = divmod(ports, 2)
    for k in range(pairs):
        for side in range(2):
            yield modes.inputs[k][side] <= middle_copies
            yield modes.outputs[k][side] <= middle_copies
    if odd:
        yield modes.last_input <= middle_copies
        yield modes.last_output <= middle_copies
    for copy in range(middle_copies):
        yield from _terms(modes.middle[copy], pairs + odd, middle_copies)


def _all(terms: list) -> Value:
    result = terms[0]
    for term in terms[1:]:
        result = result & term
    return result
