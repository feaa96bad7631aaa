"""Show the JSON schema of an experiment file, for editors that complete and check YAML: that of
`antiphon run` and `antiphon cosim`, or that of `antiphon optimize`."""

from __future__ import annotations

import argparse
import json
import sys

from sim_top.cli.frame import Output

EXAMPLE = "antiphon schema --json docs/experiment.schema.json"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add arguments."""
    parser.add_argument(
        "what",
        nargs="?",
        choices=["experiment", "optimize"],
        default="experiment",
        help="the file of which command (default experiment)",
    )


def run(arguments: argparse.Namespace, output: Output) -> bool:
    """Show it."""
    if arguments.what == "optimize":
        from sw_model.optimize.experiment import json_schema
    else:
        from sw_model.experiment import json_schema

    output.data = json_schema()
    if output.json_target is None:
        sys.stdout.write(json.dumps(output.data, indent=2) + "\n")
    return True
