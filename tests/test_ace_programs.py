"""Collectives as programs: on the RTL, bit for bit, and the same traffic on the model.

All of these run on the same hardware; only the steps that the planner writes down differ. The
reference is the plan's replay in NumPy, which knows messages and sums, and nothing of ports.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from sim_top.cosim.memory_map import payload
from sim_top.cosim.outcome import Job, SingleCollectives
from sim_top.cosim.run import run_job
from sim_top.crosscheck import run
from sim_top.crosscheck.matrix import Case, Setting
from sim_top.crosscheck.run import check_case
from sim_top.simulator import Model, build
from sw_model.collective.plan import Algorithm, Collective, Operation
from sw_model.collective.written import WrittenAlgorithm
from sw_model.errors import InputError
from sw_model.platform import EngineParameters, MemoryParameters, Partition, Platform
from sw_model.schedule.options import ScheduleOptions
from sw_model.topology import Dim, DimKind, Topology

FULL = Dim(DimKind.FULLY_CONNECTED, 4, Fraction(60 * 10**9), 16_000)
RING = Dim(DimKind.RING, 4, Fraction(20 * 10**9), 16_000)
PAIR = Dim(DimKind.RING, 2, Fraction(10 * 10**9), 100_000)
FRED = Dim(DimKind.FRED, 2, Fraction(15 * 10**9), 24_000)
SLOW = Dim(DimKind.FULLY_CONNECTED, 3, Fraction(15 * 10**9), 40_000)
WIDE = Dim(DimKind.FULLY_CONNECTED, 5, Fraction(80 * 10**9), 16_000)
EIGHT = Dim(DimKind.FULLY_CONNECTED, 8, Fraction(140 * 10**9), 16_000)

AR, RS, AG, A2A = (
    Operation.ALL_REDUCE,
    Operation.REDUCE_SCATTER,
    Operation.ALL_GATHER,
    Operation.ALL_TO_ALL,
)


def platform(*dims: Dim) -> Platform:
    """With room for what passes through in an all-to-all on a ring."""
    partitions = (Partition(8, 256),) * (2 * len(dims)) + (Partition(8, 512),)
    return Platform.from_topology(
        Topology(dims),
        engine=EngineParameters(partitions=partitions[-2:] if len(dims) == 1 else partitions),
        memory=MemoryParameters(words=1 << 17),
    )


def check(
    *dims: Dim,
    shapes: list[tuple[Operation, int, str]],
    algorithms: tuple[Algorithm, ...] = (),
    scheduler: str = "baseline",
) -> None:
    """Run collectives one by one on both; cycles within 3 % or 8, but 6 % with several ports, which
    collide with DMA on the banks of the SRAM (docs/ace.md, *Limits of this engine*)."""
    share = 0.06 if any(dim.links > 1 for dim in dims) else 0.03
    every = tuple(range(len(dims)))
    collectives = tuple(Collective(o, n, t, dims=every, name=o.value) for o, n, t in shapes)
    schedule = ScheduleOptions(scheduler, "fifo", 8, algorithms)
    cases = check_case(Case(Setting("programs", platform(*dims), schedule), collectives))
    assert len(cases) == len(shapes)
    for case in cases:
        assert case.data_ok, case
        assert case.counters_ok, case
        assert abs(case.tlm_cycles - case.rtl_cycles) <= max(8, share * case.rtl_cycles), case


#: Blocks that are no whole flits, that differ by an element, that some ranks have nothing of.
ODD = [
    (RS, 41, "int32"), (RS, 999, "fp16"), (RS, 3, "fp16"), (AG, 7, "fp16"), (AG, 1001, "fp16"),
    (A2A, 45, "int32"), (A2A, 999, "fp16"), (A2A, 2, "fp16"),
]  # fmt: skip


def shapes_for(ranks: int, *, everything: bool = True) -> list[tuple[Operation, int, str]]:
    """Operations of some sizes; blocks of whole flits."""
    out = [(AR, 1, "fp16"), (AR, 999, "int32"), (RS, ranks * 40, "int32"), (AG, 72, "fp16")]
    out += [(A2A, ranks * 8, "fp16"), (A2A, ranks * 4 * 21, "int32")]
    if everything:
        out += [(AR, 16_384, "fp16"), (RS, ranks * 2048, "fp16"), (AG, 2048, "int32")]
        out += [(A2A, ranks * 1024, "fp16")]
    return out


def test_direct_programs_use_every_link_of_a_dim() -> None:
    check(FULL, shapes=shapes_for(4, everything=False))


def test_the_ring_both_ways_round() -> None:
    """In the ports of the same RTL as above."""
    shapes = [(AR, 999, "int32"), (AR, 4096, "fp16"), (RS, 640, "fp16"), (AG, 200, "int32")]
    check(FULL, shapes=shapes, algorithms=(Algorithm.BIDIRECTIONAL_RING,))


#: Not built in: shards go round to the one before, so that sums come the other way round.
BACKWARDS = WrittenAlgorithm(
    "ring-backwards",
    4,
    tuple(tuple((i, (i - 1) % 4, (i + n) % 4, 1) for i in range(4)) for n in range(3)),
)

#: Not built in: pairs of the farther first, then of the nearer, to whom two shards go that lie
#: apart.
FAR_FIRST = WrittenAlgorithm(
    "far-first",
    4,
    (
        tuple((i, i ^ 2, i, 1) for i in range(4)),
        tuple((i, i ^ 1, shard, 1) for i in range(4) for shard in (i, i ^ 2)),
    ),
)


def sum_of(algorithm: WrittenAlgorithm, shard: int, x: list[np.ndarray]) -> np.ndarray:
    """Of one shard, in the algorithm's order of additions, by hand."""
    a, b, c, d = (x[(shard + k) % 4] for k in range(4))
    if algorithm is BACKWARDS:  # sums go forward, and end where the shard belongs
        return a + (d + (c + b))
    near, far, across = x[shard ^ 1], x[shard ^ 2], x[shard ^ 3]
    return (x[shard] + near) + (far + across)


@pytest.mark.parametrize("algorithm", [BACKWARDS, FAR_FIRST], ids=lambda a: a.value)
def test_a_new_algorithm_is_a_program(
    algorithm: WrittenAlgorithm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Algorithms that this test alone knows, on the RTL that was built before they were: nothing
    is generated or compiled for them. Traffic and cycles are the model's, and results those of
    NumPy, which is told of neither plan nor moves."""
    built = []

    def building(model: Model) -> Path:
        built.append(model)
        return build(model)

    monkeypatch.setattr(run, "build", building)
    check(FULL, shapes=[(AR, 8, "fp16")], algorithms=(Algorithm.DIRECT,))
    marker = build(built[0]) / ".complete"
    before = marker.stat().st_mtime_ns
    shapes = [(AR, 999, "int32"), (AR, 4096, "fp16"), (RS, 640, "fp16"), (AG, 200, "int32")]
    check(FULL, shapes=[*shapes, *ODD[:5]], algorithms=(algorithm,))
    direct, new = built
    assert new.sources == direct.sources
    assert new.key == direct.key
    assert marker.stat().st_mtime_ns == before

    elements = 4 * 8 * 48  # one chunk, of shards of 48 flits
    asked = [Collective(AR, elements, kind, dims=(0,)) for kind in ("fp16", "int32")]
    asked += [Collective(AG, elements // 4, "fp16", dims=(0,))]
    job = Job(
        platform=platform(FULL),
        schedule=ScheduleOptions("baseline", "fifo", 1, (algorithm,)),
        work=SingleCollectives(tuple(asked)),
    )
    outcome = run_job(new, job)
    for number, (collective, results) in enumerate(zip(asked, outcome.results, strict=True)):
        sources = [payload(collective, seed=1, number=number, rank=r) for r in range(4)]
        if collective.operation is AG:
            wanted = np.concatenate(sources)
        else:
            shards = [np.split(source, 4) for source in sources]
            with np.errstate(invalid="ignore", over="ignore"):
                parts = [sum_of(algorithm, s, [own[s] for own in shards]) for s in range(4)]
            wanted = np.concatenate(parts)
        for found in results:
            got = found.view(wanted.dtype)
            nan = np.isnan(wanted)
            assert np.array_equal(np.isnan(got), nan)
            assert got[~nan].tobytes() == wanted[~nan].tobytes()


@pytest.mark.full
@pytest.mark.parametrize(
    "algorithm", [a for a in Algorithm if a is not Algorithm.IN_NETWORK], ids=lambda a: a.value
)
@pytest.mark.parametrize("dim", [FULL, SLOW, WIDE, EIGHT], ids=lambda d: str(d.size))
def test_every_algorithm_on_a_fully_connected_dim(dim: Dim, algorithm: Algorithm) -> None:
    """A double binary tree has no other operation than those of whole buffers, and
    halving-doubling no other sizes than powers of two."""
    shapes = shapes_for(dim.size)
    if algorithm is Algorithm.DOUBLE_BINARY_TREE:
        shapes = [shape for shape in shapes if shape[0] is AR]
    if algorithm is Algorithm.HALVING_DOUBLING and dim.size not in (4, 8):
        with pytest.raises(InputError, match=r"^halving-doubling must have a power of two of NPUs"):
            check(dim, shapes=shapes, algorithms=(algorithm,))
        return
    check(dim, shapes=shapes, algorithms=(algorithm,))


def test_blocks_that_are_no_whole_flits() -> None:
    """Every byte of the result regions, and what lies behind them, is compared."""
    check(FULL, shapes=ODD)


@pytest.mark.full
def test_all_to_all_on_a_ring() -> None:
    check(RING, shapes=shapes_for(4) + ODD)


@pytest.mark.full
@pytest.mark.parametrize("scheduler", ["baseline", "themis"])
@pytest.mark.parametrize(
    "dims",
    [(FULL, PAIR), (PAIR, FULL), (SLOW, FRED), (FRED, SLOW, PAIR), (PAIR, SLOW, PAIR)],
    ids=lambda dims: "-".join(f"{d.kind.value}{d.size}" for d in dims),
)
def test_dims_of_all_kinds_in_any_order(dims: tuple[Dim, ...], scheduler: str) -> None:
    """An all-to-all has no program on a FRED dim."""
    ranks = Topology(dims).npus
    shapes = shapes_for(ranks) + ODD
    if any(dim.kind is DimKind.FRED for dim in dims):
        shapes = [shape for shape in shapes if shape[0] is not A2A]
    check(*dims, shapes=shapes, scheduler=scheduler)


@pytest.mark.full
def test_four_dims() -> None:
    """Rings of two around a dim of three, with halving-doubling on the first."""
    pair = Dim(DimKind.FULLY_CONNECTED, 2, Fraction(20 * 10**9), 16_000)
    check(
        pair, PAIR, SLOW, PAIR,
        shapes=shapes_for(24, everything=False),
        algorithms=(
            Algorithm.HALVING_DOUBLING, Algorithm.RING, Algorithm.DIRECT, Algorithm.RING,
        ),
    )  # fmt: skip
