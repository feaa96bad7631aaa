"""The clock that a design reaches on an FPGA: Lattice ECP5, by Yosys and nextpnr."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from sim_top.simulator.cache import cached, content_key
from sim_top.simulator.toolchain import run_tool
from sim_top.synth import tools

__all__ = ["FpgaReport", "place_ecp5"]

_SCRIPT = """\
read_verilog -sv design.sv
synth_ecp5 -top {top} -json design.json
"""


@dataclass(frozen=True)
class FpgaReport:
    """After placing and routing on the largest ECP5 (LFE5UM5G-85F), without its pins.

    Attributes
    ----------
    fmax_mhz : of ``clk``
    used : what is used of each kind of site, with what there is
    """

    fmax_mhz: float
    used: dict[str, tuple[int, int]]


def place_ecp5(verilog: str, *, top: str) -> FpgaReport:
    """Synthesise, place and route.

    Raises
    ------
    InputError
        where a tool is missing.
    BuildError
        where it does not fit.
    """
    yosys, nextpnr = tools.yosys(), tools.nextpnr_ecp5()

    def fill(directory: Path) -> None:
        (directory / "design.sv").write_text(verilog)
        (directory / "fpga.ys").write_text(_SCRIPT.format(top=top))
        run_tool([*yosys, "-q", "fpga.ys"], directory=directory)
        said = run_tool(
            [*nextpnr, "--um5g-85k", "--out-of-context", "--json", "design.json", "--seed", "1"],
            directory=directory,
        )
        (directory / "fpga.txt").write_text(said)

    versions = [run_tool([*yosys, "-V"], directory=Path.cwd())]
    versions.append(run_tool([*nextpnr, "--version"], directory=Path.cwd()))
    directory = cached("fpga", content_key(*versions, verilog, top, _SCRIPT), fill)
    return read_report((directory / "fpga.txt").read_text())


def read_report(text: str) -> FpgaReport:
    """What nextpnr has said.

    Raises
    ------
    ValueError
        where it names no clock.
    """
    clocks = re.findall(r"Max frequency for clock '[^']*': ([\d.]+) MHz", text)
    if not clocks:
        raise ValueError("nextpnr must name the frequency of a clock")
    used = {
        name: (int(count), int(most))
        for name, count, most in re.findall(r"Info:\s+(\w+):\s+(\d+)/\s*(\d+)\s", text)
        if int(count)
    }
    return FpgaReport(fmax_mhz=float(clocks[-1]), used=used)
