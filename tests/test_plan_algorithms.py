"""Every algorithm on every kind of dim, in any order of dims: checked on symbols, and on numbers
against NumPy; bytes and steps against the closed forms."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
from math import prod

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sw_model.astra.system import AlgorithmName, SystemConfig
from sw_model.collective.check import PlanError, check_plan
from sw_model.collective.cost import ALGORITHMS, algorithm_of, algorithms_of, check_tree, phase_cost
from sw_model.collective.interpret import Source
from sw_model.collective.plan import (
    Algorithm,
    Collective,
    Operation,
    RankSteps,
    ReceiveStep,
)
from sw_model.collective.replay import replay
from sw_model.collective.rounds import Move, rounds_of, tree_parents
from sw_model.collective.steps import rank_steps
from sw_model.errors import InputError
from sw_model.replay.plans import own_algorithms
from sw_model.schedule.baseline import Baseline, active_dims
from sw_model.schedule.limits import Limits
from sw_model.schedule.outcome import evaluate
from sw_model.schedule.phases import Turn, build_phases
from sw_model.schedule.planner import plan_collective
from sw_model.schedule.single import Instance
from sw_model.topology import DimKind, Topology
from tests.plan_cases import dim

AR, RS, AG, A2A = (
    Operation.ALL_REDUCE,
    Operation.REDUCE_SCATTER,
    Operation.ALL_GATHER,
    Operation.ALL_TO_ALL,
)
BROADCAST, REDUCE, SEND = Operation.BROADCAST, Operation.REDUCE, Operation.SEND
many = settings(
    max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)


@dataclass(frozen=True)
class AnyWay:
    """Scheduler: random orders, with these algorithms."""

    seed: int
    algorithms: tuple[Algorithm, ...]
    turn: Turn

    def schedule(self, operation, topology, dims, sizes):
        rng = random.Random(self.seed)
        active = active_dims(topology, dims)
        trees = [d for d in active if self.algorithms[d] is Algorithm.DOUBLE_BINARY_TREE]

        def order(backwards: bool) -> list[int]:
            out = rng.sample(active, len(active))
            if operation is AR:  # a tree makes whole all-reduces: the turn is there
                out.sort(key=lambda d: (d in trees) is not backwards)
            return out

        return [
            build_phases(
                operation,
                topology,
                scatter=order(False) if operation in (AR, RS) else (),
                gather=order(True) if operation is not RS else (),
                turn=self.turn,
                algorithms=self.algorithms,
            )
            for _ in sizes
        ]


@st.composite
def cases(draw):
    """(collective, topology, algorithms)."""
    sizes: list[int] = []
    for _ in range(draw(st.integers(1, 3))):
        sizes.append(draw(st.integers(1, max(1, min(8, 24 // prod(sizes))))))
    kinds = [draw(st.sampled_from(list(DimKind))) for _ in sizes]
    dims = tuple(dim(k, s) for k, s in zip(kinds, sizes, strict=True))
    spanned = tuple(d for d in range(len(dims)) if draw(st.booleans()))
    operation = draw(st.sampled_from(list(Operation)))
    algorithms = []
    for one in dims:
        known = []
        for algorithm in ALGORITHMS[one.kind]:
            try:
                known.append(algorithm_of(one, operation, algorithm))
            except InputError:
                continue
        algorithms.append(draw(st.sampled_from(known)))
    group = prod(sizes[d] for d in spanned)
    elements = draw(st.one_of(st.integers(0, 3), st.integers(0, 4 * group + 7)))
    root = draw(st.integers(0, group - 1)) if operation.rooted else 0
    target = draw(st.integers(0, group - 1)) if operation is SEND else None
    asked = Collective(
        operation, elements, data_type="int32", dims=spanned, root=root, target=target
    )
    return asked, Topology(dims), tuple(algorithms)


def _members(topology, dims, rank):
    """The group of a rank, in its order."""
    at = topology.coordinates(rank)
    return [
        r
        for r in range(topology.npus)
        if all(c == at[d] for d, c in enumerate(topology.coordinates(r)) if d not in dims)
    ]


def _sources(asked, topology, rng):
    out = []
    for rank in range(topology.npus):
        place = _members(topology, asked.dims, rank).index(rank)
        silent = asked.operation in (BROADCAST, SEND) and place != asked.root
        count = 0 if silent else asked.elements
        out.append(rng.integers(-(2**31), 2**31 - 1, count, dtype=np.int32, endpoint=True))
    return out


def _expected(asked, topology, sources, rank):
    """The result by definition."""
    group = _members(topology, asked.dims, rank)
    place, n = group.index(rank), len(group)
    mine = [sources[r] for r in group]
    low, high = place * asked.elements // n, (place + 1) * asked.elements // n
    nothing = np.zeros(0, dtype=np.int32)
    match asked.operation:
        case Operation.ALL_GATHER:
            return np.concatenate(mine)
        case Operation.ALL_TO_ALL:
            return np.concatenate([source[low:high] for source in mine])
        case Operation.BROADCAST:
            return mine[asked.root]
        case Operation.SEND:
            return mine[asked.root] if place == asked.target else nothing
    total = np.sum(np.array(mine), axis=0, dtype=np.int32)
    if asked.operation is REDUCE:
        return total if place == asked.root else nothing
    return total[low:high] if asked.operation is RS else total


@many
@given(case=cases(), data=st.data())
def test_against_numpy(case, data):
    asked, topology, algorithms = case
    trees = [
        d
        for d in active_dims(topology, asked.dims)
        if algorithms[d] is Algorithm.DOUBLE_BINARY_TREE
    ]
    if asked.operation is AR and len(trees) > 1:
        return
    plan = plan_collective(
        asked,
        topology,
        scheduler=AnyWay(
            data.draw(st.integers(0, 99)), algorithms, data.draw(st.sampled_from(list(Turn)))
        ),
        chunks=data.draw(st.integers(1, 3)),
        quantum=data.draw(st.sampled_from([1, 1, 2, 4, 8])),
    )
    check_plan(plan)
    sources = _sources(asked, topology, np.random.default_rng(data.draw(st.integers(0, 99))))
    for rank, result in enumerate(replay(plan, sources)):
        np.testing.assert_array_equal(result, _expected(asked, topology, sources, rank))


@pytest.mark.parametrize("operation", [RS, AG, A2A])
@pytest.mark.parametrize("elements", [1, 7, 12, 12 * 8, 12 * 8 + 1, 12 * 12, 1001])
def test_blocks_need_not_be_whole_quanta(operation, elements):
    """Blocks of a payload that 12 ranks cannot share evenly, or not in whole quanta, or that is
    less than an element for each: every block is padded to quanta of its own."""
    topology = Topology((dim(DimKind.RING, 3), dim(DimKind.SWITCH, 2), dim(DimKind.RING, 2)))
    asked = Collective(operation, elements, data_type="int32", dims=(0, 1, 2))
    plan = plan_collective(asked, topology, quantum=8, chunks=2)
    check_plan(plan)
    sources = _sources(asked, topology, np.random.default_rng(0))
    for rank, result in enumerate(replay(plan, sources)):
        np.testing.assert_array_equal(result, _expected(asked, topology, sources, rank))
    sizes = [b - a for a, b in pairwise(k * elements // 12 for k in range(13))]
    if operation is AG:
        sizes = [elements] * 12
    assert plan.padding_bytes == 4 * sum(-size % 8 for size in sizes)


# Bytes.


def _runs():
    for kind in DimKind:
        for size in (2, 3, 4, 5, 8):
            where = dim(kind, size)
            for algorithm, operation in product(ALGORITHMS[kind], Operation):
                try:
                    used = algorithm_of(where, operation, algorithm)
                except InputError:
                    continue
                if used is algorithm:
                    yield pytest.param(
                        where, operation, algorithm, id=f"{kind.value}{size}-{operation.value}-"
                        f"{algorithm.value}",
                    )  # fmt: skip


def _steps(where, operation, algorithm, elements):
    target = where.size - 1 if operation is SEND else None
    asked = Collective(operation, elements, dims=(0,), target=target)
    topology = Topology((where,))
    plan = plan_collective(asked, topology, scheduler=Baseline(algorithms=(algorithm,)), chunks=1)
    return [
        [rank_steps(plan, 0, phase, rank) for phase in range(len(plan.chunks[0].phases))]
        for rank in range(where.size)
    ]


@pytest.mark.parametrize(("where", "operation", "algorithm"), list(_runs()))
def test_bytes_by_replaying_the_steps(where, operation, algorithm):
    """What the NPU that has most sends and receives. Direct messages on a Ring pass the NPUs in
    between; on a mesh they are counted link by link in test_congestion."""
    if where.kind is DimKind.MESH2D and algorithm is Algorithm.DIRECT:
        return
    shards = 12 * where.size * (where.size - 1)
    whole = shards * (where.size if operation is AG else 1)
    sent: Counter[int] = Counter()
    received: Counter[int] = Counter()
    around = where.kind is DimKind.RING and algorithm is Algorithm.DIRECT
    for rank, phases in enumerate(_steps(where, operation, algorithm, shards)):
        for steps in phases:
            for send in steps.sends:
                if send.peer == rank:
                    continue
                hops = (send.peer - rank) % where.size if around else 1
                for hop in range(hops):
                    sent[(rank + hop) % where.size] += send.length
                    if around:
                        received[(rank + hop + 1) % where.size] += send.length
            if not around:
                received[rank] += sum(r.length for r in steps.receives if r.peer != rank)
    cost = phase_cost(where, operation, algorithm, whole)
    assert max(sent.values()) == cost.sent
    assert max(received.values()) == cost.received


@pytest.mark.parametrize(("where", "operation", "algorithm"), list(_runs()))
def test_steps_one_after_another(where, operation, algorithm):
    """The longest chain of messages of which each waits for the one before."""
    if where.kind in (DimKind.MESH2D, DimKind.FRED) or algorithm is Algorithm.DIRECT:
        return  # hops of a mesh and of direct messages on a ring are counted in test_congestion
    elements = 12 * where.size * (where.size - 1)
    ranks = _steps(where, operation, algorithm, elements)
    depth: dict[tuple[int, int], int] = {}  # (rank, receive step)

    def arrival(rank: int, phase: int, step: int) -> int:
        """Messages in the chain that ends with this receive step."""
        if (rank, step) not in depth:
            peer = ranks[rank][phase].receives[step].peer
            (send,) = [s for s in ranks[peer][phase].sends if s.peer == rank and s.step == step]
            needed = range(-1 if send.after is None else send.after + 1)
            before = [
                arrival(peer, phase, s)
                for s in needed
                if _meet(ranks[peer][phase].receives[s], send)
            ]
            depth[rank, step] = max(before, default=0) + 1
        return depth[rank, step]

    total = 0
    for phase in range(len(ranks[0])):
        depth.clear()
        total += max(
            arrival(rank, phase, step)
            for rank in range(where.size)
            for step in range(len(ranks[rank][phase].receives))
        )
    if operation is A2A:
        total -= where.size == 1
    assert total == phase_cost(where, operation, algorithm, elements).steps


def _meet(receive: ReceiveStep, send) -> bool:
    low, high = receive.write_offset, receive.write_offset + receive.length
    return (
        receive.into_destination == send.from_destination
        and low < send.offset + send.length
        and send.offset < high
    )


# Single algorithms, by hand.


def test_halving_doubling_by_hand():
    """Four coordinates, four elements: halves first, then quarters, and back."""
    bounds = (0, 1, 2, 3, 4)
    gather = rounds_of(AG, Algorithm.HALVING_DOUBLING, bounds)
    assert gather[0][:2] == [Move(0, 1, 0, 1), Move(1, 0, 1, 2)]
    assert gather[1][:2] == [Move(0, 2, 0, 2), Move(1, 3, 0, 2)]
    scatter = rounds_of(RS, Algorithm.HALVING_DOUBLING, bounds)
    assert Move(0, 2, 2, 4, reduces=True) in scatter[0]
    assert Move(0, 1, 1, 2, reduces=True) in scatter[1]
    with pytest.raises(ValueError, match="must have a power of two of NPUs, not 3"):
        rounds_of(AG, Algorithm.HALVING_DOUBLING, (0, 1, 2, 3))


def test_a_bidirectional_ring_takes_the_shorter_way():
    # Of 5, two steps either way; the shard of 0 reaches 1 and 2 forwards, 4 and 3 backwards.
    moves = rounds_of(AG, Algorithm.BIDIRECTIONAL_RING, tuple(range(6)))
    of_zero = [[(m.sender, m.receiver) for m in r if m.low == 0] for r in moves]
    assert [sorted(r) for r in of_zero] == [[(0, 1), (0, 4)], [(1, 2), (4, 3)]]
    # Of 4, the one opposite gets half from either side.
    moves = rounds_of(AG, Algorithm.BIDIRECTIONAL_RING, (0, 2, 4, 6, 8))
    assert [m for m in moves[1] if m.receiver == 2] == [Move(1, 2, 0, 1), Move(3, 2, 1, 2)]


@pytest.mark.parametrize("size", range(2, 40))
def test_nobody_has_children_in_both_trees(size):
    first, second = tree_parents(size)
    for parents in (first, second):
        assert parents[0] == -1
        children = Counter(parents[1:])
        assert children[0] == 1
        assert all(children[v] <= 2 for v in range(1, size))
        for v in range(1, size):
            depth, at = 0, v
            while at:
                at, depth = parents[at], depth + 1
                assert depth <= (size - 1).bit_length()
    assert not set(first[1:]) & set(second[1:]) - {0}


@pytest.mark.parametrize(
    ("operation", "algorithm", "message"),
    [
        (RS, Algorithm.DOUBLE_BINARY_TREE, "double-binary-tree has no reduce-scatter"),
        (A2A, Algorithm.RING, "ring has no all-to-all"),
        (BROADCAST, Algorithm.IN_NETWORK, "in-network has no broadcast"),
        (AG, Algorithm.IN_NETWORK, "in-network has no all-gather"),
    ],
)
def test_rounds_that_do_not_exist(operation, algorithm, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        rounds_of(operation, algorithm, (0, 1, 2))


# Requests and phases that cannot be.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"operation": AR, "root": 1},
            "root must be a place in the group of a broadcast, reduce or send, "
            "not 1 of a all-reduce",
        ),
        (
            {"operation": BROADCAST, "target": 1},
            "target must be a place in the group for a send, and None for all others, "
            "not 1 of a broadcast",
        ),
        (
            {"operation": SEND},
            "target must be a place in the group for a send, and None for all others, "
            "not None of a send",
        ),
    ],
)
def test_wrong_requests(arguments, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        Collective(elements=4, dims=(0,), **arguments)
    assert str(error.value) == message


def test_a_root_outside_the_group():
    topology = Topology((dim(DimKind.RING, 4),))
    for asked, message in (
        (
            Collective(REDUCE, 4, dims=(0,), root=4),
            "root must be a place in the group of 4 ranks, not 4",
        ),
        (
            Collective(SEND, 4, dims=(0,), target=9),
            "target must be a place in the group of 4 ranks, not 9",
        ),
    ):
        with pytest.raises(InputError) as error:
            plan_collective(asked, topology)
        assert str(error.value) == message


@pytest.mark.parametrize(
    ("kind", "operation", "algorithm", "message"),
    [
        (
            DimKind.SWITCH,
            RS,
            Algorithm.DOUBLE_BINARY_TREE,
            "double-binary-tree does all-reduce, broadcast, reduce, not reduce-scatter",
        ),
        (
            DimKind.MESH2D,
            REDUCE,
            Algorithm.DIRECT,
            "a reduce on a Mesh2D dim goes along a ring, not 'direct'",
        ),
    ],
)
def test_algorithms_that_cannot_be(kind, operation, algorithm, message):
    with pytest.raises(InputError) as error:
        algorithm_of(dim(kind, 4), operation, algorithm)
    assert str(error.value) == message


def test_trees_are_for_the_outermost_dim():
    tree = Algorithm.DOUBLE_BINARY_TREE
    dims = (dim(DimKind.SWITCH, 4), dim(DimKind.SWITCH, 4), dim(DimKind.RING, 1))
    assert check_tree(dims, 1, AR, tree) is tree
    assert check_tree(dims, 0, BROADCAST, tree) is tree
    with pytest.raises(InputError) as error:
        algorithms_of(dims, AR, "double-binary-tree,double-binary-tree,ring")
    assert str(error.value) == (
        "double-binary-tree makes whole all-reduces: of several dims it is for the outermost, "
        "dim 2, not for dim 1"
    )


# Mutations.


@pytest.mark.parametrize(
    ("algorithm", "change", "message"),
    [
        (Algorithm.HALVING_DOUBLING, {"offset": 8}, "sends nothing of what receive step 0 writes"),
        (Algorithm.HALVING_DOUBLING, {"after": None}, "a later receive step writes to its range"),
        (Algorithm.DIRECT, {"length": 3}, "3 quanta arrive where 4 are expected"),
    ],
)
def test_a_wrong_step_is_caught(algorithm, change, message):
    """Of rank 0, the second send of a reduce-scatter of 16 elements over four."""
    topology = Topology((dim(DimKind.SWITCH, 4),))
    asked = Collective(RS, 16, dims=(0,))
    plan = plan_collective(asked, topology, scheduler=Baseline(algorithms=(algorithm,)), chunks=1)
    check_plan(plan)

    def steps(plan, chunk, phase, rank):
        right = rank_steps(plan, chunk, phase, rank)
        if rank:
            return right
        first, second, *rest = right.sends
        return RankSteps((first, dataclasses.replace(second, **change), *rest), right.receives)

    with pytest.raises(PlanError, match=message):
        check_plan(plan, source=Source(steps=steps))


def test_a_sum_written_over_is_caught():
    """A receive step that replaces what an earlier one has added up."""
    topology = Topology((dim(DimKind.SWITCH, 4),))
    asked = Collective(RS, 16, dims=(0,))
    plan = plan_collective(
        asked, topology, scheduler=Baseline(algorithms=(Algorithm.DIRECT,)), chunks=1
    )

    def steps(plan, chunk, phase, rank):
        right = rank_steps(plan, chunk, phase, rank)
        receives = list(right.receives)
        receives[1] = dataclasses.replace(receives[1], reduce=False)
        return RankSteps(right.sends, tuple(receives))

    with pytest.raises(PlanError, match="writes to a range for the second time"):
        check_plan(plan, source=Source(steps=steps))


@pytest.mark.parametrize("algorithm", [Algorithm.RING, Algorithm.BIDIRECTIONAL_RING])
def test_an_all_to_all_that_passes_through_fits_its_buffers(algorithm):
    """Room for what passes through: 3 x 2 / 2 shards of 4 on a ring, 2 on a ring both ways."""
    topology = Topology((dim(DimKind.RING, 4),))
    limits = Limits(contexts=1, buffers=((2, 2 * 64), (2, 2 * 112)))
    plan = plan_collective(
        Collective(A2A, 600, dims=(0,)),
        topology,
        scheduler=Baseline(algorithms=(algorithm,)),
        limits=limits,
        chunks=1,
    )
    assert len(plan.chunks) > 1
    check_plan(plan, limits=limits)
    small = Limits(contexts=1, buffers=((2, 2 * 64), (2, 2 * 64)))
    with pytest.raises(PlanError, match=r"position 1: \d+ quanta in a buffer of 64"):
        check_plan(plan, limits=small)


def test_the_tree_that_a_system_file_asks_for():
    names = (AlgorithmName.RING, AlgorithmName.DOUBLE_BINARY_TREE)
    system = SystemConfig(algorithms={AR: names})
    ring, switch = dim(DimKind.RING, 4), dim(DimKind.SWITCH, 4)
    algorithms, notes = own_algorithms(system, AR, Topology((ring, switch)))
    assert (algorithms, notes) == ((Algorithm.RING, Algorithm.DOUBLE_BINARY_TREE), ())
    turned = SystemConfig(algorithms={AR: names[::-1]})
    algorithms, notes = own_algorithms(turned, AR, Topology((switch, ring)))
    assert algorithms == (Algorithm.HALVING_DOUBLING, Algorithm.RING)
    assert notes == (
        "dim 1: double-binary-tree makes whole all-reduces: of several dims it is for the "
        "outermost, dim 2, not for dim 1; halving-doubling is used instead",
    )


def test_an_empty_dim_costs_nothing():
    one = dim(DimKind.SWITCH, 1)
    assert phase_cost(one, BROADCAST, Algorithm.DIRECT, 64).port == Fraction(0)


def test_schedulers_keep_the_order_that_a_tree_fixes():
    """All-reduce over two dims with trees on the outer one: of D bytes over 4 x 8 the outer dim
    carries 2 D / 4, in its busiest NPU."""
    topology = Topology((dim(DimKind.RING, 4), dim(DimKind.SWITCH, 8)))
    asked = Collective(AR, 1 << 14, dims=(0, 1))
    algorithms = algorithms_of(topology.dims, AR, "ring,double-binary-tree")
    outcomes = [
        evaluate(Instance(asked, topology, algorithms), scheduler=scheduler, chunks=4)
        for scheduler in ("baseline", "themis", "balanced")
    ]
    for outcome in outcomes:
        assert outcome.orders == {"RS 1, AR 2, AG 1": outcome.chunks}
        assert outcome.traffic[1].sent == 2 * (1 << 15) // 4
        assert outcome.bound_utilisation <= 1
