"""Max-min fair sharing of links.

A *user* is what moves at one pace: all messages of one step of a ring, which wait for each other.
It uses a link some whole number of times. Paces grow together until a link is full; its users then
stay, the others go on (progressive filling; Bertsekas and Gallager, *Data Networks*, section 6.5).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from typing import TypeVar

__all__ = ["max_min"]

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
    paces: list[Fraction | None] = [None] * len(users)
    weight: dict[Link, int] = {}
    on: dict[Link, list[int]] = {}
    for number, user in enumerate(users):
        for link, times in user.items():
            weight[link] = weight.get(link, 0) + times
            on.setdefault(link, []).append(number)
    # Floats say which links are nearly the first to be full, exact numbers which of these are.
    whole = {link: float(capacity[link]) for link in weight}
    left = dict(whole)
    while weight:
        low = min([left[link] / times for link, times in weight.items()])
        near = [
            link
            for link, times in weight.items()
            if left[link] - low * times <= _NEAR * whole[link]
        ]
        exact = [_level(link, users, capacity[link], on[link], paces) for link in near]
        level = min(exact)
        pace = float(level)
        full = [link for link, one in zip(near, exact, strict=True) if one == level]
        for number in {number for link in full for number in on[link] if paces[number] is None}:
            paces[number] = level
            for link, times in users[number].items():
                left[link] -= pace * times
                weight[link] -= times
                if not weight[link]:
                    del weight[link]
    return paces


def _level(
    link: Link,
    users: Sequence[Mapping[Link, int]],
    capacity: Fraction,
    on: Sequence[int],
    paces: Sequence[Fraction | None],
) -> Fraction:
    """The pace at which the users of a link that are not settled fill it."""
    left, weight = Fraction(capacity), 0
    for number in on:
        pace, times = paces[number], users[number][link]
        if pace is None:
            weight += times
        else:
            left -= pace * times
    return left / weight
