"""Links one by one: fair shares, routes, and agreement with the closed forms."""

from __future__ import annotations

import random
import time
from fractions import Fraction
from itertools import product

import pytest

from sw_model.collective.cost import ALGORITHMS, algorithm_of, phase_cost
from sw_model.collective.plan import Algorithm, Operation
from sw_model.congestion.fair import max_min
from sw_model.congestion.groups import GroupRequest, run_groups
from sw_model.congestion.routes import link_capacity, ring_place, route
from sw_model.errors import InputError
from sw_model.schedule.group import group_topology
from sw_model.topology import DimKind, Topology, mesh_shape
from tests.plan_cases import GB, dim

AR, RS, AG, A2A = (
    Operation.ALL_REDUCE,
    Operation.REDUCE_SCATTER,
    Operation.ALL_GATHER,
    Operation.ALL_TO_ALL,
)


def _link(name: str) -> tuple[int, int, tuple]:
    return (0, 0, (name,))


def test_fair_shares():
    a, b = _link("a"), _link("b")
    capacity = {a: Fraction(10), b: Fraction(4)}
    # The textbook case: who is held back elsewhere leaves the rest to the others.
    assert max_min([{a: 1}, {a: 1, b: 1}, {b: 1}], capacity) == [8, 2, 2]
    assert max_min([{a: 1}, {a: 3}], capacity) == [Fraction(5, 2)] * 2
    assert max_min([{}, {b: 2}], capacity) == [None, 2]


def test_fair_shares_are_max_min():
    """Nobody can have more without taking from somebody who has no more: every user has a full link
    on which nobody is faster."""
    rng = random.Random(7)
    for _ in range(100):
        links = [_link(str(i)) for i in range(6)]
        capacity = {link: Fraction(rng.randint(1, 9)) for link in links}
        users = [
            {link: rng.randint(1, 3) for link in rng.sample(links, rng.randint(1, 4))}
            for _ in range(rng.randint(1, 7))
        ]
        paces = max_min(users, capacity)
        load = {
            link: sum(p * u.get(link, 0) for p, u in zip(paces, users, strict=True))
            for link in links
        }
        assert all(load[link] <= capacity[link] for link in links)
        for pace, user in zip(paces, users, strict=True):
            assert any(
                load[link] == capacity[link]
                and all(p <= pace for p, u in zip(paces, users, strict=True) if link in u)
                for link in user
            )


def test_routes():
    mesh = Topology((dim(DimKind.MESH2D, 12),))
    assert mesh_shape(12) == (3, 4)
    assert [hop for _, _, hop in route(mesh, 0, 6)] == [(0, 1), (1, 2), (2, 6)]  # X, then Y
    assert [hop for _, _, hop in route(mesh, 6, 0)] == [(6, 5), (5, 4), (4, 0)]
    stack = Topology((dim(DimKind.RING, 4), dim(DimKind.SWITCH, 2)))
    assert route(stack, 2, 5) == [
        (0, 0, (2,)), (0, 0, (3,)), (0, 0, (0,)), (1, 1, (0, "in")), (1, 1, (1, "out")),
    ]  # fmt: skip
    assert route(stack, 3, 3) == []
    assert link_capacity(dim(DimKind.FULLY_CONNECTED, 5, 8 * GB)) == 2 * GB


@pytest.mark.parametrize("size", [4, 6, 12, 16, 30, 36])
def test_a_mesh_with_an_even_side_has_a_ring_of_neighbours(size):
    mesh = dim(DimKind.MESH2D, size)
    order = sorted(range(size), key=lambda c: ring_place(mesh, c))
    assert sorted(ring_place(mesh, c) for c in range(size)) == list(range(size))
    topology = Topology((mesh,))
    for one, next_one in zip(order, [*order[1:], order[0]], strict=True):
        assert len(route(topology, one, next_one)) == 1


def _pairs():
    """Every kind of dim, algorithm and operation that has a closed form."""
    for kind, sizes in (
        (DimKind.RING, (2, 3, 8)),
        (DimKind.FULLY_CONNECTED, (2, 3, 4, 5, 8)),
        (DimKind.SWITCH, (2, 3, 4, 6, 8)),
        (DimKind.FRED, (2, 3, 8)),
        (DimKind.MESH2D, (2, 3, 4, 5, 8, 9, 12, 15)),
    ):
        for size, algorithm, operation in product(sizes, ALGORITHMS[kind], Operation):
            where = dim(kind, size, 3 * GB, 1000)
            try:
                used = algorithm_of(where, operation, algorithm)
            except InputError:
                continue
            if used is algorithm:
                name = f"{kind.value}{size}-{operation.value}-{algorithm.value}"
                yield pytest.param(where, operation, algorithm, id=name)


@pytest.mark.parametrize(("where", "operation", "algorithm"), list(_pairs()))
def test_agreement_with_closed_forms(where, operation, algorithm):
    """A whole dim alone: the links' shares give what the phase costs."""
    size = where.size
    payload = 60 * size * max(1, size - 1)
    shard = payload // size if operation is AG else payload
    # A send goes as far as it can: round a ring, and from corner to corner of a mesh.
    root = 1 if operation.rooted and operation is not Operation.SEND else 0
    target = size - 1 if operation is Operation.SEND else None
    request = GroupRequest(operation, shard, tuple(range(size)), algorithm, root, target)
    (result,) = run_groups(Topology((where,)), [request]).groups
    cost = phase_cost(where, operation, algorithm, payload)
    transfer = cost.port / where.bandwidth
    latency = Fraction(cost.steps * where.latency_ps, 10**12)
    assert result.seconds == transfer + latency
    one_link_at_a_time = (
        where.kind is DimKind.FULLY_CONNECTED and algorithm is Algorithm.HALVING_DOUBLING
    )
    if not one_link_at_a_time:
        assert result.busy == (transfer,)
    if algorithm is Algorithm.IN_NETWORK or where.kind is DimKind.MESH2D:
        assert result.carried[0] >= cost.sent
    else:
        assert result.carried == (cost.sent,)


def test_part_of_a_ring():
    """Scattered members of a ring use every link once, as the folded group says."""
    ring = Topology((dim(DimKind.RING, 12, GB, 1000),))
    ranks = (0, 2, 3, 9)
    folded = group_topology(ring, ranks).dims[0]
    cost = phase_cost(folded, AR, Algorithm.RING, 4800)
    latency = Fraction(cost.steps * folded.latency_ps, 10**12)
    (result,) = run_groups(ring, [GroupRequest(AR, 4800, ranks)]).groups
    assert result.seconds == cost.port / folded.bandwidth + latency


def test_groups_share():
    """Two groups on one ring take turns on every link; the longer one speeds up when alone."""
    ring = Topology((dim(DimKind.RING, 8, GB),))
    even, odd = (0, 2, 4, 6), (1, 3, 5, 7)
    (alone,) = run_groups(ring, [GroupRequest(AR, 8000, even)]).groups
    both = run_groups(ring, [GroupRequest(AR, 8000, even), GroupRequest(AR, 16000, odd)]).groups
    assert both[0].seconds == 2 * alone.seconds
    assert both[1].seconds == 3 * alone.seconds
    # Groups on different links do not notice each other.
    switch = Topology((dim(DimKind.SWITCH, 8, GB),))
    one = run_groups(switch, [GroupRequest(AR, 8000, even)]).groups
    two = run_groups(switch, [GroupRequest(AR, 8000, even), GroupRequest(AR, 8000, odd)])
    assert two.groups == [*one, *one]
    # Every NPU belongs to one of them, so no port carries more than before.
    assert (two.busy, two.carried) == (one[0].busy, one[0].carried)
    assert two.seconds == one[0].seconds


def test_nothing_to_do():
    ring = Topology((dim(DimKind.RING, 4, GB, 1000),))
    for request in (GroupRequest(AR, 0, (0, 1)), GroupRequest(AR, 64, (2,))):
        (result,) = run_groups(ring, [request]).groups
        assert result.seconds == 0


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        ((0, 4), "a rank of a group must be in 0..3, not 4"),
        ((1, 1), "a group must name each rank once, not [1, 1]"),
    ],
)
def test_wrong_groups(ranks, message):
    ring = Topology((dim(DimKind.RING, 4),))
    with pytest.raises(InputError) as error:
        run_groups(ring, [GroupRequest(AR, 8, ranks)])
    assert str(error.value) == message


@pytest.mark.parametrize("kind", [DimKind.MESH2D, DimKind.RING])
def test_a_thousand_npus_link_by_link(kind):
    """64 random groups of 16 on a mesh or a torus of 1,024."""
    sizes = (1024,) if kind is DimKind.MESH2D else (32, 32)
    topology = Topology(tuple(dim(kind, size, 100 * GB, 1000) for size in sizes))
    ranks = list(range(1024))
    random.Random(1).shuffle(ranks)
    requests = [GroupRequest(AR, 1 << 24, tuple(ranks[i : i + 16])) for i in range(0, 1024, 16)]
    begun = time.process_time()
    results = run_groups(topology, requests).groups
    assert time.process_time() - begun < 30
    assert min(r.seconds for r in results) > 0
