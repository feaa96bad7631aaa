"""Run the benchmarks and append their results to a history file, one JSON object a line."""

from __future__ import annotations

import argparse
from pathlib import Path

from sim_top.cli.frame import Output, write_whole
from sim_top.cli.targets import check_made_file, target
from sw_model.errors import InputError

EXAMPLE = "antiphon bench --only fred. --history build/bench.jsonl"
_HISTORY = Path("build/bench.jsonl")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add arguments."""
    parser.add_argument("--only", metavar="PREFIX", help="those whose name begins so")
    parser.add_argument(
        "--history",
        type=target,
        metavar="FILE",
        help="the history (default build/bench.jsonl)",
    )


def run(arguments: argparse.Namespace, output: Output) -> bool:
    """Run, show, append."""
    import json
    from datetime import UTC, datetime

    from sim_top.bench import names, run_benches

    if arguments.only is not None and not (
        arguments.only and any(name.startswith(arguments.only) for name in names())
    ):
        raise InputError(f"--only must begin the name of a benchmark, not {arguments.only!r}")
    history = arguments.history or _HISTORY
    check_made_file("--history", history)
    history.parent.mkdir(parents=True, exist_ok=True)
    with output.progress("benchmarks") as progress:
        results = run_benches(arguments.only or "", progress=progress)

    from rich import box
    from rich.table import Table

    rows = [{"name": r.name, "value": r.value, "unit": r.unit} for r in results]
    output.data = {"results": rows}
    table = Table(title="Benchmarks", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("name")
    table.add_column("value", justify="right")
    table.add_column("unit")
    for result in results:
        table.add_row(result.name, f"{result.value:,.6g}", result.unit)
    output.show(table)
    line = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "results": rows}
    earlier = history.read_bytes() if history.is_file() else b""
    write_whole(history, earlier + json.dumps(line).encode() + b"\n")
    return True
