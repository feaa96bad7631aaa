"""A run on the platform's engines as files for other tools: Chrome's trace format, and CSV."""

from __future__ import annotations

import json
from typing import Any

from sw_model.report.csv_text import csv_text
from sw_model.report.json_report import run_json
from sw_model.report.trace_files import named
from sw_model.results import Interval, RunResult, to_ns

__all__ = ["chrome_trace", "csv_tables"]

_ROWS = {"compute": "compute", "exposed": "waiting", "update": "waiting"}


def chrome_trace(run: RunResult) -> str:
    """For Perfetto and chrome://tracing: a process for each simulated rank with rows for compute,
    for what it waits for, and for as many collectives as are under way beside each other (from
    the entry of the rank to its end); and one process with a row for each dim, where its activity
    is known. Times are microseconds, as the format has it."""
    events: list[dict[str, Any]] = []
    layers = run.training.layers

    def bar(
        name: str, category: str, pid: int, tid: int, span: tuple[int, int], **more: Any
    ) -> dict[str, Any]:
        return {
            "name": name,
            "cat": category,
            "ph": "X",
            "ts": to_ns(span[0], run.clock_hz) / 1000,
            "dur": to_ns(span[1] - span[0], run.clock_hz) / 1000,
            "pid": pid,
            "tid": tid,
            "args": more,
        }

    for rank in run.training.ranks:
        pid = rank.rank
        events.append(named("process_name", pid, 0, f"rank {pid}"))
        events += [named("thread_name", pid, 0, "compute"), named("thread_name", pid, 1, "waiting")]
        lanes = 0
        for interval, lane in _lanes([i for i in run.training.intervals if i.rank == pid]):
            for tid in range(lanes, lane + 1):
                events.append(named("thread_name", pid, 2 + tid, f"communication {tid + 1}"))
            lanes = max(lanes, lane + 1)
            row = _ROWS.get(interval.kind)
            tid = {"compute": 0, "waiting": 1}[row] if row else 2 + lane
            events.append(
                bar(
                    f"{layers[interval.layer].name} {interval.part.value}",
                    interval.kind,
                    pid,
                    tid,
                    (interval.start, interval.end),
                    iteration=interval.iteration + 1,
                )
            )
    if run.activity:
        pid = run.npus  # no rank has this number
        events.append(named("process_name", pid, 0, "dims"))
        for tid, dim in enumerate(run.dims):
            events.append(named("thread_name", pid, tid, f"{dim.name}, {dim.kind} {dim.size}"))
        for part in run.activity:
            events.append(bar("op", "dim", pid, part.dim, (part.start, part.end)))
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}) + "\n"


def _lanes(intervals: list[Interval]) -> list[tuple[Interval, int]]:
    """Every interval with the first lane that is free for it, for communication; else with -1."""
    free: list[int] = []
    out = []
    for interval in sorted(intervals, key=lambda i: (i.start, i.end)):
        lane = -1
        if interval.kind == "communication":
            lane = next((i for i, end in enumerate(free) if end <= interval.start), len(free))
            free[lane : lane + 1] = [interval.end]
        out.append((interval, lane))
    return out


def csv_tables(run: RunResult) -> dict[str, str]:
    """``layers.csv``, ``dims.csv`` and ``ranks.csv``, of the ranks that were simulated."""
    found = run_json(run)
    ranks = [
        {
            "rank": rank.rank,
            "finish_ns": to_ns(rank.finish, run.clock_hz),
            "compute_ns": to_ns(rank.compute, run.clock_hz),
            "exposed_comm_ns": to_ns(rank.exposed, run.clock_hz),
            "update_wait_ns": to_ns(rank.update, run.clock_hz),
        }
        for rank in run.training.ranks
    ]
    return {
        "layers.csv": csv_text(found["layers"]),
        "dims.csv": csv_text(found["dims"]),
        "ranks.csv": csv_text(ranks),
    }
