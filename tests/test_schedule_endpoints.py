"""Endpoints that are not ideal: shared memory, engines, and what they read and write."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest

from sw_model.collective.cost import algorithms_of
from sw_model.collective.plan import Algorithm, Collective, Operation
from sw_model.endpoint.kinds import KINDS, endpoint_kind
from sw_model.errors import InputError
from sw_model.schedule.endpoints import evaluate_endpoint, paper_limits
from sw_model.schedule.execution import Intra
from sw_model.schedule.minimal import run_minimal
from sw_model.schedule.outcome import evaluate
from sw_model.schedule.shared import fair_paces, run_shared
from sw_model.schedule.single import Instance
from sw_model.topology import DimKind, Topology
from tests.plan_cases import GB, dim

AR, RS = Operation.ALL_REDUCE, Operation.REDUCE_SCATTER


def _torus(*sizes: int, gb: tuple[int, ...]) -> Topology:
    return Topology(tuple(dim(DimKind.RING, p, b * GB) for p, b in zip(sizes, gb, strict=True)))


def _instance(topology: Topology, size: int, operation: Operation = AR) -> Instance:
    dims = tuple(range(len(topology.dims)))
    algorithms = algorithms_of(topology.dims, operation, None)
    return Instance(Collective(operation, size // 2, dims=dims), topology, algorithms)


def test_fair_paces():
    paces = fair_paces({0: Fraction(1, 10), 1: Fraction(1), 2: Fraction(2)})
    assert paces == {0: 1, 1: Fraction(9, 20), 2: Fraction(9, 40)}
    assert fair_paces({0: Fraction(0), 1: Fraction(3)}) == {0: 1, 1: Fraction(1, 3)}


def test_enough_memory_changes_nothing():
    rng = random.Random(5)
    for _ in range(200):
        dims = rng.randint(1, 3)
        chunks = [
            [
                (rng.randrange(dims), rng.randint(1, 4), rng.choice((0, 0, 2)))
                for _ in range(rng.randint(1, 4))
            ]
            for _ in range(rng.randint(1, 6))
        ]
        needs = [[0] * len(ops) for ops in chunks]
        for intra in Intra:
            expected = run_minimal(chunks, dims=dims, intra=intra)
            assert run_shared(chunks, needs, dims=dims, intra=intra) == expected


def test_memory_is_shared_and_never_exceeded():
    """Two dims that would each take all of the memory go at half their pace."""
    chunks = [[(0, 100, 0)], [(1, 100, 0)]]
    run = run_shared(chunks, [[100], [100]], dims=2, intra=Intra.FIFO)
    assert run.end == 200
    run = run_shared(chunks, [[100], [50]], dims=2, intra=Intra.FIFO)
    assert run.end == 150
    rng = random.Random(6)
    for _ in range(100):
        chunks = [[(rng.randrange(3), rng.randint(1, 50), 0)] for _ in range(8)]
        needs = [[rng.randint(0, 80)] for _ in chunks]
        run = run_shared(chunks, needs, dims=3, intra=Intra.SCF)
        assert run.end >= sum(need for (need,) in needs)


def test_one_ring_out_of_memory():
    """Bound by the memory: exactly its reads over its bandwidth."""
    instance = _instance(_torus(4, gb=(400,)), 1 << 20)
    outcome, memory = evaluate_endpoint(instance, KINDS["baseline-comp-opt"], chunks=1)
    assert memory.exact.reads == Fraction((1 << 20) * (3 * 4 - 2), 4)
    # A reduce-scatter writes less than it reads, an all-gather as much as it reads.
    expected = Fraction((1 << 20) * (3 * 4 - 2), 4 * 128 * GB)
    unit = Fraction(1, instance.unit)
    assert expected <= outcome.time <= expected + 2 * unit  # an op is rounded up to a unit
    free = evaluate(instance, chunks=1)
    assert outcome.time > free.time


def test_kinds_in_order():
    """The more of the memory communication gets, the sooner it ends; an engine reads once."""
    instance = _instance(_torus(4, 2, 2, gb=(200, 50, 50)), 4 << 20)
    times = {"ideal": evaluate(instance).time}
    for name in ("baseline-no-overlap", "baseline-comm-opt", "baseline-comp-opt", "ace"):
        outcome, memory = evaluate_endpoint(instance, KINDS[name])
        times[name] = outcome.time
        if name == "ace":
            assert (memory.exact.reads, memory.exact.writes) == (4 << 20, 4 << 20)
            assert memory.per_payload == 1
        else:
            assert memory.exact.reads > memory.per_payload * (4 << 20)
        assert outcome.bound_utilisation <= 1
    assert times["ideal"] <= times["baseline-no-overlap"] <= times["baseline-comm-opt"]
    assert times["baseline-comm-opt"] < times["baseline-comp-opt"]
    assert times["ace"] < times["baseline-comp-opt"]


@pytest.mark.parametrize("name", ["baseline-comp-opt", "ace"])
def test_balanced_is_not_worse_here(name):
    instance = _instance(_torus(4, 2, 2, gb=(200, 50, 50)), 1 << 20)
    times = [
        evaluate_endpoint(instance, KINDS[name], scheduler=scheduler, chunks=8)[0].time
        for scheduler in ("balanced", "baseline", "themis")
    ]
    assert times[0] == min(times)


#: Payloads of six NPUs that hold a dim of a kind one after another, at the NPU's bandwidth: 5/3 of
#: it in an all-reduce, one in-network. A ring of an all-to-all passes others' messages on, 5/2. A
#: ring on a mesh has one of four links.
_PASSES = {
    DimKind.RING: (Fraction(5, 3), Fraction(5, 6), Fraction(5, 2), 1),
    DimKind.FULLY_CONNECTED: (Fraction(5, 3), Fraction(5, 6), Fraction(5, 6), 1),
    DimKind.SWITCH: (Fraction(5, 3), Fraction(5, 6), Fraction(5, 6), 1),
    DimKind.FRED: (1, 1, Fraction(5, 6), 1),
    DimKind.MESH2D: (Fraction(20, 3), Fraction(10, 3), 10, 4),
}


@pytest.mark.parametrize("kind", list(DimKind))
def test_an_engine_on_every_kind_of_dim(kind):
    """One slow dim is busy from the first chunk's load to the last one's store."""
    topology = Topology((dim(kind, 6, 10 * GB),))
    size = 3 << 20
    operations = (AR, RS, Operation.ALL_TO_ALL, Operation.BROADCAST)
    for operation, passes in zip(operations, _PASSES[kind], strict=True):
        port = passes * Fraction(size, 10 * GB)
        chunk = Fraction(64 * 2**10, 128 * GB)
        for scheduler in ("baseline", "balanced"):
            outcome, memory = evaluate_endpoint(
                _instance(topology, size, operation), KINDS["ace"], scheduler=scheduler
            )
            assert memory.exact.reads == size
            assert memory.exact.writes == (size / 6 if operation is RS else size)
            assert port <= outcome.time <= port * Fraction(1001, 1000) + 2 * chunk
            assert outcome.bound_utilisation <= 1


def test_too_many_ranks_for_an_engine():
    instance = _instance(_torus(256, 256, gb=(1, 1)), 1 << 20, Operation.ALL_TO_ALL)
    with pytest.raises(
        InputError,
        match="the engine's buffers are too small for one quantum of 2 bytes per shard of an "
        "all-to-all over 65536 ranks",
    ):
        evaluate_endpoint(instance, KINDS["ace"])


def test_limits_of_the_paper():
    # Steps on the outer rings take 500 cycles of 1245 MHz, and those on eight NPUs are most.
    steps = (72_289, 401_606, 401_606)
    dims = [
        replace(dim, latency_ps=time)
        for dim, time in zip(_torus(4, 8, 4, gb=(376, 47, 47)).dims, steps, strict=True)
    ]
    limits = paper_limits(KINDS["ace"], dims, AR)
    assert limits.contexts == (2, 10, 4)
    assert limits.buffers == ((10, 64 * 2**10),) * 6
    assert limits.memory_bandwidth == 128 * GB
    assert len(paper_limits(KINDS["ace"], dims, RS).buffers or ()) == 4


def test_wrong_endpoints():
    with pytest.raises(InputError, match="unknown endpoint 'acme' \\(did you mean 'ace'\\?\\)"):
        endpoint_kind("acme")
    instance = _instance(_torus(4, gb=(1,)), 1 << 10)
    with pytest.raises(ValueError, match="kind must have a memory bandwidth, not"):
        evaluate_endpoint(instance, KINDS["ideal"])
    other = Instance(instance.collective, instance.topology, (Algorithm.DIRECT,))
    with pytest.raises(InputError, match="--algorithm must be left out with --endpoint ace"):
        evaluate_endpoint(other, KINDS["ace"])
