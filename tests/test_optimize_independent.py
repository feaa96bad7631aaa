"""The optimiser against other ways to the same answer: all divisions by brute force, the front by
another solver, groups of odd shape on the model."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import gcd

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from sw_model.collective.plan import Operation
from sw_model.optimize.confirm import confirm
from sw_model.optimize.constraint import parse_constraint
from sw_model.optimize.demand import Communicator, Demand
from sw_model.optimize.front import pareto_front
from sw_model.optimize.iteration import Iteration, Path, Step, TrainingTask
from sw_model.optimize.network import OpenDim, OpenNetwork, Tier
from sw_model.optimize.prices import Prices, TierPrices
from sw_model.optimize.problem import Problem
from sw_model.optimize.splits import DividedModel, divisions
from tests.test_optimize_confirm import (
    FULL,
    MACHINE,
    MODEL,
    RING,
    SWITCH,
    all_reduce,
    network,
    optimum_of,
)

BATCH = 16
SIZES = (2, 8)


def _groups(*wanted):
    """By kind of group, how many NPUs of each dim it has: each goes on where the last one ended."""
    left, out = list(SIZES), []
    for size in wanted:
        taken = []
        for d, have in enumerate(left):
            part = gcd(size, have)
            taken.append(part)
            size //= part
            left[d] = have // part
        out.append(taken)
    return out


def _reduced(size, group, bandwidths):
    times = []
    for part, bandwidth in zip(group, bandwidths, strict=True):
        times.append(2 * size * (part - 1) / part / bandwidth)
        size = size / part
    return max(times)


def _by_hand(tensor, pipeline, microbatches, bandwidths):
    """Nanoseconds of an iteration of `MODEL`: layer n of 4 has (n + 1) x 10^6 multiply-adds and
    8000 (n + 1) parameters, reduces 500 elements each way and passes on 100."""
    data = prod_of(SIZES) // tensor // pipeline
    inner, between, outer = _groups(tensor, pipeline, data)
    samples = BATCH / data / microbatches
    reduced = _reduced(2 * 500 * samples, inner, bandwidths)
    along = next((b for part, b in zip(between, bandwidths, strict=True) if part > 1), None)
    per_stage = 4 // pipeline
    work, gradients = [], []
    for stage in range(pipeline):
        layers = range(stage * per_stage, (stage + 1) * per_stage)
        time = sum(3 * 2000 * (n + 1) * samples / tensor + 2 * reduced for n in layers)
        if along is not None:
            time += ((stage > 0) + (stage < pipeline - 1)) * 2 * 100 * samples / along
        work.append(time)
        held = sum(2 * 8000 * (n + 1) / tensor for n in layers)
        gradients.append(_reduced(held, outer, bandwidths))
    return sum(work) + (microbatches - 1) * max(work) + max(gradients)


def prod_of(sizes):
    return int(np.prod(sizes))


def test_the_search_against_brute_force():
    """Every division at every bandwidth of a fine grid: the optimum of each division is the least
    of its grid, and so is the division that is best."""
    dims = network((RING, SIZES[0]), (SWITCH, SIZES[1]))
    divided = DividedModel(model=MODEL, machine=MACHINE, batch=BATCH)
    ours = {}
    for division in divisions(divided, dims):
        p = division.parallelism
        optimum = optimum_of(dims, division.iteration())
        ours[p.tensor, p.pipeline, p.microbatches] = float(optimum.time_ns)
    grid = np.linspace(0.02, 59.98, 2000)
    brute = {}
    for tensor in (1, 2, 4):
        for pipeline in (1, 2, 4):
            data = 16 // tensor // pipeline
            for count in (1, 2, 4, 8, 16) if pipeline > 1 else (1,):
                if (BATCH // data) % count == 0:
                    brute[tensor, pipeline, count] = min(
                        _by_hand(tensor, pipeline, count, (b, 60 - b)) for b in grid
                    )
    assert ours.keys() == brute.keys()
    for key, time in brute.items():
        assert time * (1 - 1e-3) < ours[key] < time * (1 + 1e-9), key
    assert min(ours, key=ours.__getitem__) == min(brute, key=brute.__getitem__)


def test_the_front_against_another_solver():
    """At every cost of the front, the least time over the networks that it buys: one variable, as
    the second dim has what is left of the money or of the 100 GB/s."""
    prices = Prices(
        tiers={
            Tier.INTER_PACKAGE: TierPrices(link=Fraction(4), switch=Fraction(13)),
            Tier.INTER_NODE: TierPrices(link=Fraction(7), switch=Fraction(18), nic=Fraction(31)),
        }
    )
    dims = OpenNetwork(
        dims=(
            OpenDim(kind=RING, size=4, tier=Tier.INTER_PACKAGE),
            OpenDim(kind=SWITCH, size=8, tier=Tier.INTER_NODE),
        )
    )
    whole = 10**6
    step = Step(
        (Path(Fraction(5000), ((all_reduce(whole, 4, 8), 2), (all_reduce(3 * whole, 1, 8), 1))),)
    )
    problem = Problem(
        network=dims,
        tasks=(TrainingTask(name="w", iteration=Iteration((step,))),),
        constraints=(parse_constraint("total <= 100", 2),),
        prices=prices,
    )
    front = pareto_front(problem, 9)
    rates = [32 * 4, 32 * (7 + 18 + 31)]

    def time(b1, budget):
        b2 = min(100 - b1, (budget - rates[0] * b1) / rates[1])
        both = max(2 * whole * 3 / 4 / b1, 2 * whole / 4 * 7 / 8 / b2)
        return 5000 + 2 * both + 2 * 3 * whole * 7 / 8 / b2

    assert len(front) == 9
    for before, after in pairwise(front):
        assert before.cost < after.cost
        assert before.time_ns > after.time_ns
    least = 0.001  # GB/s, of every dim
    assert [float(b) for b in front[0].bandwidths] == pytest.approx([least, least])
    for point in front[1:]:
        budget = float(point.cost)
        most = min(100 - least, (budget - rates[1] * least) / rates[0])
        other = minimize_scalar(
            time, bounds=(least, most), args=(budget,), method="bounded",
            options={"xatol": most * 1e-10},
        )  # fmt: skip
        assert float(point.time_ns) == pytest.approx(other.fun, rel=1e-5)
        assert sum(r * float(b) for r, b in zip(rates, point.bandwidths, strict=True)) == (
            pytest.approx(budget)
        )


@pytest.mark.parametrize(
    ("operation", "inner", "outer"),
    [
        # Bytes of an NPU on dim 1 and dim 3, for each byte of the payload.
        (Operation.ALL_REDUCE, Fraction(2, 2), Fraction(2 * 3, 2 * 4)),
        (Operation.REDUCE_SCATTER, Fraction(1, 2), Fraction(3, 2 * 4)),
        (Operation.ALL_GATHER, Fraction(4), Fraction(3)),
        (Operation.ALL_TO_ALL, Fraction(1, 2), Fraction(3, 4)),
    ],
)
def test_groups_that_skip_dims_on_the_model(operation, inner, outer):
    """Groups over dims 1 and 3 of four, and others over dims 2 and 4: bandwidth in proportion to
    traffic, and the simulation takes the predicted time but for chunks that fill."""
    dims = network((RING, 2), (SWITCH, 3), (FULL, 4), (SWITCH, 2))
    size = 24 * 10**6
    odd = Demand(operation, size, Communicator((2, 1, 4, 1)))
    even = all_reduce(size, 1, 3, 1, 2)
    optimum = optimum_of(dims, Iteration((Step((Path(Fraction(100), ((odd, 1), (even, 1))),)),)))
    b1, b2, b3, b4 = optimum.bandwidths
    assert float(b1 / b3) == pytest.approx(float(inner / outer), rel=1e-4)
    assert float(b2 / b4) == pytest.approx((2 * 2 / 3) / (2 / 3 / 2), rel=1e-4)
    ours = [size * inner / b1, size * outer / b3]
    theirs = [size * Fraction(4, 3) / b2, size * Fraction(1, 3) / b4]
    (alone,) = confirm(optimum, chunks=1)
    assert alone.predicted == optimum.time_ns == 100 + max(ours) + max(theirs)
    assert alone.simulated == 100 + sum(ours) + sum(theirs)
    (many,) = confirm(optimum, chunks=64)
    assert many.unexplained == 0
    assert 1 <= many.simulated / many.predicted < Fraction(102, 100)
