"""Several jobs on one network: each by itself, as JSON and as tables; units in the names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sw_model.replay.jobs import JobResult
from sw_model.replay.run import TraceResult
from sw_model.units import format_size, format_time_ns

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["jobs_json", "jobs_rows", "jobs_tables"]

_PARTS = ("finish", "compute", "exposed", "host", "bubble")


def jobs_json(result: TraceResult) -> list[dict[str, Any]]:
    """The keys of a run for each job: times of its rank that finishes last, of its nodes alone. A
    rank of the network that has two jobs counts in both."""
    return [_job(result, job) for job in result.jobs]


def _job(result: TraceResult, job: JobResult) -> dict[str, Any]:
    latest, ns = job.latest, result.ns
    spreads = {}
    for part in _PARTS:
        values = [getattr(rank, part) for rank in job.ranks]
        total = sum(value * size for value, size in zip(values, job.sizes, strict=True))
        spreads[_key(part)] = {
            "min": ns(min(values)),
            "mean": round(ns(total) / sum(job.sizes), 3),
            "max": ns(max(values)),
        }
    return {
        "name": job.name,
        "npus": sum(job.sizes),
        "total_ns": ns(latest.finish),
        "iterations_ns": [ns(ticks) for ticks in job.iterations],
        "compute_ns": ns(latest.compute),
        "exposed_comm_ns": ns(latest.exposed),
        "host_ns": ns(latest.host),
        "bubble_ns": ns(latest.bubble),
        "latest_rank": latest.rank,
        "ranks": spreads,
        "layers": [
            {
                "name": node.name,
                "compute_ns": ns(node.compute),
                "comm_ns": ns(node.communication),
                "exposed_ns": ns(node.exposed),
                "bytes": node.bytes // len(job.iterations),
            }
            for node in job.nodes
        ],
    }


def _key(part: str) -> str:
    return "exposed_comm_ns" if part == "exposed" else f"{part}_ns"


def jobs_rows(result: TraceResult) -> list[dict[str, Any]]:
    """For a table in CSV: the keys of `jobs_json` that are numbers."""
    return [
        {key: value for key, value in job.items() if isinstance(value, int | float | str)}
        for job in jobs_json(result)
    ]


def jobs_tables(result: TraceResult) -> list[Table]:
    """A row for each job; none where there are no jobs."""
    if not result.jobs:
        return []
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        title="Jobs, each by itself: its rank that finishes last",
        box=box.SIMPLE_HEAD,
        title_justify="left",
        title_style="bold",
    )
    columns = ("job", "NPUs", "total", "compute", "exposed", "host", "bubble", "largest exposed")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index in (0, 7) else "right")
    for job in result.jobs:
        latest = job.latest
        worst = max(job.nodes, key=lambda node: node.exposed, default=None)
        shown = ""
        if worst is not None and worst.exposed:
            size = worst.bytes // len(job.iterations)
            shown = f"{worst.name} ({format_size(size)})"
        times = (getattr(latest, part) for part in _PARTS)
        table.add_row(
            escape(job.name),
            str(sum(job.sizes)),
            *(format_time_ns(result.ns(ticks)) for ticks in times),
            escape(shown),
        )
    return [table]
