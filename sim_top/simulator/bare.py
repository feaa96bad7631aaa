"""The same verilated model in a bare C++ loop: how fast it could be without Python."""

from __future__ import annotations

import importlib.resources
import os
import re
from dataclasses import dataclass
from pathlib import Path

from sim_top.simulator.cache import content_key, locked
from sim_top.simulator.model import Model, build
from sim_top.simulator.toolchain import BuildError, make_environment, run_tool, verilator_root

__all__ = ["BareRun", "run_bare"]


@dataclass(frozen=True)
class BareRun:
    """Cycles that the bare loop ran, and the processor seconds it spent on them."""

    cycles: int
    seconds: float

    @property
    def cycles_per_second(self) -> float:
        """Speed of the bare loop."""
        return self.cycles / self.seconds


def run_bare(model: Model, *, script: Path, plusargs: tuple[str, ...] = ()) -> BareRun:
    """Repeat a recorded run of a shell model without Python.

    Parameters
    ----------
    model : a shell model on Verilator (see :func:`sim_top.shell.shell_model`)
    script : what ``Shell(record=script)`` wrote; the files it names lie beside it
    plusargs : plusargs of the recorded run

    Raises
    ------
    ValueError
        where the model is not one of Verilator with a clock of its own.
    BuildError
        where compiling or running fails.
    """
    if model.simulator != "verilator" or not model.timing:
        raise ValueError("model must be a shell model on verilator, not " + model.simulator)
    executable = _build(model)
    arguments = [f"+{argument.lstrip('+')}" for argument in plusargs]
    output = run_tool([str(executable), str(script.resolve()), *arguments], directory=script.parent)
    found = re.search(r"^cycles (\d+) seconds ([\d.]+)$", output, re.MULTILINE)
    if found is None:
        raise BuildError(f"the bare loop must report its cycles, not {output[-200:]!r}")
    return BareRun(cycles=int(found.group(1)), seconds=float(found.group(2)))


def _build(model: Model) -> Path:
    """Link the objects of the model's directory with the bare loop."""
    source = importlib.resources.files("sim_top").joinpath("cpp", "bare.cpp").read_text()
    directory = build(model)
    executable = directory / f"bare-{content_key(source)}"
    with locked(directory.with_name(directory.name + ".lock")):
        if executable.exists():
            return executable
        (directory / "bare.cpp").write_text(source)
        root = verilator_root()
        runtime = sorted(path.name for path in directory.glob("verilated*.o"))
        run_tool(
            [
                *("g++", "-std=c++20", "-fcoroutines", "-O2", "-DVL_TIME_CONTEXT"),
                *("-DVM_TRACE=0", "-DVM_COVERAGE=0", "-DVM_SC=0"),
                *("-I.", f"-I{root}/include", f"-I{root}/include/vltstd"),
                *("bare.cpp", "Vtop__ALL.a"),
                *(f"V{block}/lib{block}.a" for block in model.blocks),
                *(*runtime, "-lpthread", "-o", "bare.part"),
            ],
            directory=directory,
            environment=make_environment(),
        )
        os.replace(directory / "bare.part", executable)
    return executable
