"""Fills and releases of every SRAM buffer: what loads, ops and stores wait for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sw_model.engine import EventKernel

__all__ = ["Scoreboard"]


class Scoreboard:
    """Counters of one engine's buffers (2-ace *Order, admission and deadlock*, rule 1).

    Parameters
    ----------
    kernel : event kernel
    buffers : number of buffers of all partitions

    Notes
    -----
    Owner number e (from 0) of a buffer may fill it once ``releases == e``, and use it once
    ``fills == e + 1``. Several units may wait for different owners of one buffer.
    """

    __slots__ = ("_readers", "_writers", "fills", "kernel", "releases")

    def __init__(self, kernel: EventKernel, buffers: int) -> None:
        self.kernel = kernel
        self.fills = [0] * buffers
        self.releases = [0] * buffers
        self._readers: dict[int, list[Callable[[Any], object]]] = {}
        self._writers: dict[int, list[Callable[[Any], object]]] = {}

    def filled(self, buffer: int, epoch: int, waiting: Callable[[Any], object]) -> bool:
        """Whether owner ``epoch`` has filled the buffer; else ``waiting`` is called at the next
        fill and has to ask again."""
        if self.fills[buffer] == epoch + 1:
            return True
        self._readers.setdefault(buffer, []).append(waiting)
        return False

    def free(self, buffer: int, epoch: int, waiting: Callable[[Any], object]) -> bool:
        """Whether owner ``epoch`` may take the buffer; else ``waiting`` is called at the next
        release and has to ask again."""
        if self.releases[buffer] == epoch:
            return True
        self._writers.setdefault(buffer, []).append(waiting)
        return False

    def fill(self, buffer: int) -> None:
        """The owner has filled the buffer."""
        self.fills[buffer] += 1
        for waiting in self._readers.pop(buffer, ()):
            self.kernel.decide(self.kernel.now, waiting)

    def release(self, buffer: int) -> None:
        """The owner is done with the buffer."""
        self.releases[buffer] += 1
        for waiting in self._writers.pop(buffer, ()):
            self.kernel.decide(self.kernel.now, waiting)
