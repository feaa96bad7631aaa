"""The flows of collectives on a tree, from the groups that run them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sw_model.collective.plan import Collective, CollectivePlan, Operation
from sw_model.fred.tree.routing import GroupFlow
from sw_model.fred.tree.shape import TreePorts
from sw_model.fred.tree.table import TreeTable

__all__ = ["CONFIGURATIONS", "flow_of", "flow_sets", "groups_of", "tree_table"]

CONFIGURATIONS = 128
"""Entries of the configuration memory of every switch of a tree: all operations of a few kinds of
groups (decided here)."""

Places = tuple[Sequence[int], Sequence[int]]


def groups_of(collective: Collective, npus: int) -> tuple[tuple[int, ...], ...]:
    """The groups of a collective on a tree of ``npus``."""
    if collective.groups or not collective.dims:
        return collective.groups
    return (tuple(range(npus)),)


def flow_of(plan: CollectivePlan, rank: int, flow: Places) -> GroupFlow:
    """A flow of a plan's step, which names places in the group of ``rank``, as one of the tree."""
    member = plan.member(rank)
    assert member is not None, "a rank without a part sends nothing"
    return _placed(plan.collective, plan.groups[member[0]], flow)


def _placed(collective: Collective, group: tuple[int, ...], flow: Places) -> GroupFlow:
    return GroupFlow(
        group=group,
        sources=tuple(group[place] for place in flow[0]),
        sinks=tuple(group[place] for place in flow[1]),
        traffic_class=collective.traffic_class,
        data_type=collective.data_type,
        operator=collective.operator,
    )


def flow_sets(collective: Collective, npus: int) -> list[tuple[GroupFlow, ...]]:
    """What all groups of a collective do at the same time, step by step."""
    groups = groups_of(collective, npus)
    if not groups:
        return []
    everyone = tuple(range(len(groups[0])))
    root = (collective.root,)
    target = () if collective.target is None else (collective.target,)
    steps: dict[Operation, list[Places]] = {
        Operation.ALL_REDUCE: [(everyone, everyone)],
        Operation.REDUCE_SCATTER: [(everyone, (place,)) for place in everyone],
        Operation.ALL_GATHER: [((place,), everyone) for place in everyone],
        Operation.BROADCAST: [(root, everyone)],
        Operation.REDUCE: [(everyone, root)],
        Operation.SEND: [(root, target)],
    }
    return [
        tuple(_placed(collective, group, flow) for group in groups)
        for flow in steps.get(collective.operation, [])
    ]


def tree_table(
    ports: TreePorts, collectives: Iterable[Collective], *, class_channels: bool = False
) -> TreeTable:
    """The configuration memories for all of ``collectives``.

    Raises
    ------
    InputError
        see :class:`~sw_model.fred.tree.table.TreeTable`.
    """
    npus = ports.tree.switches * ports.tree.ranks
    sets = {flows: None for one in collectives for flows in flow_sets(one, npus)}
    return TreeTable(ports, list(sets), capacity=CONFIGURATIONS, class_channels=class_channels)
