"""The training speed-ups of Themis: the backend by hand and against a replay, and the rows."""

from __future__ import annotations

import asyncio
from fractions import Fraction

import pytest

from sim_top.reproduce import themis_training
from sw_model.astra.system import SystemConfig
from sw_model.backend import Completion
from sw_model.chakra.from_layers import trace_of_layers
from sw_model.chakra.graph import build_graph
from sw_model.chakra.workload import assemble
from sw_model.collective.plan import Collective, Operation
from sw_model.replay.overlapped import Schedule
from sw_model.replay.run import replay_trace
from sw_model.schedule.evaluation import evaluation_network
from sw_model.schedule.steady_backend import PICOSECONDS, SteadyBackend
from sw_model.workload.catalogue import model_named
from sw_model.workload.layered import layered
from sw_model.workload.parallel import Parallelism


def test_collectives_share_dims_in_order_and_others_run_beside():
    backend = SteadyBackend(lambda asked: Fraction(asked.elements, PICOSECONDS))
    inner = Collective(Operation.ALL_REDUCE, 100, dims=(0, 1))
    again = Collective(Operation.ALL_REDUCE, 50, dims=(1,))
    outer = Collective(Operation.ALL_REDUCE, 120, dims=(2,))

    async def run() -> list[list[Completion]]:
        numbers = [backend.issue(asked, (0,)) for asked in (inner, again, outer)]
        assert numbers == [0, 1, 2]
        assert await backend.wait(30) == []
        assert backend.now == 30
        return [await backend.wait(None) for _ in range(4)]

    done = asyncio.run(run())
    assert done == [
        [Completion(0, 0, 100)],
        [Completion(2, 0, 120)],
        [Completion(1, 0, 150)],
        [],
    ]


@pytest.mark.parametrize("how", ["baseline", "themis"])
def test_an_iteration_is_as_long_as_in_a_replay_of_its_chunks(how):
    """Chunk by chunk, collectives fill each other's gaps: a few per cent."""
    network = evaluation_network("3D-SW_SW_SW_hetero")
    model = model_named("gnmt")
    workload = themis_training.without_updates(
        layered(model, Parallelism(data=1024), themis_training._MACHINE, 16)
    )
    steady = themis_training._iteration(workload, network, how)[0]
    made = trace_of_layers(workload, network)
    graphs = [build_graph(made.trace)] * 1024
    found = replay_trace(
        assemble("gnmt", graphs, made.topology),
        SystemConfig(),
        schedule=Schedule(how, "scf" if how == "themis" else "fifo", 64),
    )
    assert steady / 1000 == pytest.approx(found.ns(found.latest.finish), rel=0.05)


def test_what_hides_nothing_gains_what_the_collectives_gain():
    """Where computing takes no time, an iteration is its all-reduces."""
    network = evaluation_network("2D-SW_SW")
    model = model_named("resnet152")
    workload = themis_training.without_updates(
        layered(model, Parallelism(data=1024), themis_training._MACHINE, 1)
    )
    total, compute, whole, exchange = themis_training._iteration(workload, network, "baseline")
    assert exchange == 0
    # 2 x 15/16 of all gradients on the inner dim, at 150 x 2^30 bytes a second, and the pipeline's
    # fill: nothing else is on the way there.
    busy = 2 * 15 / 16 * 60_192_808 * 2 / (150 * 2**30)
    assert busy * (1 - 1e-9) < whole / PICOSECONDS < 1.05 * busy
    assert max(compute, whole) <= total <= compute + whole


def test_rows():
    shares: list[float] = []
    rows = themis_training.rows(shares.append)
    assert shares == [0.25, 0.5, 0.75, 1.0]
    near = {row.name for row in rows if row.ok}
    for what in ("ResNet-152, 2", "GNMT, 16", "DLRM, 128", "Transformer-1T, 16"):
        for label in ("Themis + SCF", "ideal", "Themis + SCF, largest"):
            assert f"training, {what} samples an NPU: speed-up, {label}" in near
    for row in rows:
        assert row.explained
        assert abs(row.ours - row.reference) <= 0.25 * row.reference or row.reason
    (dlrm,) = {row.reason for row in rows if "DLRM, 512" in row.name}
    assert dlrm.startswith(
        "the all-to-alls of this DLRM, which Themis leaves as they are, take 77 %"
    )
    # Were computing free: all-to-alls as they are leave little, and without any the gain is that of
    # the collectives.
    assert ": even were computing free, the gain would be 1.17 (ideal 1.17)" in dlrm
    for model in ("ResNet-152, 16", "GNMT, 128"):
        (reason,) = {row.reason for row in rows if model in row.name and row.reason}
        assert "were it free, the gain would be 1.75 (ideal 1.80)" in reason
