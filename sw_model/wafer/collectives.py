"""All-reduces of groups on the wafer, as streams over its links.

* *Logical ring*: members in the order of their numbers, each sends to the next. Every step moves an
  n-th of the payload from each member at once, so the ring is one stream that moves
  2 (n - 1) / n of the payload over each of its links.
* *Hierarchical 2D ring* (all NPUs): reduce-scatter in the one dimension, all-reduce in the other,
  all-gather in the first. Half of the chunks take the rows first, the others the columns, at the
  same time ("two concurrent chunks in reverse directions").
* *In-network*: the payload goes up once and comes down once.

Payloads are cut into pieces that follow each other, so that the phases of different pieces overlap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from fractions import Fraction

from sw_model.congestion.fluid import Stream, run_streams
from sw_model.wafer.fabric import COLUMNS, NPUS, ROWS, Fabric

__all__ = ["all_reduce_seconds", "ring_uses", "send_seconds"]

#: Pieces of each direction of the hierarchical algorithm. With 64 its time is within 1 % of what
#: its busiest link needs.
_PIECES = 64


def ring_uses(fabric: Fabric, group: Sequence[int]) -> Counter[Hashable]:
    """Links of one step of a group's logical ring."""
    out: Counter[Hashable] = Counter()
    for source, target in zip(group, [*group[1:], group[0]], strict=True):
        out.update(fabric.path(source, target))
    return out


def all_reduce_seconds(fabric: Fabric, groups: Sequence[tuple[int, ...]], payload: int) -> Fraction:
    """Time of the same all-reduce in all groups at once, until the last has it.

    Parameters
    ----------
    groups : disjoint sets of NPUs
    payload : bytes of each NPU's buffer

    Raises
    ------
    ValueError
        where a group names an NPU twice or one that is not there, or two groups share one.
    """
    members = [npu for group in groups for npu in group]
    if len(set(members)) != len(members) or any(not 0 <= npu < NPUS for npu in members):
        raise ValueError(f"groups must be disjoint sets of NPUs 0..{NPUS - 1}, not {groups!r}")
    streams: list[Stream] = []
    for group in groups:
        if len(group) < 2:
            continue
        if fabric.in_network:
            streams.append(Stream(uses=fabric.in_network_uses(group), amount=Fraction(payload)))
        elif len(group) == NPUS:
            streams += _hierarchical(fabric, payload)
        else:
            n = len(group)
            amount = Fraction(2 * (n - 1) * payload, n)
            streams.append(Stream(uses=ring_uses(fabric, group), amount=amount))
    return max(run_streams(streams, fabric.capacity()), default=Fraction(0))


def send_seconds(fabric: Fabric, pairs: Sequence[tuple[int, int]], payload: int) -> Fraction:
    """Time of a message of ``payload`` bytes between each pair, all at once."""
    streams = [
        Stream(uses=Counter(fabric.path(source, target)), amount=Fraction(payload))
        for source, target in pairs
        if source != target
    ]
    return max(run_streams(streams, fabric.capacity()), default=Fraction(0))


def _hierarchical(fabric: Fabric, payload: int) -> list[Stream]:
    rows = [tuple(range(r * COLUMNS, (r + 1) * COLUMNS)) for r in range(ROWS)]
    columns = [tuple(range(c, NPUS, COLUMNS)) for c in range(COLUMNS)]
    out: list[Stream] = []
    for share, first, second in zip(_shares(fabric), (rows, columns), (columns, rows), strict=True):
        if not share:
            continue
        one, other = (_uses(fabric, groups) for groups in (first, second))
        p, q = len(first[0]), len(second[0])
        piece = share * payload / _PIECES
        scatter = piece * Fraction(p - 1, p)
        across = piece * Fraction(q - 1, q) / p
        before: list[int] = []
        for _ in range(_PIECES):
            phases = ((one, scatter), (other, across), (other, across), (one, scatter))
            last: list[int] = []
            for number, (uses, amount) in enumerate(phases):
                after = [*([last[-1]] if last else []), *([before[number]] if before else [])]
                out.append(Stream(uses=uses, amount=amount, after=tuple(after)))
                last.append(len(out) - 1)
            before = last
    return out


def _uses(fabric: Fabric, groups: Sequence[tuple[int, ...]]) -> Counter[Hashable]:
    out: Counter[Hashable] = Counter()
    for group in groups:
        out.update(ring_uses(fabric, group))
    return out


def _shares(fabric: Fabric) -> tuple[Fraction, Fraction]:
    """How much of the payload takes the rows first and how much the columns.

    On the mesh both dimensions have links of the same rate, and the shares load them alike. In the
    tree the rows are what an L1 joins: all go there first, since that leaves least for the trunk.
    """
    if not fabric.mesh_link:
        return Fraction(1), Fraction(0)
    row, column = Fraction(COLUMNS - 1, COLUMNS), Fraction(ROWS - 1, ROWS)
    # share * row + (1 - share) * row / ROWS == share * column / COLUMNS + (1 - share) * column
    share = (column - row / ROWS) / (row - row / ROWS + column - column / COLUMNS)
    return share, 1 - share
