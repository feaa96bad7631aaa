"""Many runs of one experiment side by side: all combinations of some settings.

KEY is a key of the experiment file, such as schedule.chunks or network.dims[1].size; the values are
as they would stand in the file, parted by commas. All combinations are read and checked before the
first one runs. They run as antiphon run does them; times are of the rank that finishes last.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from sim_top.cli import run as run_command
from sim_top.cli.frame import Output, Parser, Progress, value
from sw_model.errors import AntiphonError, InputError
from sw_model.experiment import Experiment, read_experiment
from sw_model.variants import combinations, parse_setting, variant
from sw_model.workload.loading import made_of_traces

EXAMPLE = (
    "antiphon sweep examples/resnet50.yaml --set schedule.scheduler=baseline,themis "
    "--set schedule.chunks=4,8"
)

_MOST = 10_000  # runs


def configure(parser: argparse.ArgumentParser) -> None:
    """Add arguments."""
    parser.add_argument(
        "experiment", type=Path, metavar="EXPERIMENT.yaml", help="the experiment file"
    )
    parser.add_argument(
        "--set",
        dest="settings",
        action="append",
        required=True,
        type=value(parse_setting),
        metavar="KEY=A,B,C",
        help="a key of the file and its values; once for each key",
    )


@dataclass
class _Part(Output):
    """Takes what one run has found; its progress is a part of the whole."""

    update: Progress = lambda share: None

    def within(self, whole: Progress, number: int, count: int) -> None:
        """Be number ``number`` of ``count`` equal parts of ``whole``. A run may have several
        stages, each with its own progress from 0 to 1; the whole does not go back."""
        reached = 0.0

        def update(share: float) -> None:
            nonlocal reached
            reached = max(reached, share)
            whole((number + reached) / count)

        self.update = update

    @contextmanager
    def progress(self, label: str) -> Iterator[Progress]:
        yield self.update


def run(arguments: argparse.Namespace, output: Output) -> bool:
    """Read all, run all, compare."""
    asked = arguments.settings
    keys = [key for key, _ in asked]
    for key in keys:
        if keys.count(key) > 1:
            raise InputError(f"--set must name each key once, not {key!r} {keys.count(key)} times")
    count = prod(len(values) for _, values in asked)
    if count > _MOST:
        raise InputError(f"--set must lead to at most {_MOST:,} runs, not {count:,}")
    changes = list(combinations(asked))
    read_experiment(arguments.experiment)  # what is wrong in the file is no fault of a setting
    experiments = [_checked(arguments.experiment, change) for change in changes]
    parser = Parser(prog="antiphon run")
    run_command.configure(parser)
    options = parser.parse_args([str(arguments.experiment)])
    runs: list[dict[str, Any]] = []
    with output.progress("sweep") as progress:
        for number, (change, experiment) in enumerate(zip(changes, experiments, strict=True)):
            part = _Part(json_target="-")
            part.within(progress, number, count)
            try:
                run_command.run_experiment(experiment, argparse.Namespace(**vars(options)), part)
            except AntiphonError as error:
                raise _told(error, change) from None
            assert part.data is not None
            settings = {key: _typed(text) for key, text in change.items()}
            runs.append({"settings": settings, **part.data})
            progress((number + 1) / count)

    output.data = {"experiment": str(arguments.experiment), "runs": runs}
    if output.json_target != "-":
        from sw_model.report.side_by_side import sweep_table

        output.show(sweep_table(str(arguments.experiment), runs))
    return True


def _typed(text: str) -> int | float | str:
    """A plain number as such, all else as it was written."""
    if re.fullmatch(r"-?\d{1,15}", text):
        return int(text)
    return float(text) if re.fullmatch(r"-?\d{1,15}\.\d+", text) else text


def _told(error: AntiphonError, change: dict[str, str]) -> AntiphonError:
    """The error, with the settings that led to it."""
    what = ", ".join(f"{key}={text}" for key, text in change.items())
    return type(error)(f"with {what}: {error}")


def _checked(path: Path, change: dict[str, str]) -> Experiment:
    """The experiment with ``change``, and all that can be known of it before it runs.

    Raises
    ------
    InputError
        where something is wrong.
    """
    experiment = variant(path, change)
    try:
        if not made_of_traces(experiment.workload):
            experiment.load_workload()
            if experiment.endpoint.kind is None:
                experiment.platform()
    except AntiphonError as error:
        raise _told(error, change) from None
    return experiment
