"""Groups on the real links: bytes by dim against the replayed steps, contention, and messages."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from itertools import product

import pytest

from sw_model.collective.pairs import stages_of
from sw_model.collective.plan import Algorithm, Collective, Operation, SendStep
from sw_model.collective.steps import rank_steps
from sw_model.congestion.groups import GroupRequest, run_groups
from sw_model.errors import InputError
from sw_model.report.groups import ranks_text
from sw_model.schedule.baseline import Baseline
from sw_model.schedule.group import parse_ranks, share_links
from sw_model.schedule.planner import plan_collective
from sw_model.topology import DimKind, Topology
from tests.plan_cases import GB, dim

AR, A2A, SEND = Operation.ALL_REDUCE, Operation.ALL_TO_ALL, Operation.SEND
RING, DIRECT, BOTH = Algorithm.RING, Algorithm.DIRECT, Algorithm.BIDIRECTIONAL_RING
HALVING, TREE = Algorithm.HALVING_DOUBLING, Algorithm.DOUBLE_BINARY_TREE
FLAT = (RING, BOTH, DIRECT, HALVING, TREE)


def _can(operation, algorithm, size) -> bool:
    if algorithm is HALVING and (size & (size - 1) or operation is A2A):
        return False
    trees = (AR, Operation.BROADCAST, Operation.REDUCE)
    if algorithm is TREE and operation not in trees:
        return False
    return operation is not SEND or algorithm is DIRECT


def _messages(operation, algorithm, size, root, target) -> tuple[int, list[tuple[int, int, int]]]:
    """Elements of a rank's buffer that all shards divide, and (place, place, elements) of every
    message of the steps, on a switch that all have a port of."""
    elements = 2 * size * max(1, size - 1)
    asked = Collective(operation, elements, dims=(0,), root=root, target=target)
    plan = plan_collective(
        asked,
        Topology((dim(DimKind.SWITCH, size),)),
        scheduler=Baseline(algorithms=(algorithm,)),
        chunks=1,
    )
    sends: list[tuple[int, SendStep]] = [
        (rank, send)
        for rank in range(size)
        for phase in range(len(plan.chunks[0].phases))
        for send in rank_steps(plan, 0, phase, rank).sends
    ]
    return elements, [(rank, s.peer, s.length) for rank, s in sends if s.peer != rank]


@pytest.mark.parametrize(("algorithm", "operation"), list(product(FLAT, Operation)))
def test_pairs_are_those_of_the_steps(algorithm, operation):
    for size in (2, 3, 4, 5, 8):
        if not _can(operation, algorithm, size):
            continue
        root = size // 2 if operation.rooted else 0
        target = 0 if operation is SEND else None
        elements, messages = _messages(operation, algorithm, size, root, target)
        counted: Counter[tuple[int, int]] = Counter()
        for sender, receiver, length in messages:
            counted[sender, receiver] += length
        whole = elements * (size if operation is Operation.ALL_GATHER else 1)
        named: dict[tuple[int, int], Fraction] = {}
        for stage in stages_of(operation, algorithm, size, whole, root, target):
            for sender, receiver, _ in stage.pairs:
                key = (sender, receiver)
                named[key] = named.get(key, Fraction(0)) + stage.each
        assert named == counted


def _walk(topology: Topology, source: int, target: int, way: int, both: bool):
    """(dim, rank that puts the message on a link) along the way, dim by dim from the inner one."""
    at, goal = list(topology.coordinates(source)), topology.coordinates(target)
    for d, where in enumerate(topology.dims):
        while at[d] != goal[d]:
            yield d, topology.rank(at)
            if where.kind is DimKind.RING:
                at[d] = (at[d] + (way if both else 1)) % where.size
            else:
                at[d] = goal[d]


@pytest.mark.parametrize("seed", range(12))
def test_bytes_by_dim_of_any_group(seed):
    """What the busiest NPU puts on its links: every message of the steps, hop by hop."""
    rng = random.Random(seed)
    kinds = (DimKind.RING, DimKind.RING, DimKind.FULLY_CONNECTED, DimKind.SWITCH, DimKind.FRED)
    topology = Topology(
        tuple(dim(rng.choice(kinds), rng.randint(2, 4), GB * rng.randint(1, 5)) for _ in range(3))
    )
    for algorithm, operation in product(FLAT, Operation):
        size = rng.randint(3, min(8, topology.npus))
        if algorithm is HALVING:
            size = 4
        if not _can(operation, algorithm, size):
            continue
        ranks = rng.sample(range(topology.npus), size)
        order = sorted(ranks)
        root, target = rng.sample(ranks, 2)
        places = (order.index(root) if operation.rooted else 0,)
        places += (order.index(target) if operation is SEND else None,)
        elements, messages = _messages(operation, algorithm, size, *places)
        leaving: Counter[tuple[int, int]] = Counter()
        for sender, receiver, length in messages:
            way = -1 if algorithm is BOTH and receiver == (sender - 1) % size else 1
            path = _walk(topology, order[sender], order[receiver], way, algorithm is BOTH)
            for hop in path:
                leaving[hop] += length
        expected = [
            max((load for (d, _), load in leaving.items() if d == k), default=0) for k in range(3)
        ]
        request = GroupRequest(operation, elements, tuple(ranks), algorithm, root, target)
        (result,) = run_groups(topology, [request]).groups
        assert list(result.carried) == expected


def test_a_stage_at_a_time_on_single_links():
    """Halving-doubling on a FullyConnected dim of 4 at 3 GB/s: half of the payload over one link of
    1 GB/s, then a quarter, and back."""
    topology = Topology((dim(DimKind.FULLY_CONNECTED, 4, 3 * GB, 1000),))
    (result,) = run_groups(topology, [GroupRequest(AR, 4000, (0, 1, 2, 3), HALVING)]).groups
    assert result.seconds == Fraction(2 * (2000 + 1000), GB) + Fraction(4 * 1000, 10**12)
    assert result.busy == (Fraction(2 * 2000, GB),)


def test_groups_that_share_take_turns():
    """Two sends have half of a link each; when the short one is done the other has all."""
    topology = Topology((dim(DimKind.RING, 8, GB),))
    long, short = GroupRequest(SEND, 3000, (0, 3)), GroupRequest(SEND, 1000, (2, 4))
    run = run_groups(topology, [long, short])
    assert [group.seconds for group in run.groups] == [Fraction(4000, GB), Fraction(2000, GB)]
    assert run.seconds == Fraction(4000, GB)
    assert run.busy == (Fraction(4000, GB),)
    assert run.carried == (4000,)


def test_every_link_of_a_torus():
    """8 x 8, all NPUs in random groups of 8 that run direct all-to-alls: the busiest link has to
    carry all of its bytes, and no group is quicker than alone."""
    topology = Topology((dim(DimKind.RING, 8, 100 * GB, 1000),) * 2)
    ranks = list(range(64))
    random.Random(2).shuffle(ranks)
    requests = [GroupRequest(A2A, 1 << 20, tuple(ranks[i : i + 8])) for i in range(0, 64, 8)]
    run = run_groups(topology, requests)
    assert run.seconds >= max(run.busy)
    for request, group in zip(requests, run.groups, strict=True):
        (alone,) = run_groups(topology, [request]).groups
        assert group.seconds >= alone.seconds


def test_what_shares_links():
    topology = Topology((dim(DimKind.RING, 8), dim(DimKind.SWITCH, 4)))
    assert share_links(topology, [(0, 1), (2, 3)])  # one ring
    assert not share_links(topology, [(0, 1), (8, 9)])  # two rings
    assert not share_links(topology, [(0, 8), (1, 9)])  # ports of their own
    assert not share_links(topology, [(0, 8), (16, 24)])
    assert share_links(topology, [(0, 8), (8, 16)])  # NPU 8 twice
    assert not share_links(topology, [(0,), (1,), (2, 3)])


@pytest.mark.parametrize("text", ["0-7", "0,2,8-11", "5"])
def test_ranks_read_as_they_are_written(text):
    assert ranks_text(parse_ranks(text)) == text


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (
            GroupRequest(AR, 8, (0, 1, 2), HALVING),
            "a group of 3 ranks: halving-doubling must have a power of two of NPUs, not 3",
        ),
        (
            GroupRequest(A2A, 8, (0, 1, 2), TREE),
            "a group of 3 ranks: double-binary-tree has no all-to-all",
        ),
        (
            GroupRequest(Operation.ALL_GATHER, 8, (0, 1), TREE),
            "a group of 2 ranks: double-binary-tree has no all-gather",
        ),
        (
            GroupRequest(AR, 8, (0, 1), Algorithm.IN_NETWORK),
            "in-network must have a group on one Fred dim",
        ),
        (
            GroupRequest(A2A, 8, (0, 4), Algorithm.IN_NETWORK),
            "a group of 2 ranks: in-network has no all-to-all",
        ),
        (
            GroupRequest(SEND, 8, (0, 1), None, 2, 1),
            "the root must be a rank of its group, not 2",
        ),
        (
            GroupRequest(SEND, 8, (0, 1), None, 1, 3),
            "the target must be a rank of its group, not 3",
        ),
    ],
)
def test_wrong_requests(request_, message):
    topology = Topology((dim(DimKind.RING, 4), dim(DimKind.FRED, 4)))
    with pytest.raises(InputError) as error:
        run_groups(topology, [request_])
    assert str(error.value) == message
