"""FRED_m(P) as a list of micro-switches and the wires between them.

P = 2r: r input R switches, m copies of FRED_m(r), r output D switches; input switch k reaches
input k of every copy, output switch k hears output k of every copy. P = 2r + 1: the same with
m copies of FRED_m(r + 1), whose last port is joined to all copies by a demultiplexer and a
multiplexer. FRED_m(2) is one RD switch. FRED_m(3) follows the odd rule (decided here).

Source: FRED, ISCA 2025, construction of FRED_m(P).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from sw_model.fred.modes import Kind, mode_bits

__all__ = ["Construction", "MicroSwitch", "check_size", "construct", "stages"]

MAX_PORTS = 64
MAX_COPIES = 64
MAX_SWITCHES = 1 << 17


def check_size(ports: int, middle_copies: int) -> None:
    """Refuse a size that is not a FRED switch.

    Raises
    ------
    ValueError
        where ``ports`` is not in 2..64, ``middle_copies`` is not in 2..64, or the switch is too
        large to be built: it grows with the power of ``middle_copies`` by its stages.
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


def stages(ports: int) -> int:
    """Micro-switches on every way through FRED_m(ports): 2 * ceil(log2 P) - 1."""
    return 2 * (ports - 1).bit_length() - 1


@dataclass(frozen=True)
class MicroSwitch:
    """One micro-switch.

    Attributes
    ----------
    kind : R, D, RD, or one of the odd port's pair
    path : middle copies entered from the outside to get to the FRED it belongs to
    position : number among the edge switches of its side of that FRED; the odd port's pair is
        the last
    stage : 0 at the inputs to ``stages(P) - 1`` at the outputs
    inputs, outputs : wires, in order; a wire has one driver and one reader
    """

    kind: Kind
    path: tuple[int, ...]
    position: int
    stage: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Construction:
    """FRED_m(P): its micro-switches in configuration order.

    The order is that of the modes in a configuration: input edge switches, the demultiplexer if
    P is odd, the middle copies one after the other, output edge switches, the multiplexer. In
    this order every wire is driven before it is read.

    Attributes
    ----------
    ports, middle_copies : P and m
    switches : all micro-switches, the odd ports' pairs included
    inputs, outputs : the wires at the ports
    wires : number of wires
    """

    ports: int
    middle_copies: int
    switches: tuple[MicroSwitch, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    wires: int

    @property
    def stages(self) -> int:
        """Micro-switches on every way from an input to an output."""
        return stages(self.ports)

    @property
    def count(self) -> int:
        """Micro-switches R, D and RD; the odd ports' pairs are not counted (as in the paper)."""
        return sum(switch.kind.sides == 2 for switch in self.switches)

    @property
    def pairs(self) -> int:
        """Demultiplexer and multiplexer pairs of odd ports."""
        return sum(switch.kind is Kind.DEMULTIPLEX for switch in self.switches)

    @property
    def mode_bits(self) -> int:
        """Bits of the modes of all micro-switches."""
        return sum(mode_bits(switch.kind, self.middle_copies) for switch in self.switches)


def construct(ports: int, middle_copies: int) -> Construction:
    """Build FRED_m(P).

    Raises
    ------
    ValueError
        where ``ports`` is not in 2..64 or ``middle_copies`` is below 2.
    """
    check_size(ports, middle_copies)
    return _construct(ports, middle_copies)


@cache
def _construct(ports: int, middle_copies: int) -> Construction:
    numbers = iter(range(1 << 62))
    inputs = tuple(next(numbers) for _ in range(ports))
    outputs = tuple(next(numbers) for _ in range(ports))
    switches = tuple(_fred(middle_copies, inputs, outputs, (), 0, stages(ports) - 1, numbers))
    return Construction(ports, middle_copies, switches, inputs, outputs, next(numbers))


def _fred(
    copies: int,
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
    path: tuple[int, ...],
    first: int,
    last: int,
    numbers: Iterator[int],
) -> Iterator[MicroSwitch]:
    """The switches of one FRED between the given wires and stages."""
    ports = len(inputs)
    if ports == 2:
        yield MicroSwitch(Kind.REDUCE_DISTRIBUTE, path, 0, first, inputs, outputs)
        return
    pairs, odd = divmod(ports, 2)
    edges = pairs + odd
    # ways_in[k][c] joins edge switch k and input k of copy c; ways_out likewise.
    ways_in = [tuple(next(numbers) for _ in range(copies)) for _ in range(edges)]
    ways_out = [tuple(next(numbers) for _ in range(copies)) for _ in range(edges)]
    for k in range(edges):
        kind = Kind.REDUCE if k < pairs else Kind.DEMULTIPLEX
        yield MicroSwitch(kind, path, k, first, inputs[2 * k : 2 * k + 2], ways_in[k])
    for copy in range(copies):
        yield from _fred(
            copies,
            tuple(ways[copy] for ways in ways_in),
            tuple(ways[copy] for ways in ways_out),
            (*path, copy),
            first + 1,
            last - 1,
            numbers,
        )
    for k in range(edges):
        kind = Kind.DISTRIBUTE if k < pairs else Kind.MULTIPLEX
        yield MicroSwitch(kind, path, k, last, ways_out[k], outputs[2 * k : 2 * k + 2])
