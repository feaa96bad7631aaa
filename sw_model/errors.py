"""The errors that a user meets: what is wrong, where, and what would be right.

Programming mistakes raise ``ValueError`` and ``TypeError`` as everywhere in Python. These classes
are for input that came from outside and for runs that cannot go on; the commands print them in
one message, without a traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from os import PathLike, fspath

__all__ = ["AntiphonError", "DeadlockError", "InputError", "nearest"]


class AntiphonError(Exception):
    """Base of everything that a command reports as one message."""


class InputError(AntiphonError):
    """Bad input (exit status 2).

    Parameters
    ----------
    message : what is wrong and what would be right, one line
    path : file it stands in, or None
    line, column : position in that file, counted from 1, or None

    ``str()`` reads ``path:line:column: message``, as compilers write it.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | PathLike[str] | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        self.message = message
        self.path = None if path is None else fspath(path)
        self.line = line
        self.column = column
        where = ":".join(str(part) for part in (self.path, line, column) if part is not None)
        super().__init__(f"{where}: {message}" if where else message)


class DeadlockError(AntiphonError):
    """Nothing can happen any more and something is unfinished (exit status 1).

    The message names what is stuck and what it waits for.
    """


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint for a misspelt ``word``: ``" (did you mean 'x'?)"``, or the list of what is known.

    Returns an empty string where nothing is known.
    """
    names = sorted(known)
    lowered = {name.lower(): name for name in names}
    close = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=0.6)
    if close:
        return f" (did you mean {lowered[close[0]]!r}?)"
    return f" (known: {', '.join(names)})" if names else ""
