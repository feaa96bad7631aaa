"""Steps, sizes and memory pieces of single chunks."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sw_model.collective.geometry import Blocks, floor_bounds
from sw_model.collective.in_network import in_network_steps
from sw_model.collective.plan import (
    Algorithm,
    Collective,
    Operation,
    Piece,
    ReceiveStep,
    SendStep,
)
from sw_model.collective.ring import ring_steps
from sw_model.collective.steps import load_pieces, rank_steps, resident, store_pieces
from sw_model.collective.traffic import phase_traffic
from sw_model.schedule.planner import plan_collective
from sw_model.topology import Dim, DimKind, Topology
from tests.plan_cases import ring_by_fred

AR, RS, AG = Operation.ALL_REDUCE, Operation.REDUCE_SCATTER, Operation.ALL_GATHER


@pytest.mark.parametrize("coordinate", range(4))
def test_ring_reduce_scatter_follows_the_formula(coordinate):
    i, shard = coordinate, 3
    steps = ring_steps(RS, i, floor_bounds(12, 4))
    for number, send in enumerate(steps.sends):
        assert send.offset == (i - 1 - number) % 4 * shard
        assert send.after == (None if number == 0 else number - 1)
        assert (send.peer, send.step, send.length) == ((i + 1) % 4, number, shard)
        assert not send.from_destination
        assert send.copy_offset is None
    for number, receive in enumerate(steps.receives):
        assert receive.reduce
        assert receive.offset == (i - 2 - number) % 4 * shard
        assert receive.into_destination == (number == 2)
        assert receive.write_offset == (0 if number == 2 else receive.offset)
        assert receive.peer == (i - 1) % 4
    assert steps.receives[-1].offset == i * shard
    assert (len(steps.sends), len(steps.receives)) == (3, 3)


@pytest.mark.parametrize("coordinate", range(4))
def test_ring_all_gather_follows_the_formula(coordinate):
    i = coordinate
    bounds = (0, 2, 5, 6, 10)
    steps = ring_steps(AG, i, bounds)
    own = steps.sends[0]
    assert (own.offset, own.copy_offset, own.after) == (0, bounds[i], None)
    assert not own.from_destination
    for number, send in enumerate(steps.sends[1:], start=1):
        assert send.from_destination
        assert (send.offset, send.after) == (bounds[(i - number) % 4], number - 1)
    for number, receive in enumerate(steps.receives):
        shard = (i - 1 - number) % 4
        assert receive == ReceiveStep(
            peer=(i - 1) % 4,
            reduce=False,
            into_destination=True,
            offset=0,
            write_offset=bounds[shard],
            length=bounds[shard + 1] - bounds[shard],
        )


def test_ring_all_reduce_is_one_after_the_other():
    steps = ring_steps(AR, 1, floor_bounds(12, 4))
    assert [s.offset for s in steps.sends] == [0, 9, 6, 3, 0, 9]
    assert [s.after for s in steps.sends] == [None, 0, 1, 2, 3, 4]
    assert [s.from_destination for s in steps.sends] == [False] * 3 + [True] * 3
    assert [r.offset for r in steps.receives[:3]] == [9, 6, 3]
    assert [r.write_offset for r in steps.receives] == [9, 6, 3, 0, 9, 6]
    assert [r.reduce for r in steps.receives] == [True] * 3 + [False] * 3
    assert [r.into_destination for r in steps.receives] == [False, False] + [True] * 4


def test_an_empty_shard_is_neither_sent_nor_received():
    # Shards of 2 quanta over 4: 0, 1, 0, 1.
    for operation, messages in ((RS, 3), (AG, 3), (AR, 6)):
        rings = [ring_steps(operation, i, floor_bounds(2, 4)) for i in range(4)]
        for i, steps in enumerate(rings):
            assert all(s.length for s in (*steps.sends, *steps.receives))
            after = rings[(i + 1) % 4].receives
            assert [(s.step, s.length) for s in steps.sends] == [
                (number, r.length) for number, r in enumerate(after)
            ]
        assert sum(len(steps.sends) for steps in rings) == 2 * messages
    assert ring_steps(AR, 0, (0, 0, 0)).sends == ()


def test_in_network_steps():
    everyone = (0, 1, 2)
    bounds = (0, 2, 2, 5)
    whole = in_network_steps(AR, 1, bounds)
    assert [(s.flow, s.length) for s in whole.sends] == [((everyone, everyone), 5)]
    assert [(r.write_offset, r.length) for r in whole.receives] == [(0, 5)]
    scatter = in_network_steps(RS, 2, bounds)
    assert [(s.flow, s.offset, s.length, s.step) for s in scatter.sends] == [
        ((everyone, (0,)), 0, 2, 0),
        ((everyone, (2,)), 2, 3, 0),
    ]
    assert [(r.write_offset, r.length) for r in scatter.receives] == [(0, 3)]
    assert in_network_steps(RS, 1, bounds).receives == ()
    gather = in_network_steps(AG, 2, bounds)
    assert [(s.flow, s.offset, s.length, s.step) for s in gather.sends] == [
        (((2,), everyone), 0, 3, 1)
    ]
    assert [(r.write_offset, r.length) for r in gather.receives] == [(0, 2), (2, 3)]
    assert in_network_steps(AG, 1, bounds).sends == ()
    with pytest.raises(ValueError, match="must be AR, RS, AG or rooted, not 'all-to-all'"):
        in_network_steps(Operation.ALL_TO_ALL, 0, bounds)
    assert isinstance(whole.sends[0], SendStep)


def test_pieces_of_an_all_reduce_are_one_range():
    plan = plan_collective(Collective(AR, 1000, dims=(0, 1)), ring_by_fred(), chunks=2, quantum=8)
    assert [(c.offset, c.extent, c.quanta) for c in plan.chunks] == [(0, 64, 64), (64, 61, 61)]
    for rank in (0, 7):
        assert load_pieces(plan, 0, rank) == (Piece(0, 512, 0),)
        assert load_pieces(plan, 1, rank) == store_pieces(plan, 1, rank) == (Piece(512, 488, 0),)
    assert plan.padding_bytes == 0
    # 999 elements leave one element of the last quantum empty.
    odd = plan_collective(Collective(AR, 999, dims=(0, 1)), ring_by_fred(), chunks=2, quantum=8)
    assert store_pieces(odd, 1, 3) == (Piece(512, 487, 0),)
    assert odd.padding_bytes == 2


def test_pieces_of_a_reduce_scatter_follow_the_visited_dims():
    # 16 blocks of 4 elements, two chunks of 2: dim 1 is visited first, so it is outermost.
    plan = plan_collective(
        Collective(RS, 64, dims=(0, 1)), ring_by_fred(), scheduler="baseline", chunks=2
    )
    assert [p.dim for p in plan.chunks[0].phases] == [0, 1]
    blocks = [c0 + 4 * c1 for c0 in range(4) for c1 in range(4)]
    assert load_pieces(plan, 0, 5) == tuple(
        Piece(4 * block, 2, 2 * at) for at, block in enumerate(blocks)
    )
    assert load_pieces(plan, 1, 5)[1] == Piece(4 * 4 + 2, 2, 2)
    assert [store_pieces(plan, chunk, 5) for chunk in (0, 1)] == [
        (Piece(0, 2, 0),),
        (Piece(2, 2, 0),),
    ]
    assert [resident(plan, 0, position, 5) for position in range(3)] == [32, 8, 2]


def test_pieces_of_an_all_gather_mirror_them():
    plan = plan_collective(
        Collective(AG, 4, dims=(0, 1)), ring_by_fred(), scheduler="baseline", chunks=1
    )
    assert [p.dim for p in plan.chunks[0].phases] == [1, 0]
    assert load_pieces(plan, 0, 5) == (Piece(0, 4, 0),)
    blocks = [c0 + 4 * c1 for c0 in range(4) for c1 in range(4)]
    assert store_pieces(plan, 0, 5) == tuple(
        Piece(4 * block, 4, 4 * at) for at, block in enumerate(blocks)
    )
    assert [resident(plan, 0, position, 5) for position in range(3)] == [4, 16, 64]


def test_blocks_slice_without_a_loop():
    for elements in range(40):
        for group in (1, 3, 7, 16):
            blocks = Blocks(elements=elements, group=group)
            for offset in range(4):
                for extent in range(4):
                    for quantum in (1, 2, 3):
                        quanta = [-(-blocks.size(b) // quantum) for b in range(group)]
                        expected = sum(max(0, min(q, offset + extent) - offset) for q in quanta)
                        assert blocks.sliced(offset, extent, quantum) == expected


def test_elements_find_their_block():
    for elements in range(1, 40):
        for group in (1, 3, 7, 16):
            blocks = Blocks(elements=elements, group=group)
            found = [(b, i) for b in range(group) for i in range(blocks.size(b))]
            assert [blocks.at(element) for element in range(elements)] == found


def test_only_whole_quanta_are_one_piece():
    """Blocks of 12 elements in quanta of 8: 1.5 quanta each, so no load takes two of them; blocks
    of 16 are one load."""
    ring = Topology((Dim(DimKind.RING, 4, Fraction(10**9), 0),))
    for elements, pieces in ((48, 4), (64, 1)):
        plan = plan_collective(Collective(RS, elements, dims=(0,)), ring, chunks=1, quantum=8)
        loads = load_pieces(plan, 0, 1)
        assert len(loads) == pieces
        assert [piece.buffer for piece in loads] == [0, 2, 4, 6][:pieces]


def test_like_chunks_share_their_steps():
    plan = plan_collective(Collective(AR, 64 * 512, dims=(0, 1)), ring_by_fred(), chunks=4)
    assert plan.chunks[0].phases == plan.chunks[2].phases
    assert rank_steps(plan, 0, 0, 5) is rank_steps(plan, 2, 0, 5)


@pytest.mark.parametrize(
    ("operation", "algorithm", "size", "expected"),
    [
        (RS, Algorithm.RING, 4, (12, 12, 3)),
        (AR, Algorithm.RING, 4, (24, 24, 6)),
        (AG, Algorithm.DIRECT, 8, (14, 14, 1)),
        (RS, Algorithm.HALVING_DOUBLING, 8, (14, 14, 3)),
        (AR, Algorithm.HALVING_DOUBLING, 8, (28, 28, 6)),
        (Operation.ALL_TO_ALL, Algorithm.RING, 4, (12, 12, 3)),
        (AR, Algorithm.IN_NETWORK, 4, (16, 16, 1)),
        (RS, Algorithm.IN_NETWORK, 4, (16, 4, 1)),
        (AG, Algorithm.IN_NETWORK, 4, (4, 16, 1)),
        (AR, Algorithm.IN_NETWORK, 1, (0, 0, 0)),
    ],
)
def test_traffic(operation, algorithm, size, expected):
    traffic = phase_traffic(operation, algorithm, size, 16)
    assert (traffic.sent, traffic.received, traffic.steps) == expected
    assert traffic.port == max(expected[:2])


def test_bytes_sent_agree_with_the_traffic():
    """The steps move what the scheduler was told, on each dim and in both directions."""
    topology = ring_by_fred()
    for operation in (AR, RS, AG):
        elements = 16 if operation is AG else 256
        plan = plan_collective(Collective(operation, elements, dims=(0, 1)), topology, chunks=1)
        (chunk,) = plan.chunks
        for index, phase in enumerate(chunk.phases):
            position = index + (phase.operation is AG)
            whole = resident(plan, 0, position, 6)
            size = topology.dims[phase.dim].size
            traffic = phase_traffic(phase.operation, phase.algorithm, size, whole)
            steps = rank_steps(plan, 0, index, 6)
            assert sum(s.length for s in steps.sends) == traffic.sent
            assert sum(r.length for r in steps.receives) == traffic.received


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"elements": -1}, "elements must be a whole number of at least 0, not -1"),
        ({"elements": 1.5}, "elements must be a whole number of at least 0, not 1.5"),
        ({"data_type": "fp8"}, "data_type must be one of fp16, bf16, fp32, int32, not 'fp8'"),
        ({"operator": "avg"}, "operator must be one of sum, max, min, not 'avg'"),
        ({"traffic_class": "tp"}, "traffic_class must be one of mp, pp, dp, not 'tp'"),
        ({"dims": (1, 0)}, "dims must be ascending dim indices, not (1, 0)"),
        ({"dims": (0, 0)}, "dims must be ascending dim indices, not (0, 0)"),
        ({"dims": (-1,)}, "dims must be ascending dim indices, not (-1,)"),
    ],
)
def test_a_wrong_collective_is_refused(attributes, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        Collective(**{"operation": AR, "elements": 1, **attributes})
    assert str(error.value) == message
