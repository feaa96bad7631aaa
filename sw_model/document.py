"""YAML and JSON documents whose every value knows where it stands.

A `Document` is composed, not constructed: readers (`sw_model.schema`) walk its nodes, so that a
wrong value is reported with file, line and column, and numbers are read as they were written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sw_model.errors import InputError

if TYPE_CHECKING:
    import yaml

__all__ = ["Document", "Node"]


@dataclass(frozen=True)
class Node:
    """A value in a document.

    Attributes
    ----------
    path : the file
    key : what it is called in messages, such as ``network.dims[1].size``; empty for the whole
    """

    path: str
    key: str
    _node: Any

    @property
    def line(self) -> int:
        """Counted from 1."""
        return self._node.start_mark.line + 1

    @property
    def column(self) -> int:
        """Counted from 1."""
        return self._node.start_mark.column + 1

    @property
    def kind(self) -> str:
        """``"mapping"``, ``"list"``, ``"scalar"`` or ``"nothing"`` (empty or null)."""
        if self._node.id == "mapping":
            return "mapping"
        if self._node.id == "sequence":
            return "list"
        return "nothing" if self._node.tag.endswith(":null") else "scalar"

    @property
    def text(self) -> str:
        """The scalar as written, without quotes."""
        return str(self._node.value)

    @property
    def quoted(self) -> bool:
        """Whether a scalar is text by its quotes."""
        return getattr(self._node, "style", None) in ("'", '"')

    def error(self, message: str) -> InputError:
        """An error that points here."""
        return InputError(message, path=self.path, line=self.line, column=self.column)

    def describe(self) -> str:
        """What stands here, for "..., not X"."""
        return {
            "mapping": "a mapping",
            "list": "a list",
            "nothing": "nothing",
            "scalar": repr(self.text),
        }[self.kind]

    def items(self) -> Iterator[tuple[Node, Node]]:
        """Keys and values of a mapping.

        Raises
        ------
        InputError
            where a key stands twice, or is no scalar.
        """
        seen: dict[str, Node] = {}
        for key_node, value_node in self._node.value:
            name = str(key_node.value) if key_node.id == "scalar" else "?"
            full = f"{self.key}.{name}" if self.key else name
            key = Node(self.path, full, key_node)
            if key_node.id != "scalar":
                raise key.error(f"a key must be a word or a number, not {key.describe()}")
            if name in seen:
                raise key.error(f"{full} must stand once; it stands in line {seen[name].line} too")
            seen[name] = key
            yield key, Node(self.path, full, value_node)

    def elements(self) -> Iterator[Node]:
        """Elements of a list."""
        for index, node in enumerate(self._node.value):
            yield Node(self.path, f"{self.key}[{index}]", node)


class Document:
    """A file, or a text as if it came from ``path``.

    Parameters
    ----------
    path : for messages, and what relative paths inside it start from
    text : its contents; read from ``path`` by default

    Raises
    ------
    InputError
        where it cannot be read, is no YAML (no JSON, where the path ends so), or is empty.
    """

    def __init__(self, path: str | PathLike[str], text: str | None = None) -> None:
        import yaml

        self.path = fspath(path)
        if text is None:
            try:
                text = Path(path).read_text(encoding="utf-8")
            except OSError as error:
                raise InputError(f"cannot be read: {error.strerror}", path=path) from None
            except UnicodeDecodeError:
                raise InputError("must be text in UTF-8", path=path) from None
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            node = yaml.compose(text, Loader=loader)
        except yaml.YAMLError as error:
            raise _broken(error, path, text) from None
        if node is None:
            raise InputError("must not be empty", path=path)
        self.root = Node(self.path, "", node)


def _broken(error: yaml.YAMLError, path: str | PathLike[str], text: str) -> InputError:
    """What is wrong with a text that cannot be parsed, in the words of its format."""
    import yaml

    if Path(path).suffix == ".json":
        try:
            json.loads(text)
        except json.JSONDecodeError as wrong:
            return InputError(
                f"must be JSON: {wrong.msg}", path=path, line=wrong.lineno, column=wrong.colno
            )
        except (ValueError, RecursionError):
            pass  # numbers or a depth beyond Python's; what the parser said will do
    if not isinstance(error, yaml.MarkedYAMLError):
        return InputError(f"must be YAML: {error}", path=path)
    mark = error.problem_mark or error.context_mark
    return InputError(
        f"must be YAML: {error.problem or error.context}",
        path=path,
        line=mark.line + 1 if mark else None,
        column=mark.column + 1 if mark else None,
    )
