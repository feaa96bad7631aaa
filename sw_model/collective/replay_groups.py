"""What the groups of a plan on a tree of FRED switches compute, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence

from sw_model.collective.interpret import Flow
from sw_model.collective.plan import CollectivePlan
from sw_model.collective.replay import Array, replay
from sw_model.fred.reduction import Tree
from sw_model.fred.tree.placement import flow_of
from sw_model.fred.tree.table import TreeTable

__all__ = ["replay_groups"]


def replay_groups(plan: CollectivePlan, sources: Sequence[Array], table: TreeTable) -> list[Array]:
    """The result region of every rank, empty where it has no part.

    Parameters
    ----------
    plan : a checked plan
    sources : by rank, the source region; those of ranks without a part are not looked at
    table : the configuration memories, from which the order of every reduction follows

    Raises
    ------
    ValueError
        where a source has not the collective's shape and type.
    """
    assert plan.local is not None, "a plan on a tree has groups"
    results = [source[:0] for source in sources]
    for group in plan.groups:
        places = {rank: place for place, rank in enumerate(group)}

        def tree_of(_: int, __: int, flow: Flow, places: dict = places) -> Tree:
            first = next(iter(places))
            return _by_place(table.tree(flow_of(plan, first, flow)), places)

        found = replay(plan.local, [sources[rank] for rank in group], trees=tree_of)
        for rank, result in zip(group, found, strict=True):
            results[rank] = result
    return results


def _by_place(tree: Tree, places: dict[int, int]) -> Tree:
    if isinstance(tree, int):
        return places[tree]
    return _by_place(tree[0], places), _by_place(tree[1], places)
