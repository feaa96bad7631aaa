"""Chunks, orders, buffers and epochs that the planner writes down."""

from __future__ import annotations

import time
from fractions import Fraction
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sw_model.collective.check import check_plan
from sw_model.collective.plan import Collective, Operation
from sw_model.collective.steps import resident
from sw_model.errors import InputError
from sw_model.platform import EngineParameters, Partition, Platform
from sw_model.schedule.chunking import Payload, largest_extent
from sw_model.schedule.execution import Intra, Job, Stage, execute
from sw_model.schedule.limits import Limits, PlannerState
from sw_model.schedule.native.library import library
from sw_model.schedule.planner import plan_collective
from sw_model.topology import DimKind, Topology
from tests.plan_cases import GB, AnyOrder, dim, ring_by_fred

AR, RS, AG = Operation.ALL_REDUCE, Operation.REDUCE_SCATTER, Operation.ALL_GATHER


def _platform(**engine) -> Platform:
    return Platform.from_topology(ring_by_fred(), engine=EngineParameters(**engine))


# Chunks.


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    elements=st.integers(0, 3000),
    chunks=st.integers(1, 9),
    limit=st.one_of(st.none(), st.integers(1, 90)),
    operation=st.sampled_from((AR, RS, AG)),
)
def test_cuts_cover_the_payload_in_equal_chunks(elements, chunks, limit, operation):
    payload = Payload(Collective(operation, elements, dims=(0, 1)), ring_by_fred(), 1)
    cuts = payload.cut(chunks, limit)
    assert [c.offset for c in cuts] == [sum(d.extent for d in cuts[:i]) for i in range(len(cuts))]
    assert sum(c.extent for c in cuts) == payload.extent
    assert len({c.extent for c in cuts[:-1]}) <= 1
    if limit is None:
        assert len(cuts) <= chunks
    else:
        assert all(c.extent <= limit for c in cuts)
    if operation is RS:
        assert sum(c.quanta for c in cuts) == elements
    if operation is AR and limit is None:
        assert all(c.extent % 16 == 0 for c in cuts[:-1])


def test_largest_extent_is_the_largest():
    sizes = (4, 4)
    phases = plan_collective(Collective(AR, 64, dims=(0, 1)), ring_by_fred()).chunks[0].phases
    rooms = (64, 5, 9, 64)  # 20 quanta leave 5 after the first reduce-scatter
    assert largest_extent(AR, phases, sizes, lambda p, last: rooms[p], 999) == 20
    assert largest_extent(AR, phases, sizes, lambda p, last: rooms[p], 7) == 7
    assert largest_extent(AR, phases, sizes, lambda p, last: None, 999) == 999
    assert largest_extent(AR, phases, sizes, lambda p, last: 0, 999) == 0


def test_chunks_fit_the_engine():
    plan = plan_collective(Collective(AR, 8 * 5000, dims=(0, 1)), _platform(), chunks=4)
    assert plan.quantum == 8
    assert max(c.quanta for c in plan.chunks) == 256
    assert len(plan.chunks) == 20
    assert plan.notes == ("20 chunks instead of 4: a chunk must fit into a buffer",)
    small = _platform(
        partitions=(Partition(2, 64), Partition(2, 8), Partition(2, 8), Partition(2, 64))
    )
    plan = plan_collective(Collective(AR, 8 * 500, dims=(0, 1)), small, chunks=1)
    assert max(c.quanta for c in plan.chunks) == 32  # a quarter fills 8 flits
    check_plan(plan, limits=Limits.of(small))


def test_fewer_elements_than_chunks_or_ranks():
    plan = plan_collective(Collective(AR, 5, dims=(0, 1)), ring_by_fred(), chunks=64)
    assert [c.quanta for c in plan.chunks] == [5]
    assert plan.notes == ("1 chunk instead of 64: there is no more to cut",)
    sizes = [resident(plan, 0, 1, rank) for rank in range(4)]
    assert sizes == [1, 1, 1, 2]
    scatter = plan_collective(Collective(RS, 5, dims=(0, 1)), ring_by_fred(), chunks=64)
    assert [c.quanta for c in scatter.chunks] == [5]
    assert sum(resident(scatter, 0, 2, rank) for rank in range(16)) == 5


def test_an_empty_collective_has_no_chunks_and_takes_no_time():
    for operation in (AR, RS, AG):
        plan = plan_collective(Collective(operation, 0, dims=(0, 1)), _platform())
        assert (plan.chunks, plan.loads, plan.stores, plan.sequence) == ((), (), (), ())
        assert plan.makespan_ps == 0
        assert plan.notes == ()


def test_a_group_of_one_copies():
    plan = plan_collective(Collective(AR, 100), ring_by_fred(), chunks=1)
    assert [c.phases for c in plan.chunks] == [()]
    assert plan.sequence == (("load", 0), ("store", 0))
    assert plan.loads[0].destination == plan.stores[0].source
    check_plan(plan)


# Orders and buffers.


def test_positions_and_partitions():
    platform = _platform()
    plan = plan_collective(Collective(AR, 8 * 1024, dims=(0, 1)), platform)
    uses = {
        (slot.phase, slot.source.partition, slot.destination.partition)
        for ops in plan.ops
        for slot in ops
    }
    assert uses == {(0, 0, 1), (1, 1, 2), (2, 2, 3)}
    assert {slot.source.partition for slot in plan.stores} == {3}
    one = plan_collective(Collective(AR, 8 * 1024, dims=(1,)), platform)
    assert {(s.source.partition, s.destination.partition) for s in one.ops[1]} == {(0, 3)}
    assert one.ops[0] == ()


def test_buffers_rotate_from_one_collective_to_the_next():
    limits = Limits(contexts=2, buffers=((3, 1024), (3, 1024), (3, 1024), (3, 1024)))
    state = PlannerState()
    request = Collective(AR, 64, dims=(0, 1))
    plans = [
        plan_collective(request, ring_by_fred(), chunks=4, limits=limits, state=state)
        for _ in range(3)
    ]
    seen: dict[tuple, int] = {}
    for plan in plans:
        check_plan(plan, limits=limits)
        for load in plan.loads:
            use = load.destination
            assert use.epoch == seen.get((use.partition, use.buffer), 0)
            seen[use.partition, use.buffer] = use.epoch + 1
    assert sorted(seen) == [(0, 0), (0, 1), (0, 2)]
    assert sum(seen.values()) == 12
    assert {p: sum(counts) for p, counts in state.uses.items()} == dict.fromkeys(range(4), 12)
    assert all(sorted(free) == [0, 1, 2] for free in state.free.values())
    # A state stays what it was where a plan is refused.
    before = state.copy()
    with pytest.raises(InputError):
        plan_collective(request, ring_by_fred(), chunks=0, limits=limits, state=state)
    assert (before.free, before.uses) == (state.free, state.uses)


def test_a_plan_is_deterministic():
    for operation in (AR, RS, AG):
        request = Collective(operation, 64 * 16, dims=(0, 1))
        assert plan_collective(request, _platform()) == plan_collective(request, _platform())


def _jobs(*stages):
    return [Job(tuple(s), tuple(range(len(s) + 1)), 0, 0) for s in stages]


def test_fifo_and_scf():
    """Three ops on one dim of 3, 2 and 1: in order of arrival, or smallest first."""
    jobs = _jobs([Stage(0, 3, 0)], [Stage(0, 2, 0)], [Stage(0, 1, 0)])
    for intra, order in ((Intra.FIFO, [0, 1, 2]), (Intra.SCF, [2, 1, 0])):
        run = execute(
            jobs, dims=1, contexts=None, buffers=[None] * 2, intra=intra, state=PlannerState()
        )
        assert [op.chunk for op in run.ops[0]] == order
        assert run.end == 6


def test_latency_overlaps_the_next_op_unless_contexts_run_out():
    jobs = _jobs(*[[Stage(0, 2, 10)]] * 3)
    for contexts, end in ((None, 16), (3, 16), (2, 24), (1, 36)):
        run = execute(
            jobs,
            dims=1,
            contexts=contexts,
            buffers=[None] * 2,
            intra=Intra.FIFO,
            state=PlannerState(),
        )
        assert run.end == end


def test_buffers_hold_back_admission():
    jobs = [Job((Stage(0, 1, 0),), (0, 1), 5, 7)] * 3
    for buffers, end in (([3, 3], 5 + 1 + 7 * 3), ([1, 3], 27), ([1, 1], 29)):
        run = execute(
            jobs, dims=1, contexts=4, buffers=buffers, intra=Intra.FIFO, state=PlannerState()
        )
        assert run.end == end, buffers


def test_an_op_without_room_lets_others_pass():
    """Chunk 1's op arrives later, and goes where there is room: chunk 0's must not stop it."""
    jobs = [
        Job((Stage(0, 1, 0), Stage(1, 50, 0), Stage(0, 1, 0)), (0, 1, 2, 3), 0, 1),
        Job((Stage(0, 1, 0), Stage(0, 1, 0), Stage(1, 1, 0)), (0, 1, 2, 3), 0, 1),
        Job((Stage(0, 1, 0), Stage(0, 1, 0), Stage(1, 1, 0)), (0, 1, 2, 3), 0, 1),
    ]
    run = execute(
        jobs, dims=2, contexts=1, buffers=[3, 1, 1, 1], intra=Intra.FIFO, state=PlannerState()
    )
    assert [(op.chunk, op.phase) for op in run.ops[0]] == [
        (0, 0), (1, 0), (0, 2), (1, 1), (2, 0), (2, 1),
    ]  # fmt: skip


def test_the_makespan_is_exact():
    """One chunk of 16 bytes over ring 4 at 20 GB/s: 3/4 of it each way, 3 steps of 100 ns twice."""
    plan = plan_collective(Collective(AR, 8, dims=(0,)), ring_by_fred(), chunks=1)
    assert plan.makespan_ps == 2 * (12 * 1000 // 20) + 6 * 100_000
    serial = plan_collective(
        Collective(AR, 16, dims=(0,)), ring_by_fred(), chunks=2, serial_latency=True
    )
    pipelined = plan_collective(Collective(AR, 16, dims=(0,)), ring_by_fred(), chunks=2)
    assert serial.makespan_ps - pipelined.makespan_ps == 600_000


# Cost.


def test_planning_a_training_iteration_is_quick():
    """54 collectives, the largest of 4.7 MB, in chunks of 4 KiB: 12,000 chunks."""
    platform, state = _platform(), PlannerState()
    begin = time.process_time()
    chunks = 0
    for layer in range(54):
        elements = 2_359_296 if layer % 6 == 0 else 100_000
        plan = plan_collective(Collective(AR, elements, dims=(0, 1)), platform, state=state)
        chunks += len(plan.chunks)
    assert chunks > 12_000
    assert time.process_time() - begin < 4


def test_cost_does_not_depend_on_the_number_of_ranks():
    times = {}
    for sizes in ((4, 4, 8, 8), (32, 32, 32, 32)):
        topology = Topology(
            tuple(dim(DimKind.SWITCH, p, 200 * GB >> i) for i, p in enumerate(sizes))
        )
        begin = time.process_time()
        for operation in (AR, RS, AG):
            plan = plan_collective(Collective(operation, 1 << 25, dims=(0, 1, 2, 3)), topology)
            assert len(plan.chunks) > 8
        times[prod(sizes)] = time.process_time() - begin
    assert max(times.values()) < 1


def test_latency_and_memory_of_a_platform():
    limits = Limits.of(_platform())
    assert limits.contexts == 4
    assert limits.buffers[0] == (8, 4096)
    assert limits.memory_bandwidth == Fraction(20 * GB)
    assert (limits.read_latency_ps, limits.write_latency_ps) == (51_200, 25_600)


# Bad input.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scheduler": "temis"}, "unknown scheduler 'temis' (did you mean 'themis'?)"),
        ({"intra": "lifo"}, "unknown intra-dim order 'lifo' (did you mean 'fifo'?)"),
        ({"chunks": 0}, "chunks must be at least 1, not 0"),
        ({"chunks": 2.5}, "chunks must be at least 1, not 2.5"),
        ({"quantum": 0}, "quantum must be at least 1 element, not 0"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(InputError) as error:
        plan_collective(Collective(AR, 64, dims=(0, 1)), ring_by_fred(), **options)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("collective", "message"),
    [
        (
            Collective(AR, 64, dims=(0, 2)),
            "dims must be among the 2 dims of the topology, not (0, 2)",
        ),
    ],
)
def test_bad_collectives(collective, message):
    with pytest.raises(InputError) as error:
        plan_collective(collective, _platform())
    assert str(error.value) == message


def test_engines_that_are_too_small():
    few = _platform(partitions=(Partition(8, 64), Partition(8, 64)))
    with pytest.raises(InputError) as error:
        plan_collective(Collective(AR, 64, dims=(0, 1)), few)
    assert str(error.value) == ("a chunk of 3 phases needs 4 partitions, and the engine has 2")
    tiny = _platform(
        partitions=(Partition(8, 8), Partition(8, 64), Partition(8, 64), Partition(8, 8))
    )
    with pytest.raises(InputError) as error:
        plan_collective(Collective(RS, 16 * 8, dims=(0, 1)), tiny)
    assert str(error.value) == (
        "the engine's buffers are too small for one quantum of 16 bytes per shard of a "
        "reduce-scatter over 16 ranks"
    )


def test_a_scheduler_of_ones_own():
    plan = plan_collective(
        Collective(AR, 64, dims=(0, 1)), ring_by_fred(), scheduler=AnyOrder(1), chunks=4
    )
    check_plan(plan)


@pytest.mark.parametrize("operation", [AR, RS, AG])
def test_balanced_plans(operation):
    """Checked like any other plan; under the engine's limits never slower than the others."""
    platform = _platform()
    collective = Collective(operation, 1 << 12, dims=(0, 1))
    spans = {}
    for scheduler in ("baseline", "themis", "balanced"):
        plan = plan_collective(collective, platform, scheduler=scheduler, chunks=6)
        check_plan(plan, limits=Limits.of(platform))
        spans[scheduler] = plan.makespan_ps
    assert spans["balanced"] <= min(spans["baseline"], spans["themis"])


@pytest.mark.parametrize("scheduler", ["baseline", "themis", "balanced"])
@pytest.mark.parametrize("kind", [DimKind.RING, DimKind.FRED])
def test_a_send_is_planned_by_every_scheduler(scheduler, kind):
    platform = Platform.from_topology(Topology((dim(kind, 4, 10 * GB), dim(kind, 2, 10 * GB))))
    collective = Collective(Operation.SEND, 5000, dims=(0, 1), root=6, target=3)
    plan = plan_collective(collective, platform, scheduler=scheduler, chunks=4)
    check_plan(plan, limits=Limits.of(platform))


def test_balanced_keeps_to_the_partitions():
    """Orders that do not mirror each other may have a phase more than the engine has room for."""
    platform = _platform()
    partitions = len(platform.engine.partitions)
    collective = Collective(AR, 1 << 15, dims=(0, 1))
    plan = plan_collective(collective, platform, scheduler="balanced", chunks=16)
    assert max(len(chunk.phases) for chunk in plan.chunks) < partitions
    check_plan(plan, limits=Limits.of(platform))


def test_balanced_cuts_unequal_chunks():
    """Without limits three chunks of a 4 x 4 at 2 : 1 do better than equal ones."""
    topology = Topology((dim(DimKind.SWITCH, 4, 2 * GB), dim(DimKind.SWITCH, 4, GB)))
    collective = Collective(AR, 1 << 20, dims=(0, 1))
    plan = plan_collective(collective, topology, scheduler="balanced", chunks=3)
    assert len(plan.chunks) == 3
    assert sum(chunk.extent for chunk in plan.chunks) == 1 << 20
    equal = plan_collective(collective, topology, scheduler="themis", chunks=3)
    assert plan.makespan_ps < equal.makespan_ps
    if library() is not None:
        assert len({chunk.extent for chunk in plan.chunks}) > 1
