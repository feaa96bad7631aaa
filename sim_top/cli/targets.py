"""Where a command may write: checked before long work begins, not after it."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from pathlib import Path

from sw_model.errors import InputError

__all__ = [
    "check_file",
    "check_folder",
    "check_made_file",
    "check_prefix",
    "check_traces",
    "prefix",
    "target",
]

_MOST_TRACES = 1 << 20


def target(text: str) -> Path:
    """The type of an argument that names a file or folder to write."""
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError(f"must be a path, not {text!r}")
    return Path(text)


def prefix(text: str) -> Path:
    """The type of an argument that begins the names of files to write."""
    if text.endswith("/"):
        raise argparse.ArgumentTypeError(
            f"must begin the names of files, such as {text + 'w'!r}, not be the folder {text!r}"
        )
    return target(text)


def check_file(option: str, path: Path, endings: Sequence[str] = ()) -> None:
    """Refuse a file that could not be written.

    Parameters
    ----------
    option : for the message, such as ``--json``
    path : what it names
    endings : of its name, if only these will do

    Raises
    ------
    InputError
        for a folder, a file in a folder that does not exist, or another ending.
    """
    try:
        if path.is_dir():
            raise InputError(f"{option} must name a file, not the folder {path}")
        if not path.parent.is_dir():
            raise InputError(f"{option} must name a file in an existing folder, not {path.parent}")
    except OSError as error:  # a name that is too long
        raise InputError(f"{option}: {error.strerror}: {path}") from None
    if endings and path.suffix not in endings:
        raise InputError(f"{option} must end in {' or '.join(endings)}, not {path.name!r}")


def check_prefix(option: str, path: Path) -> None:
    """Refuse a prefix of file names that could not be written.

    Raises
    ------
    InputError
        for a folder that does not exist, or a folder and no name in it.
    """
    if path.name in ("", ".."):
        raise InputError(f"{option} must begin the names of files, not be the folder {path}")
    try:
        if not path.parent.is_dir():
            raise InputError(f"{option} must be in an existing folder, not {path.parent}")
    except OSError as error:
        raise InputError(f"{option}: {error.strerror}: {path}") from None


def check_traces(option: str, prefix: Path, ranks: Collection[int], ending: str) -> None:
    """Refuse traces that could not be told from others that are there already, or are too many.

    Parameters
    ----------
    ranks : whose traces ``prefix.RANK`` with ``ending`` are to be written

    Raises
    ------
    InputError
        where a trace of the same prefix would stay beside them; where there are more than 2^20.
    """
    from sw_model.chakra.workload import rank_files

    if len(ranks) > _MOST_TRACES:
        raise InputError(f"{option}: {len(ranks):,} traces are more than {_MOST_TRACES:,}")
    for rank, path in rank_files(prefix).items():
        if rank not in ranks or path.name != f"{prefix.name}.{rank}{ending}":
            raise InputError(
                f"is there from another workload: remove its traces or give another {option}",
                path=path,
            )


def check_folder(option: str, path: Path) -> None:
    """Refuse a folder that could neither be used nor made.

    Raises
    ------
    InputError
        for a file, or a folder below a file.
    """
    try:
        place = _there(path)
    except (OSError, StopIteration):
        raise InputError(f"{option} must be a folder that can be made, not {path}") from None
    if not place.is_dir():
        what = f"the file {path}" if place == path else f"{path} below the file {place}"
        raise InputError(f"{option} must be a folder, not {what}")


def check_made_file(option: str, path: Path) -> None:
    """Refuse a file that could not be written, where its folder is made if it is missing.

    Raises
    ------
    InputError
        for a folder, or a file below another file.
    """
    try:
        place = _there(path.parent)
    except (OSError, StopIteration):
        raise InputError(f"{option} must be in a folder that can be made, not {path}") from None
    if not place.is_dir():
        raise InputError(f"{option} must be in a folder, not below the file {place}: {path}")
    if path.parent.is_dir():
        check_file(option, path)


def _there(path: Path) -> Path:
    """What is there already of a path."""
    return next(p for p in (path, *path.parents) if p.exists() or p.is_symlink())
