"""A plan for all groups on a tree of FRED switches, from that of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sw_model.collective.plan import Algorithm, Collective, CollectivePlan, Operation
from sw_model.errors import InputError
from sw_model.fred.tree.placement import groups_of
from sw_model.platform import Platform
from sw_model.topology import Topology

__all__ = ["placed_plan"]


def placed_plan(
    collective: Collective,
    platform: Platform,
    plan: Callable[[Collective, Topology], CollectivePlan],
) -> CollectivePlan:
    """The plan of ``collective`` on a tree.

    All groups do the same on ports of their own, so one is planned, as if its members alone were
    below one switch.

    Parameters
    ----------
    plan : plans a collective on a topology under the limits of the platform's engines

    Raises
    ------
    InputError
        where a group names a rank that is not there.
    """
    npus = platform.topology.npus
    groups = groups_of(collective, npus)
    strange = sorted({rank for group in groups for rank in group if rank >= npus})
    if strange:
        raise InputError(f"a group must name ranks in 0..{npus - 1}, not {strange[0]}")
    if not groups:
        return plan(collective, platform.topology)
    dim = replace(platform.topology.dims[0], size=len(groups[0]), tree=None)
    local = _switched(plan(replace(collective, dims=(0,), groups=()), Topology((dim,))))
    return replace(
        local, collective=collective, topology=platform.topology, groups=groups, local=local
    )


def _switched(plan: CollectivePlan) -> CollectivePlan:
    """A send's messages are unicasts of the switches: configurations carry all on a tree."""
    if plan.collective.operation is not Operation.SEND:
        return plan
    chunks = tuple(
        replace(
            chunk,
            phases=tuple(replace(p, algorithm=Algorithm.IN_NETWORK) for p in chunk.phases),
        )
        for chunk in plan.chunks
    )
    return replace(plan, chunks=chunks)
