"""FRED_3(4) alone, left to itself, beside a test bench that drives and samples it every cycle.

Both send the same all-reduce through the same switch on Verilator, compiled alike; both compare
what comes out with the model. Cycles per second of processor time: other work on the machine slows
both, not always alike, so the two take turns, and the figures are the medians of what was seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from sim_top.bench.bounds import refuse, too_low
from sim_top.bench.registry import Result
from sim_top.fred_traffic.measure import each_cycle
from sim_top.fred_traffic.measure import measure as load

__all__ = ["LEAST_RATIO", "check", "measure"]

LEAST_RATIO = 20
"""Times as fast where it is left to itself."""

_PORTS = 4
_OPTIMISE = "-O2"
_TURNS = 5
_PACKETS = 2048
_DRIVEN_PACKETS = 24


def measure() -> list[Result]:
    """Both speeds and their ratio."""
    free, driven = [], []
    for _ in range(_TURNS):
        found = load(ports=_PORTS, packets=_PACKETS, optimise=_OPTIMISE)
        free.append(found.simulated / found.seconds)
        driven.append(each_cycle(ports=_PORTS, packets=_DRIVEN_PACKETS, optimise=_OPTIMISE))
    ratios = [own / other for own, other in zip(free, driven, strict=True)]
    figures = [
        Result("fred.cycles_per_s.p4m3", median(free), "cycles/s"),
        Result("fred.each_cycle.cycles_per_s.p4m3", median(driven), "cycles/s"),
        Result("fred.speed_over_each_cycle.p4m3", median(ratios), "ratio"),
    ]
    check(figures)
    return figures


def check(results: Sequence[Result]) -> None:
    """Hold the ratio to :data:`LEAST_RATIO`.

    Raises
    ------
    BenchError
        naming it, where it is less.
    """
    refuse(too_low(results, "fred.speed_over_each_cycle.p4m3", LEAST_RATIO, digits=2))
