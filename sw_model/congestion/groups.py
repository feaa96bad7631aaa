"""Collectives of several groups at once, every link of the network simulated.

A group is any ranks. Its members form a logical ring, in the order of their places on the dims'
rings, or send directly to each other (all-to-all). All messages of a group move at one pace, since
each step of a ring waits for the one before; groups share links max-min fairly, and the paces
change whenever one ends.

Steps are not simulated one by one: a group's latency, that of its longest route times its steps, is
added at its end, as in the minimal model with one chunk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations

from sw_model.collective.plan import Operation
from sw_model.congestion.fair import max_min
from sw_model.congestion.routes import Link, link_capacity, ring_place, route
from sw_model.errors import InputError
from sw_model.topology import Topology

__all__ = ["GroupRequest", "GroupResult", "run_groups"]


@dataclass(frozen=True)
class GroupRequest:
    """One group's collective.

    Parameters
    ----------
    operation : what
    payload : bytes of one rank's buffer; for an all-gather of one rank's shard
    ranks : the members, in any order
    """

    operation: Operation
    payload: int
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class GroupResult:
    """When a group was done.

    Attributes
    ----------
    seconds : from the common start
    sent : bytes that every member sends
    busy : by dim, seconds that its busiest link would take alone
    carried : by dim, bytes that the busiest NPU puts on its links, forwarded ones included
    """

    seconds: Fraction
    sent: Fraction
    busy: tuple[Fraction, ...]
    carried: tuple[Fraction, ...]


@dataclass
class _Active:
    number: int
    left: Fraction


def run_groups(topology: Topology, requests: Sequence[GroupRequest]) -> list[GroupResult]:
    """Run all of them from time 0.

    Raises
    ------
    InputError
        where a rank is not in the network, or a group names a rank twice.
    """
    uses: list[Counter[Link]] = []
    bytes_each, latencies = [], []
    capacity: dict[Link, Fraction] = {}
    for request in requests:
        _check(topology, request)
        pairs, count, each = _messages(topology, request)
        links: Counter[Link] = Counter()
        slowest = 0
        for source, target in pairs:
            path = route(topology, source, target)
            links.update(path)
            slowest = max(slowest, _latency_ps(topology, path))
        for link in links:
            capacity[link] = link_capacity(topology.dims[link[0]])
        uses.append(links)
        bytes_each.append(each)
        latencies.append(Fraction(slowest * count, 10**12))
    ends: list[Fraction] = [Fraction(0)] * len(requests)
    active = [_Active(n, each) for n, each in enumerate(bytes_each) if each and uses[n]]
    now = Fraction(0)
    while active:
        paces = max_min([uses[a.number] for a in active], capacity)
        after = min(a.left / pace for a, pace in zip(active, paces, strict=True) if pace)
        now += after
        for a, pace in zip(active, paces, strict=True):
            a.left -= (pace or 0) * after
            if a.left <= 0:
                ends[a.number] = now
        active = [a for a in active if a.left > 0]
    return [
        GroupResult(
            seconds=ends[n] + latencies[n] if bytes_each[n] else Fraction(0),
            sent=_sent(request),
            busy=_busy(topology, uses[n], bytes_each[n]),
            carried=_carried(topology, uses[n], bytes_each[n]),
        )
        for n, request in enumerate(requests)
    ]


def _check(topology: Topology, request: GroupRequest) -> None:
    for rank in request.ranks:
        if not 0 <= rank < topology.npus:
            raise InputError(f"a rank of a group must be in 0..{topology.npus - 1}, not {rank}")
    if len(set(request.ranks)) != len(request.ranks):
        raise InputError(f"a group must name each rank once, not {list(request.ranks)!r}")


def _busy(topology: Topology, uses: Counter[Link], each: Fraction) -> tuple[Fraction, ...]:
    out = [Fraction(0)] * len(topology.dims)
    for link, times in uses.items():
        dim = link[0]
        out[dim] = max(out[dim], times * each / link_capacity(topology.dims[dim]))
    return tuple(out)


def _carried(topology: Topology, uses: Counter[Link], each: Fraction) -> tuple[Fraction, ...]:
    leaving: Counter[tuple[int, int, int]] = Counter()
    for (dim, place, hop), times in uses.items():
        if hop[-1] != "out":
            leaving[dim, place, hop[0]] += times
    out = [Fraction(0)] * len(topology.dims)
    for (dim, _, _), times in leaving.items():
        out[dim] = max(out[dim], times * each)
    return tuple(out)


def _sent(request: GroupRequest) -> Fraction:
    n = len(request.ranks)
    whole = request.payload * (n if request.operation is Operation.ALL_GATHER else 1)
    twice = 2 if request.operation is Operation.ALL_REDUCE else 1
    return Fraction(twice * whole * (n - 1), n) if n else Fraction(0)


def _messages(
    topology: Topology, request: GroupRequest
) -> tuple[list[tuple[int, int]], int, Fraction]:
    """Pairs that talk, steps one after another, and bytes of each pair."""
    ranks = sorted(request.ranks, key=lambda rank: _ring_key(topology, rank))
    n = len(ranks)
    if n < 2:
        return [], 0, Fraction(0)
    if request.operation is Operation.ALL_TO_ALL:
        return list(permutations(ranks, 2)), 1, Fraction(request.payload, n)
    twice = 2 if request.operation is Operation.ALL_REDUCE else 1
    ring = list(zip(ranks, [*ranks[1:], ranks[0]], strict=True))
    return ring, twice * (n - 1), _sent(request)


def _ring_key(topology: Topology, rank: int) -> tuple[int, ...]:
    places = zip(topology.dims, topology.coordinates(rank), strict=True)
    return tuple(ring_place(dim, coordinate) for dim, coordinate in places)[::-1]


def _latency_ps(topology: Topology, path: Sequence[Link]) -> int:
    """A hop for every link; a switch is one hop from port to port."""
    out = 0
    for dim, _, hop in path:
        if hop[-1] != "out":
            out += topology.dims[dim].latency_ps
    return out
