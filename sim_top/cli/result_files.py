"""Files that ``antiphon run`` leaves for other tools and for people."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sim_top.cli.frame import write_whole
from sim_top.cli.targets import check_file, check_folder, target
from sw_model.errors import InputError

if TYPE_CHECKING:
    from sw_model.report.page import Page

__all__ = ["add_file_options", "check_file_options", "wants_files", "write_files"]


def add_file_options(parser: argparse.ArgumentParser) -> None:
    """``--trace``, ``--csv``, ``--html``."""
    add = parser.add_argument
    add(
        "--trace",
        type=target,
        metavar="T.json",
        help="write the timeline for Perfetto and chrome://tracing",
    )
    add(
        "--csv",
        type=target,
        metavar="DIR",
        help="write layers.csv, dims.csv, ranks.csv into a folder",
    )
    add(
        "--html",
        type=target,
        metavar="R.html",
        help="write a report to look at: one file, no network needed",
    )


def check_file_options(arguments: argparse.Namespace) -> None:
    """Refuse what could not be written, before long work begins.

    Raises
    ------
    InputError
        for a file in a folder that does not exist, or a folder in place of a file or the other way
        round.
    """
    if arguments.csv is not None:
        check_folder("--csv", arguments.csv)
    for option, file in (("--trace", arguments.trace), ("--html", arguments.html)):
        if file is not None:
            check_file(option, file)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made: {error.strerror}", path=folder) from None


def wants_files(arguments: argparse.Namespace) -> bool:
    """Whether an option asks for a file."""
    return any(file is not None for file in (arguments.trace, arguments.csv, arguments.html))


def write_files(
    arguments: argparse.Namespace,
    *,
    trace: Callable[[], str],
    csv: Callable[[], Mapping[str, str]],
    page: Callable[[], Page],
) -> None:
    """Write what the options ask for; each text is made only where it is wanted.

    Raises
    ------
    InputError
        where a file cannot be written.
    """
    if arguments.trace is not None:
        write_whole(arguments.trace, trace().encode())
    if arguments.csv is not None:
        _make(arguments.csv)
        for name, text in csv().items():
            write_whole(arguments.csv / name, text.encode())
    if arguments.html is not None:
        from sw_model.report.html import html_report

        write_whole(arguments.html, html_report(page()).encode())
