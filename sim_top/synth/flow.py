"""From SystemVerilog to a netlist of standard cells, and its timing.

Yosys keeps the hierarchy, so that every module is mapped once and its area can be told; ABC maps
each module for the wanted period, sizes cells and buffers nets. Or the modules are joined before
ABC maps them, and a path across several is shortened as one. OpenSTA then times the whole netlist:
paths from register to register, with ideal clock and no wires. Results are cached by content: the
same sources are not synthesised again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from sim_top.simulator.cache import cached, content_key
from sim_top.simulator.toolchain import run_tool
from sim_top.synth import tools
from sim_top.synth.macros import black_boxes, liberty, macros_of, techmap
from sim_top.synth.timing import PathReport, read_timing, timing_script

__all__ = ["Effort", "Synthesis", "synthesise"]

_READ = """\
read_verilog -sv design.sv
hierarchy -check -top {top}
proc
select -assert-none t:$dlatch
check -assert
synth -top {top} -run begin:fine
check -assert
write_json coarse.json
write_rtlil coarse.il
"""
_MAP = """\
read_rtlil coarse.il
read_verilog -lib boxes.v
techmap -map macros.v
synth -top {top} -run fine:check {adders}
dfflibmap -liberty {cells}
{join}opt -fast
abc -liberty {cells} -constr drive.sdc -D {picoseconds} {script}
opt_clean -purge
write_json netlist.json
write_verilog -noattr -simple-lhs netlist.v
"""
#: Registers get names that still tell their module when there is only one.
_JOIN = "rename -enumerate -pattern register_% t:DFF*\nflatten\n"
_PREFIX_ADDERS = "-extra-map +/choices/kogge-stone.v"


class Effort(StrEnum):
    """What the netlist is mapped for.

    AREA: the least area at a period, as ABC sees each module alone; adders become chains.
    SPEED: the shortest paths in each module: parallel-prefix adders, and no step of ABC that gives
    depth for area. FLAT: the shortest paths through all modules, joined into one. There the mapper
    recovers no area: it takes the outputs of macros to be early, and would make the adders behind
    them chains again.
    """

    AREA = "area"
    SPEED = "speed"
    FLAT = "flat"


#: What of the script differs.
_EFFORTS = {
    Effort.AREA: {"adders": "", "join": "", "script": ""},
    Effort.SPEED: {
        "adders": _PREFIX_ADDERS,
        "join": "",
        "script": "-script +strash;dch;map;topo;buffer;upsize;dnsize",
    },
    Effort.FLAT: {
        "adders": _PREFIX_ADDERS,
        "join": _JOIN,
        "script": "-script +strash;dch;map,-r;topo;buffer;upsize;dnsize",
    },
}
#: What drives inputs and loads outputs of each module while ABC sizes its cells.
_DRIVE = "set_driving_cell BUFX4\nset_load 0.03 [all_outputs]\n"


@dataclass(frozen=True)
class Synthesis:
    """What the tools found.

    Attributes
    ----------
    top : name of the top module
    netlist : as Yosys writes it in JSON: modules with cells and connections
    hierarchy : by module of the design, the module of every instance in it; where modules were
        joined, names of registers and macros say where they were, with dots
    area : um2 of a cell type, macros included
    timing : paths
    verilog : file with the mapped netlist
    """

    top: str
    netlist: dict[str, Any]
    hierarchy: Mapping[str, Mapping[str, str]]
    area: dict[str, float]
    timing: PathReport
    verilog: Path


def synthesise(
    verilog: str,
    *,
    top: str,
    period_ns: float,
    effort: Effort = Effort.AREA,
    progress: Callable[[float], object] = lambda share: None,
) -> Synthesis:
    """Map a design to cells and time it.

    Parameters
    ----------
    verilog : SystemVerilog with every module
    top : the top module
    period_ns : the clock that ABC maps for
    effort : what it is mapped for
    progress : told which share is done

    Raises
    ------
    InputError
        where a tool or the cell library is missing.
    BuildError
        where a tool fails: a latch, a combinational loop, a net with two drivers; or OpenSTA
        cannot time the netlist.
    """
    cells = tools.standard_cells()
    yosys, sta = tools.yosys(), tools.opensta()
    version = run_tool([*yosys, "-V"], directory=Path.cwd())
    picoseconds = round(period_ns * 1000)
    steps = _EFFORTS[effort]

    def fill(directory: Path) -> None:
        def write(name: str, text: str) -> None:
            (directory / name).write_text(text)

        write("design.sv", verilog)
        write("read.ys", _READ.format(top=top))
        run_tool([*yosys, "-q", "-l", "read.log", "read.ys"], directory=directory)
        progress(0.3)
        macros = macros_of(json.loads((directory / "coarse.json").read_text()))
        write("boxes.v", black_boxes(macros))
        write("macros.v", techmap(macros))
        write("macros.lib", liberty(macros))
        write("drive.sdc", _DRIVE)
        write("cells.lib", cells.read_text())
        write("map.ys", _MAP.format(top=top, cells="cells.lib", picoseconds=picoseconds, **steps))
        run_tool([*yosys, "-q", "-l", "map.log", "map.ys"], directory=directory)
        progress(0.9)
        write("timing.tcl", timing_script(top=top, period_ns=period_ns))
        answer = run_tool([*sta, "timing.tcl"], directory=directory)
        read_timing(answer, period_ns=period_ns)  # nothing is kept that cannot be read
        write("timing.txt", answer)

    key = content_key(
        version, cells.read_text(), verilog, _READ, _MAP, repr(steps), _DRIVE,
        str(picoseconds), top,
        Path(__file__).with_name("macros.py").read_text(),
        Path(__file__).with_name("timing.py").read_text(),
    )  # fmt: skip
    directory = cached("synthesis", key, fill)
    coarse = json.loads((directory / "coarse.json").read_text())
    macros = macros_of(coarse)
    return Synthesis(
        top=top,
        netlist=json.loads((directory / "netlist.json").read_text()),
        hierarchy=_hierarchy(coarse),
        area=_areas(directory / "cells.lib") | {m.name: m.area_um2 for m in macros},
        timing=read_timing((directory / "timing.txt").read_text(), period_ns=period_ns),
        verilog=directory / "netlist.v",
    )


def _hierarchy(netlist: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """By module, the module of every instance in it."""
    modules = netlist["modules"]
    return {
        name: {
            instance: cell["type"]
            for instance, cell in module["cells"].items()
            if cell["type"] in modules
        }
        for name, module in modules.items()
    }


def _areas(library: Path) -> dict[str, float]:
    """Area of every cell of a Liberty file."""
    out: dict[str, float] = {}
    cell = ""
    for line in library.read_text().splitlines():
        words = line.replace("(", " ").replace(")", " ").replace(":", " ").replace(";", " ").split()
        if words[:1] == ["cell"]:
            cell = words[1]
        elif words[:1] == ["area"] and cell and cell not in out:
            out[cell] = float(words[1])
    return out
