"""The benchmark of the wafer holds to its bounds."""

import re

import pytest

from sim_top.bench.registry import BenchError, Result
from sim_top.bench.wafer import check


def results(
    share: float = 0.95, cycles: int = 10_000, groups: int = 20_000, speed: float = 2_000
) -> list[Result]:
    return [
        Result("wafer.link_utilisation", share, "share of line rate"),
        Result("wafer.cycles", cycles, "cycles"),
        Result("wafer.cycles.tlm", 9_900, "cycles"),
        Result("wafer.mp_and_dp.cycles", groups, "cycles"),
        Result("wafer.mp_and_dp.cycles.tlm", 20_200, "cycles"),
        Result("wafer.cycles_per_s", speed, "cycles/s"),
    ]


def test_figures_within_their_bounds_pass() -> None:
    """Each of them is at its bound."""
    check(results())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"share": 0.9499}, "wafer.link_utilisation must be at least 0.95, not 0.9499"),
        ({"share": float("nan")}, "wafer.link_utilisation must be at least 0.95, not nan"),
        ({"speed": 1_998.6}, "wafer.cycles_per_s must be at least 2,000, not 1,999"),
        (
            {"cycles": 9_801},
            "wafer.cycles must be within 1% of the TLM's 9,900 cycles, not 9,801",
        ),
        (
            {"groups": 19_999, "share": 0.5},
            "wafer.mp_and_dp.cycles must be within 1% of the TLM's 20,200 cycles, not 19,999; "
            "wafer.link_utilisation must be at least 0.95, not 0.5000",
        ),
    ],
)
def test_figures_out_of_their_bounds(changes, message) -> None:
    with pytest.raises(BenchError, match=f"^{re.escape(message)}$"):
        check(results(**changes))
