"""One collective in the minimal model: against the planner's own execution, bound, and search."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import permutations, product
from statistics import mean

import pytest

from sw_model.collective.cost import algorithms_of
from sw_model.collective.plan import SYMMETRIC, Collective, Operation
from sw_model.errors import InputError
from sw_model.schedule.balanced import balance
from sw_model.schedule.bound import OrderCosts, solve_bound
from sw_model.schedule.evaluation import NETWORKS, evaluation_instance, evaluation_network
from sw_model.schedule.execution import Intra, Job, Stage, execute
from sw_model.schedule.limits import PlannerState
from sw_model.schedule.minimal import run_minimal
from sw_model.schedule.native.library import library
from sw_model.schedule.outcome import evaluate
from sw_model.schedule.phases import Turn
from sw_model.schedule.single import Candidate, Instance
from sw_model.topology import DimKind, Topology
from tests.plan_cases import GB, dim, ring_by_fred

AR, RS, AG, A2A = (
    Operation.ALL_REDUCE,
    Operation.REDUCE_SCATTER,
    Operation.ALL_GATHER,
    Operation.ALL_TO_ALL,
)
MIB = 2**20
KINDS = (DimKind.RING, DimKind.FULLY_CONNECTED, DimKind.SWITCH, DimKind.FRED)


def _random_ops(rng: random.Random, dims: int) -> list[list[tuple[int, int, int]]]:
    """Small times, so that many ends coincide."""
    return [
        [
            (rng.randrange(dims), rng.randint(1, 4), rng.choice((0, 0, 1, 3)))
            for _ in range(rng.randint(1, 5))
        ]
        for _ in range(rng.randint(1, 9))
    ]


def _random_instance(rng: random.Random, *, dims: int = 4) -> Instance:
    topology = Topology(
        tuple(
            dim(rng.choice(KINDS), rng.choice((1, 2, 3, 4, 8)), rng.randint(1, 9) * GB, latency)
            for latency in rng.choices((0, 1000, 700_000), k=rng.randint(1, dims))
        )
    )
    operation = rng.choice(SYMMETRIC)
    elements = rng.choice((1, 5, 1000, 4096, 123_457, 1 << 20))
    if operation is RS and rng.random() < 0.5:
        elements += -elements % topology.npus
    return Instance(
        Collective(operation, elements, dims=tuple(range(len(topology.dims)))),
        topology,
        algorithms_of(topology.dims, operation, None),
        turn=rng.choice((Turn.IN_NETWORK, Turn.SPLIT)),
    )


def test_the_minimal_model_is_the_planner_without_limits():
    rng = random.Random(1)
    for _ in range(200):
        dims = rng.randint(1, 4)
        chunks = _random_ops(rng, dims)
        jobs = [
            Job(tuple(Stage(*op) for op in ops), tuple(range(len(ops) + 1)), 0, 0) for ops in chunks
        ]
        for intra in Intra:
            run = run_minimal(chunks, dims=dims, intra=intra)
            planned = execute(
                jobs,
                dims=dims,
                contexts=None,
                buffers=[None] * 6,
                intra=intra,
                state=PlannerState(),
            )
            assert run.end == planned.end
            assert [list(order) for order in run.orders] == [
                [(op.chunk, op.phase) for op in ops] for ops in planned.ops
            ]
            assert sum(run.busy) == sum(op[1] for ops in chunks for op in ops)


def test_the_compiled_model_is_the_same():
    native = library()
    if native is None:
        pytest.skip("there is no C++ compiler")
    rng = random.Random(2)
    for _ in range(300):
        dims = rng.randint(1, 4)
        chunks = _random_ops(rng, dims)
        for intra in Intra:
            run = run_minimal(chunks, dims=dims, intra=intra)
            assert native.run(chunks, dims, intra is Intra.SCF) == run.end


def test_ranks_decide_within_a_dim():
    chunks = [[(0, 5, 0)], [(0, 1, 0)], [(0, 3, 0)]]
    run = run_minimal(chunks, dims=1, intra=Intra.SCF, ranks=[[2], [3], [1]])
    assert [chunk for chunk, _ in run.orders[0]] == [2, 0, 1]


def test_latency_overlaps_or_not():
    topology = Topology((dim(DimKind.SWITCH, 2, GB, 1000),))
    collective = Collective(RS, 4000, dims=(0,))
    algorithms = algorithms_of(topology.dims, RS, None)
    for serial, nanoseconds in ((False, 4001), (True, 4004)):
        instance = Instance(collective, topology, algorithms, serial_latency=serial)
        run = instance.run(instance.baseline(4))
        assert instance.seconds(run.end) == Fraction(nanoseconds, 10**9)


def test_bytes_by_dim():
    instance = evaluation_instance("4D-Ring_FC_Ring_SW", 64 * MIB)
    size = 64 * MIB
    traffic = instance.traffic(instance.baseline(64))
    assert [t.sent for t in traffic] == [
        2 * size * 3 // 4,
        2 * size * 7 // 32,
        2 * size * 3 // 128,
        2 * size * 7 // 1024,
    ]
    # In-network, away from the turn and at it.
    fred = ring_by_fred()
    collective = Collective(AR, 1 << 20, dims=(0, 1))
    merged = Instance(collective, fred, algorithms_of(fred.dims, AR, None))
    assert merged.traffic(merged.baseline(4))[1].sent == 2 * (1 << 20) // 4
    every = replace(merged, collective=Collective(A2A, 1 << 20, dims=(0, 1)))
    every = replace(every, algorithms=algorithms_of(fred.dims, A2A, None))
    assert [t.sent for t in every.traffic(every.baseline(4))] == [
        2 * (1 << 20) * 3 // 2,
        2 * (1 << 20) * 3 // 4,
    ]


def _loads_of_all_orders(costs: OrderCosts) -> list[list[Fraction]]:
    active = [k for k, d in enumerate(costs.dims) if d.size > 1]
    nothing = [()]
    scatters = list(permutations(active)) if costs.operation is not AG else nothing
    gathers = list(permutations(active)) if costs.operation is not RS else nothing
    return [costs.loads((s, g)) for s, g in product(scatters, gathers)]


def test_the_bound_holds_and_its_shares_reach_it():
    rng = random.Random(3)
    tried = 0
    while tried < 60:
        instance = _random_instance(rng)
        if instance.operation is A2A:
            continue
        tried += 1
        bound = solve_bound(instance.costs)
        for loads in _loads_of_all_orders(instance.costs):
            priced = sum(w * load for w, load in zip(bound.weights, loads, strict=True))
            assert bound.seconds_per_byte <= priced  # so no mixture is faster: a certificate
        reached = [0.0] * len(instance.costs.dims)
        for column in bound.columns:
            for k, load in enumerate(instance.costs.loads(column.order)):
                reached[k] += column.share * float(load)
        assert max(reached, default=0) == pytest.approx(float(bound.seconds_per_byte), rel=1e-9)


def test_the_bound_names_the_dim_that_sets_it():
    """Dim 2 is so slow that it is the bottleneck in every order: BW_1 > P_1 BW_2."""
    topology = Topology((dim(DimKind.SWITCH, 4, 16 * GB), dim(DimKind.SWITCH, 4, GB)))
    algorithms = algorithms_of(topology.dims, AR, None)
    bound = solve_bound(OrderCosts(topology.dims, AR, algorithms))
    assert bound.dims == (1,)
    assert bound.seconds_per_byte == Fraction(2 * 3, 4 * 4 * GB)
    five = Topology(tuple(dim(DimKind.SWITCH, 2, 16 * GB >> k) for k in range(5)))
    bound = solve_bound(OrderCosts(five.dims, AR, algorithms_of(five.dims, AR, None)))
    assert bound.dims == (0, 1, 2, 3, 4)


@pytest.mark.parametrize("name", NETWORKS)
def test_evaluation_networks_can_be_filled(name):
    instance = evaluation_instance(name, 1000 * MIB)
    assert float(instance.ideal_seconds / instance.bound_seconds) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize(
    ("chunks", "average", "each"), [(64, 0.997, 0.99), (16, 0.995, 0.99), (8, 0.975, 0.93)]
)
def test_balanced_comes_close_to_the_bound(chunks, average, each):
    if library() is None:
        pytest.skip("there is no C++ compiler")
    shares = []
    for name in NETWORKS:
        instance = evaluation_instance(name, 1000 * MIB)
        candidate = balance(instance, chunks=chunks)
        assert len(candidate.extents) <= chunks
        assert sum(candidate.extents) == instance.collective.elements
        assert all(extent % 1024 == 0 for extent in candidate.extents)
        run = instance.run(candidate)
        shares.append(float(instance.bound_seconds / instance.seconds(run.end)))
    assert mean(shares) >= average
    assert min(shares) >= each


def _simple(instance: Instance, chunks: int) -> list[Candidate]:
    return [
        make(count, intra)
        for count in range(1, chunks + 1)
        for make in (
            instance.baseline,
            instance.themis,
            partial(instance.themis, initial_latency=True),
        )
        for intra in Intra
    ]


def test_balanced_is_never_worse():
    """Random networks, latencies, odd sizes, all collectives; against every number of chunks."""
    rng = random.Random(4)
    for _ in range(40):
        instance = _random_instance(rng)
        chunks = rng.randint(1, 12)
        candidate = balance(instance, chunks=chunks, budget=20_000)
        assert len(candidate.extents) <= chunks
        assert sum(candidate.extents) == instance.payload.extent
        end = instance.run(candidate).end
        assert end <= min(instance.run(other).end for other in _simple(instance, chunks))
        assert instance.bound_seconds <= instance.seconds(end)


def test_balanced_knows_both_initial_loads():
    """Where latencies are most of it, Themis is better with loads that begin with them."""
    topology = evaluation_network("3D-SW_SW_SW_hetero", latencies=True)
    instance = Instance(
        Collective(RS, 2_003_868, dims=(0, 1, 2)), topology, algorithms_of(topology.dims, RS, None)
    )
    instance = replace(instance, serial_latency=True)
    latent = instance.run(instance.themis(2, initial_latency=True)).end
    assert latent < min(
        instance.run(make(count, intra)).end
        for count in range(1, 5)
        for make in (instance.baseline, instance.themis)
        for intra in Intra
    )
    assert instance.run(balance(instance, chunks=4, budget=1000)).end <= latent


def test_balanced_knows_serial_latencies():
    """With latencies on the dims few chunks are best: 64 are worse than the baseline's best."""
    instance = evaluation_instance("2D-SW_SW", 10 * MIB, latencies=True, serial=True)
    candidate = balance(instance, chunks=64, budget=200_000)
    end = instance.run(candidate).end
    assert end <= min(instance.run(other).end for other in _simple(instance, 64))
    assert len(candidate.extents) < 64


def test_balanced_over_five_dims():
    """More orders than can be listed: the bound's and a sample of the others."""
    topology = Topology(tuple(dim(DimKind.SWITCH, 2, 16 * GB >> k) for k in range(5)))
    collective = Collective(AR, 1 << 20, dims=tuple(range(5)))
    instance = Instance(collective, topology, algorithms_of(topology.dims, AR, None))
    outcome = evaluate(instance, scheduler="balanced", chunks=16)
    assert outcome.time <= evaluate(instance, scheduler="themis", intra="scf", chunks=16).time
    assert 0.8 < outcome.bound_utilisation <= 1


def test_balanced_without_a_compiler(monkeypatch):
    for module in ("balanced", "native.library"):
        monkeypatch.setattr(f"sw_model.schedule.{module}.library", lambda: None)
    instance = evaluation_instance("2D-SW_SW", 10 * MIB)
    outcome = evaluate(instance, scheduler="balanced", chunks=5)
    others = [instance.run(other).end for other in _simple(instance, 5)]
    assert outcome.time == instance.seconds(min(others))
    assert outcome.notes == ("there is no C++ compiler: the search was left out",)


def test_balanced_tells_its_progress():
    if library() is None:
        pytest.skip("there is no C++ compiler")
    shares: list[float] = []
    instance = evaluation_instance("4D-Ring_SW_SW_SW", 1000 * MIB)
    balance(instance, chunks=6, budget=400_000, progress=shares.append)
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] <= 1


def test_balanced_is_reproducible():
    instance = evaluation_instance("3D-FC_Ring_SW", 100 * MIB, latencies=True)
    first = balance(instance, chunks=5, budget=50_000)
    assert balance(instance, chunks=5, budget=50_000) == first


def test_small_payloads():
    topology = Topology((dim(DimKind.SWITCH, 4), dim(DimKind.SWITCH, 4)))
    for operation in (*SYMMETRIC, Operation.BROADCAST, Operation.REDUCE):
        algorithms = algorithms_of(topology.dims, operation, None)
        for scheduler in ("baseline", "themis", "balanced"):
            empty = Instance(Collective(operation, 0, dims=(0, 1)), topology, algorithms)
            outcome = evaluate(empty, scheduler=scheduler)
            assert (outcome.time, outcome.chunks, outcome.utilisation) == (0, 0, 1.0)
            assert outcome.notes == ("the collective is empty and takes no time",)
            one = Instance(Collective(operation, 1, dims=(0, 1)), topology, algorithms)
            outcome = evaluate(one, scheduler=scheduler)
            assert outcome.chunks == 1
            assert outcome.time > 0
            assert outcome.bound_utilisation <= 1
    alone = Topology((dim(DimKind.SWITCH, 1),))
    algorithms = algorithms_of(alone.dims, AR, None)
    outcome = evaluate(Instance(Collective(AR, 64, dims=(0,)), alone, algorithms))
    assert outcome.time == 0
    assert outcome.notes == ("the group has one rank: nothing is sent",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scheduler": "temis"}, "unknown scheduler 'temis' (did you mean 'themis'?)"),
        ({"intra": "lifo"}, "unknown intra-dim order 'lifo' (did you mean 'fifo'?)"),
        ({"chunks": 0}, "chunks must be at least 1, not 0"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(InputError) as error:
        evaluate(evaluation_instance("2D-SW_SW", MIB), **options)
    assert str(error.value) == message


def test_more_chunks_than_elements():
    topology = Topology((dim(DimKind.SWITCH, 4),))
    instance = Instance(
        Collective(AR, 10, dims=(0,)), topology, algorithms_of(topology.dims, AR, None)
    )
    outcome = evaluate(instance, chunks=64)
    assert outcome.chunks == 3
    assert outcome.padding_bytes == 2 * 2
    assert outcome.notes == (
        "3 chunks instead of 64: a chunk is a multiple of the 4 ranks in elements",
    )
