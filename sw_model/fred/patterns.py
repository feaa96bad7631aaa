"""Collectives of a group of ports as flows in series (FRED, ISCA 2025, communication patterns).

Each function gives a tuple of steps; a step is a tuple of flows that run at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from sw_model.fred.configuration import Flow

__all__ = [
    "Steps",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "gather",
    "reduce_scatter",
    "scatter",
    "side_by_side",
]  # fmt: skip

Steps = tuple[tuple[Flow, ...], ...]


def all_reduce(ports: Sequence[int]) -> Steps:
    """One flow from all ports to all ports."""
    return ((Flow.all_reduce(ports),),)


def reduce_scatter(ports: Sequence[int]) -> Steps:
    """One reduce flow per port: step j gives ``ports[j]`` its shard."""
    return tuple((Flow(tuple(ports), (port,)),) for port in ports)


def all_gather(ports: Sequence[int]) -> Steps:
    """One multicast flow per port: step j spreads the shard of ``ports[j]``."""
    return tuple((Flow((port,), tuple(ports)),) for port in ports)


def all_to_all(ports: Sequence[int]) -> Steps:
    """Rotations: in step k port i sends to the port k + 1 places further on."""
    count = len(ports)
    return tuple(
        tuple(Flow((port,), (ports[(i + k) % count],)) for i, port in enumerate(ports))
        for k in range(1, count)
    )


def scatter(root: int, ports: Sequence[int]) -> Steps:
    """One unicast per other port, from the root."""
    return tuple((Flow((root,), (port,)),) for port in ports if port != root)


def gather(root: int, ports: Sequence[int]) -> Steps:
    """One unicast per other port, to the root."""
    return tuple((Flow((port,), (root,)),) for port in ports if port != root)


def side_by_side(patterns: Sequence[Steps]) -> Steps:
    """The patterns of groups that share no port, step by step at the same time."""
    return tuple(
        tuple(flow for step in steps for flow in step)
        for steps in zip_longest(*patterns, fillvalue=())
    )
