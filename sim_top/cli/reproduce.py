"""Published results, ours beside theirs, each with where it stands and how near it must come.

Some sets come with a plot, which goes to --plot. The status is 1 where a figure lies too far away
for no known reason.

`all` computes every set and writes one page, to --page, with the plots in images/ beside it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sim_top.cli.frame import Output, write_whole
from sim_top.cli.targets import check_file, check_folder, target
from sim_top.reproduce.page import page
from sim_top.reproduce.registry import SETS, Row, Table, draw, rows_of, tables_of
from sw_model.errors import InputError, nearest

EXAMPLE = "antiphon reproduce themis --plot build/themis.svg"
_BUILD = Path("build/reproduce")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add arguments."""
    parser.add_argument("what", metavar="WHAT", help=", ".join((*SETS, "all")))
    parser.add_argument(
        "--plot",
        type=target,
        metavar="FILE",
        help="where the plot goes, .svg or .png (default build/reproduce/WHAT.svg)",
    )
    parser.add_argument(
        "--page",
        type=target,
        metavar="FILE.md",
        help="where the page of `all` goes (default docs/results.md in a checkout of the project, "
        "build/reproduce/results.md elsewhere)",
    )


def run(arguments: argparse.Namespace, output: Output) -> bool:
    """Compute, compare, draw."""
    name = arguments.what
    if name not in (*SETS, "all"):
        raise InputError(f"unknown set of results {name!r}{nearest(name, (*SETS, 'all'))}")
    if name == "all":
        return _all(arguments, output)
    if arguments.page:
        raise InputError("--page is of `all` only")
    path = arguments.plot or _BUILD / f"{name}.svg"
    if arguments.plot is None:
        check_folder("--plot", path.parent)
    else:
        check_file("--plot", path, (".svg", ".png"))
    with output.progress(name) as progress:
        rows = rows_of(name, progress)
        tables = tables_of(name)
    drawn = draw(name, path)
    output.data = {"rows": [row.json() for row in rows]}
    if tables:
        output.data["tables"] = [table.json() for table in tables]
    if drawn:
        output.data["plot"] = str(path)
    if output.json_target != "-":
        _show(name, rows, output)
        for table in tables:
            _show_table(table, output)
        if drawn:
            output.show(f"plot: {path}")
    return all(row.explained for row in rows)


def _all(arguments: argparse.Namespace, output: Output) -> bool:
    """Every set, on one page."""
    if arguments.plot:
        raise InputError("--plot is of a single set; the plots of `all` are beside its --page")
    path = arguments.page or _page_path()
    if arguments.page:
        check_file("--page", path, (".md",))
    path.parent.mkdir(parents=True, exist_ok=True)
    check_folder("--page", path.parent / "images")
    found: dict[str, list[Row]] = {}
    plots, tables = {}, {}
    for name in SETS:
        with output.progress(name) as progress:
            found[name] = rows_of(name, progress)
            tables[name] = tables_of(name)
            image = path.parent / "images" / f"results-{name}.png"
            if draw(name, image):
                plots[name] = f"images/{image.name}"
    write_whole(path, page(found, plots, tables).encode())
    output.data = {
        "rows": [{"set": name, **row.json()} for name, rows in found.items() for row in rows],
        "page": str(path),
    }
    if output.json_target != "-":
        for name, rows in found.items():
            _show(name, rows, output)
        output.show(f"page: {path}")
    return all(row.explained for rows in found.values() for row in rows)


def _show_table(table: Table, output: Output) -> None:
    from rich import box
    from rich.table import Table as Shown

    shown = Shown(title=table.title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in table.columns:
        shown.add_column(column)
    for row in table.rows:
        shown.add_row(*(cell if isinstance(cell, str) else _figure(cell) for cell in row))
    output.show(shown)


def _page_path() -> Path:
    docs = Path("docs")
    return docs / "results.md" if (docs / "architecture.md").is_file() else _BUILD / "results.md"


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
