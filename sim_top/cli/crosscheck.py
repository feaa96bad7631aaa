"""Compare the TLM with the RTL over a matrix of collectives, sizes, schedules and data types.

Data must be right bit for bit, traffic counters equal, cycles within a bound; ends with status 1
where they are not.
"""

from __future__ import annotations

import argparse

from sim_top.cli.frame import Output

EXAMPLE = "antiphon crosscheck quick --json crosscheck.json"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add arguments."""
    parser.add_argument(
        "matrix",
        nargs="?",
        default="quick",
        choices=["quick", "full"],
        help="quick (the default) is a part of full",
    )


def run(arguments: argparse.Namespace, output: Output) -> bool:
    """Run and compare."""
    from sim_top.crosscheck import run_crosscheck

    with output.progress("cross-check") as progress:
        result = run_crosscheck(arguments.matrix, progress=progress)

    from sw_model.report import json_report, tables

    output.data = json_report.crosscheck_json(result)
    output.show(tables.crosscheck_table(result))
    return result.ok
