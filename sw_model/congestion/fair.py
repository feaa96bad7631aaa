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
    left: dict[Link, Fraction] = {}
    weight: dict[Link, int] = {}
    on: dict[Link, list[int]] = {}
    for number, user in enumerate(users):
        for link, times in user.items():
            left[link] = capacity[link]
            weight[link] = weight.get(link, 0) + times
            on.setdefault(link, []).append(number)
    while weight:
        full = min(weight, key=lambda link: left[link] / weight[link])
        level = left[full] / weight[full]
        for number in on[full]:
            if paces[number] is not None:
                continue
            paces[number] = level
            for link, times in users[number].items():
                left[link] -= level * times
                weight[link] -= times
                if not weight[link]:
                    del weight[link]
    return paces
