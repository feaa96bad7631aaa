"""Compare the TLM with the RTL over a matrix of collectives, sizes, schedules and data types.

Data must be right bit for bit, traffic counters equal, cycles within a bound; ends with status 1
where they are not. --page writes a page in Markdown: a table, a scatter plot and the worst cases;
with --from of a result that an earlier run has left, and nothing runs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sim_top.cli.frame import Output, write_whole
from sim_top.cli.targets import check_file, check_folder, target

EXAMPLE = "antiphon crosscheck quick --json crosscheck.json"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add arguments."""
    parser.add_argument(
        "matrix",
        nargs="?",
        default="quick",
        choices=["quick", "full"],
        help="quick (the default, minutes) is a part of full (2,374 collectives, hours)",
    )
    parser.add_argument(
        "--from", dest="saved", type=Path, metavar="FILE.json", help="what --json has left of a run"
    )
    parser.add_argument(
        "--page",
        type=target,
        metavar="FILE.md",
        help="where a page with the findings goes; its plot is put into images/ beside it",
    )


def run(arguments: argparse.Namespace, output: Output) -> bool:
    """Run and compare."""
    if arguments.page:
        check_file("--page", arguments.page, (".md",))
        check_folder("--page", arguments.page.parent / "images")
    if arguments.saved:
        from sim_top.crosscheck.saved import read_crosscheck

        result = read_crosscheck(arguments.saved)
    else:
        from sim_top.crosscheck import run_crosscheck

        with output.progress("cross-check") as progress:
            result = run_crosscheck(arguments.matrix, progress=progress)

    from sw_model.report import json_report, tables

    output.data = json_report.crosscheck_json(result)
    output.show(tables.crosscheck_table(result))
    if arguments.page:
        from sim_top.crosscheck.page import draw, page

        path = arguments.page
        image = path.parent / "images" / f"{path.stem}.png"
        draw(result, image)
        command = f"antiphon crosscheck {arguments.matrix} --page {path}"
        text = page(result, f"images/{image.name}", command=command)
        write_whole(path, text.encode())
        output.show(f"page: {path}")
    return result.ok
