"""Running a model under cocotb, and judging how it went."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import cocotb_tools.config
import find_libpython

from sim_top.coverage.instrument import counters_file, destination, instrumented
from sim_top.simulator.cache import ROOT, build_root
from sim_top.simulator.model import Model, build

__all__ = ["SimulationError", "SimulationResult", "run_cocotb"]

_TAIL_LINES = 60
_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
_ICARUS_ASSERTION = re.compile(r"(?<!\w)ERROR: .*")


class SimulationError(AssertionError):
    """A simulation failed: a test in it, an assertion of the RTL, or the simulator itself."""


@dataclass(frozen=True)
class SimulationResult:
    """What a simulation that passed leaves behind.

    Attributes
    ----------
    tests : names of the cocotb tests that ran
    log : everything the simulator and the tests wrote
    """

    tests: tuple[str, ...]
    log: str


def run_cocotb(
    model: Model,
    *,
    module: str,
    testcase: str | None = None,
    seed: int = 1,
    parameters: Mapping[str, Any] | None = None,
    plusargs: tuple[str, ...] = (),
    timeout_seconds: float = 300,
    waves: Path | None = None,
    echo: bool = False,
) -> SimulationResult:
    """Build ``model`` if need be and run the cocotb tests of ``module`` on it.

    Parameters
    ----------
    model : what is simulated
    module : Python module with the tests, as ``testbenches.tb_adder``
    testcase : only the test of this name
    seed : seed of cocotb and of ``testbenches.random_generator``
    parameters : JSON values that ``testbenches.parameters()`` returns inside the simulation
    plusargs : plusargs of the Verilog side
    timeout_seconds : wall time after which the run is given up
    waves : file for a waveform (FST); the model must have been described with ``waves``
    echo : pass the log on to standard output as it comes

    Raises
    ------
    SimulationError
        where a test fails, an assertion of the RTL fires, no test runs, or time runs out; the
        message names the failing tests, the seed and the directory, and ends with the log's tail.
    """
    directory = build(model)
    runs = build_root() / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    name = module.rpartition(".")[2]
    workplace = Path(tempfile.mkdtemp(prefix=f"{name}-{model.simulator}-", dir=runs))
    results = workplace / "results.xml"
    log_file = workplace / "simulation.log"

    command = _command(model, directory, waves)
    command += [f"+{argument.lstrip('+')}" for argument in plusargs]
    folder = destination()
    if folder is not None and model.simulator == "verilator":
        counted = counters_file(instrumented(model), folder.resolve())
        command.append(f"+verilator+coverage+file+{counted}")
    variables = {**os.environ, **_cocotb_environment(model, module, results, testcase, seed)}
    variables["ANTIPHON_PARAMETERS"] = json.dumps(dict(parameters or {}))
    status = _execute(command, workplace, variables, log_file, timeout_seconds, echo)

    log = log_file.read_text(errors="replace")
    tests, problems = _judge(results, log, model.simulator, status, timeout_seconds)
    if problems:
        tail = "\n".join(log.splitlines()[-_TAIL_LINES:])
        raise SimulationError(
            f"{module} on {model.simulator} (seed {seed}): "
            + "; ".join(problems)
            + f"\nrun directory: {workplace}\nend of its log:\n{tail}"
        )
    shutil.rmtree(workplace, ignore_errors=True)
    return SimulationResult(tests=tuple(tests), log=log)


def _command(model: Model, directory: Path, waves: Path | None) -> list[str]:
    executable = str(directory / model.executable)
    if model.simulator == "icarus":
        interface = cocotb_tools.config.lib_entry("vpi", "icarus")
        output = ["-fst", f"+waves={waves.resolve()}"] if waves else ["-none"]
        return ["vvp", "-m", interface, executable, *output]
    return [executable, *(["--trace", "--trace-file", str(waves.resolve())] if waves else [])]


def _cocotb_environment(
    model: Model, module: str, results: Path, testcase: str | None, seed: int
) -> dict[str, str]:
    library = find_libpython.find_libpython()
    if library is None:
        raise SimulationError("the shared library of Python must be installed (libpython3)")
    variables = {
        "COCOTB_TOPLEVEL": model.top,
        "COCOTB_TEST_MODULES": module,
        "COCOTB_RESULTS_FILE": str(results),
        "COCOTB_RANDOM_SEED": str(seed),
        "COCOTB_ANSI_OUTPUT": "0",
        "TOPLEVEL_LANG": "verilog",
        "GPI_USERS": f"{library};{cocotb_tools.config.pygpi_entry_point()}",
        "PYGPI_PYTHON_BIN": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *(path for path in sys.path if path)]),
        "PATH": os.environ["PATH"] + os.pathsep + str(cocotb_tools.config.libs_dir),
    }
    if model.simulator == "verilator":
        variables["COCOTB_TRUST_INERTIAL_WRITES"] = "1"
    if testcase is not None:
        variables["COCOTB_TEST_FILTER"] = rf"\.{re.escape(testcase)}$"
    return variables


def _die_with_parent() -> None:
    """Have the kernel end the simulator when this process ends, however that happens."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _execute(
    command: list[str],
    workplace: Path,
    variables: dict[str, str],
    log_file: Path,
    timeout_seconds: float,
    echo: bool,
) -> int | None:
    """Run to the end; the exit status, or None where time ran out."""
    with open(log_file, "wb") as log:
        process = subprocess.Popen(
            command,
            cwd=workplace,
            env=variables,
            stdout=None if echo else log,
            stderr=None if echo else subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
        try:
            return process.wait(timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _judge(
    results: Path, log: str, simulator: str, status: int | None, timeout_seconds: float
) -> tuple[list[str], list[str]]:
    """Names of the tests that ran, and what is wrong with the run (nothing, if all passed)."""
    tests: list[str] = []
    problems: list[str] = []
    if status is None:
        problems.append(f"no end within {timeout_seconds:g} s of wall time")
    if results.is_file():
        for case in ElementTree.parse(results).getroot().iter("testcase"):
            tests.append(case.get("name", "?"))
            for kind in ("failure", "error"):
                for failure in case.findall(kind):
                    what = failure.get("error_msg") or failure.get("message") or kind
                    problems.append(f"{tests[-1]} failed: {what}")
        if not tests:
            problems.append("no test ran")
    elif status is not None:
        problems.append(f"the simulator ended with status {status} and left no results")
    if simulator == "icarus":
        problems += [f"RTL assertion: {line}" for line in _ICARUS_ASSERTION.findall(log)[:3]]
    if status and not problems:
        problems.append(f"the simulator ended with status {status}")
    return tests, problems
