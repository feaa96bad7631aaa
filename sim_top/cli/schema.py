"""Show the JSON schema of an experiment file, for editors that complete and check YAML."""

from __future__ import annotations

import argparse
import json
import sys

from sim_top.cli.frame import Output

EXAMPLE = "antiphon schema --json docs/experiment.schema.json"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add arguments: none but ``--json``."""


def run(arguments: argparse.Namespace, output: Output) -> bool:
    """Show it."""
    from sw_model.experiment import json_schema

    output.data = json_schema()
    if output.json_target is None:
        sys.stdout.write(json.dumps(output.data, indent=2) + "\n")
    return True
