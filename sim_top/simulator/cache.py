"""A directory per content: what has been built once is not built again.

Safe against several processes (pytest-xdist) and against being killed half way: the directory of a
key counts only once its marker is written, and a file lock is held while it is filled.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["ROOT", "build_root", "cached", "content_key", "locked", "source_digest"]

ROOT = Path(__file__).resolve().parents[2]
"""The checkout: what holds the packages, and by default ``build/``."""


def build_root() -> Path:
    """Where builds are kept: ``ANTIPHON_BUILD``, or ``build`` in the checkout."""
    return Path(os.environ.get("ANTIPHON_BUILD") or ROOT / "build")


def content_key(*parts: str | bytes) -> str:
    """16 hexadecimal digits that stand for these parts in this order."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:16]


def source_digest(packages: Iterable[str]) -> str:
    """Content key of all Python sources below these folders of the checkout."""
    parts: list[str | bytes] = []
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts += [str(path.relative_to(ROOT)), path.read_bytes()]
    return content_key(*parts)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on ``path`` (made if need be) while the block runs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def cached(kind: str, key: str, fill: Callable[[Path], None]) -> Path:
    """The directory ``build/<kind>/<key>``, filled by ``fill(directory)`` if nobody has done so.

    ``fill`` starts with an empty directory; where it raises, the directory stays for inspection but
    does not count.
    """
    directory = build_root() / kind / key
    marker = directory / ".complete"
    if marker.exists():
        return directory
    with locked(directory.with_name(key + ".lock")):
        if not marker.exists():
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
            fill(directory)
            marker.touch()
    return directory
