"""Files of results: never seen half-written, and those that belong together all or none."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from sw_model.errors import InputError

__all__ = ["WholeFiles", "write_whole"]


class WholeFiles:
    """Several files that belong together, such as the traces of all ranks::

        with WholeFiles() as files:
            files.write(path, contents)

    Each is written beside its place first; all go there when the block ends. Where that is by an
    error or an interruption nothing is replaced and nothing left behind. A link is followed, and
    what is no regular file (a device, a pipe) is written to at once, not replaced.
    """

    def __init__(self) -> None:
        self._written: list[tuple[Path, Path, Path]] = []  # beside its place, its place, its name

    def __enter__(self) -> WholeFiles:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            while kind is None and self._written:
                partial, target, path = self._written[0]
                try:
                    partial.replace(target)
                except OSError as refused:
                    raise InputError(f"cannot be written: {refused.strerror}", path=path) from None
                del self._written[0]
        finally:
            for partial, _, _ in self._written:
                with suppress(OSError):  # it was never there
                    partial.unlink()

    def write(self, path: Path, contents: bytes) -> None:
        """Write one of them.

        Raises
        ------
        InputError
            where it cannot be written.
        """
        target = Path(os.path.realpath(path))
        try:
            if target.exists() and not target.is_file():
                target.write_bytes(contents)
                return
            partial = target.with_name(f".{target.name}.{os.getpid()}")
            self._written.append((partial, target, path))
            partial.write_bytes(contents)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise InputError(f"cannot be written: {reason}", path=path) from None


def write_whole(path: Path, contents: bytes) -> None:
    """Write a single file; see `WholeFiles`.

    Raises
    ------
    InputError
        where it cannot be written.
    """
    with WholeFiles() as files:
        files.write(path, contents)
