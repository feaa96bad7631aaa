"""Exact colouring of items whose groups must also pass a test.

Both questions of FRED routing have this shape: which middle copy does every flow take (a group
must route inside the copy), and which configuration does every flow run in (a group must route
through the switch). Colours are interchangeable in both, so only one of each set of symmetric
colourings is tried. A group that fails is shrunk to a smallest failing group, which then
excludes every colouring that contains it, in any colour.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = ["Colouring", "colour"]


class Colouring:
    """The outcome of :func:`colour`.

    Attributes
    ----------
    colours : colour of every item, or None if there is no colouring
    forbidden : the smallest failing groups that were met; with the pairs in conflict they are
        the reason why there is none
    """

    def __init__(self, colours: tuple[int, ...] | None, forbidden: list[tuple[int, ...]]):
        self.colours = colours
        self.forbidden = forbidden


def colour(
    conflicts: Sequence[set[int]],
    colours: int,
    feasible: Callable[[Sequence[int]], bool],
) -> Colouring:
    """Give each item one of ``colours``, or prove that it cannot be done.

    Parameters
    ----------
    conflicts : for each item, the items that may not share its colour
    colours : how many there are
    feasible : whether a group of items (ascending) may share a colour; must hold for every part
        of a group for which it holds
    """
    order = _order(conflicts)
    rank = {item: position for position, item in enumerate(order)}
    assigned: dict[int, int] = {}
    forbidden: list[tuple[int, ...]] = []
    by_item: list[list[tuple[int, ...]]] = [[] for _ in conflicts]

    def allowed(item: int, candidate: int) -> bool:
        if any(assigned.get(other) == candidate for other in conflicts[item]):
            return False
        return not any(
            all(other == item or assigned.get(other) == candidate for other in group)
            for group in by_item[item]
        )

    def check() -> int:
        """-1 if every group passes, else the position to which the search must go back."""
        groups: dict[int, list[int]] = {}
        for item, own in sorted(assigned.items()):
            groups.setdefault(own, []).append(item)
        back = len(order)
        for group in groups.values():
            if not feasible(group):
                core = shrink(group, feasible)
                forbidden.append(core)
                for item in core:
                    by_item[item].append(core)
                back = min(back, max(rank[item] for item in core))
        return back if back < len(order) else -1

    def search(position: int, used: int) -> int:
        """-1 on success, else the position that must change."""
        if position == len(order):
            return check()
        item = order[position]
        for candidate in range(min(used + 1, colours)):
            if not allowed(item, candidate):
                continue
            assigned[item] = candidate
            back = search(position + 1, max(used, candidate + 1))
            if back == -1:
                return -1
            del assigned[item]
            if back < position:
                return back
        return position - 1 if position else 0

    if not order:
        return Colouring((), forbidden)
    if search(0, 0) != -1:
        return Colouring(None, forbidden)
    return Colouring(tuple(assigned[item] for item in range(len(order))), forbidden)


def shrink(group: Sequence[int], feasible: Callable[[Sequence[int]], bool]) -> tuple[int, ...]:
    """A smallest failing part of a failing group: without any one item it passes."""
    core = list(group)
    for item in group:
        rest = [other for other in core if other != item]
        if rest and not feasible(rest):
            core = rest
    return tuple(core)


def _order(conflicts: Sequence[set[int]]) -> list[int]:
    """Items so that each has as many conflicts as possible with those before it."""
    order: list[int] = []
    placed: set[int] = set()
    while len(order) < len(conflicts):
        item = max(
            (item for item in range(len(conflicts)) if item not in placed),
            key=lambda item: (len(conflicts[item] & placed), len(conflicts[item]), -item),
        )
        order.append(item)
        placed.add(item)
    return order
