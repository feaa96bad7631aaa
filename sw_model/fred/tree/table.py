"""The configuration memories of all switches of a tree: one index means one entry in each.

A packet carries one index all the way, so the flows that a group needs in its switches, up and
down, stand in entries of the same index. Groups that route together share an entry, since a
switch has one active configuration at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sw_model.errors import InputError
from sw_model.fred.colouring import colour
from sw_model.fred.configuration import Configuration, Flow
from sw_model.fred.reduction import RoutingError, Tree, leaves
from sw_model.fred.routing import Conflict, route
from sw_model.fred.tree.reduction import heard
from sw_model.fred.tree.routing import GroupFlow, GroupKey, Way, choose_ways, switch_flows
from sw_model.fred.tree.shape import TreePorts

__all__ = ["TreeTable"]

Switch = tuple[str, int]
_Held = dict[Switch, list[Flow]]


class TreeTable:
    """Entries for sets of flows, the flows of each set at the same time where they can be.

    Parameters
    ----------
    ports : of the switches
    sets : of flows that share no source and no sink
    capacity : entries of each configuration memory
    class_channels : see :func:`~sw_model.fred.tree.routing.choose_ways`

    Attributes
    ----------
    entries : by index, the configuration of every switch that has flows in it
    ways : by class and group

    Raises
    ------
    InputError
        where the memories are too small, or the groups cannot be ordered.
    """

    def __init__(
        self,
        ports: TreePorts,
        sets: Sequence[Sequence[GroupFlow]],
        *,
        capacity: int | None = None,
        class_channels: bool = False,
    ) -> None:
        self.ports = ports
        self.ways: dict[GroupKey, Way] = choose_ways(ports, sets, class_channels=class_channels)
        self._held: list[_Held] = []
        self._index: dict[GroupFlow, int] = {}
        self._trees: dict[GroupFlow, Tree] = {}
        for flows in sets:
            self._add([flow for flow in flows if flow not in self._index])
        if capacity is not None and len(self._held) > capacity:
            raise InputError(
                f"the collectives need {len(self._held)} configurations of the switches, and their "
                f"memories hold {capacity}: use fewer groups, operations or data types"
            )
        self.entries: tuple[dict[Switch, Configuration], ...] = tuple(
            {switch: self._route(switch, flows) for switch, flows in held.items()}
            for held in self._held
        )

    def index(self, flow: GroupFlow) -> int:
        """Configuration index of a flow.

        Raises
        ------
        ValueError
            where no entry carries it.
        """
        try:
            return self._index[flow]
        except KeyError:
            raise ValueError(
                f"flow {flow} of {flow.data_type} {flow.operator} must be in the configuration "
                f"memories, which hold {len(self.entries)} entries"
            ) from None

    def tree(self, flow: GroupFlow) -> Tree:
        """The order in which the flow's sources are combined, equal at all its sinks.

        Raises
        ------
        RoutingError
            where a sink does not hear exactly the sources, or another rank hears something.
        """
        if flow not in self._trees:
            outputs = heard(self.ports, self.entries[self.index(flow)], flow.sources)
            if tuple(sorted(outputs)) != flow.sinks:
                raise RoutingError(
                    f"flow {flow} must be heard by {list(flow.sinks)}, not {sorted(outputs)}"
                )
            trees = set(outputs.values())
            (tree,) = trees if len(trees) == 1 else (None,)
            if tree is None or sorted(leaves(tree)) != list(flow.sources):
                raise RoutingError(f"the sinks of flow {flow} must hear its sources, not {trees!r}")
            self._trees[flow] = tree
        return self._trees[flow]

    def _add(self, flows: Sequence[GroupFlow]) -> None:
        """Find the fewest parts of a set that route, and a place for each."""
        parts = [switch_flows(self.ports, flow, self.ways.get(flow.key)) for flow in flows]
        if not parts:
            return
        conflicts = [
            {j for j, b in enumerate(parts) if j != i and _overlap(a, b)}
            for i, a in enumerate(parts)
        ]

        def feasible(group: Sequence[int]) -> bool:
            return self._routes(_merged({}, *(parts[i] for i in group)))

        for count in range(1, len(flows) + 1):
            colours = colour(conflicts, count, feasible).colours
            if colours is not None:
                break
        else:
            raise RoutingError("every flow routes alone")
        for own in range(max(colours) + 1):
            chosen = [i for i, c in enumerate(colours) if c == own]
            index = self._place([part for i in chosen for part in parts[i]])
            for i in chosen:
                self._index[flows[i]] = index

    def _place(self, added: Sequence[tuple[Switch, Flow]]) -> int:
        """The first entry in which these flows have room, or a new one."""
        for index, held in enumerate(self._held):
            present = [(switch, flow) for switch, flows in held.items() for flow in flows]
            if not _overlap(present, added) and self._routes(_merged(held, added)):
                self._held[index] = _merged(held, added)
                return index
        self._held.append(_merged({}, added))
        return len(self._held) - 1

    def _routes(self, held: Mapping[Switch, Sequence[Flow]]) -> bool:
        copies = self.ports.middle_copies
        return not any(
            isinstance(route(self.ports.ports(level), copies, flows), Conflict)
            for (level, _), flows in held.items()
        )

    def _route(self, switch: Switch, flows: Sequence[Flow]) -> Configuration:
        routed = route(self.ports.ports(switch[0]), self.ports.middle_copies, flows)
        assert isinstance(routed, Configuration)
        return routed


def _merged(held: _Held, *parts: Sequence[tuple[Switch, Flow]]) -> _Held:
    out = {switch: list(flows) for switch, flows in held.items()}
    for part in parts:
        for switch, flow in part:
            out.setdefault(switch, []).append(flow)
    return out


def _overlap(a: Sequence[tuple[Switch, Flow]], b: Sequence[tuple[Switch, Flow]]) -> bool:
    """Whether two flows use the same port of a switch."""
    return any(s == t and x.overlaps(y) for s, x in a for t, y in b)
