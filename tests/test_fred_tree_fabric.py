"""A tree of switches on the TLM, against closed forms, the model of one switch, and the RTL."""

import asyncio
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from sim_top import cli
from sim_top.cosim.run import check_memory
from sim_top.crosscheck.matrix import Case, Setting
from sim_top.crosscheck.run import check_case
from sw_model.collective.plan import Collective, Operation
from sw_model.errors import InputError
from sw_model.experiment import read_experiment
from sw_model.fabric.backend import TlmBackend
from sw_model.fabric.simulate import run_collective
from sw_model.fred.timing import FRED_TIMING
from sw_model.fred.tree.placement import tree_table
from sw_model.fred.tree.shape import TreeShape
from sw_model.platform import EngineParameters, MemoryParameters, Partition, Platform
from sw_model.results import Crosscheck
from sw_model.schedule.options import PlanBook, ScheduleOptions
from sw_model.topology import Dim, DimKind, Topology
from sw_model.workload.spans import collectives_of, split_for_group

EXAMPLES = Path(__file__).parents[1] / "examples"
ALL_REDUCE = Operation.ALL_REDUCE
CHUNKS = ScheduleOptions("baseline", "fifo", 16)
ENGINE = EngineParameters(partitions=(Partition(8, 256), Partition(8, 256)))


WAFER = TreeShape(4, 4, 2)


def platform(size=20, ns=20, tree: TreeShape | None = WAFER, **engine):
    dim = Dim(DimKind.FRED, size, Fraction(20 * 10**9), ns * 1000, tree=tree)
    return Platform.from_topology(
        Topology((dim,)),
        engine=replace(ENGINE, **engine),
        memory=MemoryParameters(words=1 << 16),
    )


SMALL = platform(4, 8, TreeShape(2, 2, 1))


@pytest.mark.parametrize(("elements", "chunks", "slack"), [(8, 1, 0), (2048, 1, 0), (32768, 16, 1)])
def test_three_switches_take_longer_than_one_by_their_latencies(elements, chunks, slack) -> None:
    """Up, through an L2 switch and down, with two more links; and of a long payload no flit waits
    on the way, so that it takes no longer than that."""
    request = Collective(ALL_REDUCE, elements, dims=(0,))
    schedule = replace(CHUNKS, chunks=chunks)
    tree = run_collective(platform(), request, schedule=schedule)
    plain = run_collective(platform(tree=None), request, schedule=schedule)
    more = 2 * FRED_TIMING.latency(8) + FRED_TIMING.latency(10) - FRED_TIMING.latency(20)
    more += 2 * platform().links[0].latency
    assert abs(tree.cycles - plain.cycles - more) <= slack
    assert tree.counters == plain.counters


def run_at_once(where: Platform, requests: list[Collective]) -> list[int]:
    """Cycles of collectives that are all entered in cycle 0."""
    backend = TlmBackend(PlanBook(where, CHUNKS, collectives=requests))

    async def run() -> None:
        left = 0
        for request in requests:
            backend.issue(request, backend.representatives)
            left += len(backend.representatives)
        while left:
            left -= len(await backend.wait(None))

    asyncio.run(run())
    return [max(entry.ended.values()) for entry in backend.entries]


def test_groups_on_npus_of_their_own_do_not_hold_each_other_up() -> None:
    """Two MP groups and a DP group that share switches, in one configuration: each takes what it
    takes alone, but for the descriptors of the other, which come first."""
    tensor = Collective(ALL_REDUCE, 32768, groups=((0, 1, 2, 3), (4, 5, 8, 9)), traffic_class="mp")
    data = Collective(ALL_REDUCE, 32768, groups=((6, 10, 12, 16),))
    alone = [run_at_once(platform(), [request])[0] for request in (tensor, data)]
    together = run_at_once(platform(), [tensor, data])
    assert together[0] <= 1.02 * alone[0]
    assert together[1] <= 1.08 * alone[1]


def test_groups_that_share_npus_share_their_links() -> None:
    tensor = Collective(
        ALL_REDUCE,
        32768,
        groups=tuple((i, i + 1) for i in range(0, 20, 2)),
        traffic_class="mp",
    )
    data = Collective(ALL_REDUCE, 32768, groups=tuple(tuple(range(i, 20, 4)) for i in range(4)))
    together = run_at_once(platform(), [tensor, data])
    flits = 2 * (32768 * 2 // 16)
    assert flits < together[1] < 1.15 * flits


def test_classes_on_a_tree() -> None:
    message = (
        "a tree of FRED switches must have one channel for all classes: leave engine.classes out, "
        "instead of mp, dp"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        platform(classes=("mp", "dp"))


def test_a_collective_that_the_table_was_not_made_for() -> None:
    backend = TlmBackend(PlanBook(SMALL, CHUNKS))
    with pytest.raises(ValueError, match=r"must be in the configuration memories, which hold 0"):
        backend.issue(Collective(ALL_REDUCE, 8, dims=(0,)), backend.representatives)


def test_a_payload_over_the_memory_is_refused_before_anything_is_built() -> None:
    request = Collective(ALL_REDUCE, 1 << 19, dims=(0,))
    with pytest.raises(InputError, match=r"^the payloads need 131072 flits beside each NPU, and"):
        check_memory(SMALL, [request])


def test_a_workload_of_tensor_and_data_groups() -> None:
    """The example: tensor groups below one L1 switch each, data groups across all of them."""
    experiment = read_experiment(EXAMPLES / "wafer.yaml")
    workload = experiment.load_workload()
    small = workload.scaled(experiment.cosim.scale, "fp16")
    where = experiment.platform()
    collectives = collectives_of(small, where.topology, "fp16")
    groups = {one.traffic_class: one.groups for one in collectives.values()}
    rows = np.arange(20).reshape(5, 4)
    assert groups["mp"] == tuple(map(tuple, rows.tolist()))
    assert groups["dp"] == tuple(map(tuple, rows.T.tolist()))
    table = tree_table(where.tree, collectives.values())
    assert len(table.entries) == 2  # all groups of a class at the same time
    check_memory(where, collectives.values())


def test_a_tensor_group_that_does_not_divide_the_wafer() -> None:
    workload = read_experiment(EXAMPLES / "wafer.yaml").load_workload()
    message = "model_parallel_NPU_group must divide the 20 NPUs of the tree of switches, not 3"
    with pytest.raises(InputError, match=re.escape(message)):
        split_for_group(platform().topology, replace(workload, model_parallel_npus=3))


SINGLES = (
    Collective(ALL_REDUCE, 8, dims=(0,), name="a flit"),
    Collective(ALL_REDUCE, 16384, dims=(0,), name="everyone"),
    Collective(ALL_REDUCE, 8192, groups=((0, 1), (2, 3)), traffic_class="mp", name="pairs"),
    Collective(ALL_REDUCE, 8192, groups=((0, 2), (1, 3)), name="across"),
    Collective(ALL_REDUCE, 8192, groups=((1, 2),), name="one pair"),
    Collective(ALL_REDUCE, 1000, "int32", dims=(0,), name="integers"),
)
SHARDS = (
    Collective(Operation.REDUCE_SCATTER, 8 * 4 * 40, dims=(0,), name="reduce-scatter"),
    Collective(Operation.ALL_GATHER, 8 * 40, dims=(0,), name="all-gather"),
)


def agree(where: Platform, requests, exact=()) -> None:
    setting = Setting("tree", where, ScheduleOptions("baseline", "fifo", 8))
    result = Crosscheck(cases=tuple(check_case(Case(setting, tuple(requests)))))
    for case in result.cases:
        assert result.passes(case), case
    for number in exact:
        assert result.cases[number].rtl_cycles == result.cases[number].tlm_cycles


def test_two_switches_below_one_against_the_rtl() -> None:
    """Data bit for bit, counters exactly, cycles within the bound, and one chunk to the cycle."""
    agree(SMALL, SINGLES, exact=(0, 1))
    agree(SMALL, SHARDS)


@pytest.mark.full
def test_the_wafer_against_the_rtl() -> None:
    """20 NPUs; the model takes minutes to build."""
    requests = [
        Collective(ALL_REDUCE, 8, dims=(0,), name="a flit"),
        Collective(ALL_REDUCE, 32768, dims=(0,), name="everyone"),
        Collective(
            ALL_REDUCE,
            8192,
            groups=tuple((i, i + 1) for i in range(0, 20, 2)),
            traffic_class="mp",
            name="pairs",
        ),
        Collective(
            ALL_REDUCE, 8192, groups=tuple(tuple(range(i, 20, 4)) for i in range(4)), name="columns"
        ),
    ]
    agree(platform(), requests, exact=(0,))


def test_too_many_packets_are_refused_before_they_are_simulated(capsys) -> None:
    """At full size the example sends tens of millions; its command is `cosim`."""
    assert cli.main(["run", str(EXAMPLES / "wafer.yaml")]) == 2
    said = capsys.readouterr().err
    assert re.search(
        r"a tree of FRED switches is modelled packet by packet, and the NPUs send [0-9,]{9,} "
        r"packets, more than 1,000,000: run a smaller workload, or a part of the payload with "
        r"`antiphon cosim`\n$",
        said,
    )
