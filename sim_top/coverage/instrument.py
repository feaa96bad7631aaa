"""Models with counters in them."""

from __future__ import annotations

import os
import re
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sim_top.simulator.model import Model

__all__ = ["WIDEST", "counters_file", "destination", "instrumented"]

WIDEST = 64
"""Toggles of wider nets are not counted: flits, packets and records, whose every bit the benches
compare; counters for each of their bits would be most of the model."""

_OPTIONS = (
    "--coverage-line",
    "--coverage-toggle",
    "--coverage-user",
    *("--coverage-max-width", str(WIDEST)),
)


def destination() -> Path | None:
    """Where simulations leave what they counted: ``ANTIPHON_COVERAGE``, or None: nothing is."""
    folder = os.environ.get("ANTIPHON_COVERAGE")
    return Path(folder) if folder else None


def instrumented(model: Model) -> Model:
    """``model`` with counters of lines, toggles and functional points.

    Those that run on Icarus stay as they are. Nothing is compiled apart any more: a block that
    stands alone would count for itself.
    """
    if model.simulator != "verilator" or set(_OPTIONS) <= set(model.options):
        return model
    sources = {name: _with_points(text) for name, text in model.sources.items()}
    return replace(
        model, sources=sources, options=(*model.options, *_OPTIONS), blocks=(), optimise="-O0"
    )


def counters_file(model: Model, folder: Path) -> Path:
    """A file of its own for one run of ``model``, beside the text of what was simulated."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in model.sources.items():
        (folder / f"{model.key}.{name}").write_text(text)
    return folder / f"{model.key}.{uuid.uuid4().hex[:8]}.dat"


def _with_points(text: str) -> str:
    """Verilog with a cover statement for each functional point of its modules."""

    from sim_top.coverage.points import conditions  # the RTL, which a simulation does not need

    def add(found: re.Match[str]) -> str:
        statements = "".join(
            f"  {point.label}: cover property (@(posedge clk) disable iff (rst) ({condition}));\n"
            for point, condition in conditions(found["name"], found[0])
        )
        return f"{found['body']}{statements}endmodule"

    return re.sub(
        r"(?P<body>^module (?P<name>\w+)\b.*?)^endmodule", add, text, flags=re.MULTILINE | re.DOTALL
    )
