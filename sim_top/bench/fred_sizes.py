"""Larger FRED switches whose configurations alternate, and how fast one of them simulates.

FRED_3(12) with flits of 64 bytes runs through cocotb and, the same work again, in a bare C++ loop.
Its microswitches are compiled once per kind, for both alike.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from sim_top.bench.registry import Result
from sim_top.fred_traffic.measure import measure as load
from sim_top.simulator import run_bare

__all__ = ["measure"]


def measure() -> list[Result]:
    """Goodput with 4 KiB packets, changing after every 16; cycles per second."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.txt"
        large = load(ports=12, flit_bytes=64, packets=512, period=16, optimise="-O2", record=script)
        bare = run_bare(large.model, script=script)
    larger = load(ports=16, flit_bytes=64, packets=64, period=16)
    widest = load(ports=8, flit_bytes=512, packets=64, period=16)
    speed = large.simulated / large.seconds
    share = "payload share of line rate"
    return [
        Result("fred.goodput.alternating.p12", large.goodput, share),
        Result("fred.goodput.alternating.p16", larger.goodput, share),
        Result("fred.goodput.alternating.flit512", widest.goodput, share),
        Result("fred.cycles_per_s.p12m3", speed, "cycles/s"),
        Result("fred.bare_cycles_per_s.p12m3", bare.cycles_per_second, "cycles/s"),
        Result("fred.speed_ratio.p12m3", speed / bare.cycles_per_second, "ratio"),
    ]
