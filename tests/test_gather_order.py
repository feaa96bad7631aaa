"""All-gathers through FRED switches: nothing of a later op overtakes them (docs/plan.md)."""

from __future__ import annotations

import asyncio
import random
from fractions import Fraction

import pytest

from sw_model.collective.plan import Collective, Operation
from sw_model.fabric.backend import TlmBackend
from sw_model.platform import EngineParameters, Partition, Platform
from sw_model.schedule.options import PlanBook, ScheduleOptions
from sw_model.topology import Dim, DimKind, Topology

ORDER = (
    Operation.ALL_GATHER,
    Operation.REDUCE_SCATTER,
    Operation.ALL_GATHER,
    Operation.ALL_GATHER,
)


def run_late_ranks(seed: int) -> None:
    """Four collectives on FRED 3 x FRED 2..4 with few buffers; ranks enter at random times."""
    random_ = random.Random(seed)
    ports = random_.choice((3, 3, 4, 2))
    rates = [Fraction(random_.choice((5, 20)) * 10**9) for _ in range(2)]
    topology = Topology(
        (Dim(DimKind.FRED, 3, rates[0], 8000), Dim(DimKind.FRED, ports, rates[1], 8000))
    )
    buffers, flits = random_.choice((1, 2, 3, 4)), random_.choice((36, 144, 288))
    engine = EngineParameters(
        contexts=random_.choice((2, 4)),
        packet_bytes=64,
        queue_depth=random_.choice((2, 4, 8)),
        partitions=(Partition(buffers, flits),) * 4,
    )
    platform = Platform.from_topology(topology, engine=engine)
    options = ScheduleOptions("themis", "fifo", random_.choice((3, 4, 8)))
    backend = TlmBackend(PlanBook(platform, options))
    npus = topology.npus
    requests = [
        Collective(
            operation,
            8 * random_.choice((4, 12, 48))
            if operation is Operation.ALL_GATHER
            else 8 * npus * random_.choice((1, 3, 12, 30)),
            dims=(0, 1),
            name=str(number),
        )
        for number, operation in enumerate(ORDER)
    ]
    entries = sorted(
        (random_.randrange(3000) * (random_.random() < 0.6), rank) for rank in range(npus)
    )

    async def everything() -> int:
        ended = 0
        for cycle, rank in entries:
            while backend.now < cycle:
                ended += len(await backend.wait(cycle))
            for request in requests:
                backend.issue(request, [rank])
        while ended < npus * len(requests):
            ended += len(await backend.wait(None))
        return ended

    assert asyncio.run(everything()) == npus * len(requests)


@pytest.mark.parametrize("seed", range(64))
def test_late_ranks_never_block_each_other(seed: int) -> None:
    """Among these seeds are some that stop where only the message of the highest step is awaited:
    the multicasts of an all-gather race, and it need not be the last to come."""
    run_late_ranks(seed)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(64, 1000))
def test_many_late_ranks(seed: int) -> None:
    run_late_ranks(seed)
