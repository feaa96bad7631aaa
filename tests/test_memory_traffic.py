"""Main-memory traffic with and without an engine: exact counts, and the steady-state table."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sw_model.collective.memory_traffic import (
    MemoryTraffic,
    baseline_phase,
    baseline_traffic,
    engine_traffic,
    steady_reads,
)
from sw_model.collective.plan import Algorithm, Collective, Operation, Phase
from sw_model.collective.steps import rank_steps
from sw_model.collective.traffic import phase_traffic
from sw_model.errors import InputError
from sw_model.schedule.baseline import Baseline
from sw_model.schedule.planner import plan_collective
from sw_model.topology import DimKind, Topology
from tests.plan_cases import dim

AR, RS, AG, A2A = (
    Operation.ALL_REDUCE,
    Operation.REDUCE_SCATTER,
    Operation.ALL_GATHER,
    Operation.ALL_TO_ALL,
)
BROADCAST, REDUCE = Operation.BROADCAST, Operation.REDUCE
RING, DIRECT = Algorithm.RING, Algorithm.DIRECT
BOTH, TREE = Algorithm.BIDIRECTIONAL_RING, Algorithm.DOUBLE_BINARY_TREE


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_one_ring(n):
    payload = 840
    scatter = baseline_phase(RS, RING, n, payload)
    assert scatter == MemoryTraffic(Fraction(payload, n) * (2 * n - 1), Fraction(payload))
    both = baseline_phase(AR, RING, n, payload)
    assert both.reads == Fraction(payload * (3 * n - 2), n)
    assert both == scatter + baseline_phase(AG, RING, n, payload)
    assert baseline_phase(RS, Algorithm.DIRECT, n, payload) == scatter


def _played(operation: Operation, algorithm: Algorithm, n: int, elements: int) -> MemoryTraffic:
    """Count the steps of every rank: a message that comes is written, one that goes is read. Sums
    in a row read all of their operands at once; a partial sum goes straight to the port, once."""
    topology = Topology((dim(DimKind.SWITCH, n),))
    asked = Collective(operation, elements, dims=(0,), root=n // 2 if operation.rooted else 0)
    scheduler = Baseline(algorithms=(algorithm,))
    plan = plan_collective(asked, topology, scheduler=scheduler, chunks=1)
    most = [0, 0]
    for rank in range(n):
        phases = [rank_steps(plan, 0, k, rank) for k in range(len(plan.chunks[0].phases))]
        reads = writes = 0
        for steps in phases:
            straight = set()
            for send in steps.sends:
                if send.peer == rank:
                    continue
                made = None if send.after is None else steps.receives[send.after]
                partial = made is not None and made.reduce and not made.into_destination
                if partial and made.length == send.length and send.after not in straight:
                    straight.add(send.after)
                else:
                    reads += send.length
            for number, receive in enumerate(steps.receives):
                if receive.peer == rank:
                    continue
                writes += receive.length
                if not receive.reduce:
                    continue
                later = steps.receives[number + 1 :]
                goes_on = any(r.reduce and r.offset == receive.offset for r in later)
                before = steps.receives[:number]
                begun = any(r.reduce and r.offset == receive.offset for r in before)
                reads += receive.length * (1 if begun else 2)
                if not goes_on and number not in straight:
                    writes += receive.length
        most = [max(most[0], reads), max(most[1], writes)]
    return MemoryTraffic(Fraction(most[0]), Fraction(most[1]))


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("algorithm", [RING, DIRECT, BOTH, TREE])
@pytest.mark.parametrize("operation", [RS, AG, AR, A2A, BROADCAST, REDUCE])
def test_every_algorithm_by_playing_it(operation, algorithm, n):
    if algorithm is TREE and operation not in (AR, BROADCAST, REDUCE):
        return
    if algorithm is BOTH and operation in (RS, AR) and n % 2 == 0:
        return  # a shard and the half of it that has come go on as one message: see the ring
    elements = 4 * n * (n - 1)
    payload = elements * (n if operation is AG else 1)
    assert _played(operation, algorithm, n, elements) == baseline_phase(
        operation, algorithm, n, payload
    )


def test_what_is_not_counted():
    with pytest.raises(InputError) as error:
        baseline_phase(BROADCAST, Algorithm.HALVING_DOUBLING, 4, 64)
    assert str(error.value) == (
        "the memory traffic of a broadcast by halving-doubling is not counted: "
        "the endpoint must be ideal"
    )


@pytest.mark.parametrize("n", [2, 4, 8, 16])
def test_halving_by_playing_it(n):
    """Count the reads and writes of the recursive halving step by step."""
    payload = 64 * n
    reads = writes = 0
    resident, fresh = payload, False  # fresh: what is sent has just been computed
    while resident > payload // n:
        half = resident // 2
        if not fresh:
            reads += half
        writes += half  # the message that comes in
        reads += 2 * half  # and its reduction
        resident, fresh = half, True
        # Of the result half goes on at once; the last stays whole.
        writes += half // 2 if half > payload // n else half
    assert baseline_phase(RS, Algorithm.HALVING_DOUBLING, n, payload) == MemoryTraffic(
        Fraction(reads), Fraction(writes)
    )


def test_in_the_network_and_all_to_all():
    kind = Algorithm.IN_NETWORK
    assert baseline_phase(AR, kind, 4, 64) == MemoryTraffic(Fraction(64), Fraction(64))
    assert baseline_phase(RS, kind, 4, 64) == MemoryTraffic(Fraction(64), Fraction(16))
    assert baseline_phase(AG, kind, 4, 64) == MemoryTraffic(Fraction(16), Fraction(64))
    assert baseline_phase(A2A, RING, 4, 64).reads == 96
    assert baseline_phase(A2A, Algorithm.DIRECT, 4, 64).reads == 48
    assert baseline_phase(AR, RING, 1, 64) == MemoryTraffic(Fraction(0), Fraction(0))


def _torus(local: int, vertical: int, horizontal: int) -> tuple[Topology, list[Phase]]:
    sizes = (local, vertical, horizontal)
    phases = [Phase(RS, 0, RING), Phase(AR, 1, RING), Phase(AR, 2, RING), Phase(AG, 0, RING)]
    return Topology(tuple(dim(DimKind.RING, size) for size in sizes)), phases


@pytest.mark.parametrize(
    ("torus", "sent", "reads", "ratio"),
    [
        ((4, 2, 2), 2.0, 3.0, 3.00),
        ((4, 4, 2), 2.125, 3.1875, 3.19),
        ((4, 4, 4), 2.25, 3.375, 3.38),
        ((4, 8, 4), 2.3125, 3.4688, 3.47),
    ],
)
def test_steady_state_table(torus, sent, reads, ratio):
    topology, phases = _torus(*torus)
    whole = [Fraction(1), Fraction(1, torus[0]), Fraction(1, torus[0]), Fraction(1)]
    moved = sum(
        phase_traffic(p.operation, RING, topology.dims[p.dim].size, share).sent
        for p, share in zip(phases, whole, strict=True)
    )
    assert moved == sent
    assert float(steady_reads(moved)) == pytest.approx(reads, abs=1e-4)
    engine = engine_traffic(AR, topology.npus, 1)
    assert engine == MemoryTraffic(Fraction(1), Fraction(1))
    assert float(steady_reads(moved) / engine.reads) == pytest.approx(ratio, abs=5e-3)
    # The exact count is more: a ring's first message is read for nothing but to be sent.
    exact = baseline_traffic(phases, topology, 1)
    starts = Fraction(1, torus[0]) + sum(Fraction(1, torus[0] * n) for n in torus[1:])
    assert exact.reads == steady_reads(moved) + starts


def test_results():
    assert engine_traffic(RS, 8, 64) == MemoryTraffic(Fraction(64), Fraction(8))
    assert engine_traffic(AG, 8, 64) == MemoryTraffic(Fraction(64), Fraction(512))
    assert engine_traffic(A2A, 8, 64) == MemoryTraffic(Fraction(64), Fraction(64))
