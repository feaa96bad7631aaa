"""Variants of an experiment file: some of its keys with other values."""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike, fspath
from typing import Any

from sw_model.document import Document
from sw_model.errors import InputError
from sw_model.experiment import Experiment, read_experiment

__all__ = ["combinations", "parse_setting", "variant"]

_STEP = re.compile(r"([^.\[\]]+)((?:\[\d+\])*)")
_INDEX = re.compile(r"\[(\d+)\]")


def parse_setting(text: str) -> tuple[str, tuple[str, ...]]:
    """A key and its values from ``KEY=A,B,C``. A comma between brackets or braces, as in
    ``{flits: 64, buffers: 4}``, does not part values.

    Raises
    ------
    ValueError
        where it has no such form, or a value stands twice.
    """
    key, equals, rest = text.partition("=")
    key = key.strip()
    if not equals or not key:
        raise ValueError(f"must be KEY=VALUE,VALUE,..., not {text!r}")
    values, depth = [""], 0
    for character in rest:
        depth += (character in "[{") - (character in "]}")
        if character == "," and depth == 0:
            values.append("")
        else:
            values[-1] += character
    values = [value.strip() for value in values]
    if "" in values:
        raise ValueError(f"must have a value before and after every comma, not {text!r}")
    for value in values:
        if values.count(value) > 1:
            raise ValueError(
                f"must name each value once, not {value!r} {values.count(value)} times"
            )
    return key, tuple(values)


def combinations(settings: Sequence[tuple[str, Sequence[str]]]) -> Iterator[dict[str, str]]:
    """The cross product; the last key changes fastest."""
    keys = [key for key, _ in settings]
    for values in itertools.product(*(values for _, values in settings)):
        yield dict(zip(keys, values, strict=True))


def variant(path: str | PathLike[str], changes: Mapping[str, str]) -> Experiment:
    """The experiment of a file with ``changes``: keys such as ``schedule.chunks`` or
    ``network.dims[1].size``, and values as they would stand in the file (a path is relative to it).

    Raises
    ------
    InputError
        where a change is wrong, with its key; as :func:`read_experiment` where the file is.
    """
    import yaml

    root = Document(path).root._node
    for key, value in changes.items():
        try:
            node = yaml.compose(value, Loader=yaml.SafeLoader)
        except yaml.YAMLError:
            raise InputError(f"--set {key}: must be a value in YAML, not {value!r}") from None
        if node is None:
            raise InputError(f"--set {key}: must be a value in YAML, not {value!r}")
        root = _with(root, _steps(key), node, key, fspath(path))
    try:
        return read_experiment(path, text=yaml.serialize(root, Dumper=yaml.SafeDumper))
    except InputError as error:
        if error.path != fspath(path):  # in another file, which a change may have named
            raise
        what = ", ".join(f"{key}={value}" for key, value in changes.items())
        raise InputError(f"--set {what}: {error.message}") from None


def _steps(key: str) -> list[str | int]:
    """``a.b[1].c`` as ``["a", "b", 1, "c"]``."""
    steps: list[str | int] = []
    for part in key.split("."):
        found = _STEP.fullmatch(part)
        if found is None:
            raise InputError(f"--set {key}: a key must read such as network.dims[1].size")
        steps.append(found[1])
        steps += [int(index) for index in _INDEX.findall(found[2])]
    return steps


def _with(node: Any, steps: Sequence[str | int], new: Any, key: str, path: str) -> Any:
    """``node`` with ``new`` in the place that ``steps`` lead to. What is on the way is copied:
    an alias elsewhere in the file keeps its value."""
    import yaml

    if not steps:
        return new
    step, *rest = steps
    if isinstance(step, int):
        if node.id != "sequence":
            raise InputError(f"--set {key}: there is no list at [{step}] in {path}")
        if step >= len(node.value):
            raise InputError(
                f"--set {key}: [{step}] must be less than {len(node.value)}, the length of the list"
            )
        made = copy.copy(node)
        made.value = list(node.value)
        made.value[step] = _with(node.value[step], rest, new, key, path)
        return made
    if node.id != "mapping":
        raise InputError(
            f"--set {key}: {step!r} cannot be set in {path}, where {node.value!r} is no mapping"
            if node.id == "scalar"
            else f"--set {key}: {step!r} must be an index such as [0] in {path}, where a list is"
        )
    made = copy.copy(node)
    made.value = list(node.value)
    for position, (name, value) in enumerate(made.value):
        if name.value == step:
            made.value[position] = (name, _with(value, rest, new, key, path))
            return made
    for later in reversed(rest):  # what is not in the file yet; the reader knows whether it may be
        if isinstance(later, int):
            raise InputError(f"--set {key}: there is no list at [{later}] in {path}")
        new = _mapping(later, new)
    made.value.append((yaml.ScalarNode("tag:yaml.org,2002:str", str(step)), new))
    return made


def _mapping(name: str, value: Any) -> Any:
    import yaml

    key = yaml.ScalarNode("tag:yaml.org,2002:str", name)
    return yaml.MappingNode("tag:yaml.org,2002:map", [(key, value)])
