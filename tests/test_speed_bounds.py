"""The benchmarks of how fast simulations run hold to their bounds."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from sim_top.bench import build, cosim, fred_speed
from sim_top.bench.registry import GROUPS, BenchError, Result
from sw_model.platform import Platform
from sw_model.topology import Dim, DimKind, Topology


def refused(check, results: list[Result], message: str) -> None:
    with pytest.raises(BenchError, match=f"^{re.escape(message)}$"):
        check(results)


def ratio_of_cosim(ratio: float) -> list[Result]:
    return [
        Result("cosim.cycles_per_s", 1, "cycles/s"),
        Result("cosim.speed_ratio", ratio, "ratio"),
    ]


def test_cosim() -> None:
    cosim.check(ratio_of_cosim(0.5))
    refused(
        cosim.check, ratio_of_cosim(0.4999), "cosim.speed_ratio must be at least 0.5, not 0.4999"
    )
    refused(
        cosim.check, ratio_of_cosim(float("nan")), "cosim.speed_ratio must be at least 0.5, not nan"
    )


def test_fred() -> None:
    name = "fred.speed_over_each_cycle.p4m3"
    fred_speed.check([Result(name, 20, "ratio")])
    refused(
        fred_speed.check,
        [Result(name, 19.994, "ratio")],
        f"{name} must be at least 20, not 19.99",
    )


def built(scratch: float = 300, cached: float = 5) -> list[Result]:
    return [
        Result("build.wafer.scratch.seconds", scratch, "s"),
        Result("build.wafer.scratch.processor_seconds", 600, "s"),
        Result("build.wafer.cached.seconds", cached, "s"),
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scratch": 300.12}, "build.wafer.scratch.seconds must be at most 300, not 300.1"),
        (
            {"scratch": 301, "cached": 5.1},
            "build.wafer.scratch.seconds must be at most 300, not 301.0; "
            "build.wafer.cached.seconds must be at most 5, not 5.1",
        ),
        ({"cached": float("nan")}, "build.wafer.cached.seconds must be at most 5, not nan"),
    ],
)
def test_builds(changes, message) -> None:
    build.check(built())
    refused(build.check, built(**changes), message)


@pytest.mark.parametrize("module", [build, cosim, fred_speed])
def test_every_bound_is_of_a_figure_that_is_measured(module) -> None:
    """A check that finds all names that its group has, and no others."""
    (group,) = (one for one in GROUPS if one.module == module.__name__)
    with pytest.raises(BenchError, match="must be"):
        module.check([Result(name, float("nan"), "") for name in group.names])


@pytest.mark.full
def test_a_small_platform_is_built_once() -> None:
    """A ring of two: the second process finds what the first has left. Measured by the processors'
    time, since other tests may run beside."""
    ring = Dim(DimKind.RING, 2, Fraction(20 * 10**9), 8_000)
    scratch, cached = build.times(Platform.from_topology(Topology((ring,))))
    assert 0 < cached.processor < scratch.processor / 8
    assert 0 < cached.wall < scratch.wall
