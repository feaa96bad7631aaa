"""What the replay of a plan computes, against plain NumPy."""

from __future__ import annotations

import time
from math import prod

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sw_model.collective.numerics import element_type, reduce
from sw_model.collective.plan import Collective, Operation
from sw_model.collective.replay import flow_tree, replay
from sw_model.schedule.planner import plan_collective
from sw_model.topology import DimKind, Topology
from tests.plan_cases import AnyOrder, dim, requests, ring_by_fred, topologies

AR, RS, AG = Operation.ALL_REDUCE, Operation.REDUCE_SCATTER, Operation.ALL_GATHER


def _groups(topology, dims):
    """Ranks of the group of every rank, in their order in it."""
    out = []
    for rank in range(topology.npus):
        at = topology.coordinates(rank)
        mine = [
            r
            for r in range(topology.npus)
            if all(
                a == b
                for d, (a, b) in enumerate(zip(topology.coordinates(r), at, strict=True))
                if d not in dims
            )
        ]
        out.append(mine)
    return out


def _expected(collective, topology, sources, add):
    """Results by definition."""
    out = []
    for rank, group in enumerate(_groups(topology, collective.dims)):
        if collective.operation is AG:
            out.append(np.concatenate([sources[r] for r in group]))
            continue
        total = sources[group[0]]
        for r in group[1:]:
            total = add(total, sources[r])
        if collective.operation is RS:
            me, n = group.index(rank), len(group)
            total = total[me * len(total) // n : (me + 1) * len(total) // n]
        out.append(total)
    return out


def _random(collective, topology, seed):
    rng = np.random.default_rng(seed)
    info = np.iinfo(np.int32)
    return [
        rng.integers(info.min, info.max, collective.elements, dtype=np.int32, endpoint=True)
        for _ in range(topology.npus)
    ]


@settings(
    max_examples=120, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
@given(data=st.data())
def test_int32_sums_are_exact(data):
    topology = data.draw(topologies())
    quantum = data.draw(st.sampled_from((1, 4)))
    collective = data.draw(requests(topology, quantum, data_type="int32"))
    plan = plan_collective(
        collective,
        topology,
        scheduler=AnyOrder(data.draw(st.integers(0, 99))),
        quantum=quantum,
        chunks=data.draw(st.integers(1, 4)),
    )
    sources = _random(collective, topology, data.draw(st.integers(0, 99)))
    expected = _expected(collective, topology, sources, np.add)
    for result, wanted in zip(replay(plan, sources), expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("data_type", ["fp16", "bf16", "fp32"])
@pytest.mark.parametrize("operator", ["max", "min"])
def test_extrema_do_not_depend_on_the_order(data_type, operator):
    topology = ring_by_fred()
    collective = Collective(AR, 1000, data_type, operator, dims=(0, 1))
    plan = plan_collective(collective, topology, chunks=3, quantum=8)
    rng = np.random.default_rng(1)
    storage = element_type(data_type).storage
    sources = [rng.standard_normal(1000).astype(storage) for _ in range(16)]
    expected = _expected(
        collective, topology, sources, lambda a, b: reduce(a, b, data_type, operator)
    )
    for result, wanted in zip(replay(plan, sources), expected, strict=True):
        np.testing.assert_array_equal(result.view(np.uint8), wanted.view(np.uint8))


def test_the_order_of_a_ring():
    """Shard i starts at coordinate i + 1 and goes once around: local operand first."""
    topology = Topology((dim(DimKind.RING, 4),))
    plan = plan_collective(Collective(AR, 4, "fp16", dims=(0,)), topology, chunks=1)
    rng = np.random.default_rng(2)
    sources = [(1000 * rng.standard_normal(4)).astype(np.float16) for _ in range(4)]
    results = replay(plan, sources)
    for shard in range(4):
        total = sources[(shard + 1) % 4][shard]
        for hop in range(2, 5):
            total = np.float16(sources[(shard + hop) % 4][shard] + total)
        for result in results:
            assert result[shard] == total


def test_the_order_of_a_switch():
    topology = Topology((dim(DimKind.FRED, 4),))
    everyone = (0, 1, 2, 3)
    assert flow_tree(4, 3, (everyone, everyone)) == ((0, 1), (2, 3))
    plan = plan_collective(Collective(AR, 64, "fp16", dims=(0,)), topology, chunks=1)
    rng = np.random.default_rng(3)
    a, b, c, d = sources = [(1e3 * rng.standard_normal(64)).astype(np.float16) for _ in range(4)]
    for result in replay(plan, sources):
        np.testing.assert_array_equal(result, (a + b) + (c + d))
    other = replay(plan, sources, trees=lambda ports, copies, flow: (((0, 1), 2), 3))
    np.testing.assert_array_equal(other[2], ((a + b) + c) + d)
    assert not np.array_equal(other[2], (a + b) + (c + d))


def test_all_ranks_get_the_same_bits():
    topology = ring_by_fred()
    plan = plan_collective(Collective(AR, 3000, "fp16", dims=(0, 1)), topology, quantum=8)
    rng = np.random.default_rng(4)
    sources = [rng.standard_normal(3000).astype(np.float16) for _ in range(16)]
    first, *others = replay(plan, sources)
    for other in others:
        np.testing.assert_array_equal(first, other)


def test_a_megabyte_on_16_ranks_is_quick():
    topology = ring_by_fred()
    elements = 1 << 19
    plan = plan_collective(Collective(AR, elements, "fp16", dims=(0, 1)), topology, quantum=8)
    sources = [np.ones(elements, dtype=np.float16) for _ in range(topology.npus)]
    begin = time.process_time()
    results = replay(plan, sources)
    assert time.process_time() - begin < 5
    assert all((r == prod((4, 4))).all() for r in results)


def test_wrong_sources_are_refused():
    topology = ring_by_fred()
    plan = plan_collective(Collective(AR, 8, "fp16", dims=(0, 1)), topology)
    right = [np.zeros(8, dtype=np.float16)] * 16
    with pytest.raises(ValueError, match=r"sources must be 16 arrays, not 15"):
        replay(plan, right[1:])
    with pytest.raises(
        ValueError,
        match=r"the source of rank 0 must be 8 elements of float16, not 7 of float16",
    ):
        replay(plan, [np.zeros(7, dtype=np.float16), *right[1:]])
    with pytest.raises(ValueError, match=r"must be 8 elements of float16, not 8 of int32"):
        replay(plan, [np.zeros(8, dtype=np.int32), *right[1:]])
