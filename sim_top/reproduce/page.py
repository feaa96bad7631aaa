"""All published figures on one page, ours beside them (``docs/results.md``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from sim_top.reproduce.registry import Row, Table

__all__ = ["page"]

#: What each set is called, and where its figures stand.
_TITLES = {
    "ace": "ACE (Rashidi et al., ISCA 2021)",
    "astra-sim": "ASTRA-sim 2.0 (Won et al., ISPASS 2023, and its repository)",
    "fred": "FRED (Rashidi et al., ISCA 2025)",
    "libra": "LIBRA (Won et al., ISPASS 2024, and its repository)",
    "themis": "Themis (Rashidi et al., ISCA 2022)",
}
_HEAD = """\
# Published results, ours beside them

Made by `antiphon reproduce all`; do not edit. A figure is *ok* within its tolerance; where it lies
farther away, the reason stands below its table. No constant of a model is fitted to a published
figure: what a model needs and the publication does not give is stated with the row. Where a batch
was chosen by trying, or to meet a figure, the row says so: it shows how far the figure hangs on the
batch, and confirms nothing.
"""


def page(
    sets: Mapping[str, Sequence[Row]],
    plots: Mapping[str, str],
    tables: Mapping[str, Sequence[Table]] = MappingProxyType({}),
) -> str:
    """Markdown.

    Parameters
    ----------
    sets : rows by set
    plots : where the plot of a set is, from the page; not every set has one
    tables : of a set, where it has some
    """
    out = [_HEAD, *_summary(sets)]
    for name, rows in sets.items():
        out.append(f"\n## {_TITLES.get(name, name)}\n")
        out.append(f"`antiphon reproduce {name}`\n")
        if name in plots:
            out.append(f"![{name}: ours and the published figures]({plots[name]})\n")
        out.append("| what | published | provenance | ours | deviation | within | |")
        out.append("|---|---:|---|---:|---:|---:|---|")
        out += [_line(row) for row in rows]
        reasons = _reasons(rows)
        if reasons:
            out.append("\nWhere they differ by more:\n")
            out += reasons
        for table in tables.get(name, ()):
            out += _table(table)
    return "\n".join(out) + "\n"


def _summary(sets: Mapping[str, Sequence[Row]]) -> list[str]:
    out = ["| set | figures | within tolerance | farther, with its reason | unexplained |"]
    out.append("|---|---:|---:|---:|---:|")
    for name, rows in sets.items():
        near = sum(row.ok for row in rows)
        known = sum(row.explained for row in rows)
        out.append(f"| {name} | {len(rows)} | {near} | {known - near} | {len(rows) - known} |")
    return out


def _line(row: Row) -> str:
    verdict = "ok" if row.ok else "see below" if row.reason else "**no**"
    unit = f" {row.unit}" if row.unit else ""
    within = _number(row.tolerance) if row.tolerance else "" if row.at_least else "exact"
    floor = "≥ " if row.at_least else ""
    cells = (
        row.name.replace("|", "/"),
        f"{floor}{_number(row.reference)}{unit}",
        row.provenance.replace("|", "/"),
        f"{_number(row.ours)}{unit}",
        _deviation(row),
        within,
        verdict,
    )
    return "| " + " | ".join(cells) + " |"


def _table(table: Table) -> list[str]:
    numbers = [all(not isinstance(row[c], str) for row in table.rows) for c in _places(table)]
    return [
        f"\n{table.title}:\n",
        "| " + " | ".join(table.columns) + " |",
        "|" + "|".join("---:" if number else "---" for number in numbers) + "|",
        *(
            "| " + " | ".join(c if isinstance(c, str) else _number(c) for c in row) + " |"
            for row in table.rows
        ),
    ]


def _places(table: Table) -> range:
    return range(len(table.columns))


def _deviation(row: Row) -> str:
    if row.ours == row.reference:
        return "0"
    if not row.reference:
        return f"{row.ours - row.reference:+.3g}"
    return f"{100 * (row.ours / row.reference - 1):+.2f} %"


def _reasons(rows: Sequence[Row]) -> list[str]:
    """A reason that several rows share stands once."""
    names: dict[str, list[str]] = {}
    for row in rows:
        if row.reason and not row.ok:
            names.setdefault(row.reason, []).append(row.name)
    return [f"* {'; '.join(name)}: {reason}." for reason, name in names.items()]


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.5g}"
