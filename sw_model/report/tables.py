"""Results as tables for people. Every column says its unit."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table

from sw_model.results import Crosscheck, RunResult, to_ns
from sw_model.topology import Topology
from sw_model.units import format_bandwidth, format_size, format_time_ns
from sw_model.workload.layers import Workload
from sw_model.workload.program import compute_ns

__all__ = [
    "crosscheck_table",
    "layers_table",
    "network_table",
    "runs_table",
    "utilisation_table",
    "workload_table",
]


def _table(title: str, *columns: str, words: int = 1) -> Table:
    """The first ``words`` columns hold words, the others numbers."""
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < words else "right")
    return table


def workload_table(workload: Workload, *, data_type: str, iterations: int) -> Table:
    """What is trained."""
    table = _table("Workload", "", "", words=2)
    table.show_header = False
    table.add_row("trace", workload.path or "generated")
    table.add_row("mode", f"{workload.mode.value}, {len(workload.layers)} layers")
    size = format_size(workload.communication_bytes())
    table.add_row("payload of an iteration", f"{size} of {data_type} per NPU")
    table.add_row("compute of an iteration", format_time_ns(compute_ns(workload)))
    table.add_row("iterations", str(iterations))
    return table


def network_table(topology: Topology) -> Table:
    """The dims."""
    table = _table(f"Network of {topology.npus} NPUs", "dim", "kind", "size", "per NPU", "latency")
    for number, dim in enumerate(topology.dims, start=1):
        table.add_row(
            f"dim {number}",
            dim.kind.value,
            str(dim.size),
            format_bandwidth(dim.bandwidth),
            format_time_ns(dim.latency_ps / 1000),
        )
    return table


def runs_table(title: str, runs: Sequence[RunResult]) -> Table:
    """What time was made of, a column for each run. Of the rank that finishes last."""
    table = _table(title, "us", *(run.label for run in runs))

    def row(name: str, values: Sequence[int | None]) -> None:
        cells = [
            "" if cycles is None else f"{to_ns(cycles, run.clock_hz) / 1000:,.1f}"
            for cycles, run in zip(values, runs, strict=True)
        ]
        table.add_row(name, *cells)

    row("total", [run.training.total for run in runs])
    for number in range(max((len(run.training.iterations) for run in runs), default=0)):
        row(
            f"  iteration {number + 1}",
            [
                run.training.iterations[number] if number < len(run.training.iterations) else None
                for run in runs
            ],
        )
    row("compute", [run.training.latest.compute for run in runs])
    row("exposed communication", [run.training.latest.exposed for run in runs])
    row("waiting for updates", [run.training.latest.update for run in runs])
    if any(run.bound.dims for run in runs):
        table.add_row(
            "collectives take at least",
            *(
                f"{run.bound.ns / 1000:,.1f} ({', '.join(run.bound.named)})"
                if run.bound.dims
                else ""
                for run in runs
            ),
        )
    return table


def utilisation_table(title: str, runs: Sequence[RunResult]) -> Table:
    """What every dim did, a column for each run: bytes over what its bandwidth could have carried,
    the share of time in which an op was under way, and payload sent by one NPU."""
    table = _table(title, "", *(run.label for run in runs))
    for index, dim in enumerate(runs[0].dims if runs else ()):
        mine = [run.dims[index] for run in runs]
        totals = [run.training.total for run in runs]
        table.add_row(
            f"{dim.name}, {dim.kind} {dim.size}: utilisation",
            *(
                f"{one.utilisation(total, run.clock_hz):.1%}"
                for one, total, run in zip(mine, totals, runs, strict=True)
            ),
        )
        table.add_row(
            "  busy",
            *(f"{d.busy / t:.1%}" if t else "" for d, t in zip(mine, totals, strict=True)),
        )
        table.add_row("  sent per NPU", *(format_size(one.bytes_per_npu) for one in mine))
    return table


def layers_table(title: str, run: RunResult, *, rows: int = 8) -> Table:
    """The layers that expose most, then those that communicate longest; ``rows`` of them."""
    table = _table(title, "layer", "compute us", "comm us", "exposed us", "payload")
    layers = sorted(run.training.layers, key=lambda layer: (-layer.exposed, -layer.communication))
    for layer in layers[:rows]:
        table.add_row(
            layer.name,
            *(
                f"{to_ns(cycles, run.clock_hz) / 1000:,.1f}"
                for cycles in (layer.compute, layer.communication, layer.exposed)
            ),
            format_size(layer.bytes),
        )
    return table


def crosscheck_table(crosscheck: Crosscheck, *, rows: int | None = None) -> Table:
    """Case by case; with ``rows`` every case that fails, then the largest errors, and a line for
    the rest."""
    bound = f"{crosscheck.bound:.0%} or {crosscheck.slack}"
    if any(case.packet_cycles for case in crosscheck.cases):
        bound += ", or a packet beside other classes"
    table = _table(
        f"RTL against TLM (data bit for bit, counters exactly, cycles within {bound})",
        "case", "data", "counters", "RTL cycles", "TLM cycles", "error",
    )  # fmt: skip
    cases = list(crosscheck.cases)
    if rows is not None and len(cases) > rows:
        cases.sort(key=lambda c: (crosscheck.passes(c), -c.timed * abs(c.error)))
        failing = sum(not crosscheck.passes(case) for case in cases)
        cases = cases[: max(rows, failing)]
    for case in cases:
        style = None if crosscheck.passes(case) else "bold red"
        table.add_row(
            case.name,
            "ok" if case.data_ok else "WRONG",
            "ok" if case.counters_ok else "WRONG",
            f"{case.rtl_cycles:,}",
            f"{case.tlm_cycles:,}",
            f"{case.error:+.2%}" if case.timed else "stalls",
            style=style,
        )
        for note in case.notes:
            table.add_row(f"  {note}", style=style)
    if len(cases) < len(crosscheck.cases):
        table.add_row(f"and {len(crosscheck.cases) - len(cases)} more, all within", style="dim")
    count = len(crosscheck.cases)
    table.caption = (
        f"{count:,} case{'' if count == 1 else 's'}, error at most {crosscheck.max_error:.2%}, "
        f"{crosscheck.mean_error:.2%} in the mean: {'passed' if crosscheck.ok else 'FAILED'}"
    )
    beside = sum(case.packet_cycles > 0 for case in crosscheck.timed)
    if beside:
        excused = len(crosscheck.by_packet)
        table.caption += f"\n{beside} beside other classes, {excused} of them within a packet only"
    return table
