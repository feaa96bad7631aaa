"""When flits leave and arrive on a link: the exact twin of ``rtl.link``.

All times are integer cycles.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

__all__ = ["LINK_TIMING", "STARVATION_BOUND", "LinkTiming", "RateGate", "minimum_credits"]


@dataclass(frozen=True)
class LinkTiming:
    """Pipeline registers of the two ends of a link, in cycles.

    Attributes
    ----------
    transmit : from accepting a flit to the wire
    receive : from the wire to the offer behind the receiver's buffer, if that is empty
    credit_return : from taking a flit out of the buffer to its credit on the wire back
    credit_use : from a credit on the wire to accepting a flit on it
    grant_return : from the receiver's grant to the wire back
    grant_use : from a grant on the wire to the transmitter's ``granted``
    """

    transmit: int = 1
    receive: int = 1
    credit_return: int = 1
    credit_use: int = 1
    grant_return: int = 1
    grant_use: int = 0

    def flit(self, latency: int) -> int:
        """Cycles from a flit's acceptance to its offer at the other end of an empty link."""
        return self.transmit + latency + self.receive

    def grant(self, latency: int) -> int:
        """Cycles from ``grant`` to ``granted``."""
        return self.grant_return + latency + self.grant_use

    def round_trip(self, latency: int) -> int:
        """Cycles from a flit's acceptance to that of the next one on the same credit, if its
        reader never waits."""
        return self.flit(latency) + self.credit_return + latency + self.credit_use


LINK_TIMING = LinkTiming()
"""What the RTL has."""


STARVATION_BOUND = 16
"""Packets of others that may pass one of a class that waits, at a link and at a FRED switch."""


def minimum_credits(rate: Fraction, latency: int) -> int:
    """Fewest credits (flits of buffer) with which a link keeps ``rate``."""
    return ceil(LINK_TIMING.round_trip(latency) * rate)


class RateGate:
    """Departure times of flits under a link's rate, each in constant time.

    With ``rate`` = n/d in lowest terms, an accumulator holds at most d + n - 1, its value at cycle
    0. A flit may leave in a cycle in which it is at least d. From one cycle to the next it gains n,
    up to the maximum, and loses d if a flit left. Flits that wait leave as soon as they may, so
    with the value a at a cycle t in which one leaves, the k-th after it leaves in the cycle
    t + ceil(((k + 1)·d - a) / n).

    Parameters
    ----------
    rate : flits per cycle, above 0 and at most 1
    """

    def __init__(self, rate: Fraction):
        if not isinstance(rate, int | Fraction) or not 0 < rate <= 1:
            raise ValueError(f"rate must be a Fraction above 0 and at most 1, not {rate!r}")
        self.rate = Fraction(rate)
        self._gain = self.rate.numerator
        self._cost = self.rate.denominator
        self._most = self._cost + self._gain - 1
        self._cycle = 0  # no departure is possible before it
        self._saved = self._most  # the accumulator at that cycle

    @property
    def earliest(self) -> int:
        """The first cycle in which a flit that waits now could leave."""
        return self._cycle + max(0, -(-(self._cost - self._saved) // self._gain))

    def depart(self, ready: int) -> int:
        """Let one flit leave that is ready in cycle ``ready``; returns the cycle it leaves in."""
        return self.depart_many(ready, 1)[0]

    def depart_many(self, ready: int, count: int) -> tuple[int, int]:
        """Let ``count`` flits leave that are all ready in cycle ``ready``, one behind the other.

        Returns
        -------
        tuple of int
            The cycles in which the first and the last of them leave. No later flit leaves before.

        Raises
        ------
        ValueError
            for a count below 1.
        """
        if count < 1:
            raise ValueError(f"count must be at least 1, not {count!r}")
        first = max(ready, self.earliest)
        saved = self._saved_at(first)
        last = first - (saved - count * self._cost) // self._gain if count > 1 else first
        spent = saved + (last - first) * self._gain - count * self._cost
        self._cycle = last + 1
        self._saved = spent + self._gain
        return first, last

    def departure(self, ready: int, index: int) -> int:
        """When flit ``index`` of flits that are all ready in ``ready`` would leave; nothing
        leaves."""
        first = max(ready, self.earliest)
        return first - min(0, (self._saved_at(first) - (index + 1) * self._cost) // self._gain)

    def _saved_at(self, cycle: int) -> int:
        return min(self._most, self._saved + (cycle - self._cycle) * self._gain)
