"""Collectives of groups that are simulated link by link, as JSON and as tables."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sw_model.collective.plan import Algorithm
from sw_model.congestion.groups import GroupRequest, GroupResult, GroupRun
from sw_model.topology import Topology
from sw_model.units import format_size, format_time_ns

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["group_entry", "group_table", "groups_json", "groups_table", "ranks_text"]


def ranks_text(ranks: Sequence[int]) -> str:
    """Ranks as ``--group`` takes them: ``0-7`` or ``0,2,8-11``."""
    parts: list[list[int]] = []
    for rank in sorted(ranks):
        if parts and rank == parts[-1][1] + 1:
            parts[-1][1] = rank
        else:
            parts.append([rank, rank])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def group_entry(
    ranks: Sequence[int], time: Fraction, ideal: Fraction, bound: Fraction
) -> dict[str, Any]:
    """One of several groups; times in seconds."""
    return {
        "ranks": ranks_text(ranks),
        "npus": len(ranks),
        "time_ns": float(time * 10**9),
        "ideal_ns": float(ideal * 10**9),
        "utilisation": float(ideal / time) if time else 1.0,
        "bound_ns": float(bound * 10**9),
        "bound_utilisation": float(bound / time) if time else 1.0,
    }


def _entry(topology: Topology, request: GroupRequest, result: GroupResult) -> dict[str, Any]:
    """The bound is the ideal: every member must move its bytes over its own links. A switch that
    reduces needs no more than the payload once."""
    total = sum((dim.bandwidth for dim in topology.dims if dim.size > 1), Fraction(0))
    ideal = result.sent / total if total else Fraction(0)
    bound = ideal
    if request.algorithm is Algorithm.IN_NETWORK and total:
        bound = min(ideal, Fraction(request.payload) / total)
    return group_entry(request.ranks, result.seconds, ideal, bound)


def groups_json(
    topology: Topology, requests: Sequence[GroupRequest], run: GroupRun, notes: Sequence[str] = ()
) -> dict[str, Any]:
    """The keys of ``antiphon collective``, until the last group is done, and of every group."""
    entries = [_entry(topology, *pair) for pair in zip(requests, run.groups, strict=True)]
    first, time = requests[0], run.seconds
    out: dict[str, Any] = {"time_ns": float(time * 10**9)}
    for lower, share in (("ideal_ns", "utilisation"), ("bound_ns", "bound_utilisation")):
        out[lower] = max(entry[lower] for entry in entries)
        out[share] = out[lower] / out["time_ns"] if time else 1.0
    return out | {
        "npus": len({rank for request in requests for rank in request.ranks}),
        "operation": first.operation.value,
        "size_bytes": first.payload,
        "scheduler": f"{first.used.value} on the real links",
        "chunks": 1 if time else 0,
        "notes": list(notes),
        "groups": entries,
        "dims": [
            {
                "name": f"dim {k + 1}",
                "kind": dim.kind.value,
                "size": dim.size,
                "algorithm": first.used.value,
                "gb_per_s": float(dim.bandwidth / 10**9),
                "busy_ns": float(run.busy[k] * 10**9),
                "utilisation": float(run.carried[k] / (dim.bandwidth * time)) if time else 0.0,
                "bytes_per_npu": float(run.carried[k]),
            }
            for k, dim in enumerate(topology.dims)
        ],
    }


def _table(title: str, *columns: str, words: int) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < words else "right")
    return table


def group_table(topology: Topology, found: dict[str, Any]) -> Table:
    """What the links of every dim carried, for people."""
    title = (
        f"{found['operation']} of {format_size(found['size_bytes'])} over {found['npus']} of "
        f"{topology.npus} NPUs, link by link: {format_time_ns(found['time_ns'])}, "
        f"{100 * found['utilisation']:.2f} % of ideal"
    )
    table = _table(title, "dim", "kind", "size", "busiest link us", "most bytes of an NPU", words=2)
    for dim in found["dims"]:
        table.add_row(
            dim["name"],
            dim["kind"],
            str(dim["size"]),
            f"{dim['busy_ns'] / 1000:,.2f}",
            f"{dim['bytes_per_npu']:,.0f}",
        )
    return table


def groups_table(found: dict[str, Any]) -> Table:
    """Every group beside the others, for people."""
    table = _table("Groups", "ranks", "NPUs", "time", "of ideal", words=1)
    for group in found["groups"]:
        table.add_row(
            group["ranks"],
            str(group["npus"]),
            format_time_ns(group["time_ns"]),
            f"{100 * group['utilisation']:.2f} %",
        )
    return table
