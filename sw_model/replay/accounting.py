"""What a rank's time is made of, exactly, without overlap or remainder::

    finish = compute + exposed + host + bubble

* *compute*: a compute or memory node is running on the accelerator;
* *exposed* communication: none is, and a collective that all members have entered, or a message
  that has begun, is on its way to or from this rank;
* *host*: neither, but a node is running on the CPU (an optimizer's update, say);
* *bubble*: none of these: the rank waits for other ranks (which are late, or have not sent yet).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sw_model.chakra.graph import Graph
from sw_model.replay.engine import Log
from sw_model.results import union_length

__all__ = ["NodeTimes", "RankTimes", "iteration_times", "node_times", "rank_times"]

Span = tuple[int, int]


@dataclass(frozen=True)
class RankTimes:
    """One representative, in ticks."""

    rank: int
    finish: int
    compute: int
    exposed: int
    host: int
    bubble: int


@dataclass(frozen=True)
class NodeTimes:
    """All nodes of one layer on one rank, in ticks.

    ``communication`` is the union of their times from entry to end. ``exposed`` adds up over all
    names to the rank's: each instant counts to the communication that has been under way longest.
    """

    name: str
    compute: int
    communication: int
    exposed: int
    bytes: int


def rank_times(rank: int, log: Log) -> RankTimes:
    """Where the time of a rank went."""
    compute = [(start, end) for _, start, end in log.compute]
    moving = [(start, end) for _, _, start, end in log.communication]
    computing = union_length(compute)
    exposed = union_length([*compute, *moving]) - computing
    hosted = [(start, end) for _, start, end in log.host]
    covered = union_length([*compute, *moving, *hosted])
    host = covered - computing - exposed
    return RankTimes(rank, log.finish, computing, exposed, host, log.finish - covered)


def _merged(spans: Iterable[Span]) -> list[Span]:
    """The union as disjoint spans, ascending."""
    out: list[Span] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def _uncovered(span: Span, covered: list[Span], first: int) -> tuple[int, int]:
    """Length of ``span`` outside ``covered``, and the first index to look at for a later span."""
    start, end = span
    while first < len(covered) and covered[first][1] <= start:
        first += 1
    length, index = 0, first
    while start < end:
        if index == len(covered) or covered[index][0] >= end:
            length += end - start
            break
        length += max(0, covered[index][0] - start)
        start = max(start, covered[index][1])
        index += 1
    return length, first


def node_times(graph: Graph, log: Log) -> tuple[NodeTimes, ...]:
    """The rank's nodes by layer, in the order of the graph; those that take no time left out."""
    names = [graph.layer(position) for position in range(len(graph.nodes))]
    compute: dict[str, int] = {}
    for position, start, end in log.compute:
        compute[names[position]] = compute.get(names[position], 0) + end - start
    whole: dict[str, list[Span]] = {}
    size: dict[str, int] = {}
    exposed: dict[str, int] = {}
    covered = _merged((start, end) for _, start, end in log.compute)
    reached = first = 0
    # By start: what is under way longest takes all of its time that nobody had before it.
    for position, issued, start, end in sorted(log.communication, key=lambda e: (e[2], e[3])):
        name = names[position]
        whole.setdefault(name, []).append((issued, end))
        size[name] = size.get(name, 0) + graph.nodes[position].size
        begin = max(start, reached)
        if end > begin:
            length, first = _uncovered((begin, end), covered, first)
            exposed[name] = exposed.get(name, 0) + length
            reached = end
    return tuple(
        NodeTimes(
            name=name,
            compute=compute.get(name, 0),
            communication=union_length(whole.get(name, ())),
            exposed=exposed.get(name, 0),
            bytes=size.get(name, 0),
        )
        for name in dict.fromkeys(names)
        if name in compute or name in whole
    )


def iteration_times(log: Log, starts: Sequence[int]) -> tuple[int, ...]:
    """Time from each start to the next, the first from 0; without starts one, all of it."""
    begins = {position: begin for position, begin, _ in log.compute}
    bounds = [0, *(begins[start] for start in starts[1:] if start in begins), log.finish]
    return tuple(end - begin for begin, end in pairwise(bounds))
