"""One rank in place of many: the same result where that is exact, nearly the same elsewhere."""

from fractions import Fraction

import pytest

from sw_model.collective.plan import Collective, Operation
from sw_model.fabric.folding import Folding, padded, representatives
from sw_model.fabric.simulate import run_collective
from sw_model.platform import Platform
from sw_model.schedule.options import ScheduleOptions
from sw_model.schedule.planner import plan_collective
from sw_model.topology import Dim, DimKind, Topology

AR, RS, AG = Operation.ALL_REDUCE, Operation.REDUCE_SCATTER, Operation.ALL_GATHER
TOPOLOGY = Topology(
    (
        Dim(DimKind.RING, 4, Fraction(20 * 10**9), 16000),
        Dim(DimKind.FRED, 4, Fraction(15 * 10**9), 24000),
    )
)
PLATFORM = Platform.from_topology(TOPOLOGY)


def run(operation, elements, dims, scheduler, folding):
    return run_collective(
        PLATFORM,
        Collective(operation, elements, dims=dims),
        schedule=ScheduleOptions(scheduler=scheduler),
        folding=folding,
    )


def test_representatives():
    assert representatives(TOPOLOGY, Folding.NONE) == tuple(range(16))
    assert representatives(TOPOLOGY, Folding.RINGS) == tuple(4 * (rank // 4) for rank in range(16))
    assert representatives(TOPOLOGY, Folding.ALL) == (0,) * 16


@pytest.mark.parametrize("scheduler", ["baseline", "themis"])
@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("operation", [AR, RS, AG])
def test_folded_rings_give_the_same_cycles(operation, dims, scheduler):
    elements = 2048 if operation is AG else 32768
    every, folded = (
        run(operation, elements, dims, scheduler, folding)
        for folding in (Folding.NONE, Folding.RINGS)
    )
    assert folded.ended == {rank: every.ended[rank] for rank in folded.ended}
    assert folded.counters == every.counters
    kept = [i for i in every.intervals if i.rank in folded.ended]
    assert sorted(folded.intervals, key=str) == sorted(kept, key=str)


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)])
def test_one_rank_gives_the_same_cycles_where_fred_only_reduces(dims):
    every, one = (run(AR, 32768, dims, "baseline", f) for f in (Folding.NONE, Folding.ALL))
    assert set(every.ended.values()) == set(one.ended.values())
    assert one.counters == every.counters


@pytest.mark.parametrize(
    ("operation", "elements"), [(AR, 65536), (AR, 9408), (AR, 50_000), (RS, 65536), (AG, 4096)]
)
def test_one_rank_gives_nearly_the_same_cycles_elsewhere(operation, elements):
    every, one = (
        run(operation, elements, (0, 1), "themis", f) for f in (Folding.NONE, Folding.ALL)
    )
    assert one.cycles == pytest.approx(every.cycles, rel=0.03)


def test_padding_makes_all_shards_equal():
    plan = plan_collective(Collective(AR, 9408, dims=(0, 1)), PLATFORM, chunks=3)
    assert any(chunk.quanta % 16 for chunk in plan.chunks)
    wide = padded(plan)
    assert all(chunk.quanta % 16 == 0 for chunk in wide.chunks)
    assert wide.ops == plan.ops
    even = plan_collective(Collective(AR, 8192, dims=(0, 1)), PLATFORM, chunks=3)
    assert padded(even).chunks == even.chunks
