"""What simulations have counted: reading the files that Verilator's models write."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Counter", "counters"]

_LINE = re.compile(r"^C '(?P<key>.*)' (?P<count>\d+)$")


@dataclass(frozen=True, kw_only=True)
class Counter:
    """One counter of a design, over all runs of it.

    Parameters
    ----------
    design : which model
    kind : ``line``, ``branch``, ``toggle`` or ``user`` (a functional point)
    module : name of the module in its text
    line : where, in that text
    what : of a toggle net, bit and direction, of a point its label, else the kind of block
    count : how often
    """

    design: str
    kind: str
    module: str
    line: int
    what: str
    count: int


def counters(files: Iterable[Path]) -> list[Counter]:
    """The counters of all files; those of one design are added up.

    Raises
    ------
    ValueError
        for a line that is no counter; the message names file and line.
    """
    counts: dict[tuple[str, str, str, int, str], int] = {}
    for path in sorted(files):
        design = path.name.split(".")[0]
        for number, text in enumerate(path.read_text(encoding="latin-1").splitlines(), 1):
            if text.startswith("#") or not text:
                continue
            found = _LINE.match(text)
            if found is None:
                raise ValueError(f"{path}:{number} must be a counter, not {text[:60]!r}")
            fields = dict(part.split("\2", 1) for part in found["key"].split("\1") if "\2" in part)
            kind, _, module = fields["page"].partition("/")
            key = (
                design,
                kind.removeprefix("v_"),
                module,
                int(fields["l"]),
                f"{fields['o']}#{fields['n']}" if kind != "v_toggle" else fields["o"],
            )
            counts[key] = counts.get(key, 0) + int(found["count"])
    return [
        Counter(design=design, kind=kind, module=module, line=line, what=what, count=count)
        for (design, kind, module, line, what), count in sorted(counts.items())
    ]
