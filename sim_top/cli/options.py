"""Arguments that name an experiment, for the commands that run one."""

from __future__ import annotations

import argparse
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from sim_top.cli.frame import value, whole
from sw_model.endpoint.kinds import KINDS, endpoint_kind
from sw_model.errors import InputError
from sw_model.experiment import Experiment, read_experiment
from sw_model.network import check_ranks, read_network
from sw_model.schedule.group import parse_ranks
from sw_model.units import LARGEST_COUNT, parse_number, shown
from sw_model.workload.settings import HEADERLESS_MODES, WorkloadSettings, check_ranks_named
from sw_model.workload.workload_document import is_workload_file, read_workload

__all__ = ["add_experiment_options", "experiment_of", "whole"]

_LARGEST_SCALE = 1000  # as in an experiment file


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
            help="an ASTRA-sim 1.0 text, the prefix of Chakra traces, or a YAML workload",
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
    parser.add_argument(
        "--iterations",
        type=whole,
        metavar="N",
        help="of the training loop (default: the file's, else "
        f"{WorkloadSettings.iterations}); not for Chakra traces",
    )
    parser.add_argument(
        "--compute-scale",
        type=value(parse_scales),
        action="append",
        metavar="RANKS=FACTOR",
        help="these ranks compute so much longer, such as 3=1.5 or 0-7=2",
    )
    parser.add_argument(
        "--jitter",
        type=value(parse_number),
        metavar="J",
        help="compute times vary by at most this share, such as 0.05",
    )
    parser.add_argument("--seed", type=count, metavar="N", help="of the jitter (default 0)")


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
            settings = _named(workload)
            if not is_workload_file(workload):
                settings = replace(
                    experiment.workload, file=workload, ranks=None, layers=None, model=None, jobs=()
                )
            experiment = replace(experiment, workload=settings)
        if network is not None:
            experiment = replace(
                experiment, network=read_network(network), network_at=(str(network), None)
            )
    elif workload is None or network is None:
        raise InputError("an EXPERIMENT.yaml, or --workload and --network, must be given")
    else:
        experiment = Experiment(
            workload=_named(workload),
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
    settings = _varied(experiment.workload, arguments)
    check_ranks_named(settings, experiment.network.npus)
    return replace(experiment, workload=settings)


def _named(path: Path) -> WorkloadSettings:
    """The settings of what ``--workload`` names."""
    return read_workload(path) if is_workload_file(path) else WorkloadSettings(file=path)


def _varied(settings: WorkloadSettings, arguments: argparse.Namespace) -> WorkloadSettings:
    """The settings with what the options say of compute times.

    Raises
    ------
    InputError
        where they are out of range.
    """
    if arguments.compute_scale is not None:
        scales = dict(settings.compute_scale)
        for some in arguments.compute_scale:
            scales |= some
        settings = replace(settings, compute_scale=scales, lines={}, path="")
    if arguments.jitter is not None:
        if not 0 <= arguments.jitter < 1:
            raise InputError(
                f"--jitter must be at least 0 and below 1, not {float(arguments.jitter):g}"
            )
        settings = replace(settings, jitter=arguments.jitter)
    if arguments.seed is not None:
        settings = replace(settings, seed=arguments.seed)
    return settings


def parse_scales(text: str) -> dict[int, Fraction]:
    """Factors of ranks from ``3=1.5`` or ``0-7=2``.

    Raises
    ------
    ValueError
        where it is none of these, or the factor is not above 0 and at most 1000.
    """
    ranks, equals, number = text.partition("=")
    if not equals:
        raise ValueError(f"must read such as 3=1.5 or 0-7=2, not {text!r}")
    factor = parse_number(number)
    if not 0 < factor <= _LARGEST_SCALE:
        raise ValueError(f"must have a factor above 0 and at most 1000, not {number!r}")
    return dict.fromkeys(parse_ranks(ranks), factor)


def count(text: str) -> int:
    """A whole number of at least 0, for an argument."""
    try:
        return 0 if text == "0" else whole(text)
    except argparse.ArgumentTypeError:
        rule = f"a whole number in 0..{LARGEST_COUNT}"
        raise argparse.ArgumentTypeError(f"must be {rule}, not {shown(text)}") from None
