"""Figures of what the benches reached: a table, JSON, and a section for the documentation."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter as Tally
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim_top.coverage.exclusions import constants, reason
from sim_top.coverage.instrument import WIDEST
from sim_top.coverage.measured import Counter, counters
from sim_top.coverage.points import GROUPS, POINTS, Point
from sim_top.emission.hierarchy import module_name
from sim_top.simulator.cache import ROOT

__all__ = ["Bench", "Figures", "figures", "markdown", "missing", "write"]

_KINDS = {"line": "line", "branch": "line", "toggle": "toggle"}


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What was run.

    Parameters
    ----------
    name : of its folder
    top : class of the module ``dut`` in it; empty where the top has the name of its class
    """

    name: str
    top: str


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What was reached.

    Parameters
    ----------
    sources : by source file of ``rtl`` and kind (``line``, ``toggle``): how many were reached, and
        of how many; equal modules of several benches count once for each bench
    excluded : toggles that were not asked for, by reason
    points : how often each functional point was, by label
    unreached : what was not, ``module.net:0->1`` or ``module:line kind``, for each source file
    """

    sources: Mapping[str, Mapping[str, tuple[int, int]]]
    excluded: Mapping[str, int]
    points: Mapping[str, int]
    unreached: Mapping[str, tuple[str, ...]]

    def total(self, kind: str) -> tuple[int, int]:
        """Reached, and of how many, of a kind over all sources."""
        pairs = [kinds[kind] for kinds in self.sources.values() if kind in kinds]
        return sum(reached for reached, _ in pairs), sum(of for _, of in pairs)


def missing(found: Figures) -> tuple[Point, ...]:
    """The functional points that no bench has reached."""
    return tuple(point for point in POINTS if not found.points.get(point.label))


def figures(folder: Path, benches: Iterable[Bench]) -> Figures:
    """Of what the runs of ``benches`` left below ``folder``.

    Raises
    ------
    FileNotFoundError
        where a bench has left nothing.
    """
    sources = _sources()
    reached: dict[str, dict[str, list[int]]] = {}
    excluded: Tally[str] = Tally()
    points: Tally[str] = Tally()
    unreached: dict[str, list[str]] = {}
    for bench in benches:
        files = sorted((folder / bench.name).glob("*.dat"))
        if not files:
            raise FileNotFoundError(f"{folder / bench.name} must hold what a bench has counted")
        fixed: dict[str, Mapping[str, frozenset[str]]] = {}
        for counter in counters(files):
            if counter.kind == "user":
                points[counter.what.split("#")[0]] += counter.count
                continue
            module = _plain(bench.top) if counter.module == "dut" else counter.module
            source = sources.get(re.sub(r"_\d+$", "", module))
            if source is None:
                continue  # the shell, memories and wrappers of the benches
            if counter.kind == "toggle":
                if counter.design not in fixed:
                    texts = (folder / bench.name).glob(f"{counter.design}.*.sv")
                    fixed[counter.design] = _constants(texts)
                bit = counter.what.rpartition(":")[0]
                why = reason(
                    _plain_net(bit), fixed[counter.design].get(counter.module, frozenset())
                )
                if why is not None:
                    excluded[why] += 1
                    continue
            pair = reached.setdefault(source, {}).setdefault(_KINDS[counter.kind], [0, 0])
            pair[0] += counter.count > 0
            pair[1] += 1
            if not counter.count:
                unreached.setdefault(source, []).append(_described(bench, counter))
    return Figures(
        sources={
            name: {kind: (pair[0], pair[1]) for kind, pair in sorted(kinds.items())}
            for name, kinds in sorted(reached.items())
        },
        excluded=dict(excluded),
        points={point.label: points[point.label] for point in POINTS},
        unreached={name: tuple(items) for name, items in sorted(unreached.items())},
    )


def _described(bench: Bench, counter: Counter) -> str:
    if counter.kind == "toggle":
        return f"{bench.name}: {counter.module}.{_plain_net(counter.what)}"
    return f"{bench.name}: {counter.module}:{counter.line} {counter.what.split('#')[0]}"


def _constants(texts: Iterable[Path]) -> Mapping[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for path in texts:
        found |= constants(path.read_text())
    return found


def _plain_net(name: str) -> str:
    """A net as the text has it: Verilator writes ``__`` as ``___05F``."""
    return name.replace("___05F", "__")


def _sources() -> dict[str, str]:
    """By name of a module the source of its class."""
    found = {}
    for path in sorted((ROOT / "rtl").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found[_plain(node.name)] = str(path.relative_to(ROOT))
    return found


def _plain(class_name: str) -> str:
    return module_name(type(class_name or "none", (), {})())


def _share(pair: tuple[int, int] | None) -> str:
    if pair is None:
        return ""
    reached, of = pair
    return f"{reached / of:.1%} of {of}"


def markdown(found: Figures) -> str:
    """The section: by source file, the functional points, what was left out and why."""
    rows = ["| source | lines and branches | toggles |", "|---|---|---|"]
    for name, kinds in found.sources.items():
        rows.append(f"| `{name}` | {_share(kinds.get('line'))} | {_share(kinds.get('toggle'))} |")
    total = {kind: _share(found.total(kind)) for kind in ("line", "toggle")}
    rows += [f"| all | {total['line']} | {total['toggle']} |", ""]
    rows += ["| functional points | reached | of |", "|---|---|---|"]
    for group, text in GROUPS.items():
        points = [point for point in POINTS if point.group == group]
        hit = sum(found.points[point.label] > 0 for point in points)
        rows.append(f"| {group}: {text} | {hit} | {len(points)} |")
    rows += ["", "| toggles that are not asked for | why |", "|---|---|"]
    for why, number in sorted(found.excluded.items()):
        rows.append(f"| {number} | {why} |")
    rows.append(
        f"| not counted | nets of more than {WIDEST} bits: the benches compare their data |"
    )
    return "\n".join([*rows, ""])


def document(found: Figures) -> dict[str, Any]:
    """For JSON."""
    return {
        "sources": {
            name: {kind: {"reached": pair[0], "of": pair[1]} for kind, pair in kinds.items()}
            for name, kinds in found.sources.items()
        },
        "excluded": dict(found.excluded),
        "points": {
            point.name: {"group": point.group, "count": found.points[point.label]}
            for point in POINTS
        },
        "missing": [point.name for point in missing(found)],
        "unreached": {name: list(items) for name, items in found.unreached.items()},
    }


def write(folder: Path, benches: Iterable[Bench]) -> Figures:
    """``coverage.json`` and ``coverage.md`` in ``folder``; a table on standard output."""
    found = figures(folder, benches)
    (folder / "coverage.json").write_text(json.dumps(document(found), indent=1) + "\n")
    (folder / "coverage.md").write_text(markdown(found))
    print(markdown(found))
    for point in missing(found):
        print(f"not reached: {point.group}, {point.name}")
    return found
