"""Fills and releases of every SRAM buffer: what loads, ops and stores wait for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Scoreboard"]


class Scoreboard:
    """Counters of one engine's buffers (docs/plan.md).

    Parameters
    ----------
    buffers : number of buffers of all partitions

    Notes
    -----
    Owner number e (from 0) of a buffer may fill it once ``releases == e``, and use it once
    ``fills == e + 1``. Several units may wait for different owners of one buffer.
    """

    __slots__ = ("_readers", "_writers", "fills", "releases")

    def __init__(self, buffers: int) -> None:
        self.fills = [0] * buffers
        self.releases = [0] * buffers
        self._readers: dict[int, list[Callable[[Any], object]]] = {}
        self._writers: dict[int, list[Callable[[Any], object]]] = {}

    def filled(self, buffer: int, epoch: int, waiting: Callable[[Any], object]) -> bool:
        """Whether owner ``epoch`` has filled the buffer; else ``waiting(None)`` is called at
        the next fill, and what it calls for has to ask again."""
        if self.fills[buffer] == epoch + 1:
            return True
        others = self._readers.setdefault(buffer, [])
        if waiting not in others:
            others.append(waiting)
        return False

    def free(self, buffer: int, epoch: int, waiting: Callable[[Any], object]) -> bool:
        """Whether owner ``epoch`` may take the buffer; else ``waiting(None)`` is called at
        the next release, and what it calls for has to ask again."""
        if self.releases[buffer] == epoch:
            return True
        others = self._writers.setdefault(buffer, [])
        if waiting not in others:
            others.append(waiting)
        return False

    def fill(self, buffer: int) -> None:
        """The owner has filled the buffer."""
        self.fills[buffer] += 1
        for waiting in self._readers.pop(buffer, ()):
            waiting(None)

    def release(self, buffer: int) -> None:
        """The owner is done with the buffer."""
        self.releases[buffer] += 1
        for waiting in self._writers.pop(buffer, ()):
            waiting(None)
