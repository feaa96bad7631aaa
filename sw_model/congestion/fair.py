"""Max-min fair sharing of links.

A *user* is what moves at one pace: all messages of one step of a ring, which wait for each other.
It uses a link some whole number of times. Paces grow together until a link is full; its users then
stay, the others go on (progressive filling; Bertsekas and Gallager, *Data Networks*, section 6.5).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from typing import TypeVar

__all__ = ["Shares", "max_min"]

Link = TypeVar("Link", bound=Hashable)

_NEAR = 1e-9  # of a link's capacity; far more than floats can be wrong by


def max_min(
    users: Sequence[Mapping[Link, int]], capacity: Mapping[Link, Fraction]
) -> list[Fraction | None]:
    """Pace of each user.

    Parameters
    ----------
    users : how many times each link is used
    capacity : of every link, in bytes per second

    Returns
    -------
    list
        None for a user of no link: nothing limits it.
    """
    return Shares(users, capacity).paces(range(len(users)))


class Shares:
    """Users that come and go on the same links; parameters as for `max_min`."""

    def __init__(
        self, users: Sequence[Mapping[Link, int]], capacity: Mapping[Link, Fraction]
    ) -> None:
        index: dict[Hashable, int] = {}
        self.users = [
            [(index.setdefault(link, len(index)), times) for link, times in user.items()]
            for user in users
        ]
        found: list = list(index)
        self.capacity = [Fraction(capacity[link]) for link in found]
        self.rates = [float(one) for one in self.capacity]

    def paces(self, active: Sequence[int]) -> list[Fraction | None]:
        """Paces of some of the users, by their numbers, while the others are away."""
        paces: dict[int, Fraction] = {}
        weight = [0] * len(self.rates)
        on: list[list[tuple[int, int]]] = [[] for _ in weight]
        for number in active:
            for link, times in self.users[number]:
                weight[link] += times
                on[link].append((number, times))
        # Floats say which links are nearly the first to be full, exact numbers which of these are.
        left, rates = list(self.rates), self.rates
        live = [link for link, times in enumerate(weight) if times]
        while live:
            low = min([left[link] / weight[link] for link in live])
            near = [i for i in live if left[i] - low * weight[i] <= _NEAR * rates[i]]
            exact = [self._level(link, on[link], paces) for link in near]
            level = min(exact)
            full = [link for link, one in zip(near, exact, strict=True) if one == level]
            pace = float(level)
            for number in {n for link in full for n, _ in on[link] if n not in paces}:
                paces[number] = level
                for link, times in self.users[number]:
                    left[link] -= pace * times
                    weight[link] -= times
            live = [link for link in live if weight[link]]
        return [paces.get(number) for number in active]

    def _level(
        self, link: int, on: Sequence[tuple[int, int]], paces: Mapping[int, Fraction]
    ) -> Fraction:
        """The pace at which the users of a link that are not settled fill it."""
        left, weight = self.capacity[link], 0
        for number, times in on:
            pace = paces.get(number)
            if pace is None:
                weight += times
            else:
                left -= pace * times
        return left / weight
