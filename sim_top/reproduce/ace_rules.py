"""Figures of ACE (ISCA 2021) that follow from its rules: exact memory traffic, rates, sums."""

from __future__ import annotations

from fractions import Fraction

from sim_top.reproduce import ace_sram
from sim_top.reproduce.registry import Row, Table
from sw_model.collective.memory_traffic import baseline_phase
from sw_model.collective.plan import Algorithm, Operation
from sw_model.endpoint.design_space import TorusPlatform, machines_needed

__all__ = ["rows", "table"]

_GB = 10**9
_DERIVED = "derived"
_RECALLED = "recalled: the paper's table at 28 nm"
#: Area in um2 and power in mW; how many of each.
_BLOCKS = {
    "ALU": (4, 16_112, 7.552),
    "control unit": (1, 159_803, 128),
    "SRAM": (1, 5_113_696, 4_096),
    "interconnect": (1, 1_084, 0.329),
}


def rows() -> list[Row]:
    """All figures."""
    return [*_exact(), *_rates(), *_live(), *ace_sram.rows(), *_blocks()]


def _exact() -> list[Row]:
    """A reduce-scatter of S on a ring of n reads (S/n)(2n - 1) and writes S; an all-reduce reads
    S (3n - 2)/n."""
    out = []
    for n in (4, 8):
        scatter = baseline_phase(Operation.REDUCE_SCATTER, Algorithm.RING, n, 1)
        reduced = baseline_phase(Operation.ALL_REDUCE, Algorithm.RING, n, 1)
        out += [
            Row(f"{what} by the baseline, one ring of {n}", float(ours), theirs, _DERIVED, 0, unit)
            for what, ours, theirs, unit in (
                ("reduce-scatter: read", scatter.reads, (2 * n - 1) / n, "S"),
                ("reduce-scatter: written", scatter.writes, 1, "S"),
                ("all-reduce: read", reduced.reads, (3 * n - 2) / n, "S"),
            )
        ]
    return out


def _rates() -> list[Row]:
    platform = TorusPlatform(torus=(4, 4, 4))
    payload = platform.payload_rate / _GB
    clock = platform.clock_hz
    link = platform.local_rate
    return [
        Row("memory reads of ACE, 4 x 4 x 4", float(payload), 133, _DERIVED, 0.5, "GB/s"),
        Row(
            "memory reads of ACE, 4 x 4 x 4, links of 94 %",
            float(payload * Fraction(94, 100)),
            125,
            _DERIVED,
            0.5,
            "GB/s",
        ),
        Row("a bus of 64 B", 64 * clock / _GB, 80, "recalled", 0.5, "GB/s"),
        Row("a local link", float(link / clock), 161, _DERIVED, 0.5, "B/cycle"),
        Row("DMA, 4 x 4 x 4", float(payload * _GB / clock), 107, _DERIVED, 0.5, "B/cycle"),
    ]


def _live() -> list[Row]:
    """Chunks whose phase a state machine runs."""
    out = []
    for sizes in ((4, 4, 4), (4, 8, 4)):
        platform = TorusPlatform(torus=sizes)
        live = machines_needed(platform) * platform.chunk_bytes / 2**20
        name = f"bytes of chunks at work, {' x '.join(map(str, sizes))}"
        out.append(Row(name, float(live), 1, "derived: Little's law, about", 0.25, "MiB"))
    return out


def _blocks() -> list[Row]:
    area = sum(count * each for count, each, _ in _BLOCKS.values())
    power = sum(count * each for count, _, each in _BLOCKS.values())
    note = f"{_RECALLED}; the sum of its parts"
    return [
        Row("area of the engine", area, 5_339_031, note, 0, "um2"),
        Row("power of the engine", power, 4_255, note, 1, "mW"),
    ]


def table() -> Table:
    """Recalled figures that nothing here computes."""
    return Table(
        title="Area and power of ACE's parts at 28 nm, recalled and not computed here "
        "(the cells of `antiphon synth` are of another library)",
        columns=("part", "how many", "area of each, um2", "power of each, mW"),
        rows=tuple((name, *figures) for name, figures in _BLOCKS.items()),
    )
