"""Run a training workload on the transaction-level model.

The workload, network and schedule come from an experiment file, or from options. Times are of the
rank that finishes last. Options override the file.

W is an ASTRA-sim 1.0 text, the prefix of Chakra traces, PREFIX.RANK.et, one for each NPU, or a YAML
workload (.yaml, .yml): layers, a model of antiphon workload, or several jobs. Traces, models and
jobs run on ideal endpoints over any network; so do layers on a network that the platform cannot be.
With --semantics astra-sim the cost rules are those of that program.
"""

from __future__ import annotations

import argparse

from sim_top.cli.explain import explain_run
from sim_top.cli.frame import Output
from sim_top.cli.options import add_experiment_options, experiment_of
from sim_top.cli.result_files import (
    add_file_options,
    check_file_options,
    wants_files,
    write_files,
)
from sim_top.cli.targets import check_file, target
from sim_top.cli.trace_run import add_trace_options, run_replay
from sim_top.cli.warnings import warn
from sw_model.errors import InputError
from sw_model.experiment import Experiment
from sw_model.workload.loading import made_of_traces

EXAMPLE = "antiphon run examples/resnet50.yaml --scheduler baseline --timeline baseline.svg"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add arguments."""
    add_experiment_options(parser, optional=True)
    add_trace_options(parser)
    add_file_options(parser)
    parser.add_argument(
        "--explain",
        action="store_true",
        help="the collective of the layer that exposes most, phase by phase",
    )
    parser.add_argument(
        "--timeline", type=target, metavar="FILE", help="draw the timeline, .svg or .png"
    )


def _is_replayed(experiment: Experiment, arguments: argparse.Namespace) -> bool:
    """Whether a workload is replayed as a trace: it is one, or an endpoint is named, or an option
    asks for what only a replay has, or the network is given by itself and is none that the
    platform's engines can be."""
    if made_of_traces(experiment.workload) or experiment.endpoint.kind is not None:
        return True
    if arguments.priorities is not None or experiment.workload.priorities:
        return True
    if arguments.semantics != "antiphon" or arguments.latency_model != "overlapped":
        return True
    if arguments.system is not None or arguments.algorithm is not None:
        return True
    if arguments.experiment is not None:
        return False
    try:
        experiment.platform()
    except InputError as error:
        warn(f"{error}; ideal endpoints take the place of the platform's")
        return True
    return False


def run(arguments: argparse.Namespace, output: Output) -> bool:
    """Read, run, report."""
    return run_experiment(experiment_of(arguments), arguments, output)


def run_experiment(experiment: Experiment, arguments: argparse.Namespace, output: Output) -> bool:
    """Run ``experiment`` as the other arguments say, and report.

    Raises
    ------
    InputError
        for whatever is wrong in the files or between them.
    """
    check_file_options(arguments)
    if arguments.timeline is not None:
        check_file("--timeline", arguments.timeline, (".svg", ".png"))
    if arguments.experiment is not None and arguments.semantics == "antiphon":
        for name in ("scheduler", "intra", "chunks"):  # options have changed the file's already
            setattr(arguments, name, getattr(experiment.schedule, name))
    arguments.endpoint_settings = experiment.endpoint
    if _is_replayed(experiment, arguments):
        return run_replay(experiment, arguments, output)
    if arguments.comm_group is not None:
        raise InputError("--comm-group is for Chakra traces, not for a layer workload")
    workload = experiment.load_workload()

    from sw_model.simulation import simulate

    with output.progress("TLM") as progress:
        result = simulate(experiment, workload, progress=progress)

    from sw_model.report import json_report, tables

    output.data = json_report.run_json(result)
    explanation = explain_run(result, experiment, workload) if arguments.explain else None
    if explanation is not None:
        from sw_model.report.phases import explanation_json

        output.data["explanation"] = explanation_json(explanation)
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
    if explanation is not None and output.json_target != "-":
        from sw_model.report.phases import explanation_tables

        output.show(*explanation_tables(explanation))
    if arguments.timeline is not None:
        from sw_model.report.timeline import draw_timeline

        draw_timeline([result], arguments.timeline)
    if wants_files(arguments):
        from sw_model.report.page import page_of_run
        from sw_model.report.run_files import chrome_trace, csv_tables

        write_files(
            arguments,
            trace=lambda: chrome_trace(result),
            csv=lambda: csv_tables(result),
            page=lambda: page_of_run(result, title=workload.path or experiment.name),
        )
    return True
