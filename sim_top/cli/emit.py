"""Write a part of the design as SystemVerilog, each distinct module once, with the constraints of
its clock, a wrapper that instantiates it, and a FuseSoC core file.

The same arguments give the same bytes.
"""

from __future__ import annotations

import argparse

from sim_top.cli.frame import Output, whole
from sim_top.cli.targets import check_folder, target
from sw_model.errors import InputError

EXAMPLE = "antiphon emit fred --out build/fred --preset sim --set ports=8"


def setting(text: str) -> tuple[str, str]:
    """``KEY=VALUE`` as the two, for an argument."""
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise argparse.ArgumentTypeError(f"must be KEY=VALUE, not {text!r}")
    return key, value


def configure(parser: argparse.ArgumentParser) -> None:
    """Add arguments."""
    parser.add_argument("top", metavar="TOP", help="ace, fred, link, or platform")
    parser.add_argument(
        "--out", required=True, type=target, metavar="DIR", help="folder to write to"
    )
    add_design_options(parser, period="clock period of the constraints")


def add_design_options(parser: argparse.ArgumentParser, *, period: str) -> None:
    """Add what chooses a design: its preset, its parameters, and its clock.

    Parameters
    ----------
    period : what the clock period is for
    """
    parser.add_argument(
        "--preset", choices=["sim", "paper"], default="sim", help="parameters (default sim)"
    )
    parser.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        type=setting,
        metavar="KEY=VALUE",
        help="change one parameter of the preset; may stand more than once",
    )
    parser.add_argument(
        "--period-ps",
        type=whole,
        default=5000,
        metavar="PS",
        help=f"{period} (default 5000)",
    )


def settings_of(arguments: argparse.Namespace) -> dict[str, str]:
    """The parameters that ``--set`` changes.

    Raises
    ------
    InputError
        where it names one twice.
    """
    settings = dict(arguments.settings)
    if len(settings) < len(arguments.settings):
        raise InputError("--set must name every key once")
    return settings


def run(arguments: argparse.Namespace, output: Output) -> bool:
    """Emit."""
    settings = settings_of(arguments)
    check_folder("--out", arguments.out)

    from sim_top.emit import emit

    with output.progress(f"writing {arguments.top}") as progress:
        files = emit(
            arguments.top,
            arguments.out,
            preset=arguments.preset,
            settings=settings,
            period_ps=arguments.period_ps,
            progress=progress,
        )
    output.data = {"top": arguments.top, "files": [str(path) for path in files]}
    output.show(*(str(path) for path in files))
    return True
