"""What changed from one result to another: A.json and B.json as --json has written them.

Both must come from the same command, since other keys mean other things: it is bad input if they do
not (exit status 2). Entries of a list are matched by their names where those are unique, else by
their place. The status is 0 whether or not anything has changed: nothing is checked.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sim_top.cli.frame import Output, whole
from sw_model.report.differences import differences, kind_of, read_result

EXAMPLE = "antiphon compare before.json after.json"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add arguments."""
    parser.add_argument("before", type=Path, metavar="A.json", help="what was")
    parser.add_argument("after", type=Path, metavar="B.json", help="what is")
    parser.add_argument(
        "--rows", type=whole, default=40, metavar="N", help="of the table at most (default 40)"
    )


def run(arguments: argparse.Namespace, output: Output) -> bool:
    """Read both, compare, report."""
    from sw_model.errors import InputError

    before, after = read_result(arguments.before), read_result(arguments.after)
    kinds = kind_of(before, arguments.before), kind_of(after, arguments.after)
    if kinds[0] != kinds[1]:
        raise InputError(
            f"{arguments.before} and {arguments.after} must be results of one command, not of "
            f"antiphon {kinds[0]} and antiphon {kinds[1]}"
        )
    found = differences(before, after)
    output.data = {
        "kind": kinds[0],
        "differences": [
            {
                "key": one.key,
                "from": one.before,
                "to": one.after,
                "relative": one.relative,
                "only_in": one.only_in,
            }
            for one in found
        ],
    }
    if output.json_target != "-":
        from sw_model.report.side_by_side import differences_table

        title = f"{arguments.before} -> {arguments.after} (antiphon {kinds[0]})"
        output.show(differences_table(title, found, rows=arguments.rows))
    return True
