"""The checker accepts what the planner makes, for all sizes, groups and orders, and no more."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sw_model.collective.check import PlanError, check_plan
from sw_model.collective.interpret import Source
from sw_model.collective.plan import Collective, Operation, Piece, RankSteps
from sw_model.collective.steps import load_pieces, rank_steps, store_pieces
from sw_model.platform import EngineParameters, Partition, Platform
from sw_model.schedule.limits import Limits, PlannerState
from sw_model.schedule.phases import Turn
from sw_model.schedule.planner import plan_collective
from tests.plan_cases import AnyOrder, requests, ring_by_fred, topologies

AR, RS, AG = Operation.ALL_REDUCE, Operation.REDUCE_SCATTER, Operation.ALL_GATHER
many = settings(
    max_examples=120, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)


@many
@given(data=st.data())
def test_any_order_on_any_topology(data):
    topology = data.draw(topologies())
    quantum = data.draw(st.sampled_from((1, 1, 8)))
    collective = data.draw(requests(topology, quantum))
    scheduler = AnyOrder(data.draw(st.integers(0, 999)), data.draw(st.sampled_from(list(Turn))))
    plan = plan_collective(
        collective,
        topology,
        scheduler=scheduler,
        quantum=quantum,
        chunks=data.draw(st.integers(1, 5)),
    )
    check_plan(plan)


@many
@given(data=st.data())
def test_schedulers_under_limits(data):
    topology = data.draw(topologies(most=16, dims=3))
    sizes = [data.draw(st.integers(24, 64)) for _ in range(6)]
    limits = Limits(
        contexts=data.draw(st.integers(1, 3)),
        buffers=tuple((data.draw(st.integers(1, 3)), 2 * size) for size in sizes),
    )
    state = PlannerState()
    for _ in range(2):
        plan = plan_collective(
            data.draw(requests(topology)),
            topology,
            scheduler=data.draw(st.sampled_from(("baseline", "themis"))),
            intra=data.draw(st.sampled_from(("fifo", "scf"))),
            chunks=data.draw(st.integers(1, 6)),
            limits=limits,
            state=state,
        )
        check_plan(plan, limits=limits)


@pytest.mark.parametrize("operation", [AR, RS, AG])
def test_the_first_platform(operation):
    engine = EngineParameters(
        partitions=(Partition(4, 64), *(Partition(4, 32),) * 2, Partition(4, 64))
    )
    platform = Platform.from_topology(ring_by_fred(), engine=engine)
    plan = plan_collective(Collective(operation, 16 * 8 * 40, dims=(0, 1)), platform)
    check_plan(plan, limits=Limits.of(platform))


# Mutations: each breaks one thing that must be seen.


def _plan(operation: Operation = AR, **options):
    collective = Collective(operation, 16 * 8 * 4, dims=(0, 1))
    return plan_collective(collective, ring_by_fred(), chunks=4, **options)


def _mutated(change, where=(1, 0, 5)):
    """Steps with ``change`` applied to one rank's steps of one phase of one chunk."""

    def steps(plan, chunk, phase, rank):
        right = rank_steps(plan, chunk, phase, rank)
        return change(right) if (chunk, phase, rank) == where else right

    return Source(steps=steps)


def _send(index, **changes):
    def change(steps: RankSteps) -> RankSteps:
        sends = list(steps.sends)
        sends[index] = dataclasses.replace(sends[index], **changes)
        return RankSteps(tuple(sends), steps.receives)

    return change


def _receive(index, **changes):
    def change(steps: RankSteps) -> RankSteps:
        receives = list(steps.receives)
        receives[index] = dataclasses.replace(receives[index], **changes)
        return RankSteps(steps.sends, tuple(receives))

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_send(0, offset=8), "rank 6, receive step 0: combines different parts of the payload"),
        (_send(0, offset=32), "combines different parts of the payload"),
        (_send(1, after=None), "send step 1: a later receive step writes to its range"),
        (_send(1, after=0, offset=0), "sends nothing of what receive step 0 writes"),
        (_send(1, after=2), "sends nothing of what receive step 2 writes"),
        (_send(1, after=7), "there is no receive step 7 to follow"),
        (_send(0, length=4), "receive step 0: 4 quanta arrive where 32 are expected"),
        (_send(0, offset=300), "rank 5, send step 0: quanta 300 to 332 of a buffer of 128"),
        (_send(0, step=1), "the message is for receive step 1"),
        (_send(0, peer=3), "send step 0: a ring has no link from coordinate 1 to 3"),
        (_send(0, peer=1), "send step 0: a ring has no link from coordinate 1 to 1"),
        (_send(0, copy_offset=0), "a later receive step writes to its range"),
        (_receive(0, peer=3), "receive step 0: a ring has no link from coordinate 3 to 1"),
        (_send(0, peer=None), "send step 0: names neither a peer nor a flow"),
        (_receive(0, peer=None), "receive step 0: a ring has no link from the switch to 1"),
        (_receive(0, reduce=False), r"rank 0: element 224 has contributions of \[0, 1, 2, 3, 4, 6"),
        (_receive(0, offset=0), "combines different parts of the payload"),
        (_receive(0, write_offset=0), "send step 0: a later receive step writes to its range"),
        (_receive(2, into_destination=False), "a later receive step writes to its range"),
        (_receive(2, write_offset=8), "was never written"),
        (lambda s: RankSteps(s.sends[:-1], s.receives), "never gets a message from coordinate 1"),
        (lambda s: RankSteps(s.sends, s.receives[:-1]), "no receive step takes a message from 0"),
        (lambda s: RankSteps((s.sends[1], s.sends[0], s.sends[2]), s.receives), "is for receive"),
        (
            lambda s: RankSteps(s.sends, (s.receives[1], s.receives[0], s.receives[2])),
            "sends nothing of what receive step 0 writes",
        ),
    ],
)
def test_a_wrong_step_is_caught(change, message):
    plan = _plan(scheduler="baseline")
    assert plan.chunks[1].phases[0].operation is RS
    check_plan(plan)
    with pytest.raises(PlanError, match=message):
        check_plan(plan, source=_mutated(change))


def test_swapped_shards_on_all_ranks_are_caught():
    """Consistent between peers, and still not what was asked for: block i lands at the next."""
    plan = _plan(RS, scheduler="baseline")

    def steps(plan, chunk, phase, rank):
        size = plan.topology.dims[plan.chunks[chunk].phases[phase].dim].size
        peers = plan.topology.peers(rank, plan.chunks[chunk].phases[phase].dim)
        if phase != 0:
            return rank_steps(plan, chunk, phase, rank)
        there = rank_steps(plan, chunk, phase, peers[(peers.index(rank) + 1) % size])
        return RankSteps(
            tuple(dataclasses.replace(s, peer=(s.peer - 1) % size) for s in there.sends),
            tuple(dataclasses.replace(r, peer=(r.peer - 1) % size) for r in there.receives),
        )

    with pytest.raises(PlanError, match="gets another part of the payload"):
        check_plan(plan, source=Source(steps=steps))


def test_a_missing_in_network_contribution_is_caught():
    plan = _plan(scheduler="baseline")

    def change(steps: RankSteps) -> RankSteps:
        (send,) = steps.sends
        others = tuple(i for i in send.flow[0] if i != 3)
        flow = (others, send.flow[1])
        return RankSteps((dataclasses.replace(send, flow=flow),), steps.receives)

    def steps(plan, chunk, phase, rank):
        right = rank_steps(plan, chunk, phase, rank)
        if phase != 1:
            return right
        if plan.topology.coordinates(rank)[1] == 3:
            return RankSteps((), right.receives)
        return change(right)

    with pytest.raises(PlanError, match=r"has contributions of \[0, .*\] of the group, not of"):
        check_plan(plan, source=Source(steps=steps))


@pytest.mark.parametrize(
    ("loads", "stores", "message"),
    [
        (lambda p: (Piece(p[0].memory + 64, p[0].elements, 0),), None, "combines different"),
        (lambda p: (Piece(-1, 4, 0),), None, "elements -1 to 3 of a region of 512 elements"),
        (lambda p: (Piece(p[0].memory, p[0].elements, 1),), None, "was never written"),
        (None, lambda p: (Piece(p[0].memory + 64, 64, 0),), "gets another part"),
        (None, lambda p: (), "is never written"),
        (None, lambda p: p + p, "is written twice"),
        (None, lambda p: (Piece(p[0].memory, p[0].elements, 500),), "of a buffer of"),
    ],
)
def test_a_wrong_piece_is_caught(loads, stores, message):
    plan = _plan()

    def load(plan, chunk, rank):
        right = load_pieces(plan, chunk, rank)
        return loads(right) if loads and (chunk, rank) == (1, 5) else right

    def store(plan, chunk, rank):
        right = store_pieces(plan, chunk, rank)
        return stores(right) if stores and (chunk, rank) == (1, 5) else right

    with pytest.raises(PlanError, match=message):
        check_plan(plan, source=Source(loads=load, stores=store))


def _slots(plan, kind, index, **changes):
    """The plan with one slot changed."""
    if kind == "op":
        dim, number = index
        ops = [list(o) for o in plan.ops]
        ops[dim][number] = dataclasses.replace(ops[dim][number], **changes)
        return dataclasses.replace(plan, ops=tuple(map(tuple, ops)))
    slots = list(getattr(plan, kind))
    slots[index] = dataclasses.replace(slots[index], **changes)
    return dataclasses.replace(plan, **{kind: tuple(slots)})


def _limited():
    limits = Limits(contexts=2, buffers=((2, 256), (2, 64), (2, 64), (2, 256)))
    plan = plan_collective(
        Collective(AR, 8 * 128, dims=(0, 1)),
        ring_by_fred(),
        limits=limits,
        scheduler="baseline",
        chunks=8,
    )
    check_plan(plan, limits=limits)
    assert len(plan.chunks) == 8
    return plan, limits


def test_wrong_epochs_and_buffers_are_caught():
    plan, limits = _limited()
    third = plan.loads[3].destination
    later = dataclasses.replace(third, epoch=third.epoch + 1)
    with pytest.raises(PlanError, match=r"load 3: buffer . of partition 0, .* must be taken in"):
        check_plan(_slots(plan, "loads", 3, destination=later))
    other = dataclasses.replace(third, buffer=1 - third.buffer)
    with pytest.raises(PlanError, match=r"is still in use|must be taken in epoch"):
        check_plan(_slots(plan, "loads", 3, destination=other))
    source = plan.ops[1][2].source
    wrong = dataclasses.replace(source, epoch=source.epoch + 1)
    with pytest.raises(PlanError, match=r"op 2 of dim 2: chunk . is at position 1 in buffer"):
        check_plan(_slots(plan, "op", (1, 2), source=wrong))
    with pytest.raises(PlanError, match=r"chunk 0 has no phase 1 on this dim"):
        check_plan(_slots(plan, "op", (0, 0), phase=1))
    with pytest.raises(PlanError, match=r"store 1: chunk . is not in the engine"):
        check_plan(_slots(plan, "stores", 1, chunk=plan.stores[0].chunk))
    with pytest.raises(PlanError, match="load 1: chunk 0 is loaded for the second time"):
        check_plan(_slots(plan, "loads", 1, chunk=0))
    small = dataclasses.replace(limits, buffers=((2, 256), (2, 32), (2, 64), (2, 256)))
    with pytest.raises(PlanError, match="position 1: 32 quanta in a buffer of 16"):
        check_plan(plan, limits=small)
    few = dataclasses.replace(limits, buffers=limits.buffers[:2])
    with pytest.raises(PlanError, match=r"in a buffer of|has no partition"):
        check_plan(plan, limits=few)


def test_a_wrong_sequence_is_caught():
    plan, _ = _limited()
    sequence = list(plan.sequence)
    first, second = (i for i, slot in enumerate(sequence) if slot in (("load", 0), ("load", 1)))
    sequence[first], sequence[second] = sequence[second], sequence[first]
    with pytest.raises(PlanError, match="comes out of turn"):
        check_plan(dataclasses.replace(plan, sequence=tuple(sequence)))
    with pytest.raises(PlanError, match="are missing in the sequence"):
        check_plan(dataclasses.replace(plan, sequence=plan.sequence[:-1]))
    store = plan.sequence.index(("store", 0))
    early = (plan.sequence[store], *plan.sequence[:store], *plan.sequence[store + 1 :])
    with pytest.raises(PlanError, match=r"store 0: chunk . is not in the engine"):
        check_plan(dataclasses.replace(plan, sequence=early))
    lost = dataclasses.replace(
        plan,
        stores=plan.stores[:-1],
        sequence=tuple(s for s in plan.sequence if s != ("store", len(plan.stores) - 1)),
    )
    with pytest.raises(PlanError, match=r"chunk \d+ is never stored"):
        check_plan(lost)
