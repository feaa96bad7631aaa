"""A replayed trace as files for other tools: Chrome's trace format, and CSV."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sw_model.replay.run import TraceResult
from sw_model.report.csv_text import csv_text
from sw_model.report.jobs import jobs_rows
from sw_model.report.trace import trace_json

__all__ = ["chrome_trace", "csv_tables", "named"]


def chrome_trace(result: TraceResult) -> str:
    """For Perfetto and chrome://tracing: a process for each simulated rank; compute, host, and as
    many rows of communication as run beside each other. Times are microseconds, as the format has
    it; a bar of communication begins where it does, and says how long it waited before."""
    events: list[dict[str, Any]] = []

    def us(ticks: int) -> float:
        return result.ns(ticks) / 1000

    for rank, size, log in zip(result.ranks, result.sizes, result.logs, strict=True):
        pid = rank.rank
        nodes = result.workload.graphs[pid].nodes
        like = f" and {size - 1} like it" if size > 1 else ""
        events.append(named("process_name", pid, 0, f"rank {pid}{like}"))
        rows: list[tuple[str, Iterable[tuple[int, int, int, int]]]] = [
            ("compute", ((p, a, a, b) for p, a, b in log.compute)),
            ("host", ((p, a, a, b) for p, a, b in log.host)),
        ]
        free: list[int] = []  # ends of the rows of communication
        lanes: list[list[tuple[int, int, int, int]]] = []
        for bar in sorted(log.communication, key=lambda bar: (bar[2], bar[3])):
            row = next((i for i, end in enumerate(free) if end <= bar[2]), len(free))
            if row == len(free):
                free.append(0)
                lanes.append([])
            free[row] = bar[3]
            lanes[row].append(bar)
        rows += [(f"communication {i + 1}", lane) for i, lane in enumerate(lanes)]
        for tid, (name, bars) in enumerate(rows):
            events.append(named("thread_name", pid, tid, name))
            for position, issued, start, end in bars:
                node = nodes[position]
                arguments: dict[str, Any] = {"node": node.number}
                if name.startswith("communication"):
                    arguments |= {"bytes": node.size, "waited_ns": result.ns(start - issued)}
                events.append(
                    {
                        "name": node.name,
                        "cat": name.split()[0],
                        "ph": "X",
                        "ts": us(start),
                        "dur": us(end - start),
                        "pid": pid,
                        "tid": tid,
                        "args": arguments,
                    }
                )
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}) + "\n"


def named(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    """The event that names a process or a row."""
    return {"name": what, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}


def csv_tables(result: TraceResult) -> dict[str, str]:
    """``layers.csv``, ``dims.csv``, ``ranks.csv``, in which a rank stands for ``ranks_alike``, and
    ``jobs.csv`` where there are several."""
    found = trace_json(result)
    ranks = [
        {
            "rank": rank.rank,
            "ranks_alike": size,
            "finish_ns": result.ns(rank.finish),
            "compute_ns": result.ns(rank.compute),
            "exposed_comm_ns": result.ns(rank.exposed),
            "host_ns": result.ns(rank.host),
            "bubble_ns": result.ns(rank.bubble),
        }
        for rank, size in zip(result.ranks, result.sizes, strict=True)
    ]
    jobs = {"jobs.csv": csv_text(jobs_rows(result))} if result.jobs else {}
    return {
        "layers.csv": csv_text(found["layers"]),
        "dims.csv": csv_text(found["dims"]),
        "ranks.csv": csv_text(ranks),
        **jobs,
    }
