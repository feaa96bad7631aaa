"""What all commands share: arguments, exit status, messages, JSON, progress.

argparse and not click, decided here: it starts in a quarter of the time, and every command has few
and plain options.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from sim_top.cli.targets import check_file, target
from sim_top.whole_files import write_whole
from sw_model.errors import AntiphonError, InputError, nearest
from sw_model.units import LARGEST_COUNT, shown

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

__all__ = [
    "COMMANDS",
    "Command",
    "Output",
    "Parser",
    "Progress",
    "main",
    "value",
    "whole",
    "write_whole",
]

#: Commands with the line that ``antiphon --help`` says about them; each is ``sim_top.cli.NAME``.
COMMANDS = {
    "collective": "one collective on the TLM, with its bound",
    "cosim": "a training workload with the RTL in the loop, beside the TLM",
    "run": "a training workload on the TLM",
    "sweep": "many runs side by side",
    "compare": "what changed from one result to another",
    "crosscheck": "the TLM against the RTL, over a matrix of collectives",
    "route": "route flows through a FRED switch",
    "workload": "write a workload of the project's own",
    "convert": "traces from one format to another",
    "emit": "write SystemVerilog",
    "synth": "area and clock of what is written, by block",
    "schema": "the JSON schema of an experiment file",
    "optimize": "the bandwidths of all dims that are best for a group of workloads (LIBRA)",
    "reproduce": "published results, ours beside theirs",
    "bench": "the benchmarks",
}

OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
_DIGITS = 30  # more than any whole number has here; far more are slow to convert
_INDENTED = 1 << 20  # characters of JSON up to which people may want to read it

Progress = Callable[[float], None]


class Parser(argparse.ArgumentParser):
    """Reports bad arguments as every other bad input."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message} (see '{self.prog} --help')")


class Command(Protocol):
    """What the module of a command has. Its docstring is the description in ``--help``."""

    EXAMPLE: str

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add arguments."""

    def run(self, arguments: argparse.Namespace, output: Output) -> bool:
        """Do it. False: a check failed. `InputError` for bad input."""


def value(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """``parse`` as the type of an argument: its `ValueError` becomes the message."""

    def convert(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def whole(text: str) -> int:
    """A whole number of at least 1, for an argument."""
    try:
        number = int(text) if len(text) <= _DIGITS else 0
    except ValueError:
        number = 0
    if not 1 <= number <= LARGEST_COUNT:
        rule = "a whole number of at least 1"
        if number or len(text) > _DIGITS:
            rule = f"a whole number in 1..{LARGEST_COUNT}"
        raise argparse.ArgumentTypeError(f"must be {rule}, not {shown(text)}")
    return number


@dataclass
class Output:
    """Where a command puts what it found.

    Parameters
    ----------
    json_target : file for JSON, ``-`` for standard output, which then has nothing else; or None
    """

    json_target: str | None = None
    data: dict[str, Any] | None = None
    _console: Console | None = field(default=None, repr=False)

    @property
    def console(self) -> Console:
        """For people, at least 100 columns wide where it is no terminal."""
        if self._console is None:
            from rich.console import Console

            class Patient(Console):
                """Where its reader has gone, as `head` does, it falls silent: what else the
                command has to do, such as writing files, goes on."""

                def on_broken_pipe(self) -> None:
                    self.quiet = True
                    _discard_output()

            width = None if sys.stdout.isatty() else max(100, int(os.environ.get("COLUMNS", 0)))
            self._console = Patient(quiet=self.json_target == "-", width=width, highlight=False)
        return self._console

    def show(self, *things: RenderableType) -> None:
        """Print tables and text for people; nothing where standard output is JSON."""
        for thing in things:
            self.console.print(thing)

    def check_target(self) -> None:
        """Refuse a JSON file that could not be written, before long work begins."""
        if self.json_target is not None and self.json_target != "-":
            check_file("--json", Path(self.json_target))

    def write(self) -> None:
        """Write the JSON, whole or not at all."""
        if self.json_target is None or self.data is None:
            return
        text = json.dumps(self.data, allow_nan=False)
        if len(text) < _INDENTED:  # indenting is slow
            text = json.dumps(self.data, indent=2)
        text += "\n"
        if self.json_target == "-":
            sys.stdout.write(text)
        else:
            write_whole(Path(self.json_target), text.encode())

    @contextmanager
    def progress(self, label: str) -> Iterator[Progress]:
        """Gives a function of the share that is done. A bar appears on a terminal after two
        seconds, on standard error; nothing where that is piped."""
        if not sys.stderr.isatty():
            yield lambda share: None
            return
        bar = _Bar(label)
        try:
            yield bar.update
        finally:
            bar.close()


class _Bar:
    """A progress bar that keeps still for two seconds."""

    DELAY = 2.0

    def __init__(self, label: str) -> None:
        self.label = label
        self.begun = time.monotonic()
        self.bar: Any = None

    def update(self, share: float) -> None:
        if self.bar is None:
            if time.monotonic() - self.begun < self.DELAY:
                return
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            self.bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f}%"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self.bar.start()
            self.task = self.bar.add_task(self.label, total=1.0)
        self.bar.update(self.task, completed=share)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()


def _usage() -> str:
    lines = ["usage: antiphon COMMAND ...", "", "commands:"]
    lines += [f"  {name:<12}{summary}" for name, summary in COMMANDS.items()]
    lines += ["", "antiphon COMMAND --help says more, with an example.", ""]
    return "\n".join(lines)


def _load(name: str) -> Command:
    if name not in COMMANDS:
        raise InputError(f"unknown command {name!r}{nearest(name, COMMANDS)}")
    return importlib.import_module(f"sim_top.cli.{name}")


def _run(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(_usage())
        return OK if arguments else BAD_INPUT
    if arguments[0] == "--version":
        from importlib.metadata import PackageNotFoundError, version

        try:
            sys.stdout.write(f"antiphon {version('antiphon')}\n")
        except PackageNotFoundError:
            sys.stdout.write("antiphon, not installed\n")
        return OK
    command = _load(arguments[0])
    parser = Parser(
        prog=f"antiphon {arguments[0]}",
        description=command.__doc__,
        epilog=f"example:\n  {command.EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.configure(parser)
    parser.add_argument(
        "--json",
        type=lambda text: str(target(text)),
        metavar="FILE",
        help="write the results as JSON; - for standard output",
    )
    parsed = parser.parse_args(arguments[1:])
    output = Output(json_target=parsed.json)
    output.check_target()
    passed = command.run(parsed, output)
    output.write()
    return OK if passed else FAILED


def _discard_output() -> None:
    """Whatever is still to come on standard output goes nowhere: its reader has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_closed() -> None:
    """Give standard output and standard error a place where the caller has closed them."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def _last_resort(error: Exception) -> str:
    """One line for an error that has no message of its own."""
    if isinstance(error, MemoryError):
        return "the memory does not suffice for this input"
    if isinstance(error, RecursionError):
        return "the input is nested too deeply"
    if isinstance(error, OverflowError):
        return f"a number is too large to be worked with: {error}"
    assert isinstance(error, OSError)
    where = "" if error.filename is None else f"{error.filename}: "
    return f"{where}{error.strerror or str(error) or type(error).__name__}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line. Returns the exit status: 0 fine, 1 a check or a run failed, 2 bad
    input, 130 interrupted."""
    _open_closed()
    status = OK
    try:
        status = _run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()  # a disk that is full, or a reader that has gone, is noticed here
        return status
    except InputError as error:
        sys.stderr.write(f"antiphon: {error}\n")
        return BAD_INPUT
    except AntiphonError as error:
        sys.stderr.write(f"antiphon: {error}\n")
        return FAILED
    except BrokenPipeError:
        # The reader of our output has gone (as `head` does): nothing is left to be said.
        _discard_output()
        return status
    except KeyboardInterrupt:
        sys.stderr.write("antiphon: interrupted\n")
        return INTERRUPTED
    except (OSError, MemoryError, OverflowError, RecursionError) as error:
        # What no reader has foreseen: a disk that is full, input too large to be worked on.
        sys.stderr.write(f"antiphon: {_last_resort(error)}\n")
        return BAD_INPUT
