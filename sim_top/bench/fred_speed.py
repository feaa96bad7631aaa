"""FRED_3(4) alone, left to itself, beside a test bench that drives and samples it every cycle.

Both send the same all-reduce through the same switch on Verilator, compiled alike; both compare
what comes out with the model. Cycles per second of processor time.
"""

from __future__ import annotations

from sim_top.bench.registry import Result
from sim_top.fred_traffic.measure import each_cycle
from sim_top.fred_traffic.measure import measure as load

__all__ = ["measure"]

_PORTS = 4
_OPTIMISE = "-O2"


def measure() -> list[Result]:
    """Both speeds and their ratio."""
    free = load(ports=_PORTS, packets=512, optimise=_OPTIMISE)
    speed = free.simulated / free.seconds
    driven = each_cycle(ports=_PORTS, packets=8, optimise=_OPTIMISE)
    return [
        Result("fred.cycles_per_s.p4m3", speed, "cycles/s"),
        Result("fred.each_cycle.cycles_per_s.p4m3", driven, "cycles/s"),
        Result("fred.speed_over_each_cycle.p4m3", speed / driven, "ratio"),
    ]
