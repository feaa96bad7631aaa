"""The global router of a tree: which up links and which L2 switch every group takes.

A flow of a group goes up from the L1 switches of its sources, through one L2 switch, and down to
those of its sinks (FRED, ISCA 2025). A group keeps its way: one L2 switch, and of every L1 switch
one up link. It is chosen (decided here) so that

* groups that run at the same time have up links of their own, where there are enough;
* *trunk order* (docs/fred.md): two flows that share a channel and go up by one link share an input.

An up link is taken for preference by a group that has the NPU of the same number below that L1
switch. Groups without a common NPU then never meet on a link, whatever else runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from sw_model.errors import InputError
from sw_model.fred.configuration import Flow
from sw_model.fred.tree.shape import TreePorts

__all__ = ["GroupFlow", "GroupKey", "Way", "choose_ways", "switch_flows"]

_TRIES = 20_000
"""Ways that are tried for all groups together before up links may be shared in time."""

Switch = tuple[str, int]

GroupKey = tuple[str, tuple[int, ...]]
"""Class and ranks of a group."""


@dataclass(frozen=True, kw_only=True)
class GroupFlow:
    """What a group does at a time: reduce over the sources, multicast to the sinks.

    Parameters
    ----------
    group : all its ranks
    sources, sinks : ranks, ascending
    traffic_class, data_type, operator : as of :class:`~sw_model.fred.configuration.Flow`
    """

    group: tuple[int, ...]
    sources: tuple[int, ...]
    sinks: tuple[int, ...]
    traffic_class: str = "dp"
    data_type: str = "fp16"
    operator: str = "sum"

    @property
    def key(self) -> GroupKey:
        """What has one way."""
        return self.traffic_class, self.group

    def __str__(self) -> str:
        names = (",".join(map(str, ranks)) for ranks in (self.sources, self.sinks))
        return f"{self.traffic_class} {' > '.join(names)}"


@dataclass(frozen=True)
class Way:
    """An L2 switch, and the up link to it by L1 switch."""

    top: int
    ups: Mapping[int, int]


def choose_ways(
    ports: TreePorts, sets: Sequence[Sequence[GroupFlow]], *, class_channels: bool
) -> dict[GroupKey, Way]:
    """A way for every group that spans several L1 switches.

    Parameters
    ----------
    sets : flows that run at the same time
    class_channels : every class has a channel of its own on all links; without it all share one,
        and trunk order holds among all classes

    Raises
    ------
    InputError
        where no choice keeps trunk order, naming the group that is left over.
    """
    rising: dict[GroupKey, dict[int, set[tuple[int, ...]]]] = {}
    beside: dict[GroupKey, set[GroupKey]] = {}
    for flows in sets:
        keys = {flow.key for flow in flows if _spans(ports, flow.group)}
        for flow in flows:
            if flow.key not in keys:
                continue
            beside.setdefault(flow.key, set()).update(keys - {flow.key})
            inputs = rising.setdefault(flow.key, {s: set() for s in _below(ports, flow.group)})
            for switch, ranks in _below(ports, flow.sources).items():
                inputs[switch].add(tuple(ranks))
    search = _Search(ports, rising, beside, class_channels)
    for apart in (True, False):
        found = search.run(apart)
        if found is not None:
            return found
    traffic_class, group = search.stuck
    raise InputError(
        f"the groups must leave every L1 switch in one order: no up links are left for group "
        f"{','.join(map(str, group))} of class {traffic_class} that it would share only with "
        "groups that have a source of its own below the same L1 switch; place them on other NPUs, "
        "or give the tree more up links"
    )


class _Search:
    """Depth first, group by group, in the order in which they were named."""

    def __init__(
        self,
        ports: TreePorts,
        rising: Mapping[GroupKey, Mapping[int, set[tuple[int, ...]]]],
        beside: Mapping[GroupKey, set[GroupKey]],
        class_channels: bool,
    ) -> None:
        self.ports = ports
        self.rising = rising
        self.beside = beside
        self.class_channels = class_channels
        self.keys = list(rising)
        self.stuck: GroupKey = ("", ())
        self._taken: dict[tuple[int, int], list[GroupKey]] = {}
        self._tops = [0] * ports.tree.tops
        self._ways: dict[GroupKey, Way] = {}
        self._left = 0
        self._deepest = -1

    def run(self, apart: bool) -> dict[GroupKey, Way] | None:
        """Ways of all groups; ``apart``: those that run at the same time share no up link."""
        self._taken.clear()
        self._ways.clear()
        self._tops = [0] * self.ports.tree.tops
        self._left, self._deepest = _TRIES, -1
        return dict(self._ways) if self._place(0, apart) else None

    def _place(self, number: int, apart: bool) -> bool:
        if number == len(self.keys):
            return True
        key = self.keys[number]
        if number > self._deepest:
            self._deepest, self.stuck = number, key
        for way in self._candidates(key):
            if self._left == 0:
                return False
            self._left -= 1
            links = list(way.ups.items())
            if not all(self._fits(key, link, apart) for link in links):
                continue
            self._ways[key] = way
            self._tops[way.top] += 1
            for link in links:
                self._taken.setdefault(link, []).append(key)
            if self._place(number + 1, apart):
                return True
            for link in links:
                self._taken[link].remove(key)
            self._tops[way.top] -= 1
            del self._ways[key]
        return False

    def _candidates(self, key: GroupKey) -> Iterator[Way]:
        """The ways of a group: first those by links of its own NPUs, over the L2 switch that fewer
        groups have taken."""
        tree = self.ports.tree
        below = _below(self.ports, key[1])
        found: list[tuple[int, int, tuple[int, ...], int]] = []
        for top in range(tree.tops):
            links = range(top, tree.ups, tree.tops)
            for ups in product(links, repeat=len(below)):
                foreign = sum(
                    up not in {rank % tree.ranks for rank in ranks}
                    for up, ranks in zip(ups, below.values(), strict=True)
                )
                found.append((foreign, self._tops[top], ups, top))
        for _, _, ups, top in sorted(found):
            yield Way(top, dict(zip(below, ups, strict=True)))

    def _fits(self, key: GroupKey, link: tuple[int, int], apart: bool) -> bool:
        for other in self._taken.get(link, ()):
            if apart and other in self.beside[key]:
                return False
            if self.class_channels and other[0] != key[0]:
                continue
            switch = link[0]
            ours, theirs = self.rising[key][switch], self.rising[other][switch]
            if any(not set(a) & set(b) for a in ours for b in theirs):
                return False
        return True


def switch_flows(ports: TreePorts, flow: GroupFlow, way: Way | None) -> list[tuple[Switch, Flow]]:
    """The flows of the switches that together are the flow of a group."""
    kind = {
        "traffic_class": flow.traffic_class,
        "data_type": flow.data_type,
        "operator": flow.operator,
    }
    sources, sinks = _below(ports, flow.sources), _below(ports, flow.sinks)

    def places(ranks: Iterable[int]) -> tuple[int, ...]:
        return tuple(ports.down(rank)[1] for rank in ranks)

    if len(sources | sinks) == 1:
        ((switch, ranks),) = sources.items()
        return [(("L1", switch), Flow(places(ranks), places(flow.sinks), **kind))]
    assert way is not None, "a group that spans L1 switches has a way"
    out: list[tuple[Switch, Flow]] = []
    for switch, ranks in sources.items():
        up = ports.up(way.ups[switch])
        out.append((("L1", switch), Flow(places(ranks), (up,), **kind)))
    inputs, outputs = (
        tuple(ports.top(switch, way.ups[switch])[1] for switch in side) for side in (sources, sinks)
    )
    out.append((("L2", way.top), Flow(inputs, outputs, **kind)))
    for switch, ranks in sinks.items():
        up = ports.up(way.ups[switch])
        out.append((("L1", switch), Flow((up,), places(ranks), **kind)))
    return out


def _below(ports: TreePorts, ranks: Iterable[int]) -> dict[int, list[int]]:
    """Ranks by L1 switch."""
    out: dict[int, list[int]] = {}
    for rank in ranks:
        out.setdefault(ports.down(rank)[0], []).append(rank)
    return out


def _spans(ports: TreePorts, ranks: Iterable[int]) -> bool:
    return len(_below(ports, ranks)) > 1
