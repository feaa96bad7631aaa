"""How often classes gave way to higher ones, in numbers for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["by_class"]


def by_class(
    classes: Sequence[str], packets: Mapping[tuple[int, int], int]
) -> dict[str, dict[str, int]]:
    """By class and every higher one.

    Parameters
    ----------
    classes : that have a channel of their own, in falling priority
    packets : by the numbers of the two
    """
    return {
        name: {other: packets.get((lane, higher), 0) for higher, other in enumerate(classes[:lane])}
        for lane, name in enumerate(classes)
        if lane
    }
