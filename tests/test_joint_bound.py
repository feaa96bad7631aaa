"""The bound of several collectives: figures made by hand, and the program over all orders."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from scipy.optimize import linprog

from sw_model.collective.cost import algorithms_of
from sw_model.collective.plan import Operation
from sw_model.schedule.bound import OrderCosts
from sw_model.schedule.joint_bound import NO_BOUND, joint_bound
from sw_model.schedule.phases import Turn
from sw_model.topology import Dim, DimKind

GB = 10**9
AR, RS, AG, A2A = (
    Operation.ALL_REDUCE,
    Operation.REDUCE_SCATTER,
    Operation.ALL_GATHER,
    Operation.ALL_TO_ALL,
)


def costs(operation: Operation, *dims: tuple[int, int]) -> OrderCosts:
    """Switches of (size, GB/s)."""
    made = tuple(Dim(DimKind.SWITCH, size, Fraction(gb * GB), 0) for size, gb in dims)
    return OrderCosts(made, operation, algorithms_of(made, operation, None), Turn.SPLIT)


def test_one_collective_on_one_dim():
    found = joint_bound({costs(AR, (4, 10), (1, 5)): 40 * GB})
    assert found.seconds == 6  # 2 x 3/4 of 40 GB at 10 GB/s
    assert found.dims == (0,)
    assert (found.ns, found.named) == (6e9, ["dim 1"])


def test_collectives_on_different_dims_share_the_time():
    inner, outer = costs(AR, (4, 10), (1, 5)), costs(RS, (1, 10), (2, 5))
    found = joint_bound({inner: 40 * GB, outer: 100 * GB})
    assert found.seconds == 10  # the outer: half of 100 GB at 5 GB/s; the inner one beside it
    assert found.dims == (1,)


def test_collectives_on_the_same_dim_add_up():
    inner, both = costs(AR, (4, 10), (1, 5)), costs(A2A, (4, 10), (2, 100))
    found = joint_bound({inner: 40 * GB, both: 40 * GB})
    assert found.seconds == 9  # 6 and 3/4 of 40 GB at 10 GB/s
    assert found.dims == (0,)


def test_nothing_takes_no_time():
    assert joint_bound({}) == NO_BOUND
    assert joint_bound({costs(AR, (4, 10)): 0}) == NO_BOUND
    assert joint_bound({costs(AR, (1, 10)): 5}) == NO_BOUND


def every_order(one: OrderCosts):
    active = [k for k, dim in enumerate(one.dims) if dim.size > 1]
    every = list(permutations(active))
    if one.operation is AR:
        return list(product(every, every))
    return [((), order) if one.operation is not RS else (order, ()) for order in every]


@pytest.mark.parametrize("seed", range(12))
def test_never_above_the_program_over_all_orders_and_near_it(seed):
    """The joint linear program, with all orders written out, for SciPy."""
    rng = random.Random(seed)
    network = [(rng.choice((2, 3, 4, 8)), rng.choice((5, 10, 20, 50))) for _ in range(3)]
    amounts = {}
    for _ in range(rng.choice((1, 2, 3))):
        part = [(size if rng.random() < 0.7 else 1, gb) for size, gb in network]
        if any(size > 1 for size, _ in part):
            amounts[costs(rng.choice((AR, RS, AG, A2A)), *part)] = rng.randrange(1, 50) * GB
    if not amounts:
        amounts = {costs(AR, *network): GB}
    rows, owner = [], []
    for number, (one, size) in enumerate(amounts.items()):
        for order in every_order(one):
            rows.append([float(load * size) for load in one.loads(order)])
            owner.append(number)
    loads = np.array(rows).T
    upper = np.hstack([loads, -np.ones((3, 1))])
    equal = np.array([[float(o == n) for o in owner] + [0.0] for n in range(len(amounts))])
    best = linprog(
        [0.0] * len(owner) + [1.0],
        A_ub=upper,
        b_ub=np.zeros(3),
        A_eq=equal,
        b_eq=np.ones(len(amounts)),
        method="highs",
    ).fun
    ours = float(joint_bound(amounts).seconds)
    assert ours <= best * (1 + 1e-7)
    assert ours >= best * (0.9 if len(amounts) > 1 else 1 - 1e-7)
