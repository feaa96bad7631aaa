"""Several results beside each other, as tables for people."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from sw_model.report.differences import Difference

__all__ = ["differences_table", "sweep_table"]


def _table(title: str, *columns: str, words: int) -> Table:
    table = Table(
        title=escape(title), box=box.SIMPLE_HEAD, title_justify="left", title_style="bold"
    )
    for index, column in enumerate(columns):
        table.add_column(escape(column), justify="left" if index < words else "right")
    return table


def sweep_table(title: str, runs: Sequence[dict[str, Any]]) -> Table:
    """A row for each run; ``runs`` have their settings and the keys of ``antiphon run``."""
    keys = list(runs[0]["settings"])
    table = _table(
        title, *_short(keys), "total us", "against first", "compute us", "exposed us",
        "utilisation by dim", words=len(keys),
    )  # fmt: skip
    first = runs[0]["total_ns"]
    best = min(run["total_ns"] for run in runs)
    for run in runs:
        change = f"{run['total_ns'] / first - 1:+.2%}" if first else ""
        table.add_row(
            *(escape(str(setting)) for setting in run["settings"].values()),
            f"{run['total_ns'] / 1000:,.3f}",
            change,
            f"{run['compute_ns'] / 1000:,.3f}",
            f"{run['exposed_comm_ns'] / 1000:,.3f}",
            " ".join(f"{dim['utilisation']:.1%}" for dim in run["dims"]),
            style="bold" if run["total_ns"] == best and len(runs) > 1 else None,
        )
    return table


def _short(keys: Sequence[str]) -> list[str]:
    """The last word of each key, or all of it where two end alike."""
    last = [key.rsplit(".", 1)[-1] for key in keys]
    return [word if last.count(word) == 1 else key for word, key in zip(last, keys, strict=True)]


def differences_table(title: str, found: Sequence[Difference], *, rows: int) -> Table:
    """What differs. Of more than ``rows``, totals come before their parts, and large changes before
    small ones."""
    table = _table(title, "key", "from", "to", "change", words=1)
    chosen = list(found)
    if len(chosen) > rows:
        chosen.sort(key=lambda one: (_depth(one.key), -abs(one.relative or 0.0)))
        chosen = chosen[:rows]
    for one in chosen:
        change = "" if one.relative is None else f"{one.relative:+.2%}"
        if one.only_in is not None:
            change = f"only in {one.only_in}"
        table.add_row(escape(one.key), _cell(one.before), _cell(one.after), change)
    if not found:
        table.show_header = False
        table.add_row("no difference", "", "", "")
    elif len(chosen) < len(found):
        table.caption = f"{len(found)} differences, {len(chosen)} of them here; all with --json"
    return table


def _depth(key: str) -> int:
    return key.count(".") + key.count("[")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        text = value if isinstance(value, str) else json.dumps(value)
        return escape(text if len(text) <= 40 else text[:37] + "...")
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
