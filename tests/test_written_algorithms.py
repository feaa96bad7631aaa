"""Algorithms by their moves: what is refused, and the same plans and costs as those built in."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest

from sw_model.collective.check import check_plan
from sw_model.collective.cost import algorithm_of, phase_cost
from sw_model.collective.memory_traffic import baseline_phase
from sw_model.collective.plan import Algorithm, Collective, Operation
from sw_model.collective.replay import replay
from sw_model.collective.written import WrittenAlgorithm
from sw_model.errors import InputError
from sw_model.schedule.baseline import Baseline
from sw_model.schedule.planner import plan_collective
from sw_model.topology import Dim, DimKind, Topology
from tests.test_ace_programs import BACKWARDS, FAR_FIRST

AR, RS, AG = Operation.ALL_REDUCE, Operation.REDUCE_SCATTER, Operation.ALL_GATHER
FULL = Dim(DimKind.FULLY_CONNECTED, 4, Fraction(3), 0)


SAME = {
    Algorithm.RING: WrittenAlgorithm(
        "a",
        4,
        tuple(tuple((i, (i + 1) % 4, (i - n) % 4, 1) for i in range(4)) for n in range(3)),
    ),
    Algorithm.DIRECT: WrittenAlgorithm(
        "b", 4, (tuple((i, (i + d) % 4, i, 1) for i in range(4) for d in (1, 2, 3)),)
    ),
    Algorithm.HALVING_DOUBLING: WrittenAlgorithm(
        "c",
        4,
        (
            tuple((i, i ^ 1, i, 1) for i in range(4)),
            tuple((i, i ^ 2, i // 2 * 2, 2) for i in range(4)),
        ),
    ),
}
"""What is built in, written down."""


@pytest.mark.parametrize("operation", [AR, RS, AG])
@pytest.mark.parametrize("algorithm", SAME, ids=lambda a: a.value)
def test_costs_are_those_of_the_same_algorithm_built_in(algorithm, operation):
    assert phase_cost(FULL, operation, SAME[algorithm], 840) == phase_cost(
        FULL, operation, algorithm, 840
    )


def test_who_sends_most_counts():
    """Coordinate 0 hands out all that comes to it: 2 + 2 shards on its link to 1 and to 2."""
    star = WrittenAlgorithm(
        "star",
        3,
        (((1, 0, 1, 1), (2, 0, 2, 1)), ((0, 1, 0, 1), (0, 2, 0, 1), (0, 1, 2, 1), (0, 2, 1, 1))),
    )
    dim = Dim(DimKind.FULLY_CONNECTED, 3, Fraction(1), 0)
    gather, scatter = (phase_cost(dim, o, star, 3) for o in (AG, RS))
    assert (gather.sent, gather.received, gather.steps) == (4, 2, 2)
    assert (scatter.sent, scatter.received, scatter.steps) == (2, 4, 2)
    # A shard on one of two half links, then two on each.
    assert gather.port == scatter.port == 2 * (1 + 2)
    assert phase_cost(dim, AR, star, 3).port == 2 * 2 * (1 + 2)


@pytest.mark.parametrize("chunks", [1, 3])
@pytest.mark.parametrize("elements", [1, 3, 8, 61])
@pytest.mark.parametrize("operation", [AR, RS, AG])
@pytest.mark.parametrize("algorithm", [BACKWARDS, FAR_FIRST], ids=lambda a: a.value)
def test_plans_reach_what_they_must(algorithm, operation, elements, chunks):
    """On symbols, and on numbers."""
    topology = Topology((FULL,))
    asked = Collective(operation, elements, "int32", dims=(0,))
    scheduler = Baseline(algorithms=(algorithm,))
    plan = plan_collective(asked, topology, scheduler=scheduler, chunks=chunks)
    assert {phase.algorithm for chunk in plan.chunks for phase in chunk.phases} <= {algorithm}
    check_plan(plan)
    rng = np.random.default_rng(elements)
    sources = [rng.integers(-9, 9, elements, dtype=np.int32) for _ in range(4)]
    total = np.sum(sources, axis=0, dtype=np.int32)
    blocks = [total[elements * r // 4 : elements * (r + 1) // 4] for r in range(4)]
    wanted = {AR: [total] * 4, RS: blocks, AG: [np.concatenate(sources)] * 4}[operation]
    for found, right in zip(replay(plan, sources), wanted, strict=True):
        assert np.array_equal(found, right)


def test_what_has_no_moves_is_direct():
    for operation in Operation:
        chosen = algorithm_of(FULL, operation, BACKWARDS)
        assert chosen is (BACKWARDS if operation in (AR, RS, AG) else Algorithm.DIRECT)


@pytest.mark.parametrize(
    "dim", [Dim(DimKind.RING, 4, Fraction(1), 0), Dim(DimKind.FULLY_CONNECTED, 5, Fraction(1), 0)]
)
def test_other_dims_are_refused(dim):
    message = (
        "ring-backwards must be on a FullyConnected dim of 4 NPUs, "
        f"not on a {dim.kind.value} one of {dim.size}"
    )
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        algorithm_of(dim, AR, BACKWARDS)


def test_memory_traffic_is_not_counted():
    message = "the memory traffic of far-first is not counted: the endpoint must be ideal"
    with pytest.raises(InputError, match=f"^{message}$"):
        baseline_phase(AR, FAR_FIRST, 4, 64)


@pytest.mark.parametrize(
    ("gather", "message"),
    [
        ((((0, 3, 0, 1),),), "x, round 0: coordinates must be two of 0 to 2, not 0 and 3"),
        ((((1, 1, 1, 1),),), "x, round 0: coordinates must be two of 0 to 2, not 1 and 1"),
        ((((0, 1, 0, 2),),), "x, round 0: coordinate 0 must send shards of [0], not [0, 1]"),
        ((((0, 1, 0, 0),),), "x, round 0: coordinate 0 must send shards of [0], not []"),
        (
            (((0, 1, 0, 1), (1, 2, 0, 1)),),
            "x, round 0: coordinate 1 must send shards of [1], not [0]",
        ),
        (
            (((0, 1, 0, 1),), ((0, 1, 0, 1),)),
            "x, round 1: coordinate 1 must get every shard once, not [0] again",
        ),
        (
            (((0, 1, 0, 1), (1, 0, 1, 1)),),
            "x: coordinate 0 must get every shard, and [2] never come",
        ),
    ],
)
def test_moves_that_are_no_all_gather(gather, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        WrittenAlgorithm("x", 3, gather)
