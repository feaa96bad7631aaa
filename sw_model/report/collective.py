"""A single collective as JSON and as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sw_model.collective.cost import ALGORITHMS, algorithm_of, phase_cost
from sw_model.collective.plan import Algorithm
from sw_model.errors import InputError
from sw_model.schedule.outcome import Outcome
from sw_model.units import format_bandwidth, format_size, format_time_ns

if TYPE_CHECKING:
    from rich.table import Table

    from sw_model.schedule.endpoints import MemoryUse

__all__ = [
    "collective_json",
    "collective_tables",
    "explanation_tables",
    "memory_json",
    "memory_table",
]


def _ns(seconds: Any) -> float:
    return float(seconds * 10**9)


def collective_json(outcome: Outcome) -> dict[str, Any]:
    """The keys of ``antiphon collective``; all times in ns."""
    instance = outcome.instance
    dims = instance.topology.dims
    return {
        "time_ns": _ns(outcome.time),
        "ideal_ns": _ns(instance.ideal_seconds),
        "utilisation": outcome.utilisation,
        "bound_ns": _ns(instance.bound_seconds),
        "bound_utilisation": outcome.bound_utilisation,
        "bound_dims": [f"dim {k + 1}" for k in instance.bound.dims],
        "npus": instance.topology.npus,
        "operation": instance.operation.value,
        "size_bytes": instance.collective.elements * instance.collective.element_bytes,
        "scheduler": outcome.label,
        "chunks": outcome.chunks,
        "orders": outcome.orders,
        "padding_bytes": outcome.padding_bytes,
        "planning_seconds": outcome.planning_seconds,
        "notes": list(outcome.notes),
        "dims": [
            {
                "name": f"dim {k + 1}",
                "kind": dim.kind.value,
                "size": dim.size,
                "algorithm": instance.algorithms[k].value,
                "gb_per_s": float(dim.bandwidth / 10**9),
                "busy_ns": _ns(outcome.busy[k]),
                "utilisation": outcome.dim_utilisation(k),
                "bytes_per_npu": outcome.traffic[k].sent,
                "bytes_received_per_npu": outcome.traffic[k].received,
            }
            for k, dim in enumerate(dims)
        ],
    }


def memory_json(outcome: Outcome, memory: MemoryUse) -> dict[str, Any]:
    """What one NPU's main memory carried; the last key is the steady-state rule."""
    payload = outcome.instance.collective.elements * outcome.instance.collective.element_bytes
    exact = memory.exact
    return {
        "memory_read_bytes": float(exact.reads),
        "memory_write_bytes": float(exact.writes),
        "memory_reads_per_payload_byte": float(exact.reads / payload) if payload else 0.0,
        "memory_writes_per_payload_byte": float(exact.writes / payload) if payload else 0.0,
        "steady_reads_per_payload_byte": float(memory.per_payload or 0),
    }


def memory_table(outcome: Outcome, memory: MemoryUse) -> Table:
    """The same for people."""
    found = memory_json(outcome, memory)
    table = _table("Main memory of one NPU", "", "bytes", "per payload byte")
    for what in ("read", "write"):
        table.add_row(
            {"read": "read", "write": "written"}[what],
            f"{found[f'memory_{what}_bytes']:,.0f}",
            f"{found[f'memory_{what}s_per_payload_byte']:.4f}",
        )
    table.add_row("read, steady-state rule", "", f"{found['steady_reads_per_payload_byte']:.4f}")
    return table


def _table(title: str, *columns: str, words: int = 1) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < words else "right")
    return table


def collective_tables(outcome: Outcome) -> list[Table]:
    """What happened, for people."""
    instance = outcome.instance
    size = instance.collective.elements * instance.collective.element_bytes
    head = _table(
        f"{instance.operation.value} of {format_size(size)} over {instance.topology.npus} NPUs, "
        f"{outcome.label}, {outcome.chunks} chunks",
        "",
        "time",
        "share of it",
    )
    head.add_row("simulated", format_time_ns(_ns(outcome.time)), "")
    head.add_row(
        "all dims busy throughout (ideal)",
        format_time_ns(_ns(instance.ideal_seconds)),
        f"{100 * outcome.utilisation:.2f} %",
    )
    setting = ", ".join(str(k + 1) for k in instance.bound.dims)
    head.add_row(
        f"no schedule is faster (bound, set by dim {setting})" if setting else "bound",
        format_time_ns(_ns(instance.bound_seconds)),
        f"{100 * outcome.bound_utilisation:.2f} %",
    )
    dims = _table(
        "Dims", "dim", "kind", "algorithm", "size", "GB/s", "busy us", "utilisation", "sent bytes",
        words=3,
    )  # fmt: skip
    for k, dim in enumerate(instance.topology.dims):
        dims.add_row(
            f"dim {k + 1}",
            dim.kind.value,
            instance.algorithms[k].value,
            str(dim.size),
            f"{float(dim.bandwidth / 10**9):,.1f}",
            f"{_ns(outcome.busy[k]) / 1000:,.1f}",
            f"{100 * outcome.dim_utilisation(k):.1f} %",
            f"{outcome.traffic[k].sent:,}",
        )
    return [head, dims]


def explanation_tables(outcome: Outcome) -> list[Table]:
    """Why: the ways the chunks went, and every dim's algorithms side by side."""
    instance = outcome.instance
    orders = _table("Orders (dims counted from 1)", "order", "chunks")
    for name, count in sorted(outcome.orders.items(), key=lambda item: -item[1]):
        orders.add_row(name or "nothing to do", str(count))
    choices = _table(
        f"The whole payload on one dim alone ({instance.operation.value})",
        "dim", "algorithm", "", "sent", "usable GB/s", "transfer us", "steps", "latency us",
        "together us", words=3,
    )  # fmt: skip
    size = instance.largest_bytes
    for k, dim in enumerate(instance.topology.dims):
        for algorithm in ALGORITHMS[dim.kind]:
            row = _alone(outcome, k, algorithm, size)
            if row is not None:
                choices.add_row(*row)
    weights = _table("What sets the bound", "dim", "per NPU", "a dim 1 % faster lowers it by")
    for k, weight in enumerate(instance.bound.weights):
        bandwidth = format_bandwidth(instance.topology.dims[k].bandwidth)
        weights.add_row(f"dim {k + 1}", bandwidth, f"{float(weight):.3f} %")
    return [orders, choices, weights]


def _alone(outcome: Outcome, k: int, algorithm: Algorithm, size: int) -> list[str] | None:
    instance = outcome.instance
    dim = instance.topology.dims[k]
    try:
        runs = algorithm_of(dim, instance.operation, algorithm)
    except InputError:
        return None
    if runs is not algorithm or dim.size == 1:
        return None
    cost = phase_cost(dim, instance.operation, algorithm, size)
    transfer = cost.port / dim.bandwidth * 10**6
    latency = cost.steps * dim.latency_ps / 10**6
    return [
        f"dim {k + 1}",
        algorithm.value,
        "used" if algorithm is instance.algorithms[k] else "",
        format_size(round(cost.sent)),
        f"{float(dim.bandwidth * cost.share / 10**9):,.1f}",
        f"{float(transfer):,.2f}",
        str(cost.steps),
        f"{latency:,.2f}",
        f"{float(transfer) + latency:,.2f}",
    ]
