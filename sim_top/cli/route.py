"""Route flows through the FRED switch FRED_m(P), in as few configurations as it takes.

A flow is 0,1,2 (an all-reduce over those ports) or 0,4>1,3 (reduce over the inputs, multicast to
the outputs).
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from sim_top.cli.frame import Output
from sw_model.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

EXAMPLE = "antiphon route --ports 8 --m 3 0,1,2 3,4 5,6,7"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add arguments."""
    parser.add_argument("--ports", type=int, required=True, metavar="P", help="ports, at least 2")
    parser.add_argument("--m", type=int, default=3, help="middle copies, at least 2 (default 3)")
    parser.add_argument("flows", nargs="+", metavar="FLOW", help="0,1,2 or 0,4>1,3")


def run(arguments: argparse.Namespace, output: Output) -> bool:
    """Route and show."""
    from sw_model.fred.report import route_report

    try:
        report = route_report(arguments.ports, arguments.m, arguments.flows)
    except ValueError as error:
        raise InputError(str(error)) from None
    output.data = report
    output.show(
        f"FRED_{report['middle_copies']}({report['ports']}): {report['microswitches']} "
        f"micro-switches in {report['stages']} stages",
        f"routable in one configuration: {'yes' if report['routable'] else 'no'}",
    )
    if report["reason"]:
        output.show(report["reason"], f"configurations needed: {report['configurations']}")
    output.show(_table(report))
    return True


def _table(report: dict[str, Any]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for column in ("configuration", "inputs", "outputs", "order of reduction"):
        table.add_column(column)
    for number, flows in enumerate(report["plan"]):
        for flow in flows:
            table.add_row(
                str(number),
                ",".join(str(port) for port in flow["inputs"]),
                ",".join(str(port) for port in flow["outputs"]),
                flow["order"],
            )
    return table
