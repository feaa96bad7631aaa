"""Ranks that disagree on the order of their collectives are caught, and named."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sim_top.cosim.outcome import Job, SingleCollectives
from sim_top.cosim.run import run_job
from sim_top.platform.build import platform_model
from sim_top.platform.disagreement import disagreements
from sw_model.collective.plan import Collective, Operation
from sw_model.errors import DeadlockError
from sw_model.schedule.options import ScheduleOptions
from sw_model.topology import Dim, DimKind, Topology
from tests.test_ace_programs import FULL, PAIR, RING, platform

FOREIGN = "a message of its collective: one of another stands in front of it"


def stuck(dims: tuple[Dim, ...], first: Operation, second: Operation) -> list[str]:
    """What the watchdog says when rank 2 of 4 gets two collectives the other way round."""
    every = tuple(range(len(dims)))
    collectives = tuple(
        Collective(operation, 512, "fp16", dims=every) for operation in (first, second)
    )
    where = platform(*dims)
    job = Job(
        platform=where,
        schedule=ScheduleOptions("baseline", "fifo", 1),
        work=SingleCollectives(collectives, reversed=(2,)),
        watchdog=1500,
    )
    with pytest.raises(DeadlockError) as caught:
        run_job(platform_model(where), job)
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Operation.REDUCE_SCATTER, Operation.ALL_REDUCE),
        # Of two alike nothing else would show that their data are mixed up.
        (Operation.ALL_REDUCE, Operation.ALL_REDUCE),
    ],
    ids=["two kinds", "two alike"],
)
@pytest.mark.parametrize(
    ("dims", "hearing", "pair"),
    [
        # Everybody has messages of everybody.
        ((FULL,), (0, 1, 2, 3), (0, 2)),
        # Rank 2 hears its predecessor, and its successor hears it.
        ((RING,), (2, 3), (0, 2)),
        # On the first dim rank 2 has rank 3 alone; 0 and 1 go on, and then wait on the second.
        ((PAIR, PAIR), (2, 3), (2, 3)),
    ],
    ids=["full", "ring", "2 x 2"],
)
def test_a_reversed_order_is_caught(
    dims: tuple[Dim, ...],
    hearing: tuple[int, ...],
    pair: tuple[int, int],
    first: Operation,
    second: Operation,
) -> None:
    """``hearing``: those to whom a message of the other collective comes; ``pair``: who is named,
    the first two of a group that disagree."""
    lines = stuck(dims, first, second)
    assert "nothing moved for 1500 cycles" in lines[0]
    for rank in range(4):
        found = [line for line in lines if line.startswith(f"rank {rank}, dim 1: op 0 of ")]
        if len(dims) > 1 and rank not in hearing:
            assert not found  # it has ended there
            (line,) = [one for one in lines if one.startswith(f"rank {rank}, dim 2: op 0 of ")]
            assert line.endswith("waits for the grant of the receiver of its next message")
        else:
            (line,) = found
        assert f"of collective {int(rank == 2)}, " in line
        assert line.endswith(f"waits for {FOREIGN}") is (rank in hearing)
    a, b = pair
    assert [line for line in lines if line.startswith("ranks ")] == [
        f"ranks {a} and {b} began their collectives in different orders: op 0 of dim 1 is of "
        f"collective {int(a == 2)} at rank {a}, and of collective {int(b == 2)} at rank {b}"
    ]


def test_only_ranks_that_share_a_dim_can_disagree() -> None:
    """4 ranks of 2 x 2: 0 and 1 share dim 1, 0 and 2 dim 2, 0 and 3 nothing."""
    dim = Dim(DimKind.RING, 2, Fraction(10**9), 0)
    topology = Topology((dim, dim))
    running = {(0, 0): (5, 1), (3, 0): (5, 2), (1, 0): (6, 2), (0, 1): (7, 1), (2, 1): (7, 3)}
    assert disagreements(topology, running) == [
        "ranks 0 and 2 began their collectives in different orders: op 7 of dim 2 is of "
        "collective 1 at rank 0, and of collective 3 at rank 2"
    ]
