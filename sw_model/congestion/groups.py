"""Collectives of several groups at once, every link of the network simulated.

A group is any ranks. It is laid flat on the real network: its members stand in a row, in the order
of their places on the dims' rings, and the algorithm runs over that row as over one dim
(`sw_model.collective.pairs`), each message on the links between its two ranks. All messages of a
stage move at one pace; groups share links max-min fairly, and the paces change whenever one ends.

Steps are not simulated one by one: a stage's latency, that of its longest route times its steps, is
added at the end of the group, as in the minimal model with one chunk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sw_model.collective.pairs import port_loads, stages_of
from sw_model.collective.plan import Algorithm, Operation
from sw_model.congestion.fluid import Stream, run_streams
from sw_model.congestion.routes import Link, link_capacity, ring_place, route
from sw_model.errors import InputError
from sw_model.topology import DimKind, Topology

__all__ = ["GroupRequest", "GroupResult", "GroupRun", "run_groups"]


@dataclass(frozen=True)
class GroupRequest:
    """One group's collective.

    Parameters
    ----------
    operation : what
    payload : bytes of one rank's buffer; for an all-gather of one rank's shard
    ranks : the members, in any order
    algorithm : by default direct for an all-to-all, a ring for all others
    root, target : ranks, of the rooted operations; by default the first and the last of ``ranks``
    """

    operation: Operation
    payload: int
    ranks: tuple[int, ...]
    algorithm: Algorithm | None = None
    root: int | None = None
    target: int | None = None

    @property
    def used(self) -> Algorithm:
        """The algorithm, or the default."""
        if self.algorithm is not None:
            return self.algorithm
        alone = self.operation in (Operation.ALL_TO_ALL, Operation.SEND)
        return Algorithm.DIRECT if alone else Algorithm.RING


@dataclass(frozen=True)
class GroupResult:
    """When a group was done.

    Attributes
    ----------
    seconds : from the common start
    sent : bytes that every member must send; of a rooted operation the payload, which all others
        hear or say, and in a send the one
    busy : by dim, seconds that its busiest link would take alone
    carried : by dim, bytes that the busiest NPU puts on its links, forwarded ones included
    """

    seconds: Fraction
    sent: Fraction
    busy: tuple[Fraction, ...]
    carried: tuple[Fraction, ...]


@dataclass(frozen=True)
class GroupRun:
    """All groups.

    Attributes
    ----------
    groups : in the order of the requests
    busy, carried : as of one group, for all of them together
    """

    groups: list[GroupResult]
    busy: tuple[Fraction, ...]
    carried: tuple[Fraction, ...]

    @property
    def seconds(self) -> Fraction:
        """Until the last is done."""
        return max((group.seconds for group in self.groups), default=Fraction(0))


@dataclass(frozen=True)
class _Laid:
    """A stage on links: how many times it uses each, for ``each`` bytes, and its latency."""

    links: Counter[Link]
    each: Fraction
    latency_ps: int


def run_groups(topology: Topology, requests: Sequence[GroupRequest]) -> GroupRun:
    """Run all of them from time 0.

    Rings are wired both ways where a group runs the bidirectional ring.

    Raises
    ------
    InputError
        where a rank is not in the network, a group names a rank twice, a root is none of its group,
        or a group cannot run its algorithm.
    """
    wired = any(request.used is Algorithm.BIDIRECTIONAL_RING for request in requests)
    both_ways = frozenset(
        d for d, dim in enumerate(topology.dims) if wired and dim.kind is DimKind.RING
    )
    laid = [_lay(topology, request, both_ways) for request in requests]
    rates = [link_capacity(dim, both_ways=d in both_ways) for d, dim in enumerate(topology.dims)]
    streams: list[Stream] = []
    last: list[int | None] = []
    for stages in laid:
        before: int | None = None
        for stage in stages:
            after = () if before is None else (before,)
            streams.append(Stream(uses=stage.links, amount=stage.each, after=after))
            before = len(streams) - 1
        last.append(before)
    capacity = {link: rates[link[0]] for stages in laid for stage in stages for link in stage.links}
    ends = run_streams(streams, capacity)
    groups = []
    total: dict[Link, Fraction] = {}
    for request, laid_out, end in zip(requests, laid, last, strict=True):
        loads = _loads(laid_out)
        for link, load in loads.items():
            total[link] = total.get(link, Fraction(0)) + load
        latency = Fraction(sum(stage.latency_ps for stage in laid_out), 10**12)
        groups.append(
            GroupResult(
                seconds=Fraction(0) if end is None else ends[end] + latency,
                sent=_sent(request),
                busy=_busy(loads, rates),
                carried=_carried(loads, len(rates)),
            )
        )
    return GroupRun(groups, _busy(total, rates), _carried(total, len(rates)))


def _check(topology: Topology, request: GroupRequest) -> None:
    for rank in request.ranks:
        if not 0 <= rank < topology.npus:
            raise InputError(f"a rank of a group must be in 0..{topology.npus - 1}, not {rank}")
    if len(set(request.ranks)) != len(request.ranks):
        raise InputError(f"a group must name each rank once, not {list(request.ranks)!r}")
    for name, end in (("root", request.root), ("target", request.target)):
        if end is not None and end not in request.ranks:
            raise InputError(f"the {name} must be a rank of its group, not {end}")


def _lay(topology: Topology, request: GroupRequest, both_ways: Collection[int]) -> list[_Laid]:
    """A group's stages on the links of the network."""
    _check(topology, request)
    ranks = sorted(request.ranks, key=lambda rank: _ring_key(topology, rank))
    size, operation = len(ranks), request.operation
    if not ranks:
        return []
    gathers = operation is Operation.ALL_GATHER
    payload = request.payload * (size if gathers else 1)
    first, final = request.ranks[0], request.ranks[-1]
    root = ranks.index(first if request.root is None else request.root)
    target = ranks.index(final if request.target is None else request.target)
    if request.used is Algorithm.IN_NETWORK:
        return _in_network(topology, request, ranks, payload, root, target)
    try:
        stages = stages_of(operation, request.used, size, payload, root, target)
    except ValueError as error:
        raise InputError(f"a group of {size} ranks: {error}") from None
    out = []
    for stage in stages:
        links: Counter[Link] = Counter()
        slowest = 0
        for sender, receiver, way in stage.pairs:
            path = route(topology, ranks[sender], ranks[receiver], way=way, both_ways=both_ways)
            links.update(path)
            slowest = max(slowest, _latency_ps(topology, path))
        out.append(_Laid(links, stage.each, slowest * stage.steps))
    return out


def _in_network(
    topology: Topology,
    request: GroupRequest,
    ranks: Sequence[int],
    payload: int,
    root: int,
    target: int,
) -> list[_Laid]:
    """Through the one switch that joins all members."""
    places = [topology.coordinates(rank) for rank in ranks]
    differ = [d for d in range(len(topology.dims)) if len({place[d] for place in places}) > 1]
    if len(ranks) < 2 or not payload:
        return []
    if len(differ) > 1 or topology.dims[differ[0]].kind is not DimKind.FRED:
        raise InputError("in-network must have a group on one Fred dim")
    (dim,) = differ
    try:
        into, out = port_loads(request.operation, len(ranks), payload, root, target)
    except ValueError as error:
        raise InputError(f"a group of {len(ranks)} ranks: {error}") from None
    each = Fraction(payload, len(ranks))
    links: Counter[Link] = Counter()
    place = topology.rank([0 if d == dim else c for d, c in enumerate(places[0])])
    for member, sent, received in zip(places, into, out, strict=True):
        for hop, load in (("in", sent), ("out", received)):
            if load:
                links[dim, place, (member[dim], hop)] = int(load / each)
    return [_Laid(links, each, topology.dims[dim].latency_ps)]


def _loads(stages: Sequence[_Laid]) -> dict[Link, Fraction]:
    """Bytes of every link."""
    out: dict[Link, Fraction] = {}
    for stage in stages:
        for link, times in stage.links.items():
            out[link] = out.get(link, Fraction(0)) + times * stage.each
    return out


def _busy(loads: Mapping[Link, Fraction], rates: Sequence[Fraction]) -> tuple[Fraction, ...]:
    out = [Fraction(0)] * len(rates)
    for (dim, _, _), load in loads.items():
        out[dim] = max(out[dim], load / rates[dim])
    return tuple(out)


def _carried(loads: Mapping[Link, Fraction], dims: int) -> tuple[Fraction, ...]:
    leaving: dict[tuple[int, int, int], Fraction] = {}
    for (dim, place, hop), load in loads.items():
        if hop[-1] != "out":
            key = (dim, place, hop[0])
            leaving[key] = leaving.get(key, Fraction(0)) + load
    out = [Fraction(0)] * dims
    for (dim, _, _), load in leaving.items():
        out[dim] = max(out[dim], load)
    return tuple(out)


def _sent(request: GroupRequest) -> Fraction:
    n = len(request.ranks)
    if n < 2:
        return Fraction(0)
    if request.operation.rooted:
        return Fraction(request.payload)
    whole = request.payload * (n if request.operation is Operation.ALL_GATHER else 1)
    twice = 2 if request.operation is Operation.ALL_REDUCE else 1
    return Fraction(twice * whole * (n - 1), n)


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
