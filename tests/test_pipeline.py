"""Layers cut into stages, against the published orders, closed forms, and ranks by hand."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sim_top import cli
from sw_model.backend import Completion
from sw_model.collective.plan import Operation
from sw_model.errors import InputError
from sw_model.fred.tree.shape import TreeShape
from sw_model.topology import Dim, DimKind, Topology
from sw_model.training import train
from sw_model.workload import astra_text
from sw_model.workload.layers import Pass
from sw_model.workload.parallel import PipelineSchedule
from sw_model.workload.pipeline import Handover, Pipeline, stages_of_layers
from sw_model.workload.program import compute_ns, iteration
from sw_model.workload.spans import collectives_of, issued, split_for_group
from sw_model.workload.steps import Issue

SCHEDULES = tuple(PipelineSchedule)
TREE = Topology(
    (Dim(DimKind.FRED, 8, Fraction(20 * 10**9), 0, tree=TreeShape(ranks=4, ups=4, tops=1)),)
)


def pipeline(stages=2, microbatches=4, boundary=32, schedule=PipelineSchedule.ONE_F_ONE_B):
    return Pipeline(stages=stages, microbatches=microbatches, boundary=boundary, schedule=schedule)


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("microbatches", [1, 2, 5, 8])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_nothing_needs_what_comes_after_it(stages, microbatches, schedule) -> None:
    passes = pipeline(stages, microbatches, schedule=schedule).passes()
    place = {(p.stage, p.microbatch, p.backward): n for n, p in enumerate(passes)}
    assert len(place) == len(passes) == 2 * stages * microbatches
    for (stage, microbatch, backward), n in place.items():
        if backward:
            assert place[stage, microbatch, False] < n
        before = stage + 1 if backward else stage - 1
        if 0 <= before < stages:
            assert place[before, microbatch, backward] < n
    for stage in range(stages):
        own = [p for p in passes if p.stage == stage]
        assert [p.final for p in own] == [False] * (len(own) - 1) + [True]
        assert own[-1].backward


def test_one_forward_one_backward_by_hand() -> None:
    """Narayanan et al., SC 2021, figure 4, of four stages the first and the last two."""
    passes = pipeline(4, 5).passes()
    orders = [
        " ".join("FB"[p.backward] + str(p.microbatch) for p in passes if p.stage == stage)
        for stage in range(4)
    ]
    assert orders[0] == "F0 F1 F2 F3 B0 F4 B1 B2 B3 B4"
    assert orders[2] == "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4"
    assert orders[3] == "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4"


def test_layers_of_equal_time_are_dealt_out_evenly() -> None:
    assert stages_of_layers([5] * 8, 4) == (0, 0, 1, 1, 2, 2, 3, 3)
    assert stages_of_layers([0, 0, 0], 3) == (0, 1, 2)
    assert stages_of_layers([100, 1, 1], 3) == (0, 1, 2)
    assert stages_of_layers([1, 1, 100], 3) == (0, 1, 2)
    assert stages_of_layers([1, 1, 1, 3], 2) == (0, 0, 0, 1)


def workload(layers=4, tensor=2, **of_pipeline):
    line = "layer{} -1 10 ALLREDUCE 64 11 ALLREDUCE 64 12 ALLREDUCE 128 0"
    text = [f"HYBRID_TRANSFORMER model_parallel_NPU_group: {tensor}", str(layers)]
    work = astra_text.parse("\n".join([*text, *(line.format(n) for n in range(layers))]))
    return replace(work, pipeline=pipeline(**of_pipeline))


class AtOnce:
    """Collectives that take no time once their group is there, and none beside it."""

    def __init__(self, npus: int) -> None:
        self.now = 0
        self.representatives = tuple(range(npus))
        self.entries: list[tuple] = []
        self._position = [0] * npus
        self._ended: list[Completion] = []

    def issue(self, collective, ranks):
        (number,) = {self._position[rank] for rank in ranks}
        if number == len(self.entries):
            self.entries.append((collective, set()))
        assert self.entries[number][0] == collective
        entered = self.entries[number][1]
        for rank in ranks:
            self._position[rank] += 1
            entered.add(rank)
            groups = [group for group in collective.groups if rank in group]
            if not groups:
                self._ended.append(Completion(number, rank, self.now))
            elif entered.issuperset(groups[0]):
                self._ended += [Completion(number, member, self.now) for member in groups[0]]
        return number

    async def wait(self, until):
        if not self._ended and until is not None:
            self.now = until
        ended, self._ended = self._ended, []
        return ended


def run(work, npus=8, iterations=1):
    backend = AtOnce(npus)
    result = asyncio.run(
        train(work, TREE, backend, iterations=iterations, clock_hz=10**9, data_type="fp16")
    )
    return backend, result


@pytest.mark.parametrize("microbatches", [1, 2, 4, 7])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_bubble_is_that_of_the_literature(microbatches, schedule) -> None:
    """(microbatches + stages - 1) passes of both kinds where communication takes no time (GPipe,
    NeurIPS 2019, section 2.3)."""
    work = workload(microbatches=microbatches, schedule=schedule)
    _, result = run(work)
    forward, backward = 2 * 10, 2 * (11 + 12)
    assert result.total == (microbatches + 2 - 1) * (forward + backward)
    assert compute_ns(work) == microbatches * (forward + backward)
    for rank in result.ranks:
        assert rank.compute == microbatches * (forward + backward)


def test_every_rank_enters_every_collective_in_one_order() -> None:
    work = workload()
    orders = {
        tuple(step for step in iteration(work, rank) if isinstance(step, Issue))
        for rank in range(8)
    }
    (order,) = orders
    names = [(step.layer, step.part, step.microbatch) for step in order]
    assert len(set(names)) == len(names)
    # Forward and input gradient of 4 layers, and what is handed over both ways, of 4 microbatches;
    # weight gradients once.
    assert len(names) == 4 * (2 * 4 + 2) + 4
    backend, result = run(work, iterations=2)
    assert len(backend.entries) == 2 * len(names)
    collectives = collectives_of(work, TREE, "fp16")
    assert len(issued(work, collectives)) == len(names)
    # A rank of the first stage: what it sends and gets of both kinds of layers, but of others not.
    own = [i for i in result.intervals if i.rank == 0 and i.kind == "communication"]
    assert all(i.layer in (0, 1) or i.part is Handover.GRADIENTS for i in own)


def test_groups_of_stages() -> None:
    """Rank = tensor + 2 x (stage + 2 x replica)."""
    found = collectives_of(workload(), TREE, "fp16")
    ranks = np.arange(8).reshape(2, 2, 2)  # replica, stage, tensor
    for layer, stage in enumerate((0, 0, 1, 1)):
        for part in (Pass.FORWARD, Pass.INPUT_GRADIENT):
            assert found[layer, part].groups == tuple(map(tuple, ranks[:, stage].tolist()))
            assert found[layer, part].traffic_class == "mp"
        data = found[layer, Pass.WEIGHT_GRADIENT]
        assert data.groups == tuple(map(tuple, ranks[:, stage].T.tolist()))
        assert data.traffic_class == "dp"
    pairs = sorted(
        (int(a), int(b)) for a, b in zip(ranks[:, 0].flat, ranks[:, 1].flat, strict=True)
    )
    for key, root in (((1, Handover.ACTIVATIONS), 0), ((2, Handover.GRADIENTS), 1)):
        send = found[key]
        assert (send.operation, send.traffic_class) == (Operation.SEND, "pp")
        assert (send.root, send.target, send.elements) == (root, 1 - root, 16)
        assert sorted(send.groups) == pairs
    assert len(found) == 4 * 3 + 2


def test_scaled_with_everything_else() -> None:
    small = workload(boundary=4096).scaled(Fraction(1, 64), "fp16")
    assert small.pipeline.boundary == 64
    # Of a rank of the first stage: two layers' activations both ways and gradients, and one
    # boundary for each microbatch.
    assert workload().communication_bytes() == 2 * (4 * 2 * 64 + 128) + 4 * 32


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"stages": 1}, "stages must be a whole number of at least 2, not 1"),
        ({"microbatches": 0}, "microbatches must be a whole number of at least 1, not 0"),
        ({"boundary": 0}, "boundary must be a whole number of at least 1, not 0"),
    ],
)
def test_bad_pipelines(values, message) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        pipeline(**values)


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (
            workload(stages=3),
            "pipeline.stages must divide the 4 groups of 2 NPUs on the tree of switches, not be 3",
        ),
        (workload(layers=3, stages=4), "pipeline.stages must be at most the 3 layers, not 4"),
    ],
)
def test_stages_that_the_platform_cannot_have(work, message) -> None:
    with pytest.raises(InputError, match=f": {re.escape(message)}$"):
        split_for_group(TREE, work)


def test_a_boundary_of_half_an_element() -> None:
    message = "pipeline.boundary must be a multiple of 2 bytes, one fp16 element, not 33"
    with pytest.raises(InputError, match=f"{re.escape(message)}$"):
        workload(boundary=33).check_elements("fp16")


_TEXT = """\
HYBRID_TRANSFORMER model_parallel_NPU_group: 2
2
a -1 10 ALLREDUCE 64 11 ALLREDUCE 64 12 ALLREDUCE 128 0
b -1 10 ALLREDUCE 64 11 ALLREDUCE 64 12 ALLREDUCE 128 0
"""
_WHERE = "network: {dims: [{kind: Fred, size: 8, bandwidth_per_npu: 20 GB/s, latency: 8 ns"
_ON_TREE = ", tree: {ranks: 4, ups: 4, tops: 1}"
_CUT = ", pipeline: {stages: 2, microbatches: 2, boundary: 64}}"


@pytest.mark.parametrize(
    ("workload", "network", "message"),
    [
        (
            "{file: text.txt" + _CUT,
            "",
            "pipeline is for a tree of FRED switches",
        ),
        (
            "{layers: [{name: a}, {name: b}]" + _CUT,
            _ON_TREE,
            "pipeline is for mode HYBRID_TRANSFORMER, not for mode DATA",
        ),
        (
            "{model: {name: transformer-17b}" + _CUT,
            _ON_TREE,
            "pipeline goes with 'file' or 'layers', not with 'model'",
        ),
    ],
)
def test_a_pipeline_where_there_can_be_none(tmp_path, capsys, workload, network, message) -> None:
    (tmp_path / "text.txt").write_text(_TEXT)
    path = tmp_path / "experiment.yaml"
    path.write_text(f"workload: {workload}\n{_WHERE}{network}}}]}}\n")
    assert cli.main(["run", str(path)]) == 2
    assert capsys.readouterr().err.strip().endswith(message)
