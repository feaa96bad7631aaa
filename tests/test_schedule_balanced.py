"""``balanced`` against the bound beyond four dims, and against the other schedulers, over a matrix.

Never worse: each scheduler and rule within a dim, at every number of chunks up to C, is run here by
itself.
"""

from __future__ import annotations

import random
from fractions import Fraction
from functools import cache

import pytest

from sw_model.collective.check import check_plan
from sw_model.collective.cost import algorithms_of
from sw_model.collective.plan import Algorithm, Collective, Operation
from sw_model.schedule.balanced import balance
from sw_model.schedule.evaluation import NETWORKS, evaluation_instance
from sw_model.schedule.execution import Intra
from sw_model.schedule.minimal import run_minimal
from sw_model.schedule.native.library import library
from sw_model.schedule.phases import Turn
from sw_model.schedule.planner import plan_collective
from sw_model.schedule.single import Instance
from sw_model.schedule.starts import Ways, made_starts
from sw_model.topology import Dim, DimKind, Topology

AR, RS, AG = Operation.ALL_REDUCE, Operation.REDUCE_SCATTER, Operation.ALL_GATHER
RING, FULL, SWITCH = DimKind.RING, DimKind.FULLY_CONNECTED, DimKind.SWITCH
MIB = 2**20


def instance(dims, size, operation=AR, latency_ps=0) -> Instance:
    """Dims of (kind, size, GB/s)."""
    topology = Topology(
        tuple(Dim(kind, n, Fraction(gb * 10**9), latency_ps) for kind, n, gb in dims)
    )
    return Instance(
        Collective(operation, size // 2, dims=tuple(range(len(dims)))),
        topology,
        algorithms_of(topology.dims, operation, None),
        turn=Turn.SPLIT,
    )


#: Five and six dims, made once with a seed: bandwidth falls outwards, or stays.
MANY = (
    ((RING, 4, 400), (RING, 2, 400), (SWITCH, 4, 160), (RING, 4, 64), (FULL, 8, 25)),
    ((RING, 4, 400), (SWITCH, 2, 400), (SWITCH, 4, 160), (RING, 8, 64), (SWITCH, 2, 32)),
    ((FULL, 4, 400), (SWITCH, 2, 200), (RING, 4, 140), (RING, 4, 70), (SWITCH, 2, 28)),
    ((SWITCH, 8, 400), (FULL, 4, 400), (FULL, 4, 400), (SWITCH, 4, 200), (SWITCH, 2, 100)),
    (
        (FULL, 8, 400),
        (SWITCH, 4, 400),
        (SWITCH, 2, 160),
        (FULL, 4, 160),
        (FULL, 8, 80),
        (SWITCH, 2, 32),
    ),
    (
        (SWITCH, 4, 400),
        (SWITCH, 8, 280),
        (RING, 2, 280),
        (SWITCH, 8, 196),
        (SWITCH, 2, 78),
        (FULL, 8, 54),
    ),
    ((RING, 4, 400), (RING, 4, 400), (RING, 8, 160), (RING, 4, 80), (FULL, 8, 40), (RING, 2, 40)),
    (
        (SWITCH, 8, 400),
        (FULL, 4, 280),
        (FULL, 8, 196),
        (RING, 4, 196),
        (RING, 4, 78),
        (RING, 4, 39),
    ),
)  # fmt: skip


def share_of_bound(one: Instance, chunks: int) -> float:
    return float(one.bound_seconds / one.seconds(one.run(balance(one, chunks=chunks)).end))


@pytest.mark.parametrize("number", [1, 6])
def test_many_dims_come_close_to_the_bound(number):
    assert share_of_bound(instance(MANY[number], 1000 * MIB), 64) >= 0.99


@pytest.mark.full
@pytest.mark.parametrize("size", [64 * MIB, 1000 * MIB])
def test_all_of_many_dims_come_close_to_the_bound(size):
    shares = []
    for dims in MANY:
        one = instance(dims, size)
        shares.append(share_of_bound(one, 64))
    assert min(shares) >= 0.99, shares
    assert sum(shares) / len(shares) >= 0.997


def never_worse(one: Instance, chunks: int) -> None:
    """Of up to 16 chunks every number is tried, of more those and every seventh."""
    best = one.run(balance(one, chunks=chunks)).end
    for count in (n for n in range(1, chunks + 1) if n <= 16 or (chunks - n) % 7 == 0):
        for rule in Intra:
            assert best <= one.run(one.baseline(count, rule)).end, (count, rule)
            assert best <= one.run(one.themis(count, rule)).end, (count, rule)


SIZES = (
    MIB,
    64 * MIB,
    2**30,
    2 * 524_309,  # a prime of elements
    1_000_002,
    100_000_000 + 14,
)


def test_never_worse_with_latencies_on_odd_sizes():
    """A sample of the matrix below."""
    rng = random.Random(5)
    cases = [(name, op, size) for name in NETWORKS for op in (AR, RS, AG) for size in SIZES]
    for name, operation, size in rng.sample(cases, 6):
        payload = size // 1024 // 2 * 2 if operation is AG else size
        never_worse(
            evaluation_instance(name, payload, operation=operation, latencies=True),
            rng.choice((3, 8, 16)),
        )


@pytest.mark.full
@pytest.mark.parametrize("operation", [AR, RS, AG])
@pytest.mark.parametrize("name", list(NETWORKS))
def test_never_worse_over_the_matrix(name, operation):
    """The networks of the Themis paper with their step latencies; 1 MiB to 1 GiB."""
    for size in SIZES:
        payload = size // 1024 // 2 * 2 if operation is AG else size
        for chunks in (1, 5, 16, 64):
            never_worse(
                evaluation_instance(name, payload, operation=operation, latencies=True), chunks
            )


@pytest.mark.full
@pytest.mark.parametrize("operation", [AR, RS, AG])
def test_never_worse_over_many_dims(operation):
    for dims in MANY:
        for size in (MIB, 100_000_014):
            payload = size // 256 // 2 * 2 if operation is AG else size
            never_worse(instance(dims, payload, operation, latency_ps=500_000), 32)


@cache
def small() -> Instance:
    return instance(((SWITCH, 4, 40), (RING, 2, 20), (FULL, 3, 5)), 24 * 1000)


def test_starts_are_the_whole_payload():
    """Each is some schedule of all grains, of at most C chunks."""
    one = small()
    ways = Ways(one)
    grains = one.payload.extent // one.grain
    starts = made_starts(ways, one, 12)
    assert len(starts) >= 4
    for order, size, factors in starts:
        assert len(order) == len(size) == len(factors) == 12
        assert sum(size) == grains
        for number, row in zip(order, factors, strict=True):
            assert len(row) == len(ways.ops[number])
    for phases, before in zip(ways.phases, ways.scatters, strict=True):
        assert all(phase.operation is RS for phase in phases[:before])
        assert all(phase.operation is AG for phase in phases[before:])


def begins(chunks, dims, keys):
    """Of every op, when it begins: a second telling of the minimal model, step by step. Ties go by
    arrival, and what ends together is handled by start."""
    queues: list[list[tuple]] = [[] for _ in range(dims)]
    under_way: list[tuple | None] = [None] * dims
    out = [[0] * len(ops) for ops in chunks]
    arrivals = starts = now = 0
    for chunk, ops in enumerate(chunks):
        if ops:
            queues[ops[0][0]].append((keys[chunk][0], arrivals := arrivals + 1, chunk, 0))
    while True:
        for dim in range(dims):
            if under_way[dim] is None and queues[dim]:
                first = min(queues[dim])
                queues[dim].remove(first)
                _, _, chunk, stage = first
                out[chunk][stage] = now
                starts += 1
                under_way[dim] = (now + chunks[chunk][stage][1], starts, chunk, stage)
        ends = [op for op in under_way if op is not None]
        if not ends:
            return out, now
        now = min(ends)[0]
        for op in sorted(ends):
            if op[0] == now:
                _, _, chunk, stage = op
                under_way[chunks[chunk][stage][0]] = None
                if stage + 1 < len(chunks[chunk]):
                    dim = chunks[chunk][stage + 1][0]
                    key = keys[chunk][stage + 1]
                    queues[dim].append((key, arrivals := arrivals + 1, chunk, stage + 1))


_RULES = (
    lambda place, busy: 0,
    lambda place, busy: -busy,
    lambda place, busy: busy,
    lambda place, busy: place,
)


def planned_end(chunks, cuts, dims, rule) -> int:
    """End of a run whose keys are the planned times of both halves."""

    def half(parts):
        keys = [[rule(place, busy) for _, busy in ops] for place, ops in enumerate(parts)]
        return begins(parts, dims, keys)

    scattered, middle = half([ops[:cut] for ops, cut in zip(chunks, cuts, strict=True)])
    back = [ops[cut:][::-1] for ops, cut in zip(chunks, cuts, strict=True)][::-1]
    gathered, rest = half(back)
    keys = []
    for chunk, (ops, cut) in enumerate(zip(chunks, cuts, strict=True)):
        mirrored = gathered[len(chunks) - 1 - chunk]
        late = [middle + rest - t - b for t, (_, b) in zip(mirrored, ops[cut:][::-1], strict=True)]
        keys.append([*scattered[chunk], *late[::-1]])
    return begins(chunks, dims, keys)[1]


def test_planned_keys_in_the_compiled_search():
    """With no budget the search only picks the best rule for its start: it is the best of first in
    first out, chunk by chunk, phase by phase, and the four rules as told here; what it hands back
    gives that end too."""
    native = library()
    if native is None:
        pytest.skip("there is no C++ compiler")
    rng = random.Random(3)
    gained = 0
    for _ in range(60):
        dims = rng.randint(2, 4)
        orders, cuts = [], []
        for _ in range(3):
            halves = [rng.sample(range(dims), dims) for _ in range(2)]
            orders.append([(dim, rng.randint(1, 40), 0) for dim in halves[0] + halves[1]])
            cuts.append(dims)
        size = [rng.randint(1, 5) for _ in range(rng.randint(2, 6))]
        order = [rng.randrange(3) for _ in size]
        found = native.search(
            dims=dims,
            orders=orders,
            scatters=cuts,
            starts=[(order, size, [[0.0] * 2 * dims for _ in size])],
            budget=1,
            seconds=1.0,
            seed=1,
            target=0,
        )
        chunks = [
            [(dim, busy * grains) for dim, busy, _ in orders[number]]
            for number, grains in zip(order, size, strict=True)
        ]
        mine = [cuts[number] for number in order]
        plain = begins(chunks, dims, [[0] * 2 * dims for _ in chunks])[1]
        best = min(planned_end(chunks, mine, dims, rule) for rule in _RULES)
        stages = range(2 * dims)
        early = [
            begins(chunks, dims, keys)[1]
            for keys in (
                [[chunk] * 2 * dims for chunk in range(len(chunks))],
                [list(stages) for _ in chunks],
            )
        ]
        assert found.end == min(plain, best, *early)
        gained += best < plain
        stride = 2 * dims
        keys = [found.key[c * stride : (c + 1) * stride] for c in range(len(size))]
        dense = sorted(set(found.key))
        run = run_minimal(
            [tuple((dim, busy, 0) for dim, busy in ops) for ops in chunks],
            dims=dims,
            intra=Intra.SCF,
            ranks=[tuple(dense.index(key) for key in row) for row in keys],
        )
        assert run.end == found.end
    assert gained > 10


@pytest.mark.parametrize("elements", [8, 40, 61])
@pytest.mark.parametrize("chunks", [2, 4])
def test_plans_have_the_algorithms_that_their_dims_run(elements, chunks):
    """On a Switch of three, which has no halving, as much as on one of two or four."""
    dims = (Dim(DimKind.SWITCH, 3, Fraction(4), 0), Dim(DimKind.FRED, 2, Fraction(1), 0))
    for operation in (Operation.ALL_GATHER, Operation.ALL_TO_ALL):
        asked = Collective(operation, elements, dims=(0, 1))
        plan = plan_collective(asked, Topology(dims), scheduler="balanced", chunks=chunks)
        check_plan(plan)
        used = {p.algorithm for chunk in plan.chunks for p in chunk.phases if p.dim == 0}
        assert used == {Algorithm.DIRECT}
