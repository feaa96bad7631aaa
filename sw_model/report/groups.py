"""A collective on a group that is simulated link by link, as JSON and as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sw_model.congestion.groups import GroupRequest, GroupResult
from sw_model.topology import Topology
from sw_model.units import format_size, format_time_ns

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["group_json", "group_table"]


def group_json(topology: Topology, request: GroupRequest, result: GroupResult) -> dict[str, Any]:
    """The keys of ``antiphon collective``. The bound is the ideal: every member must send its bytes
    over its own links."""
    total = sum(dim.bandwidth for dim in topology.dims if dim.size > 1)
    ideal = result.sent / total if total else result.sent
    time = result.seconds
    share = float(ideal / time) if time else 1.0
    return {
        "time_ns": float(time * 10**9),
        "ideal_ns": float(ideal * 10**9),
        "utilisation": share,
        "bound_ns": float(ideal * 10**9),
        "bound_utilisation": share,
        "npus": len(request.ranks),
        "operation": request.operation.value,
        "size_bytes": request.payload,
        "scheduler": "ring on the real links",
        "chunks": 1,
        "dims": [
            {
                "name": f"dim {k + 1}",
                "kind": dim.kind.value,
                "size": dim.size,
                "gb_per_s": float(dim.bandwidth / 10**9),
                "busy_ns": float(result.busy[k] * 10**9),
                "utilisation": float(result.carried[k] / (dim.bandwidth * time)) if time else 0.0,
                "bytes_per_npu": float(result.carried[k]),
            }
            for k, dim in enumerate(topology.dims)
        ],
    }


def group_table(topology: Topology, request: GroupRequest, result: GroupResult) -> Table:
    """The same for people."""
    from rich import box
    from rich.table import Table

    found = group_json(topology, request, result)
    table = Table(
        title=f"{request.operation.value} of {format_size(request.payload)} over "
        f"{len(request.ranks)} of {topology.npus} NPUs, link by link: "
        f"{format_time_ns(found['time_ns'])}, {100 * found['utilisation']:.2f} % of ideal",
        box=box.SIMPLE_HEAD,
        title_justify="left",
        title_style="bold",
    )
    for column in ("dim", "kind", "size", "busiest link us", "most bytes of an NPU"):
        table.add_column(column, justify="left" if column in ("dim", "kind") else "right")
    for dim in found["dims"]:
        table.add_row(
            dim["name"],
            dim["kind"],
            str(dim["size"]),
            f"{dim['busy_ns'] / 1000:,.2f}",
            f"{dim['bytes_per_npu']:,.0f}",
        )
    return table
