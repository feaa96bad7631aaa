"""What FRED's construction and its wafer come to by counting (ISCA 2025)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import permutations

from sim_top.reproduce.registry import Row, Table
from sw_model.fred.configuration import Configuration, Flow
from sw_model.fred.construction import Construction, construct
from sw_model.fred.modes import Kind
from sw_model.fred.patterns import all_gather, all_to_all, reduce_scatter
from sw_model.fred.routing import route
from sw_model.wafer.fabric import COLUMNS, FABRICS, IO_CONTROLLERS, NPUS, ROWS
from sw_model.wafer.iteration import IO_BANDWIDTH

__all__ = ["bisection", "minimal_mode_bits", "rows", "slices", "tables"]

#: Micro-switches of FRED_2(P) and FRED_3(P), and stages.
_SWITCHES = {
    3: (4, 5, 3),
    4: (6, 7, 3),
    5: (12, 19, 5),
    6: (14, 21, 5),
    8: (20, 29, 5),
    10: (34, 67, 7),
    11: (38, 73, 7),
    12: (40, 75, 7),
    16: (56, 103, 7),
    20: (88, 221, 9),
}
#: Bits of the modes of FRED_3(P).
_BITS = {12: 213, 64: 2417}
#: An edge micro-switch has four modes, one in the centre seven; each half of an odd port's pair has
#: one way of three, or none.
_MODE_BITS = {Kind.REDUCE: 2, Kind.DISTRIBUTE: 2, Kind.REDUCE_DISTRIBUTE: 3}
_PAIR_SIDE_BITS = 2
#: Chiplet slices that a logical switch is divided into, as many as make its bandwidth; and the
#: area of one by its ports, in mm2.
_SLICES = 5
_AREA = {12: 685, 11: 678, 10: 814}
_PRINTED = "printed, evaluation"
_DERIVED = "derived from the construction"
_WAFER = "derived from the printed wafer"
_GB = 10**9


def minimal_mode_bits(construction: Construction) -> int:
    """Bits of all modes, each coded by its number among those that its kind can need."""
    return sum(_MODE_BITS.get(s.kind, _PAIR_SIDE_BITS) for s in construction.switches)


def slices() -> Counter[int]:
    """Chiplets of the wafer by their ports: 18 I/O controllers spread over five L1 switches of four
    NPUs and four up ports, and as many L2 slices as take two up ports of every L1."""
    out: Counter[int] = Counter()
    for switch in range(ROWS):
        controllers = IO_CONTROLLERS // ROWS + (switch < IO_CONTROLLERS % ROWS)
        out[COLUMNS + controllers + COLUMNS] += _SLICES
    up_ports = ROWS * COLUMNS * _SLICES
    out[2 * ROWS] += up_ports // (2 * ROWS)
    return out


def bisection(name: str) -> Fraction:
    """Bytes per second of one direction between two halves of the wafer: across the middle of the
    rows of a mesh, or half of all trunks."""
    fabric = FABRICS[name]
    links = fabric.capacity()
    if not fabric.mesh_link:
        return sum((links["trunk up", switch] for switch in range(ROWS)), Fraction(0)) / 2
    middle = COLUMNS // 2
    crossing = (("mesh", (row, middle - 1), (row, middle)) for row in range(ROWS))
    return sum((links[link] for link in crossing), Fraction(0))


def rows() -> list[Row]:
    """All figures."""
    return [*_construction(), *_patterns(), *_wafer()]


def _construction() -> list[Row]:
    out = []
    for ports, (two, three, stages) in _SWITCHES.items():
        for copies, count in ((2, two), (3, three)):
            name = f"FRED_{copies}({ports}): micro-switches"
            out.append(Row(name, construct(ports, copies).count, count, _DERIVED, 0))
        out.append(Row(f"FRED_m({ports}): stages", construct(ports, 2).stages, stages, _DERIVED, 0))
    odd = construct(3, 2).pairs
    out.append(Row("FRED_m(3): pairs of multiplexers", odd, 1, _DERIVED, 0))
    for ports, bits in _BITS.items():
        made = construct(ports, 3)
        name = f"FRED_3({ports}): bits of the modes"
        note = "derived for the fewest modes"
        why = (
            "each side of an edge micro-switch names one of its three ways to the middle here, or "
            "none, in 4 bits where its four modes take 2, and one in the centre takes 4 bits where "
            "seven modes take 3"
        )
        out.append(Row(f"{name}, fewest modes", minimal_mode_bits(made), bits, note, 0, "bits"))
        out.append(Row(f"{name}, as stored", made.mode_bits, bits, note, 0, "bits", reason=why))
    return out


def _patterns() -> list[Row]:
    out = []
    ports = tuple(range(8))
    for what, steps, expected in (
        ("reduce-scatter", reduce_scatter(ports), 8),
        ("all-gather", all_gather(ports), 8),
        ("all-to-all", all_to_all(ports), 7),
    ):
        name = f"{what} over 8 ports: flows or permutations, one after another"
        out.append(Row(name, len(steps), expected, "printed: patterns as flows", 0))
    for size in (4, 5, 6):
        failures = sum(
            not isinstance(route(size, 2, _unicasts(targets)), Configuration)
            for targets in permutations(range(size))
        )
        name = f"FRED_2({size}): permutations of unicasts, not in one configuration"
        out.append(Row(name, failures, 0, "printed: rearrangeable", 0))
    return out


def _unicasts(targets: Sequence[int]) -> tuple[Flow, ...]:
    return tuple(Flow((source,), (target,)) for source, target in enumerate(targets))


def _wafer() -> list[Row]:
    out = []
    printed: Mapping[str, float] = {"mesh": 3750, "A": 3750, "B": 3750, "C": 30000, "D": 30000}
    for name, figure in printed.items():
        title = name if name == "mesh" else f"Fred-{name}"
        ours = float(bisection(name) / _GB)
        out.append(Row(f"bisection, {title}", ours, figure, _PRINTED, 0, "GB/s"))
    found = slices()
    for ports, count in {12: 15, 11: 10, 10: 10}.items():
        out.append(Row(f"chiplets of FRED_3({ports})", found[ports], count, _WAFER, 0))
    area = sum(_AREA[ports] * count for ports, count in found.items())
    out.append(Row("area of these chiplets at the printed ones", area, 25195, _PRINTED, 0, "mm2"))
    npu = Fraction(FABRICS["D"].npu_link, _SLICES)
    out += [
        Row("NPU link of a chiplet", float(npu / _GB), 600, _WAFER, 0, "GB/s"),
        Row("I/O link of a chiplet", IO_BANDWIDTH / _SLICES / _GB, 25.6, _WAFER, 1e-9, "GB/s"),
        Row(
            "buffer of a channel: link rate x 40 ns, there and back",
            float(npu * 40 / 10**9) / 1000,
            24,
            "printed, control",
            0,
            "kB",
        ),
    ]
    for members, less, note in (
        (NPUS, 50, "printed: half the traffic"),
        (5, 37.5, "printed: 37.5 % less traffic"),
    ):
        ring = Fraction(2 * (members - 1), members)
        saved = 100 * float(1 - 1 / ring)
        name = f"in-network all-reduce over {members} NPUs: less sent than by a ring"
        out.append(Row(name, saved, less, note, 3 if members == NPUS else 0, "%"))
    return out


def tables() -> list[Table]:
    """Printed figures that nothing here computes."""
    return [
        Table(
            title="Printed with FRED and not computed here",
            columns=("what", "printed", "why not"),
            rows=(
                (
                    "power of the wafer's switches",
                    "179.35 W",
                    "15 nm NanGate; the cells of `antiphon synth` are of another library",
                ),
                (
                    "logic's share of the area",
                    "under 5 %",
                    "the printed area is set by the links around a chiplet, which have no model",
                ),
                (
                    "area of a chiplet",
                    "685, 678, 814 mm2",
                    "as above; only their sum is checked",
                ),
                (
                    "configuration memory of a switch",
                    "1.5 KB",
                    "a parameter here, with at least as many entries a class as ports",
                ),
                (
                    "unicasts are strictly non-blocking with m = 3",
                    "a theorem of Clos networks",
                    "it is about adding flows one by one; configurations are routed whole here",
                ),
            ),
        )
    ]
