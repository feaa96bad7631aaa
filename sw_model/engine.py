"""A small event kernel: integer time, deterministic, nothing else.

Events of one cycle run in the order in which they were scheduled. What has to see the outcome of
*all* events of a cycle (an arbiter, say) is put off to the end of the cycle with
:meth:`EventKernel.decide`, so that no decision depends on the order of events within a cycle.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

__all__ = ["EventKernel"]


_Calls = list[tuple[Callable[[Any], object], Any]]


class EventKernel:
    """Calendar of events.

    Attributes
    ----------
    now : the current cycle, from 0; written by nobody else
    cycles : cycles in which anything happened, for profiles
    """

    __slots__ = ("_buckets", "_halted", "_times", "cycles", "now")

    def __init__(self) -> None:
        self.now = 0
        self.cycles = 0
        self._times: list[int] = []  # heap, each cycle once
        self._buckets: dict[int, tuple[_Calls, _Calls]] = {}  # events and decisions, by cycle
        self._halted = False

    def at(self, time: int, action: Callable[[Any], object], argument: Any = None) -> None:
        """Call ``action(argument)`` in cycle ``time``; the current cycle is allowed.

        Raises
        ------
        ValueError
            where ``time`` lies before ``now``.
        """
        bucket = self._buckets.get(time)
        if bucket is None:
            bucket = self._open(time)
        bucket[0].append((action, argument))

    def decide(self, time: int, action: Callable[[Any], object], argument: Any = None) -> None:
        """Like `at`, but once all events of that cycle have run. Events that a decision adds to
        its own cycle run after it, and further decisions after those.

        Raises
        ------
        ValueError
            where ``time`` lies before ``now``.
        """
        bucket = self._buckets.get(time)
        if bucket is None:
            bucket = self._open(time)
        bucket[1].append((action, argument))

    def _open(self, time: int) -> tuple[_Calls, _Calls]:
        if time < self.now:
            raise ValueError(f"delay must be at least 0, not {time - self.now!r}")
        bucket: tuple[_Calls, _Calls] = ([], [])
        self._buckets[time] = bucket
        heappush(self._times, time)
        return bucket

    def after(self, delay: int, action: Callable[[Any], object], argument: Any = None) -> None:
        """Call ``action(argument)`` after ``delay`` cycles.

        Raises
        ------
        ValueError
            where ``delay`` is negative.
        """
        self.at(self.now + delay, action, argument)

    def halt(self) -> None:
        """Make :meth:`run` return at the end of the current cycle."""
        self._halted = True

    @property
    def idle(self) -> bool:
        """No event is scheduled."""
        return not self._times

    def run(self, until: int | None = None) -> None:
        """Run events up to and including cycle ``until``, to the end, or up to :meth:`halt`.

        Where ``until`` is given and nothing halts the run, ``now`` is ``until`` afterwards.

        Raises
        ------
        ValueError
            where ``until`` lies before ``now``.
        """
        if until is not None and until < self.now:
            raise ValueError(f"until must be at least {self.now}, not {until!r}")
        times, buckets = self._times, self._buckets
        self._halted = False
        while times:
            time = times[0]
            if until is not None and time > until:
                break
            heappop(times)
            self.now = time
            self.cycles += 1
            events, decisions = buckets[time]
            while True:
                for action, argument in events:  # may grow while it is walked
                    action(argument)
                if not decisions:
                    break
                events.clear()
                settled = decisions.copy()
                decisions.clear()
                for action, argument in settled:
                    action(argument)
            del buckets[time]
            if self._halted:
                return
        if until is not None:
            self.now = until
