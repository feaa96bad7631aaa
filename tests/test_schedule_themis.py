"""Orders of the baseline and of Themis, and the published figures in the minimal model."""

from __future__ import annotations

from fractions import Fraction
from math import prod

import pytest

from sw_model.collective.plan import Algorithm, Collective, Operation, Phase
from sw_model.schedule.baseline import Baseline
from sw_model.schedule.phases import Turn, build_phases
from sw_model.schedule.planner import plan_collective
from sw_model.schedule.themis import Themis
from sw_model.topology import DimKind, Topology
from tests.plan_cases import GB, dim, ring_by_fred

AR, RS, AG = Operation.ALL_REDUCE, Operation.REDUCE_SCATTER, Operation.ALL_GATHER
GIB = 2**30


def _switches(sizes, bandwidths, latency_ps=0):
    return Topology(
        tuple(dim(DimKind.SWITCH, p, b, latency_ps) for p, b in zip(sizes, bandwidths, strict=True))
    )


def _orders(phases):
    """Dims visited, counted from 1, of each chunk."""
    return ["".join(str(p.dim + 1) for p in chunk) for chunk in phases]


FOUR = _switches((4, 4), (2 * GB, GB))


def test_baseline_orders():
    topology = _switches((4, 2, 8), (3, 2, 1))
    for operation, order in (
        (AR, "123321"),
        (RS, "123"),
        (AG, "321"),
        (Operation.ALL_TO_ALL, "123"),
    ):
        phases = Baseline(Turn.SPLIT).schedule(operation, topology, (0, 1, 2), [1, 1])
        assert _orders(phases) == [order, order]
    merged = Baseline().schedule(AR, topology, (0, 1, 2), [1])
    assert _orders(merged) == ["12321"]
    assert merged[0][2] == Phase(AR, 2, Algorithm.HALVING_DOUBLING)
    assert _orders(Baseline().schedule(AR, topology, (1,), [1])) == ["2"]
    assert Baseline().schedule(AR, topology, (), [1]) == [()]
    lonely = _switches((1, 2), (1, 1))
    assert _orders(Baseline().schedule(AR, lonely, (0, 1), [1])) == ["2"]


def test_turn():
    topology = ring_by_fred()
    for turn, ring_last, fred_last in (
        (Turn.MERGED, "212", "121"),
        (Turn.IN_NETWORK, "2112", "121"),
        (Turn.SPLIT, "2112", "1221"),
    ):
        for scatter, order in (((1, 0), ring_last), ((0, 1), fred_last)):
            phases = build_phases(AR, topology, scatter=scatter, gather=scatter[::-1], turn=turn)
            assert _orders([phases]) == [order]
    # Orders that do not mirror each other merge only where they touch.
    assert _orders([build_phases(AR, topology, scatter=(0, 1), gather=(0, 1))]) == ["1212"]


def test_four_by_four():
    """The paper's example: 8 units for the baseline, 7 for Themis with SCF."""
    size = 64 * 10**6
    assert _orders(Themis(Turn.SPLIT).schedule(RS, FOUR, (0, 1), [size] * 4)) == [
        "12", "21", "12", "12",
    ]  # fmt: skip
    unit = Fraction(size * 3, 4 * 2 * GB) * 10**12
    collective = Collective(AR, size, "fp32", dims=(0, 1))
    for scheduler, units in ((Baseline(Turn.SPLIT), 8), (Themis(Turn.SPLIT), 7)):
        plan = plan_collective(collective, FOUR, scheduler=scheduler, chunks=4)
        assert plan.makespan_ps == units * unit


def test_all_gather_mirrors():
    orders = _orders(Themis().schedule(AG, FOUR, (0, 1), [4096] * 4))
    assert orders == ["21", "12", "21", "21"]


def test_threshold_keeps_the_baseline():
    always = Themis(threshold=Fraction(100))
    assert _orders(always.schedule(RS, FOUR, (0, 1), [64] * 4)) == ["12"] * 4
    # Equal loads: the baseline's order by the threshold, and by the tie without one.
    level = _switches((2, 2), (2, 1))
    for threshold in (Fraction(1, 16), Fraction(0)):
        orders = _orders(Themis(threshold=threshold).schedule(RS, level, (0, 1), [64] * 3))
        assert orders == ["12"] * 3


def test_initial_latency():
    slow = Topology((dim(DimKind.SWITCH, 4, 2 * GB, 10**9), dim(DimKind.SWITCH, 4, GB)))
    assert _orders(Themis(initial_latency=True).schedule(RS, slow, (0, 1), [64]))[0] == "21"
    assert _orders(Themis().schedule(RS, slow, (0, 1), [64]))[0] == "12"


def test_fred_dims_count_their_own_bytes():
    """Ring 4 at 2, FRED 4 at 1: away from the turn the switch takes the whole chunk each way, at
    the turn one pass for both."""
    topology = ring_by_fred()
    loads = Themis()._load(AR, topology, (0, 1), 64)
    assert loads == {0: Fraction(48, 20 * GB), 1: Fraction(8, 10 * GB)}
    assert Themis(Turn.SPLIT)._load(AR, topology, (0, 1), 64)[1] == Fraction(16, 10 * GB)
    loads = Themis()._load(AR, topology, (1, 0), 64)
    assert loads == {1: Fraction(64, 10 * GB), 0: Fraction(12, 20 * GB)}
    assert Themis()._load(RS, topology, (0, 1), 64)[1] == Fraction(16, 10 * GB)


TOPOLOGIES = {
    "2D-SW_SW": ((16, 64), (150, 100)),
    "3D-homo": ((16, 8, 8), (100, 100, 100)),
    "3D-hetero": ((16, 8, 8), (200, 100, 50)),
    "3D-FC_Ring_SW": ((8, 16, 8), (175, 100, 50)),
    "4D-Ring_SW_SW_SW": ((4, 4, 8, 8), (250, 200, 100, 50)),
    "4D-Ring_FC_Ring_SW": ((4, 8, 4, 8), (375, 175, 150, 100)),
}


@pytest.mark.parametrize(
    ("scheduler", "intra", "mean", "tolerance"),
    [
        (Baseline(Turn.SPLIT), "fifo", 56.6, 0.1),
        (Themis(Turn.SPLIT), "fifo", 87.6, 0.3),
        (Themis(Turn.SPLIT), "scf", 97.4, 0.3),
    ],
)
def test_mean_utilisation_in_the_minimal_model(scheduler, intra, mean, tolerance):
    size, utilisation = 1000 * 2**20, {}
    for name, (sizes, bandwidths) in TOPOLOGIES.items():
        topology = _switches(sizes, [b * GIB for b in bandwidths])
        collective = Collective(AR, size // 4, "fp32", dims=tuple(range(len(sizes))))
        plan = plan_collective(collective, topology, scheduler=scheduler, intra=intra)
        n, total = prod(sizes), sum(bandwidths) * GIB
        utilisation[name] = 100 * 2 * size * (n - 1) / n / (plan.makespan_ps / 1e12 * total)
    assert sum(utilisation.values()) / 6 == pytest.approx(mean, abs=tolerance)
    if isinstance(scheduler, Themis) and intra == "fifo":
        assert utilisation["3D-hetero"] == pytest.approx(97.86, abs=0.01)


def test_published_8x8x8():
    topology = _switches((8, 8, 8), (50 * GIB,) * 3, 1000)
    collective = Collective(AR, 2**30 // 4, "fp32", dims=(0, 1, 2))
    for scheduler, published_us in ((Baseline(Turn.SPLIT), 35_008), (Themis(Turn.SPLIT), 13_636)):
        plan = plan_collective(collective, topology, scheduler=scheduler)
        assert plan.makespan_ps / 10**6 == pytest.approx(published_us, rel=0.01)
