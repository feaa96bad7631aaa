"""A FRED switch under full load: line rate, latency, switch-over."""

import pytest

from sim_top.fred_traffic.measure import measure
from sw_model.fred.timing import FRED_TIMING


def test_an_all_reduce_of_256_kib_per_port_keeps_the_line_rate():
    figures = measure(ports=4, packets=64)
    assert figures.flits == 64 * 257
    assert figures.throughput == 1
    assert figures.goodput == pytest.approx(256 / 257)
    assert figures.latency == FRED_TIMING.latency(4)


@pytest.mark.parametrize("period", [1, 3])
def test_alternating_configurations_cost_no_cycle(period):
    figures = measure(ports=4, packets=24, packet_bytes=128, period=period, simulator="icarus")
    assert figures.idle_per_change == FRED_TIMING.reconfiguration == 0
    assert figures.throughput == 1


@pytest.mark.full
@pytest.mark.parametrize(("ports", "flit_bytes"), [(5, 16), (8, 64), (12, 16)])
def test_other_sizes(ports, flit_bytes):
    figures = measure(ports=ports, flit_bytes=flit_bytes, packets=48, period=16)
    assert figures.idle_per_change == 0
    assert figures.throughput == 1
    assert figures.latency == FRED_TIMING.latency(ports)
