"""A replayed trace as JSON and as tables; units in the names."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sw_model.collective.memory_traffic import MemoryTraffic
from sw_model.replay.accounting import RankTimes
from sw_model.replay.run import TraceResult
from sw_model.schedule.joint_bound import NO_BOUND
from sw_model.units import format_bandwidth, format_size, format_time_ns

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["trace_json", "trace_tables"]

_SHARES: tuple[tuple[str, Callable[[RankTimes], int]], ...] = (
    ("finish_ns", lambda rank: rank.finish),
    ("compute_ns", lambda rank: rank.compute),
    ("exposed_comm_ns", lambda rank: rank.exposed),
    ("host_ns", lambda rank: rank.host),
    ("bubble_ns", lambda rank: rank.bubble),
)


def _spread(result: TraceResult, share: Callable[[RankTimes], int]) -> dict[str, float]:
    """Minimum, mean and maximum over all ranks, simulated or not."""
    values = [share(rank) for rank in result.ranks]
    total = sum(value * size for value, size in zip(values, result.sizes, strict=True))
    return {
        "min": result.ns(min(values)),
        "mean": round(result.ns(total) / sum(result.sizes), 3),
        "max": result.ns(max(values)),
    }


def trace_json(result: TraceResult) -> dict[str, Any]:
    """The keys of ``antiphon run``. Times of the rank that finishes last, but for ``ranks``."""
    latest, ns = result.latest, result.ns

    def moved(part: Callable[[MemoryTraffic], Fraction]) -> float | None:
        return None if result.memory is None else float(part(result.memory))

    return {
        "total_ns": ns(latest.finish),
        "iterations_ns": [ns(ticks) for ticks in result.iterations],
        "compute_ns": ns(latest.compute),
        "exposed_comm_ns": ns(latest.exposed),
        "host_ns": ns(latest.host),
        "bubble_ns": ns(latest.bubble),
        "latest_rank": latest.rank,
        "ranks": {name: _spread(result, share) for name, share in _SHARES},
        "ranks_simulated": len(result.ranks),
        "npus": result.workload.topology.npus,
        "nodes": result.workload.nodes,
        "semantics": result.semantics.value,
        "endpoint": result.endpoint,
        "bound_ns": result.bounds.whole.ns,
        "bound_dims": result.bounds.whole.named,
        "memory_read_bytes_per_npu": moved(lambda memory: memory.reads),
        "memory_write_bytes_per_npu": moved(lambda memory: memory.writes),
        "notes": list(result.notes),
        "dims": [
            {
                "name": f"dim {index + 1}",
                "kind": dim.kind.value,
                "size": dim.size,
                "gb_per_s": float(dim.bandwidth / 10**9),
                "busy_ns": ns(result.dims[index].busy),
                "utilisation": result.utilisation(index),
                "bytes_per_npu": result.dims[index].bytes_per_npu,
            }
            for index, dim in enumerate(result.workload.topology.dims)
        ],
        "layers": [
            {
                "name": node.name,
                "compute_ns": ns(node.compute),
                "comm_ns": ns(node.communication),
                "exposed_ns": ns(node.exposed),
                "bytes": node.bytes // len(result.iterations),
                "bound_ns": result.bounds.layers.get(node.name, NO_BOUND).ns,
            }
            for node in result.nodes
        ],
    }


def _table(title: str, *columns: str, words: int = 1) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < words else "right")
    return table


def trace_tables(result: TraceResult, *, layers: int = 12) -> list[Table]:
    """What ran, where the time went, the dims, and the nodes that expose most."""
    workload, ns = result.workload, result.ns
    what = _table("Workload", "", "", words=2)
    what.show_header = False
    what.add_row("trace", workload.prefix)
    what.add_row("ranks", f"{workload.topology.npus}, {len(result.ranks)} of them simulated")
    what.add_row("nodes", f"{workload.nodes:,}")
    what.add_row("semantics", result.semantics.value)
    what.add_row("endpoints", result.endpoint)
    if result.memory is not None:
        reads, writes = (format_size(int(m)) for m in (result.memory.reads, result.memory.writes))
        what.add_row("communication in main memory", f"{reads} read, {writes} written, per NPU")

    time = _table(f"Time of rank {result.latest.rank}, which finishes last", "", "us", "min", "max")
    bound = result.bounds.whole
    if bound.dims:
        setting = ", ".join(bound.named)
        what.add_row("collectives take at least", f"{format_time_ns(bound.ns)} ({setting})")
    for name, share in (("total", _SHARES[0][1]), *((n[:-3], s) for n, s in _SHARES[1:])):
        spread = _spread(result, share)
        time.add_row(
            name.replace("_", " ").replace("comm", "communication"),
            f"{ns(share(result.latest)) / 1000:,.3f}",
            f"{spread['min'] / 1000:,.3f}",
            f"{spread['max'] / 1000:,.3f}",
        )

    dims = _table(
        "Dims", "dim", "kind", "NPUs", "per NPU", "busy us", "sent per NPU", "utilisation %",
        words=2,
    )  # fmt: skip
    for index, dim in enumerate(workload.topology.dims):
        use = result.dims[index]
        dims.add_row(
            f"dim {index + 1}",
            dim.kind.value,
            str(dim.size),
            format_bandwidth(dim.bandwidth),
            f"{ns(use.busy) / 1000:,.3f}",
            format_size(use.bytes_per_npu),
            f"{100 * result.utilisation(index):.1f}",
        )

    nodes = _table("Nodes that expose most", "node", "compute", "communication", "exposed", "bytes")
    most = sorted(result.nodes, key=lambda node: -node.exposed)[:layers]
    for node in most:
        if node.exposed:
            nodes.add_row(
                node.name,
                format_time_ns(ns(node.compute)),
                format_time_ns(ns(node.communication)),
                format_time_ns(ns(node.exposed)),
                format_size(node.bytes),
            )
    return [what, time, dims] + ([nodes] if nodes.row_count else [])
