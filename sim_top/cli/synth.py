"""Area by block and the clock of a part of the design, mapped to OSU018 (180 nm, typical) by Yosys
and timed by OpenSTA: register to register, without wires. Memories are macros of a stated model.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from sim_top.cli.emit import add_design_options, settings_of
from sim_top.cli.frame import Output
from sw_model.errors import InputError

if TYPE_CHECKING:
    from sim_top.synth.report import SynthesisReport
    from sim_top.synth.timing import PathReport

EXAMPLE = "antiphon synth fred --set data_types=fp16 --set adder_depth=3"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add arguments."""
    parser.add_argument("top", metavar="TOP", help="ace, fred, link, or platform")
    add_design_options(parser, period="clock period that cells are chosen for")
    parser.set_defaults(effort="area")
    effort = parser.add_mutually_exclusive_group()
    effort.add_argument(
        "--speed",
        dest="effort",
        action="store_const",
        const="speed",
        help="map every module for its shortest paths, not for the least area at that clock period",
    )
    effort.add_argument(
        "--flat",
        dest="effort",
        action="store_const",
        const="flat",
        help="map for the shortest paths of the whole, its modules joined into one: the clock, "
        "without the area by block",
    )
    parser.add_argument(
        "--ecp5", action="store_true", help="also place and route on a Lattice ECP5-85"
    )


def run(arguments: argparse.Namespace, output: Output) -> bool:
    """Synthesise."""
    settings = settings_of(arguments)

    from sim_top.emit import written
    from sim_top.simulator.toolchain import BuildError
    from sim_top.synth.flow import Effort, synthesise
    from sim_top.synth.fpga import place_ecp5
    from sim_top.synth.report import report

    with output.progress(f"synthesis of {arguments.top}") as progress:
        text, _ = written(
            arguments.top,
            preset=arguments.preset,
            settings=settings,
            progress=lambda share: progress(0.05 * share),
        )
        progress(0.05)
        try:
            found = synthesise(
                text,
                top=arguments.top,
                period_ns=arguments.period_ps / 1000,
                effort=Effort(arguments.effort),
                progress=progress,
            )
            fpga = place_ecp5(text, top=arguments.top) if arguments.ecp5 else None
        except BuildError as error:
            raise InputError(f"{arguments.top} cannot be synthesised: {error}") from None
    summary = report(found)
    output.data = {
        "top": arguments.top,
        "cells": summary.cells,
        "area_um2": summary.area_um2,
        "fmax_mhz": summary.fmax_mhz,
        "longest_path_ns": summary.longest_ns,
        "largest_fanout": summary.largest_fanout,
        "largest_fanout_net": summary.fanout_net,
        "netlist": str(found.verilog),
        "path": [asdict(step) for step in found.timing.steps],
        "blocks": [asdict(block) for block in summary.blocks],
    }
    if fpga is not None:
        output.data["ecp5"] = {"fmax_mhz": fpga.fmax_mhz, "used": fpga.used}
    if output.json_target != "-":
        _show(arguments.top, summary, found.timing, output)
        if fpga is not None:
            sites = ", ".join(f"{n} {used} of {most}" for n, (used, most) in fpga.used.items())
            output.show(f"ECP5-85: {fpga.fmax_mhz:.1f} MHz; {sites}")
    return True


def _show(top: str, summary: SynthesisReport, timing: PathReport, output: Output) -> None:
    from rich import box
    from rich.table import Table

    table = Table(title=f"Synthesis of {top}", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("module")
    for column in ("instances", "cells", "area um2", "share", "memories um2", "path ns"):
        table.add_column(column, justify="right")
    for block in summary.blocks:
        table.add_row(
            "  " * block.depth + block.name,
            f"{block.instances:,}",
            f"{block.cells:,}",
            f"{block.area_um2:,.0f}",
            f"{100 * block.area_um2 / summary.area_um2:.1f} %",
            f"{block.memory_um2:,.0f}" if block.memory_um2 else "",
            f"{block.longest_ns:.2f}" if block.longest_ns else "",
        )
    output.show(table)
    output.show(
        f"{summary.cells:,} cells, {summary.area_um2:,.0f} um2, {summary.fmax_mhz:.1f} MHz "
        f"(longest path {summary.longest_ns:.3f} ns)"
    )
    output.show(f"largest fan-out {summary.largest_fanout}: {summary.fanout_net}")
    if timing.steps:
        output.show(f"longest path: {timing.steps[0].pin} to {timing.steps[-1].pin}")
