"""RTLIL text: names cleaned, and modules that are identical up to their names merged.

The text is Amaranth's own RTLIL, one statement per line; a module is everything from its first
attribute to the ``end`` in column 0.
"""

from __future__ import annotations

import hashlib
import re

__all__ = ["ModuleLibrary"]

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\S+|\s+')
_MODULE = re.compile(r"^module \\(\S+)$", re.MULTILINE)
_DECLARED = re.compile(r"^  (wire|cell|memory|process)\b(.*) \\(\S+)$", re.MULTILINE)
_CELL_PORT = re.compile(r"    connect \\\S+ ")
_FIELD_WIRE = re.compile(r"^  wire width \d+(?: signed)? (\\\S+\.\S+)\n\n", re.MULTILINE)
_MESSAGE = re.compile(r'(cell \$check \S+\n +parameter \\FORMAT "(?:[^"\\]|\\.)+)"')
_DROPPED = re.compile(r"^ *attribute \\(?:generator|top|src|enum_\w+) .*\n", re.MULTILINE)


class ModuleLibrary:
    """The distinct modules seen so far, leaves first.

    Parameters
    ----------
    reserved : names that no module may take (that of the top)
    """

    def __init__(self, *, reserved: str) -> None:
        self._by_digest: dict[str, str] = {}
        self._names: set[str] = {reserved}
        self._texts: dict[str, str] = {}
        self._reserved = reserved

    def add(self, wanted: str, text: str) -> str:
        """Add a module and its submodules; return the name it has here.

        A module whose body is already known, whatever its name there, takes that one's name. Else
        it takes the wanted name, with a number behind it if another module has that.
        """
        bodies = _split(text)
        names: dict[str, str] = {}
        for original in reversed(list(bodies)):
            body = _clean(bodies[original], names)
            is_top = original == wanted == self._reserved
            names[original] = self._merge(re.sub(r"\W", "_", original), body, is_top=is_top)
        return names[wanted]

    def _merge(self, wanted: str, body: str, *, is_top: bool) -> str:
        digest = hashlib.sha256(body.encode()).hexdigest()
        if is_top:
            self._texts[wanted] = body
            return wanted
        if digest in self._by_digest:
            return self._by_digest[digest]
        name = _free_name(wanted, self._names)
        self._names.add(name)
        self._by_digest[digest] = name
        self._texts[name] = body
        return name

    @property
    def order(self) -> list[str]:
        """Names of the modules; each stands behind those it instantiates."""
        return list(self._texts)

    def text(self) -> str:
        """All modules as one RTLIL text."""
        return "\n".join(f"module \\{name}\n{body}" for name, body in self._texts.items())


def _free_name(wanted: str, taken: set[str]) -> str:
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    return name


def _split(text: str) -> dict[str, str]:
    """Bodies (with their ``end``) by module name, parents before their children."""
    bodies = {}
    for part in re.split(r"^end$", text, flags=re.MULTILINE):
        head = _MODULE.search(part)
        if head is not None:
            bodies[head.group(1)] = part[head.end() + 1 :].strip("\n") + "\nend\n"
    return bodies


def _clean(body: str, children: dict[str, str]) -> str:
    """Name child modules as the library does, drop wires that only show a field of another, and
    replace ``$`` and ``.`` in names by ``_``."""
    body = _DROPPED.sub("", body)
    body = _MESSAGE.sub(r'\1\\n"', body)  # or what the simulator says next stands in its line
    for field in _FIELD_WIRE.findall(body):
        body = body.replace(f"connect {field} ", "\0", 1)
    body = re.sub("^\0.*\n", "", body, flags=re.MULTILINE)
    body = _FIELD_WIRE.sub("", body)

    declared = _DECLARED.findall(body)
    taken = {name for _, _, name in declared}
    renames = {}
    for kind, properties, name in declared:
        if kind == "memory" or "input" in properties or "output" in properties:
            continue  # named in strings, or by other modules
        plain = re.sub(r"\W", "_", name)
        if plain != name:
            plain = _free_name(plain, taken)
            taken.add(plain)
            renames["\\" + name] = "\\" + plain
    lines = []
    for line in body.split("\n"):
        if line.startswith("  cell \\"):
            _, kind, cell = line.split()
            line = f"  cell \\{children.get(kind[1:], kind[1:])} {renames.get(cell, cell)}"
        elif renames and "\\" in line:
            port = _CELL_PORT.match(line)
            start = port.end() if port else 0
            line = line[:start] + "".join(
                renames.get(token, token) for token in _TOKEN.findall(line[start:])
            )
        lines.append(line)
    return "\n".join(lines)
