"""The mapped netlist as a simulation model: what was synthesised runs the same test benches."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from sim_top.simulator.cache import cached, content_key
from sim_top.simulator.model import Model
from sim_top.simulator.toolchain import run_tool
from sim_top.synth import tools
from sim_top.synth.flow import Effort, synthesise
from sim_top.synth.macros import Macro, macros_of

__all__ = ["mapped", "memory_models"]


def mapped(
    model: Model, module: str, *, period_ns: float = 5.0, effort: Effort = Effort.AREA
) -> Model:
    """``model`` with ``module``, and all that is below it, as cells of the standard library.

    Cells are what their functions in the Liberty file say, without delays; memories that are
    macros are modelled by :func:`memory_models`. Flip-flops start unknown: on a four-state
    simulator whatever reset does not reach stays X.

    Parameters
    ----------
    model : one of its sources holds ``module`` and everything below it
    module : what is synthesised
    period_ns, effort : as of :func:`sim_top.synth.flow.synthesise`

    Raises
    ------
    ValueError
        where no source has the module.
    InputError
        where a tool or the cell library is missing.
    """
    named = re.compile(rf"^module {re.escape(module)}\b", re.MULTILINE)
    where = next((name for name, text in model.sources.items() if named.search(text)), None)
    if where is None:
        raise ValueError(f"module must be in a source of the model, not {module!r}")
    found = synthesise(model.sources[where], top=module, period_ns=period_ns, effort=effort)
    netlist = found.verilog.read_text()
    before = json.loads(found.verilog.with_name("coarse.json").read_text())
    used = [macro for macro in macros_of(before) if re.search(rf"\b{macro.name}\b", netlist)]
    others = {name: text for name, text in model.sources.items() if name != where}
    parts = {"netlist.v": netlist, "cells.v": _cells(), "memories.v": memory_models(used)}
    return replace(model, sources={**others, **parts})


def memory_models(macros: Iterable[Macro]) -> str:
    """Verilog of the macros: a read shows what was there before a write in the same cycle."""
    out = []
    for macro in macros:
        step = macro.width // macro.enables
        writes = "\n".join(
            f"    if (we[{k}]) words[wa][{k * step + step - 1}:{k * step}] <= "
            f"wd[{k * step + step - 1}:{k * step}];"
            for k in range(macro.enables)
        )
        out.append(
            f"module {macro.name} (input clk, input re, input [{macro.address - 1}:0] ra, "
            f"output reg [{macro.width - 1}:0] rd, input [{macro.enables - 1}:0] we, "
            f"input [{macro.address - 1}:0] wa, input [{macro.width - 1}:0] wd);\n"
            f"  reg [{macro.width - 1}:0] words [0:{macro.words - 1}];\n"
            f"  always @(posedge clk) begin\n"
            f"    if (re) rd <= words[ra];\n{writes}\n"
            f"  end\nendmodule\n"
        )
    return "\n".join(out)


def _cells() -> str:
    """Verilog of the cells, by their functions in the Liberty file."""
    library = tools.standard_cells().read_text()
    yosys = tools.yosys()

    def fill(directory: Path) -> None:
        (directory / "cells.lib").write_text(library)
        (directory / "cells.ys").write_text(
            "read_liberty cells.lib\nwrite_verilog -noattr cells.v\n"
        )
        run_tool([*yosys, "-q", "cells.ys"], directory=directory)

    version = run_tool([*yosys, "-V"], directory=Path.cwd())
    return (cached("cells", content_key(version, library), fill) / "cells.v").read_text()
