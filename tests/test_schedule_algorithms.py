"""An algorithm for each dim, from an experiment file to the phases of a plan."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from sw_model.collective.plan import Algorithm, Collective, Operation
from sw_model.errors import InputError
from sw_model.experiment import read_experiment
from sw_model.platform import EngineParameters, Partition, Platform
from sw_model.schedule.options import PlanBook, ScheduleOptions
from sw_model.topology import Dim, DimKind, Topology

FULL = Dim(DimKind.FULLY_CONNECTED, 4, Fraction(60 * 10**9), 16_000)
RING = Dim(DimKind.RING, 2, Fraction(10 * 10**9), 100_000)
BOTH = (Algorithm.HALVING_DOUBLING, Algorithm.RING)


def book(**options: object) -> PlanBook:
    engine = EngineParameters(partitions=(Partition(8, 256),) * 4)
    platform = Platform.from_topology(Topology((FULL, RING)), engine=engine)
    return PlanBook(platform, ScheduleOptions(**{"chunks": 4, **options}))


@pytest.mark.parametrize("scheduler", ["baseline", "themis"])
def test_the_phases_have_the_algorithms(scheduler: str) -> None:
    plans = book(scheduler=scheduler, algorithms=BOTH)
    plan = plans.plan(0, Collective(Operation.ALL_REDUCE, 1024, dims=(0, 1)))
    assert {(p.dim, p.algorithm) for chunk in plan.chunks for p in chunk.phases} == set(
        enumerate(BOTH)
    )


def test_what_an_algorithm_cannot_do_is_direct() -> None:
    plan = book(algorithms=BOTH).plan(0, Collective(Operation.ALL_TO_ALL, 64, dims=(0, 1)))
    assert [p.algorithm for p in plan.chunks[0].phases] == [Algorithm.DIRECT, Algorithm.RING]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithms": BOTH[:1]}, "algorithms must be one for each of the 2 dims, not 1"),
        (
            {"algorithms": BOTH, "scheduler": "balanced"},
            "algorithms must come with one of the schedulers baseline, themis, not 'balanced'",
        ),
        (
            {"algorithms": BOTH[::-1]},
            "a Ring dim runs ring, direct, bidirectional-ring, not 'halving-doubling'",
        ),
    ],
)
def test_bad_algorithms(options: dict, message: str) -> None:
    with pytest.raises(InputError) as error:
        book(**options).plan(0, Collective(Operation.ALL_REDUCE, 1024, dims=(0, 1)))
    assert str(error.value) == message


def test_an_experiment_names_them(tmp_path: Path) -> None:
    (tmp_path / "w.txt").write_text("DATA\n1\nl -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 1024 1\n")
    path = tmp_path / "e.yaml"
    path.write_text(
        "workload: {file: w.txt}\n"
        "network:\n"
        "  dims:\n"
        "    - {kind: FullyConnected, size: 4, bandwidth_per_npu: 60 GB/s, latency: 16 ns}\n"
        "    - {kind: Ring, size: 2, bandwidth_per_npu: 10 GB/s, latency: 100 ns}\n"
        "schedule: {algorithms: [halving-doubling, ring]}\n"
    )
    experiment = read_experiment(path)
    assert experiment.schedule.algorithms == BOTH
    # A third of 60 GB/s is a flit of 16 bytes a cycle.
    assert [link.rate for link in experiment.platform().links] == [1, Fraction(1, 2)]
