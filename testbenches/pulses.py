"""Single wires: pulse drivers and recorders."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from testbenches.bench import Part
from testbenches.streams import Stalls

__all__ = ["PulseMonitor", "PulseSource"]


class PulseSource(Part):
    """Drives a one-bit input.

    Parameters
    ----------
    signal : handle
    when : cycles in which it is high, or an iterator with one bool per cycle

    Attributes
    ----------
    cycles : the cycles in which it was high
    """

    def __init__(self, signal: Any, when: Collection[int] | Stalls = ()):
        self.signal = signal
        self.when = when
        self.cycles: list[int] = []
        self._level = False
        signal.value = 0

    def drive(self, cycle: int) -> None:
        """Set the level of this cycle."""
        level = cycle in self.when if isinstance(self.when, Collection) else next(self.when)
        if level:
            self.cycles.append(cycle)
        if level != self._level:
            self._level = level
            self.signal.value = int(level)


class PulseMonitor(Part):
    """Records the cycles in which a one-bit output is high."""

    def __init__(self, signal: Any):
        self.signal = signal
        self.cycles: list[int] = []

    def sample(self, cycle: int) -> None:
        """Look at it."""
        if int(self.signal.value):
            self.cycles.append(cycle)
