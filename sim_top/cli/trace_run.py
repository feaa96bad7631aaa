"""``antiphon run`` of Chakra traces, and of layer workloads as such."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sim_top.cli.explain import explain_trace
from sim_top.cli.frame import Output
from sim_top.cli.result_files import wants_files, write_files
from sim_top.cli.warnings import warn, warn_of_keys
from sw_model.collective.plan import Operation
from sw_model.endpoint.kinds import endpoint_kind
from sw_model.errors import InputError
from sw_model.topology import Topology

if TYPE_CHECKING:
    from sw_model.chakra.workload import ChakraWorkload
    from sw_model.experiment import Experiment

__all__ = ["SEMANTICS", "add_trace_options", "run_layers", "run_traces"]

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


def run_traces(
    prefix: Path, topology: Topology, arguments: argparse.Namespace, output: Output
) -> bool:
    """Read Chakra traces, replay, report.

    Raises
    ------
    InputError
        for whatever is wrong in the files or between them.
    """
    from sw_model.astra.groups import read_groups
    from sw_model.chakra.workload import load_workload

    for option, given in (
        ("--iterations", arguments.iterations is not None),
        ("--mode", getattr(arguments, "mode", None) is not None),
    ):
        if given:
            raise InputError(f"{option} is for layer workloads, not for Chakra traces")
    groups = None
    if arguments.comm_group is not None:
        groups = read_groups(arguments.comm_group, topology.npus)
    with output.progress("reading") as progress:
        workload = load_workload(prefix, topology, groups, progress=progress)
    if workload.unmatched:
        rank, position = workload.unmatched[0]
        warn(
            f"{workload.paths[rank]}: {workload.node(rank, position)}: nobody receives this "
            f"message ({len(workload.unmatched)} such in all)"
        )
    return _replay(workload, arguments, output)


def run_layers(experiment: Experiment, arguments: argparse.Namespace, output: Output) -> bool:
    """Replay a layer workload as traces, on ideal endpoints, and report.

    Raises
    ------
    InputError
        for whatever is wrong in the files or between them.
    """
    from sw_model.chakra.from_layers import trace_of_layers
    from sw_model.chakra.graph import build_graph
    from sw_model.chakra.workload import assemble

    if arguments.comm_group is not None:
        raise InputError("--comm-group is for Chakra traces, not for a layer workload")
    settings = experiment.workload
    made = trace_of_layers(
        experiment.load_workload(),
        experiment.network,
        iterations=settings.iterations,
        fused=_fused(experiment),
    )
    graph = build_graph(made.trace)
    workload = assemble(settings.file, [graph] * made.topology.npus, made.topology)
    return _replay(workload, arguments, output, names=made.layers, starts=made.starts)


def _fused(experiment: Experiment) -> bool:
    """Whether the endpoints carry out the gradients of an iteration as one collective."""
    kind = experiment.endpoint.kind
    return kind is not None and not endpoint_kind(kind).overlaps


def _replay(
    workload: ChakraWorkload,
    arguments: argparse.Namespace,
    output: Output,
    *,
    names: Sequence[str] | None = None,
    starts: Sequence[int] = (),
) -> bool:
    """Replay and report.

    Raises
    ------
    InputError
        for whatever is wrong in the files or between them.
    """
    from sw_model.astra.system import SystemConfig, read_system
    from sw_model.replay.run import Semantics, replay_trace, schedule_of
    from sw_model.report.trace import trace_json, trace_tables

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
    ):
        if given and not own:
            raise InputError(f"{option} is for the semantics antiphon, not {semantics.value}")
    system = None
    if arguments.system is not None:
        system = read_system(arguments.system)
        warn_of_keys(system)
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
            names=names,
            starts=starts,
            progress=progress,
        )
    for note in result.notes:
        warn(note)
    output.data = trace_json(result)
    explanation = explain_trace(result, config, names) if arguments.explain else None
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
            page=lambda: page_of_trace(result, names=names),
        )
    if output.json_target != "-":
        output.show(*trace_tables(result))
        if explanation is not None:
            from sw_model.report.phases import explanation_tables

            output.show(*explanation_tables(explanation))
    return True
