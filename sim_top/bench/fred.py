"""The FRED switch under full load, every output compared with the model."""

from __future__ import annotations

from sim_top.bench.registry import Result
from sim_top.fred_traffic.measure import measure as load

__all__ = ["measure"]

_PACKETS = 32


def measure() -> list[Result]:
    """FRED_3(8): an all-reduce over all ports, and configurations that alternate."""
    steady = load(ports=8, packets=_PACKETS)
    changing = load(ports=8, packets=64, packet_bytes=256, period=1)
    wide = load(ports=8, flit_bytes=64, packets=64, period=16)
    payload = _PACKETS * 4096
    return [
        Result("fred.throughput.p8m3", steady.throughput, "flits/cycle/port"),
        Result("fred.goodput.p8m3", steady.goodput, "payload share of line rate"),
        Result("fred.latency.p8m3", steady.latency, "cycles"),
        Result("fred.reconfiguration", changing.idle_per_change, "idle cycles"),
        Result("fred.goodput.alternating", wide.goodput, "payload share of line rate"),
        Result("fred.all_reduce.received", max(steady.received) / payload, "bytes/byte"),
        Result("fred.all_reduce.sent", max(steady.sent) / payload, "bytes/byte"),
    ]
