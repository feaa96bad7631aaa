"""A whole experiment on the transaction-level model."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from sw_model.experiment import Experiment, read_experiment
from sw_model.fabric.folding import Folding
from sw_model.results import union_length
from sw_model.simulation import simulate
from sw_model.workload import astra_text

EXAMPLE = Path(__file__).parent.parent / "examples" / "resnet50.yaml"


@pytest.fixture
def experiment() -> Experiment:
    return read_experiment(EXAMPLE)


def test_the_example_at_a_small_scale(experiment) -> None:
    workload = experiment.load_workload().scaled(Fraction(1, 128), "fp16")
    runs = {
        scheduler: simulate(experiment.with_schedule(scheduler=scheduler), workload)
        for scheduler in ("baseline", "themis")
    }
    for label, run in runs.items():
        assert run.label == label
        assert run.npus == 16
        assert len(run.training.collectives) == 2 * 54
        assert sum(run.training.iterations) == run.training.total
        assert 0 < run.bound.seconds * run.clock_hz <= run.training.total
        assert run.bound.dims == (0, 1)
        for layer, bound in zip(run.training.layers, run.layer_bounds, strict=True):
            assert 0 < bound.seconds * run.clock_hz <= layer.communication
        payload = 2 * workload.communication_bytes()
        ring, fred = run.dims
        assert ring.bytes_per_npu + fred.bytes_per_npu > payload
        for index, dim in enumerate(run.dims):
            assert 0 < dim.utilisation(run.training.total, run.clock_hz) < 1
            bars = [(bar.start, bar.end) for bar in run.activity if bar.dim == index]
            assert dim.busy == union_length(bars) <= run.training.total
    # Themis moves load from the ring to FRED, and both runs compute the same.
    baseline, themis = runs["baseline"], runs["themis"]
    assert themis.dims[0].bytes_per_npu < baseline.dims[0].bytes_per_npu
    assert themis.dims[1].bytes_per_npu > baseline.dims[1].bytes_per_npu
    assert themis.training.latest.compute == baseline.training.latest.compute


def test_a_straggler_is_simulated_beside_all_others(experiment) -> None:
    workload = astra_text.parse(
        "DATA\n2\n"
        "a -1 500 NONE 0 500 NONE 0 500 ALLREDUCE 16384 50\n"
        "b -1 500 NONE 0 500 NONE 0 500 ALLREDUCE 32768 50\n"
    )
    alike = simulate(experiment, workload, folding=Folding.NONE)
    settings = replace(experiment.workload, compute_scale={5: Fraction(3)})
    late = simulate(replace(experiment, workload=settings), workload)
    assert len(late.training.ranks) == 16
    assert late.training.latest.rank == 5
    assert late.training.ranks[5].compute == 3 * alike.training.latest.compute
    assert late.training.ranks[0].exposed > alike.training.ranks[0].exposed
