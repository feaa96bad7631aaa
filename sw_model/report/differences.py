"""What changed between two results in JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from sw_model.errors import InputError

__all__ = ["Difference", "differences", "kind_of", "read_result"]

#: Commands by keys that only their results have; the first that fits.
_KINDS = (
    ("cosim", {"crosscheck", "rtl_cycles"}),
    ("compare", {"differences"}),
    ("sweep", {"runs"}),
    ("run", {"total_ns", "layers"}),
    ("collective", {"time_ns", "npus"}),
    ("crosscheck", {"cases", "max_error"}),
    ("reproduce", {"rows"}),
    ("bench", {"results"}),
    ("route", {"routable"}),
    ("optimize", {"objective"}),
    ("synth", {"cells", "blocks"}),
    ("emit", {"files", "top"}),
    ("trace", {"nodes", "ranks"}),
)


@dataclass(frozen=True)
class Difference:
    """A value that is not the same in both results.

    Attributes
    ----------
    key : such as ``layers[conv1].exposed_ns``
    before, after : None where ``only_in`` says that it is not there
    only_in : "from", "to", or None where both have it
    """

    key: str
    before: Any
    after: Any
    only_in: str | None = None

    @property
    def relative(self) -> float | None:
        """after / before - 1, of numbers; None for others, and from 0."""
        if not (_is_number(self.before) and _is_number(self.after)) or self.before == 0:
            return None
        try:
            return float(self.after / self.before - 1)
        except OverflowError:
            return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def read_result(path: str | PathLike[str]) -> dict[str, Any]:
    """A result that a command has written.

    Raises
    ------
    InputError
        where it cannot be read, or is no JSON object.
    """

    def refuse(word: str) -> None:
        raise InputError(f"must be JSON: {word} is no number in it", path=path)

    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=refuse)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from None
    except UnicodeDecodeError:
        raise InputError("must be text in UTF-8", path=path) from None
    except json.JSONDecodeError as error:
        raise InputError(
            f"must be JSON: {error.msg}", path=path, line=error.lineno, column=error.colno
        ) from None
    except (RecursionError, ValueError) as error:
        raise InputError(f"must be JSON that can be read: {error}", path=path) from None
    if not isinstance(found, dict):
        raise InputError("must be a JSON object, as --json writes it", path=path)
    return found


def kind_of(result: dict[str, Any], path: str | PathLike[str]) -> str:
    """The command that a result comes from.

    Raises
    ------
    InputError
        where it comes from none.
    """
    for name, keys in _KINDS:
        if keys <= result.keys():
            return name
    raise InputError("must be the result of an antiphon command, as --json writes it", path=path)


def differences(before: Any, after: Any) -> list[Difference]:
    """All values that differ, in the order of ``before``; then those that only ``after`` has."""
    return list(_compare("", before, after))


def _compare(key: str, before: Any, after: Any) -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _members(key, ".", before, after)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _members(key, "[", *_by_name(before, after))
    elif type(before) is bool or type(after) is bool:
        if before is not after:
            yield Difference(key, before, after)
    elif before != after:
        yield Difference(key, before, after)


def _members(
    key: str, joint: str, before: dict[Any, Any], after: dict[Any, Any]
) -> Iterator[Difference]:
    for name in dict.fromkeys((*before, *after)):
        full = f"{key}[{name}]" if joint == "[" else f"{key}.{name}" if key else str(name)
        if name not in after:
            yield Difference(full, before[name], None, "from")
        elif name not in before:
            yield Difference(full, None, after[name], "to")
        else:
            yield from _compare(full, before[name], after[name])


def _by_name(*lists: list[Any]) -> list[dict[Any, Any]]:
    """Entries by name or settings, where in each list all have one and no two the same; else by
    place."""
    names = [[_name(entry) for entry in entries] for entries in lists]
    if all(None not in some and len(set(some)) == len(some) for some in names):
        pairs = zip(names, lists, strict=True)
        return [dict(zip(some, entries, strict=True)) for some, entries in pairs]
    return [dict(enumerate(entries)) for entries in lists]


def _name(entry: Any) -> str | None:
    if not isinstance(entry, dict):
        return None
    if isinstance(entry.get("name"), str):
        return str(entry["name"])
    settings = entry.get("settings")
    if isinstance(settings, dict):
        return ", ".join(f"{key}={text}" for key, text in settings.items())
    return None
