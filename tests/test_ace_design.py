"""The benchmarks of the engine: their bounds, their closed forms, and the tables of docs/ace.md."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest

from sim_top.bench.ace import (
    CHUNKS,
    CONFIRMED,
    CONTEXTS,
    ELEMENTS,
    SRAM_CHUNKS,
    design_space,
    line_share,
    memory_share,
    torus_platform,
)
from sim_top.bench.ace_bounds import check, point
from sim_top.bench.ace_design import (
    check_agreement,
    confirmed,
    confirmed_table,
    draw,
    main,
    model_table,
)
from sim_top.bench.registry import BenchError, Result, names
from sw_model.collective.plan import Collective, Operation
from sw_model.fabric.simulate import run_collective
from sw_model.schedule.options import ScheduleOptions

ROOT = Path(__file__).resolve().parents[1]

GOOD = {
    "ace.link_utilisation.4x2x2": (0.97, "share of line rate"),
    "ace.link_utilisation.4x2x2.memory_128": (0.6, "share of line rate"),
    "ace.link_utilisation.4x2x2.memory_128.bound": (0.6185, "share of line rate"),
    "ace.cycles.4x2x2": (10_000, "cycles"),
    "ace.cycles.4x2x2.tlm": (9_900, "cycles"),
    "ace.memory_reads_per_payload_byte": (1.0, "bytes/byte"),
    "ace.memory_writes_per_payload_byte": (1.0, "bytes/byte"),
    "ace.design.chunks_8.contexts_8": (0.8, "ideal / simulated"),
    "ace.design.chunks_8.contexts_8.tlm": (0.1, "ideal / simulated"),
    "ace.design.chunks_8.contexts_8.cycles": (5_000, "cycles"),
    "ace.design.chunks_8.contexts_8.cycles.tlm": (5_050, "cycles"),
}


def results(**changes: float) -> list[Result]:
    figures = {name: (changes.get(name, value), unit) for name, (value, unit) in GOOD.items()}
    return [Result(name, value, unit) for name, (value, unit) in figures.items()]


def test_figures_within_their_bounds_pass() -> None:
    """Each of them is at its bound, or a hair from it."""
    check(results())


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("ace.link_utilisation.4x2x2", 0.96994, "must be at least 0.9700, not 0.9699"),
        ("ace.link_utilisation.4x2x2", float("nan"), "must be at least 0.9700, not nan"),
        ("ace.link_utilisation.4x2x2.memory_128", 0.59, "must be at least 0.5999, not 0.5900"),
        ("ace.cycles.4x2x2", 9_801, "must be within 1% of the TLM's 9,900 cycles, not 9,801"),
        (
            "ace.design.chunks_8.contexts_8.cycles",
            4_999,
            "must be within 1% of the TLM's 5,050 cycles, not 4,999",
        ),
        ("ace.memory_reads_per_payload_byte", 1.25, "must be 1, not 1.2500"),
        ("ace.memory_writes_per_payload_byte", 0.5, "must be 1, not 0.5000"),
    ],
)
def test_a_figure_out_of_its_bound_is_an_error(name: str, value: float, message: str) -> None:
    """Named, with what it must be. The agreement is in parts of the RTL's cycles."""
    with pytest.raises(BenchError) as error:
        check(results(**{name: value}))
    assert str(error.value) == f"{name} {message}"


def test_all_that_is_wrong_is_named() -> None:
    """In one message."""
    with pytest.raises(BenchError) as error:
        check(
            results(**{"ace.link_utilisation.4x2x2": 0.5, "ace.memory_reads_per_payload_byte": 2.0})
        )
    assert str(error.value) == (
        "ace.link_utilisation.4x2x2 must be at least 0.9700, not 0.5000; "
        "ace.memory_reads_per_payload_byte must be 1, not 2.0000"
    )


def test_every_confirmed_engine_has_its_figures() -> None:
    """Shares and cycles, RTL and TLM; three engines at least on each axis, the knee among them."""
    known = set(names())
    for where in CONFIRMED:
        for what in ("", ".tlm", ".cycles", ".cycles.tlm"):
            assert point(*where) + what in known
    assert sum(name.startswith("ace.design.") for name in known) == 4 * len(CONFIRMED)
    assert {contexts for chunks, contexts in CONFIRMED if chunks == 8} == {4, 8, 16}
    assert {chunks for chunks, contexts in CONFIRMED if contexts == 16} == set(SRAM_CHUNKS)


def test_the_limit_of_memory_is_what_the_model_moves() -> None:
    """Flits that the busiest ring carries for each flit that memory is read for, by the counters of
    the model's run, which has a few records more than seven for each chunk."""
    platform = torus_platform(memory_gb=128)
    request = Collective(Operation.ALL_REDUCE, ELEMENTS, "fp16", dims=(0, 1, 2))
    run = run_collective(platform, request, schedule=ScheduleOptions("baseline", "fifo", CHUNKS))
    for counters in run.counters:
        read = Fraction(counters.memory_read_bytes + counters.descriptor_bytes, 16)
        moved = counters.dims[1].flits_sent / read
        share = moved * Fraction(8, 25) * 8  # read at 8/25 of a flit a cycle, sent at 1/8
        assert 0.995 < share / memory_share(platform) <= 1
    assert memory_share(platform) == Fraction(8, 25) * Fraction(208 // 4 + 2, 208 + 7 * 2) * 8
    assert memory_share(torus_platform(memory_gb=250)) == 1
    assert memory_share(torus_platform()) == 1


def made_up() -> dict[tuple[int, int], int]:
    """Cycles of no machine: other ones for each engine."""
    return {
        (chunks, contexts): 1_000_000 // chunks // contexts
        for chunks in SRAM_CHUNKS
        for contexts in CONTEXTS
    }


def history(path: Path, rtl: dict[tuple[int, int], int]) -> Path:
    """A history of which the last line has nothing of the engine."""
    rows = [
        {"name": f"{point(*where)}.cycles", "value": cycles, "unit": "cycles"}
        for where, cycles in rtl.items()
    ]
    old = [{**row, "value": 7} for row in rows]
    path.write_text("".join(json.dumps({"results": r}) + "\n" for r in (old, rows, rows[:3])))
    return path


def test_the_tables(tmp_path: Path) -> None:
    """The last measurement that is whole; shares to three digits, KiB of all positions."""
    model = made_up()
    rtl = {where: model[where] + 10 for where in CONFIRMED}
    assert confirmed(history(tmp_path / "h.jsonl", rtl)) == rtl
    lines = model_table(model).splitlines()
    assert lines[0] == "| chunks (KiB of SRAM) | 1 context | 2 | 4 | 8 | 16 |"
    assert lines[1] == "|---|---|---|---|---|---|"
    # 2 of each position of 2 (256 + 64 + 32) flits of 16 bytes: 22 KiB. A quarter of 13,104 flits
    # out and as much in is 3,276, at 1/8 of a flit a cycle 26,208 cycles.
    shares = [26_208 / (1_000_000 // 2 // contexts) for contexts in CONTEXTS]
    assert lines[2] == "| 2 (22) | " + " | ".join(f"{share:.3f}" for share in shares) + " |"
    assert line_share(26_208) == 1
    lines = confirmed_table(model, rtl).splitlines()
    assert lines[0] == "| chunks | contexts | RTL | TLM | difference |"
    assert lines[2] == "| 2 | 16 | 31,260 | 31,250 | 0.032 % |"
    assert len(lines) == 2 + len(CONFIRMED)
    draw(tmp_path / "plot.png", model, rtl)
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_tables_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One message each, and nothing drawn."""
    path = tmp_path / "h.jsonl"
    path.write_text('{"results": []}\n')
    missing = f"{path} must have the benchmarks ace.design: antiphon bench --only ace"
    with pytest.raises(ValueError, match=f"^{re.escape(missing)}$"):
        confirmed(path)
    model = made_up()
    old = (
        "8 chunks and 8 contexts: the RTL's 16,000 cycles must be within 1% of the TLM's 15,625; "
        "measure again: antiphon bench --only ace"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(old)}$"):
        check_agreement(model, {(8, 8): 16_000})
    check_agreement(model, {(8, 8): 15_700})
    for arguments, message in (
        (["plot.png", str(path)], missing),
        (["plot.png"], "the history must be named too: build/bench.jsonl"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 2
        assert capsys.readouterr().err.endswith(f"error: {message}\n")


@pytest.mark.full
def test_the_page_has_the_model_s_table() -> None:
    """As the command prints it."""
    assert model_table(design_space()) in (ROOT / "docs" / "ace.md").read_text()
