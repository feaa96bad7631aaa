"""Reader of ASTRA-sim's communicator-group json: ``{"1": [0, 1, 2, 3], "2": [4, 5, 6, 7]}``."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from sw_model.document import Document
from sw_model.errors import InputError
from sw_model.schema import ListOf, Whole

__all__ = ["read_groups"]

_MEMBERS = ListOf(Whole(0))


def read_groups(path: str | PathLike[str], npus: int) -> dict[str, tuple[int, ...]]:
    """The ranks of every communicator, in the order of the file, by its name.

    Raises
    ------
    InputError
        with file, line and column: no mapping of lists, a rank twice or outside the network.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from None
    except UnicodeDecodeError:
        raise InputError("must be text in UTF-8", path=path) from None
    root = Document(path, text.replace("\t", " ")).root
    if root.kind != "mapping":
        raise root.error(
            f"communicator groups must be a mapping from names to lists of ranks, "
            f"not {root.describe()}"
        )
    groups = {}
    for key, value in root.items():
        members = _MEMBERS.read(value)
        for rank in members:
            if rank >= npus:
                raise value.error(
                    f"the ranks of group {key.text!r} must be in 0..{npus - 1}, not {rank}"
                )
        if len(set(members)) < len(members):
            twice = next(rank for rank in members if members.count(rank) > 1)
            raise value.error(f"group {key.text!r} must have every rank once; {twice} stands twice")
        groups[key.text] = members
    return groups
