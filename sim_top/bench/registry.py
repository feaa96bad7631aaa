"""Which benchmarks there are, and running some of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from sw_model.errors import AntiphonError

__all__ = ["GROUPS", "BenchError", "Group", "Result", "names", "run_benches"]


class BenchError(AntiphonError):
    """Figures are out of their bounds (exit status 1); the message names them."""


@dataclass(frozen=True)
class Result:
    """One figure."""

    name: str
    value: float
    unit: str


@dataclass(frozen=True)
class Group:
    """Figures that are measured together.

    Parameters
    ----------
    names : of the figures
    module : has ``measure() -> list[Result]`` with exactly those
    """

    names: tuple[str, ...]
    module: str


#: All benchmarks.
GROUPS = (
    Group(
        ("cosim.cycles_per_s", "cosim.bare_cycles_per_s", "cosim.speed_ratio"),
        "sim_top.bench.cosim",
    ),
    Group(
        (
            "fred.throughput.p8m3",
            "fred.goodput.p8m3",
            "fred.latency.p8m3",
            "fred.reconfiguration",
            "fred.goodput.alternating",
            "fred.all_reduce.received",
            "fred.all_reduce.sent",
        ),
        "sim_top.bench.fred",
    ),
    Group(
        (
            "fred.cycles_per_s.p4m3",
            "fred.each_cycle.cycles_per_s.p4m3",
            "fred.speed_over_each_cycle.p4m3",
        ),
        "sim_top.bench.fred_speed",
    ),
    Group(
        (
            "fred.goodput.alternating.p12",
            "fred.goodput.alternating.p16",
            "fred.goodput.alternating.flit512",
            "fred.cycles_per_s.p12m3",
            "fred.bare_cycles_per_s.p12m3",
            "fred.speed_ratio.p12m3",
        ),
        "sim_top.bench.fred_sizes",
    ),
    Group(
        (
            "ace.link_utilisation.4x2x2",
            "ace.link_utilisation.4x2x2.random_memory",
            "ace.link_utilisation.4x2x2.memory_128",
            "ace.link_utilisation.4x2x2.memory_128.bound",
            "ace.cycles.4x2x2.memory_128",
            "ace.cycles.4x2x2.memory_128.tlm",
            "ace.cycles.4x2x2",
            "ace.cycles.4x2x2.tlm",
            "ace.end_to_end.4x2x2",
            "ace.memory_reads_per_payload_byte",
            "ace.memory_writes_per_payload_byte",
            "ace.command_overhead",
            "ace.command_overhead.tlm",
            *(
                f"ace.design.chunks_{chunks}.contexts_{contexts}{what}"
                for chunks, contexts in (*((n, 16) for n in (2, 4, 6, 8, 12, 16)), (8, 8), (8, 4))
                for what in ("", ".tlm", ".cycles", ".cycles.tlm")
            ),
        ),
        "sim_top.bench.ace",
    ),
    Group(
        (
            "wafer.link_utilisation",
            "wafer.end_to_end",
            "wafer.cycles",
            "wafer.cycles.tlm",
            "wafer.mp_and_dp.cycles",
            "wafer.mp_and_dp.cycles.tlm",
            "wafer.cycles_per_s",
        ),
        "sim_top.bench.wafer",
    ),
    Group(
        (
            "build.wafer.scratch.seconds",
            "build.wafer.scratch.processor_seconds",
            "build.wafer.cached.seconds",
            "build.wafer.cached.processor_seconds",
        ),
        "sim_top.bench.build",
    ),
    Group(
        ("tlm.seconds.npus_1024", "tlm.seconds.npus_4096", "tlm.seconds.npus_1048576"),
        "sim_top.bench.tlm",
    ),
    Group(
        (
            "schedule.utilisation.themis_scf_64",
            "schedule.utilisation.balanced_64",
            "schedule.utilisation.balanced_16",
            "schedule.utilisation.balanced_8",
        ),
        "sim_top.bench.schedules",
    ),
)


def names() -> tuple[str, ...]:
    """Names of all figures."""
    return tuple(name for group in GROUPS for name in group.names)


def run_benches(
    prefix: str = "", *, progress: Callable[[float], object] | None = None
) -> list[Result]:
    """Measure all figures whose name begins with ``prefix``; none is an empty list.

    Raises
    ------
    BenchError
        where figures are out of the bounds that their module sets.
    """
    chosen = [g for g in GROUPS if any(name.startswith(prefix) for name in g.names)]
    results: list[Result] = []
    for number, group in enumerate(chosen):
        measured = importlib.import_module(group.module).measure()
        if tuple(result.name for result in measured) != group.names:
            raise RuntimeError(f"{group.module} must measure {group.names!r}")
        results += [result for result in measured if result.name.startswith(prefix)]
        if progress is not None:
            progress((number + 1) / len(chosen))
    return results
