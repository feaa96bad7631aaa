"""Whose turn it is among classes that share a port: the rule of the links and of the FRED switch
(docs/links.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from sw_model.endpoint.link import STARVATION_BOUND

__all__ = ["ClassTurns"]


class ClassTurns:
    """The lowest number first, but for those that too many packets have passed, these in turn.

    Attributes
    ----------
    overtaken : by class and higher class, packets of the one that were ready and saw one or more of
        the other go first; whole messages where these take turns
    """

    __slots__ = ("_before", "_passed", "_served", "bound", "overtaken")

    def __init__(self, bound: int = STARVATION_BOUND) -> None:
        self.bound = bound
        self._passed: dict[int, int] = {}
        self._served = -1  # the last one that was due
        self._before: dict[int, set[int]] = {}  # classes that have overtaken the next packet of one
        self.overtaken: Counter[tuple[int, int]] = Counter()

    def choose(self, waiting: Collection[int]) -> int:
        """One of those that wait (at least one)."""
        urgent = [lane for lane in waiting if self._passed.get(lane, 0) >= self.bound]
        behind = [lane for lane in urgent if lane > self._served]
        return min(behind or urgent or waiting)

    def begin(self, lane: int, packets: int, waiting: Collection[int]) -> None:
        """So many packets of one begin, while others wait."""
        self.served(lane)
        for other in waiting:
            if other != lane:
                self.passed(other, packets, (lane,))

    def served(self, lane: int) -> None:
        """Its first packet begins."""
        if self._passed.get(lane, 0) >= self.bound:
            self._served = lane
        self._passed[lane] = 0
        self._before[lane] = set()

    def passed(self, lane: int, packets: int, others: Collection[int]) -> None:
        """So many packets of others begin while it waits."""
        self._passed[lane] = self._passed.get(lane, 0) + packets
        before = self._before.setdefault(lane, set())
        for higher in others:
            if higher < lane and higher not in before:
                before.add(higher)
                self.overtaken[lane, higher] += 1
