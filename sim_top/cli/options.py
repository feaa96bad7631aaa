"""Arguments that name an experiment, for the commands that run one."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from sim_top.cli.frame import whole
from sw_model.endpoint.kinds import KINDS, endpoint_kind
from sw_model.errors import InputError
from sw_model.experiment import (
    HEADERLESS_MODES,
    Experiment,
    WorkloadSettings,
    read_experiment,
)
from sw_model.network import check_ranks, read_network

__all__ = ["add_experiment_options", "experiment_of", "whole"]


def add_experiment_options(parser: argparse.ArgumentParser, *, optional: bool) -> None:
    """The file, and what overrides it. ``optional``: options alone will do."""
    parser.add_argument(
        "experiment",
        nargs="?" if optional else None,
        type=Path,
        metavar="EXPERIMENT.yaml",
        help="the experiment file",
    )
    if optional:
        parser.add_argument(
            "--workload",
            type=Path,
            metavar="W",
            help="an ASTRA-sim 1.0 text, or the prefix of Chakra traces",
        )
        parser.add_argument(
            "--network", type=Path, metavar="N.yml", help="an ASTRA-sim network yml, or our own"
        )
        parser.add_argument(
            "--mode", choices=list(HEADERLESS_MODES), help="of a text without header lines"
        )
    parser.add_argument(
        "--scheduler", choices=["baseline", "themis", "balanced"], help="order of the dims"
    )
    if optional:
        parser.add_argument(
            "--endpoint",
            metavar="KIND",
            help=f"{', '.join(KINDS)} (default: the platform's engines, ideal for traces)",
        )
    parser.add_argument("--intra", choices=["fifo", "scf"], help="order within a dim")
    parser.add_argument("--chunks", type=whole, metavar="C", help="at most so many a collective")
    parser.add_argument("--iterations", type=whole, metavar="N", help="of the training loop")


def experiment_of(arguments: argparse.Namespace) -> Experiment:
    """The experiment that the arguments name.

    Raises
    ------
    InputError
        where they name none, or the file is wrong.
    """
    workload = getattr(arguments, "workload", None)
    network = getattr(arguments, "network", None)
    mode = getattr(arguments, "mode", None)
    if arguments.experiment is not None:
        experiment = read_experiment(arguments.experiment)
        if workload is not None:
            settings = replace(experiment.workload, file=workload, ranks=None)
            experiment = replace(experiment, workload=settings)
        if network is not None:
            experiment = replace(
                experiment, network=read_network(network), network_at=(str(network), None)
            )
    elif workload is None or network is None:
        raise InputError("an EXPERIMENT.yaml, or --workload and --network, must be given")
    else:
        experiment = Experiment(
            workload=WorkloadSettings(file=workload),
            network=read_network(network),
            path=str(workload),
            network_at=(str(network), None),
        )
    if mode is not None:
        settings = replace(experiment.workload, mode=HEADERLESS_MODES[mode])
        experiment = replace(experiment, workload=settings)
    if network is not None and experiment.workload.ranks is not None:
        check_ranks(experiment.network, experiment.workload.ranks, path=str(network), line=None)
    if getattr(arguments, "endpoint", None) is not None:
        kind = endpoint_kind(arguments.endpoint).name
        experiment = replace(experiment, endpoint=replace(experiment.endpoint, kind=kind))
    changes = {
        name: getattr(arguments, name)
        for name in ("scheduler", "intra", "chunks")
        if getattr(arguments, name) is not None
    }
    if changes:
        experiment = experiment.with_schedule(**changes)
    if arguments.iterations is not None:
        settings = replace(experiment.workload, iterations=arguments.iterations)
        experiment = replace(experiment, workload=settings)
    return experiment
