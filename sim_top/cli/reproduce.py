"""Published results, ours beside theirs, each with where it stands and how near it must come.

Some sets come with a plot, which goes to --plot. The status is 1 where a figure lies too far away
for no known reason.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sim_top.cli.frame import Output
from sim_top.reproduce.registry import SETS, draw, rows_of
from sw_model.errors import InputError, nearest

EXAMPLE = "antiphon reproduce themis --plot build/themis.svg"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add arguments."""
    parser.add_argument("what", metavar="WHAT", help=", ".join(SETS))
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="FILE",
        help="where the plot goes, .svg or .png (default build/reproduce/WHAT.svg)",
    )


def run(arguments: argparse.Namespace, output: Output) -> bool:
    """Compute, compare, draw."""
    name = arguments.what
    if name not in SETS:
        raise InputError(f"unknown set of results {name!r}{nearest(name, SETS)}")
    path = arguments.plot or Path("build/reproduce") / f"{name}.svg"
    if path.suffix not in (".svg", ".png"):
        raise InputError(f"--plot must end in .svg or .png, not {path.name!r}")
    with output.progress(name) as progress:
        rows = rows_of(name, progress)
    drawn = draw(name, path)
    output.data = {"rows": [row.json() for row in rows]}
    if drawn:
        output.data["plot"] = str(path)
    if output.json_target != "-":
        _show(name, rows, output)
        if drawn:
            output.show(f"plot: {path}")
    return all(row.explained for row in rows)


def _figure(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:,.6g}"


def _show(name: str, rows: list, output: Output) -> None:
    from rich import box
    from rich.table import Table

    table = Table(title=f"Reproduced: {name}", title_justify="left", box=box.SIMPLE_HEAD)
    for column, justify in (
        ("what", "left"),
        ("ours", "right"),
        ("theirs", "right"),
        ("within", "right"),
        ("unit", "left"),
        ("", "left"),
        ("provenance", "left"),
    ):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for row in rows:
        reference = f"{'≥ ' * row.at_least}{_figure(row.reference)}"
        table.add_row(
            row.name,
            _figure(row.ours),
            reference,
            f"{row.tolerance:,.3g}" if row.tolerance else "exact" if not row.at_least else "",
            row.unit,
            "ok" if row.ok else "why" if row.reason else "NO",
            row.provenance,
        )
    output.show(table)
    for row in rows:
        if row.reason and not row.ok:
            output.show(f"{row.name}: {row.reason}")
