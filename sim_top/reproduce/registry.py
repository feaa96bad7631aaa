"""Which sets of published results there are."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["SETS", "Row", "Table", "draw", "rows_of", "tables_of"]

#: Modules by name. Each has ``rows(progress) -> list[Row]``, and may have ``draw(path)`` and
#: ``tables() -> list[Table]``.
SETS = {
    "ace": "sim_top.reproduce.ace",
    "astra-sim": "sim_top.reproduce.astra_sim",
    "fred": "sim_top.reproduce.fred",
    "libra": "sim_top.reproduce.libra",
    "themis": "sim_top.reproduce.themis",
}


@dataclass(frozen=True)
class Row:
    """One figure.

    Parameters
    ----------
    name : what it is
    ours, reference : the two figures
    provenance : who says so, and where
    tolerance : how far they may lie apart, in the same unit
    unit : of all three
    at_least : the reference is a floor: anything above it is fine too
    reason : one sentence that says why ours lies farther away than the tolerance, where it does
        and the cause was found; empty elsewhere
    """

    name: str
    ours: float
    reference: float
    provenance: str
    tolerance: float
    unit: str = ""
    at_least: bool = False
    reason: str = ""

    @property
    def explained(self) -> bool:
        """Whether ours is near enough, or why it is not is known."""
        return self.ok or bool(self.reason)

    @property
    def ok(self) -> bool:
        """Whether ours is near enough."""
        if self.at_least and self.ours >= self.reference:
            return True
        return abs(self.ours - self.reference) <= self.tolerance

    def json(self) -> dict[str, Any]:
        """The keys of ``antiphon reproduce``."""
        return {
            "name": self.name,
            "ours": self.ours,
            "reference": self.reference,
            "provenance": self.provenance,
            "tolerance": self.tolerance,
            "unit": self.unit,
            "ok": self.ok,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Table:
    """Figures of ours that have no published one beside each.

    Parameters
    ----------
    title : what they are
    columns : their names, with units
    rows : as many cells each
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | int | float, ...], ...]

    def json(self) -> dict[str, Any]:
        """As keys."""
        return {"title": self.title, "columns": self.columns, "rows": self.rows}


def tables_of(name: str) -> list[Table]:
    """The tables of a set; none where it has none."""
    module = _module(name)
    return list(module.tables()) if hasattr(module, "tables") else []


def rows_of(name: str, progress: Callable[[float], object]) -> list[Row]:
    """Compute a set."""
    rows: list[Row] = _module(name).rows(progress)
    return rows


def _module(name: str) -> Any:
    return importlib.import_module(SETS[name])


def draw(name: str, path: Path) -> bool:
    """Draw the plot of a set, whole or not at all. False where it has none."""
    module = _module(name)
    if not hasattr(module, "draw"):
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        module.draw(partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return True
