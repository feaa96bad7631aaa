"""Ranks that began the collectives of a group in different orders, found by what their engines
report."""

from __future__ import annotations

from collections.abc import Mapping

from sw_model.topology import Topology

__all__ = ["disagreements"]


def disagreements(
    topology: Topology, running: Mapping[tuple[int, int], tuple[int, int]]
) -> list[str]:
    """A line for every op that belongs to different collectives at two ranks that share a link or
    a switch: ops are counted on each dim, so the same one must be of the same collective
    everywhere.

    Parameters
    ----------
    running : by (rank, dim), the number of the oldest op that runs there, and its collective
    """
    lines = []
    for dim in range(len(topology.dims)):
        for group in sorted({topology.peers(rank, dim) for rank in range(topology.npus)}):
            first: dict[int, tuple[int, int]] = {}
            for rank in group:
                if (rank, dim) not in running:
                    continue
                op, collective = running[rank, dim]
                other, its = first.setdefault(op, (rank, collective))
                if its != collective:
                    lines.append(
                        f"ranks {other} and {rank} began their collectives in different orders: op "
                        f"{op} of dim {dim + 1} is of collective {its} at rank {other}, and of "
                        f"collective {collective} at rank {rank}"
                    )
    return lines
