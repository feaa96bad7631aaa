"""Readers that turn document nodes into values, and describe themselves as a JSON schema.

A reader has ``read(node)``, which returns the value or raises `InputError` with file, line and
column, and ``schema()``. They compose: a `Record` reads a mapping with known keys into whatever its
``build`` makes of them, usually a frozen dataclass. A ``ValueError`` of ``build`` whose message
begins with the name of a key points to that key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

from sw_model.document import Node
from sw_model.errors import InputError, nearest
from sw_model.units import LARGEST_COUNT, LimitError, parse_number, shown

__all__ = [
    "Boolean",
    "Choice",
    "Either",
    "FilePath",
    "Key",
    "ListOf",
    "Number",
    "Quantity",
    "Reader",
    "Record",
    "TableOf",
    "Text",
    "Whole",
]

_WHOLE = re.compile(r"[+-]?\d+(_\d+)*")
_DIGITS = 30  # more than any whole number has here; far more are slow to convert


class Reader(Protocol):
    """What reads one value."""

    def read(self, node: Node) -> Any:
        """The value at ``node``."""

    def schema(self) -> dict[str, Any]:
        """What may stand there, as a JSON schema."""


def _scalar(node: Node, rule: str) -> str:
    if node.kind != "scalar":
        raise node.error(f"{node.key} must be {rule}, not {node.describe()}")
    return node.text


def _unquoted(node: Node, rule: str) -> None:
    """Refuse text that only its quotes keep from being the number or flag that is asked for."""
    if node.quoted:
        raise node.error(f"{node.key} must be {rule}, not the text {node.text!r}")


@dataclass(frozen=True)
class Whole:
    """A whole number of at least ``minimum`` and at most ``maximum``; ``key``: of a mapping, which
    JSON has in quotes."""

    minimum: int = 0
    maximum: int = LARGEST_COUNT
    key: bool = False

    def read(self, node: Node) -> int:
        rule = f"a whole number of at least {self.minimum}"
        text = _scalar(node, rule)
        if not _WHOLE.fullmatch(text):
            raise node.error(f"{node.key} must be {rule}, not {shown(text)}")
        if len(text) > _DIGITS and not text.startswith("-"):
            raise node.error(f"{node.key} must be at most {self.maximum}, not {shown(text)}")
        if len(text) > _DIGITS or int(text) < self.minimum:
            raise node.error(f"{node.key} must be {rule}, not {shown(text)}")
        if int(text) > self.maximum:
            raise node.error(f"{node.key} must be at most {self.maximum}, not {shown(text)}")
        if not self.key:
            _unquoted(node, rule)
        return int(text)

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}


@dataclass(frozen=True)
class Number:
    """An exact number: ``0.5`` or ``1/64``. Above ``above``, and at most ``maximum``."""

    above: int | None = 0
    maximum: int | None = None

    def read(self, node: Node) -> Fraction:
        rule = "a number"
        if self.above is not None:
            rule += f" above {self.above}"
        if self.maximum is not None:
            rule += f" {'of' if self.above is None else 'and'} at most {self.maximum}"
        text = _scalar(node, rule)
        try:
            value = parse_number(text)
        except LimitError as error:
            raise node.error(f"{node.key}: {error}") from None
        except ValueError:
            raise node.error(f"{node.key} must be {rule}, not {shown(text)}") from None
        if (self.above is not None and value <= self.above) or (
            self.maximum is not None and value > self.maximum
        ):
            raise node.error(f"{node.key} must be {rule}, not {text!r}")
        if "/" not in text:  # a fraction is text in YAML and JSON in any case
            _unquoted(node, rule)
        return value

    def schema(self) -> dict[str, Any]:
        number: dict[str, Any] = {"type": "number"}
        if self.above is not None:
            number["exclusiveMinimum"] = self.above
        if self.maximum is not None:
            number["maximum"] = self.maximum
        return {"anyOf": [number, {"type": "string", "pattern": r"^\d+/\d+$"}]}


@dataclass(frozen=True)
class Boolean:
    """``true`` or ``false``."""

    def read(self, node: Node) -> bool:
        text = _scalar(node, "true or false")
        if text not in ("true", "false"):
            raise node.error(f"{node.key} must be true or false, not {text!r}")
        _unquoted(node, "true or false")
        return text == "true"

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True)
class Text:
    """Any word."""

    def read(self, node: Node) -> str:
        return _scalar(node, "text")

    def schema(self) -> dict[str, Any]:
        return {"type": "string"}


@dataclass(frozen=True)
class FilePath:
    """A path, relative to the file it stands in."""

    def read(self, node: Node) -> Path:
        text = _scalar(node, "a path")
        if not text:
            raise node.error(f"{node.key} must be a path, not ''")
        return Path(node.path).parent / text

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "description": "a path, relative to this file"}


@dataclass(frozen=True)
class Quantity:
    """A number with a unit; ``parse`` raises `ValueError` with what would be right."""

    parse: Callable[[str], Any]
    example: str

    def read(self, node: Node) -> Any:
        text = _scalar(node, f"a number with a unit, such as {self.example!r}")
        try:
            return self.parse(text)
        except ValueError as error:
            raise node.error(f"{node.key}: {error}") from None

    def schema(self) -> dict[str, Any]:
        return {"type": ["string", "number"], "examples": [self.example]}


@dataclass(frozen=True)
class Choice:
    """One of some names, each with a value."""

    values: Mapping[str, Any]

    def read(self, node: Node) -> Any:
        text = _scalar(node, f"one of {', '.join(self.values)}")
        if text not in self.values:
            names = ", ".join(self.values)
            hint = nearest(text, self.values) if "mean" in nearest(text, self.values) else ""
            raise node.error(f"{node.key} must be one of {names}, not {text!r}{hint}")
        return self.values[text]

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.values)}


@dataclass(frozen=True)
class ListOf:
    """A list of at least ``minimum`` elements; gives a tuple."""

    element: Reader
    minimum: int = 1

    def read(self, node: Node) -> tuple[Any, ...]:
        if node.kind != "list":
            raise node.error(f"{node.key} must be a list, not {node.describe()}")
        values = tuple(self.element.read(element) for element in node.elements())
        if len(values) < self.minimum:
            raise node.error(
                f"{node.key} must have at least {self.minimum} element"
                f"{'s' if self.minimum > 1 else ''}, not {len(values)}"
            )
        return values

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": self.element.schema(), "minItems": self.minimum}


@dataclass(frozen=True)
class TableOf:
    """A mapping from whole numbers (such as ranks) to values; gives a dict."""

    value: Reader

    def read(self, node: Node) -> dict[int, Any]:
        if node.kind != "mapping":
            raise node.error(f"{node.key} must be a mapping, not {node.describe()}")
        return {Whole(key=True).read(key): self.value.read(value) for key, value in node.items()}

    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "patternProperties": {r"^\d+$": self.value.schema()},
            "additionalProperties": False,
        }


@dataclass(frozen=True)
class Key:
    """A key of a `Record`.

    Parameters
    ----------
    name : in the document
    reader : of its value
    doc : one line for the schema
    required : must be there
    field : keyword of ``build``, where it is not ``name``
    """

    name: str
    reader: Reader
    doc: str
    required: bool = False
    field: str | None = None


@dataclass(frozen=True)
class Record:
    """A mapping with known keys. Keys that are not there are left to the defaults of ``build``.

    ``build`` takes the values as keywords, and, with ``located``, where the keys stand as ``lines``
    (key to line), to be used in later messages.
    """

    build: Callable[..., Any]
    keys: Sequence[Key]
    doc: str = ""
    located: bool = False

    def read(self, node: Node) -> Any:
        if node.kind != "mapping":
            what = node.key or "the document"
            raise node.error(f"{what} must be a mapping with keys, not {node.describe()}")
        known = {key.name: key for key in self.keys}
        values: dict[str, Any] = {}
        places: dict[str, Node] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.items():
            key = known.get(key_node.text)
            if key is None:
                raise key_node.error(f"unknown key {key_node.key!r}{nearest(key_node.text, known)}")
            places[key.name] = value_node
            lines[key.name] = key_node.line
            values[key.field or key.name] = key.reader.read(value_node)
        missing = [key.name for key in self.keys if key.required and key.name not in places]
        if missing:
            what = node.key or "the document"
            raise node.error(f"{what} must have the key {missing[0]!r}")
        if self.located:
            values["lines"] = lines
        try:
            return self.build(**values)
        except ValueError as error:
            raise self._point(node, places, error) from None

    def _point(self, node: Node, places: Mapping[str, Node], error: ValueError) -> InputError:
        """The error of ``build``, at the key it names first."""
        for key in self.keys:
            field = key.field or key.name
            if key.name in places and str(error).startswith(field + " "):
                place = places[key.name]
                return place.error(place.key + str(error).removeprefix(field))
        return node.error(str(error))

    def schema(self) -> dict[str, Any]:
        properties = {
            key.name: {**key.reader.schema(), "description": key.doc} for key in self.keys
        }
        required = [key.name for key in self.keys if key.required]
        out: dict[str, Any] = {"type": "object", "properties": properties}
        if required:
            out["required"] = required
        return out | {"additionalProperties": False}


@dataclass(frozen=True)
class Either:
    """``scalar`` where a scalar stands, else ``other``."""

    scalar: Reader
    other: Reader

    def read(self, node: Node) -> Any:
        return (self.scalar if node.kind == "scalar" else self.other).read(node)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [self.scalar.schema(), self.other.schema()]}
