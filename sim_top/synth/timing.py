"""What OpenSTA is asked, and what it answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sim_top.simulator.toolchain import BuildError

__all__ = ["PathReport", "Step", "read_timing", "timing_script"]

_DETAIL, _ENDS = "== longest path", "== ends"
_MANY = 1_000_000


@dataclass(frozen=True)
class Step:
    """One cell on a path.

    Attributes
    ----------
    pin : that the signal leaves, or the register that it reaches
    cell : its type
    delay_ns : of it
    """

    pin: str
    cell: str
    delay_ns: float


@dataclass(frozen=True)
class PathReport:
    """From register to register.

    Attributes
    ----------
    longest_ns : of any path, with the setup of its end; 0 where there is none
    steps : cells of that path
    ends : longest path that ends at a pin, by pin
    """

    longest_ns: float
    steps: tuple[Step, ...]
    ends: Mapping[str, float]


def timing_script(*, top: str, period_ns: float) -> str:
    """Tcl for OpenSTA: the longest path in full, then the slack of every end of a path."""
    return f"""\
read_liberty cells.lib
read_liberty macros.lib
read_verilog netlist.v
link_design {top}
create_clock -name clk -period {period_ns} clk
set_false_path -from [all_inputs]
set_false_path -to [all_outputs]
puts "{_DETAIL}"
report_checks -path_delay max -digits 4
puts "{_ENDS}"
report_checks -path_delay max -format end -digits 4 -group_count {_MANY} -endpoint_count 1
exit
"""


def read_timing(text: str, *, period_ns: float) -> PathReport:
    """Read its answer.

    Raises
    ------
    BuildError
        where it names an error, after which it goes on as if nothing were; where it has not the
        two parts asked for.
    """
    if errors := re.findall(r"\bError: (.*)", text):
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise BuildError(f"OpenSTA cannot time the netlist: {errors[0]}{more}")
    if _DETAIL not in text or _ENDS not in text:
        raise BuildError(f"OpenSTA must answer with paths, not {text[-300:]!r}")
    detail, ends = text.split(_DETAIL, 1)[1].split(_ENDS, 1)
    steps = []
    for match in re.finditer(
        r"^\s+(-?[\d.]+)\s+-?[\d.]+ [v^] (\S+) \((\w+)\)$", detail, flags=re.MULTILINE
    ):
        delay, pin, cell = match.groups()
        steps.append(Step(pin, cell, float(delay)))
    slacks = {
        name: float(slack)
        for name, slack in re.findall(
            r"^(\S+) \(\w+\)\s+-?[\d.]+\s+-?[\d.]+\s+(-?[\d.]+)", ends, flags=re.MULTILINE
        )
    }
    found = {name: period_ns - slack for name, slack in slacks.items()}
    return PathReport(longest_ns=max(found.values(), default=0.0), steps=tuple(steps), ends=found)
