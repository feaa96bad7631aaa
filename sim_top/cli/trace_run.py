"""``antiphon run`` of Chakra traces, and of layer workloads as such."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sim_top.cli.explain import explain_trace
from sim_top.cli.frame import Output, value
from sim_top.cli.result_files import wants_files, write_files
from sim_top.cli.warnings import warn, warn_of_keys
from sw_model.collective.plan import Operation
from sw_model.endpoint.kinds import endpoint_kind
from sw_model.errors import InputError
from sw_model.workload.traffic import parse_classes

if TYPE_CHECKING:
    from sw_model.experiment import Experiment
    from sw_model.replay.preparation import Prepared

__all__ = ["SEMANTICS", "add_trace_options", "run_replay"]

SEMANTICS = ("antiphon", "astra-sim", "astra-sim-aware")


def add_trace_options(parser: argparse.ArgumentParser) -> None:
    """Options that come with ASTRA-sim's inputs."""
    parser.add_argument("--system", type=Path, metavar="S.json", help="an ASTRA-sim system json")
    parser.add_argument(
        "--comm-group", type=Path, metavar="G.json", help="communicators of Chakra traces"
    )
    parser.add_argument(
        "--semantics",
        choices=SEMANTICS,
        default="antiphon",
        help="whose cost rules (default antiphon)",
    )
    parser.add_argument(
        "--algorithm",
        metavar="NAME",
        help="one for all dims, or a list with one for each; on ideal endpoints",
    )
    parser.add_argument(
        "--latency-model",
        choices=["overlapped", "serial"],
        default="overlapped",
        help="serial charges step latencies to the dim; for ideal endpoints",
    )
    parser.add_argument(
        "--priorities",
        type=value(parse_classes),
        metavar="mp,pp,dp",
        help="classes of communication, the first before the others; on ideal endpoints",
    )


def run_replay(experiment: Experiment, arguments: argparse.Namespace, output: Output) -> bool:
    """Read or make traces, replay, report.

    Raises
    ------
    InputError
        for whatever is wrong in the files or between them.
    """
    from sw_model.chakra.workload import is_chakra
    from sw_model.replay.preparation import prepare

    settings = experiment.workload
    traces = settings.file is not None and is_chakra(settings.file)
    if traces or settings.jobs:
        what = "Chakra traces" if traces else "several jobs, each of which has its own"
        for option, given in (
            ("--iterations", arguments.iterations is not None),
            ("--mode", getattr(arguments, "mode", None) is not None),
        ):
            if given:
                raise InputError(f"{option} is for layer workloads, not for {what}")
    if arguments.comm_group is not None:
        if not traces:
            raise InputError("--comm-group is for Chakra traces, not for a layer workload")
        settings = replace(settings, comm_group=arguments.comm_group)
    if arguments.priorities is not None:
        settings = replace(settings, priorities=arguments.priorities)
    with output.progress("reading") as progress:
        prepared = prepare(
            settings, experiment.network, fused=_fused(experiment), progress=progress
        )
    workload = prepared.workload
    if workload.unmatched:
        rank, position = workload.unmatched[0]
        warn(
            f"{workload.paths[rank]}: {workload.node(rank, position)}: nobody receives this "
            f"message ({len(workload.unmatched)} such in all)"
        )
    orders = settings.priorities or any(
        job.priority or job.workload.priorities for job in settings.jobs
    )
    if orders and arguments.priorities is None and arguments.semantics != "antiphon":
        warn(f"priorities have no effect with {arguments.semantics} semantics")
    return _replay(prepared, arguments, output)


def _fused(experiment: Experiment) -> bool:
    """Whether the endpoints carry out the gradients of an iteration as one collective."""
    kind = experiment.endpoint.kind
    return kind is not None and not endpoint_kind(kind).overlaps


def _replay(prepared: Prepared, arguments: argparse.Namespace, output: Output) -> bool:
    """Replay and report.

    Raises
    ------
    InputError
        for whatever is wrong in the files or between them.
    """
    from sw_model.astra.system import SystemConfig, read_system
    from sw_model.replay.run import Semantics, replay_trace, schedule_of
    from sw_model.report.trace import trace_json, trace_tables

    workload = prepared.workload
    semantics = Semantics(arguments.semantics)
    if arguments.timeline is not None:
        raise InputError("--timeline is for layer workloads on the platform's own endpoints")
    own = semantics is Semantics.ANTIPHON
    endpoint = arguments.endpoint_settings
    for option, given in (
        ("--scheduler", arguments.scheduler not in (None, "baseline")),
        ("--intra", arguments.intra not in (None, "fifo")),
        ("--latency-model", arguments.latency_model != "overlapped"),
        ("--explain", arguments.explain),
        ("--endpoint", endpoint.kind not in (None, "ideal")),
        ("--priorities", arguments.priorities is not None),
    ):
        if given and not own:
            raise InputError(f"{option} is for the semantics antiphon, not {semantics.value}")
    system = None
    if arguments.system is not None:
        system = read_system(arguments.system)
        warn_of_keys(system, semantics.value)
    schedule = schedule_of(
        system,
        scheduler=arguments.scheduler,
        intra=arguments.intra,
        chunks=arguments.chunks,
        serial_latency=arguments.latency_model == "serial",
    )
    config = system or SystemConfig(splits=schedule.chunks)
    if arguments.chunks is not None:
        config = replace(config, splits=arguments.chunks)
    if arguments.algorithm is not None:
        from sim_top.cli.astra_collective import algorithms_named

        chosen = algorithms_named(arguments.algorithm, len(workload.topology.dims))
        if len(chosen) != len(workload.topology.dims):
            raise InputError(
                "--algorithm must name one algorithm, or one for each of the "
                f"{len(workload.topology.dims)} dims, not {len(chosen)}"
            )
        config = replace(config, algorithms=dict.fromkeys(Operation, chosen))
    with output.progress("TLM") as progress:
        result = replay_trace(
            workload,
            config,
            semantics=semantics,
            schedule=schedule,
            endpoint=endpoint,
            jobs=prepared.jobs,
            progress=progress,
        )
    for note in result.notes:
        warn(note)
    output.data = trace_json(result)
    if result.jobs:
        from sw_model.report.jobs import jobs_json

        output.data["jobs"] = jobs_json(result)
    explanation = explain_trace(result, config) if arguments.explain else None
    if explanation is not None:
        from sw_model.report.phases import explanation_json

        output.data["explanation"] = explanation_json(explanation)
    if wants_files(arguments):
        from sw_model.report.page import page_of_trace
        from sw_model.report.trace_files import chrome_trace, csv_tables

        write_files(
            arguments,
            trace=lambda: chrome_trace(result),
            csv=lambda: csv_tables(result),
            page=lambda: page_of_trace(result),
        )
    if output.json_target != "-":
        from sw_model.report.jobs import jobs_tables

        output.show(*trace_tables(result), *jobs_tables(result))
        if explanation is not None:
            from sw_model.report.phases import explanation_tables

            output.show(*explanation_tables(explanation))
    return True
