"""Run a training workload on the transaction-level model.

The workload, network and schedule come from an experiment file, or from options. Times are of the
rank that finishes last. Options override the file.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sim_top.cli.frame import Output
from sim_top.cli.options import add_experiment_options, experiment_of

EXAMPLE = "antiphon run examples/resnet50.yaml --scheduler baseline --timeline baseline.svg"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add arguments."""
    add_experiment_options(parser, optional=True)
    parser.add_argument(
        "--timeline", type=Path, metavar="FILE", help="draw the timeline, .svg or .png"
    )


def run(arguments: argparse.Namespace, output: Output) -> bool:
    """Read, run, report."""
    experiment = experiment_of(arguments)
    workload = experiment.load_workload()

    from sw_model.simulation import simulate

    with output.progress("TLM") as progress:
        result = simulate(experiment, workload, progress=progress)

    from sw_model.report import json_report, tables

    output.data = json_report.run_json(result)
    settings = experiment.workload
    output.show(
        tables.workload_table(
            workload, data_type=settings.data_type, iterations=settings.iterations
        ),
        tables.network_table(experiment.topology(workload)),
        tables.runs_table("Time of the latest rank", [result]),
        tables.utilisation_table("Dims", [result]),
        tables.layers_table("Layers that expose most", result),
    )
    if arguments.timeline is not None:
        from sw_model.report.timeline import draw_timeline

        draw_timeline([result], arguments.timeline)
    return True
