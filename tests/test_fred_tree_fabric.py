"""A tree of switches on the TLM, against closed forms, the model of one switch, and the RTL."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim_top import cli
from sim_top.bench.wafer import EVERYONE, GROUPS, model_at_once, wafer_platform
from sim_top.cosim.outcome import Job, Outcome, SingleCollectives
from sim_top.cosim.placement import check_payloads
from sim_top.cosim.run import run_job
from sim_top.cosim.verify import compare
from sim_top.crosscheck.matrix import Case, Setting
from sim_top.crosscheck.run import check_case
from sim_top.crosscheck.tree import tree_collectives, tree_platform, tree_shards
from sim_top.platform.build import platform_model
from sim_top.simulator import build
from sw_model.collective.plan import Collective, Operation
from sw_model.errors import InputError
from sw_model.experiment import read_experiment
from sw_model.fabric.backend import TlmBackend
from sw_model.fabric.preemption import by_class
from sw_model.fabric.simulate import run_collective
from sw_model.fred.timing import FRED_TIMING
from sw_model.fred.tree.placement import tree_table
from sw_model.platform import Platform
from sw_model.results import Crosscheck, CrosscheckCase
from sw_model.schedule.options import PlanBook, ScheduleOptions
from sw_model.workload.spans import collectives_of, split_for_group

EXAMPLES = Path(__file__).parents[1] / "examples"
ALL_REDUCE = Operation.ALL_REDUCE
CHUNKS = ScheduleOptions("baseline", "fifo", 16)
WAFER = wafer_platform()
SMALL, CLASSES = tree_platform(()), tree_platform()


@pytest.mark.parametrize(("elements", "chunks", "slack"), [(8, 1, 0), (2048, 1, 0), (32768, 16, 1)])
def test_three_switches_take_longer_than_one_by_their_latencies(elements, chunks, slack) -> None:
    """Up, through an L2 switch and down, with two more links; and of a long payload no flit waits
    on the way, so that it takes no longer than that."""
    request = Collective(ALL_REDUCE, elements, dims=(0,))
    schedule = replace(CHUNKS, chunks=chunks)
    tree = run_collective(WAFER, request, schedule=schedule)
    plain = run_collective(wafer_platform(None), request, schedule=schedule)
    more = 2 * FRED_TIMING.latency(8) + FRED_TIMING.latency(10) - FRED_TIMING.latency(20)
    more += 2 * WAFER.links[0].latency
    assert abs(tree.cycles - plain.cycles - more) <= slack
    assert tree.counters == plain.counters


def run_at_once(where: Platform, requests: Sequence[Collective]) -> list[int]:
    """Cycles of collectives that are all entered in cycle 0."""
    backend = model_at_once(where, CHUNKS, requests)
    return [max(entry.ended.values()) for entry in backend.entries]


def test_groups_on_npus_of_their_own_do_not_hold_each_other_up() -> None:
    """Two MP groups and a DP group that share switches, in one configuration: each takes what it
    takes alone, but for the descriptors of the other, which come first."""
    alone = [run_at_once(WAFER, [request])[0] for request in GROUPS]
    together = run_at_once(WAFER, GROUPS)
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
    together = run_at_once(WAFER, [tensor, data])
    flits = 2 * (32768 * 2 // 16)
    assert flits < together[1] < 1.15 * flits


MP, PP, DP = (
    next(one for one in tree_collectives() if one.name == name)
    for name in ("below", "sent up", "across")
)


@pytest.mark.parametrize("alone", [MP, PP, DP])
def test_a_class_alone_has_the_tree_as_if_there_were_no_others(alone) -> None:
    assert run_at_once(CLASSES, [alone]) == run_at_once(SMALL, [alone])


def test_higher_classes_pass_lower_ones() -> None:
    """All links are shared, and every class has 1,024 or 512 flits for them. Entered first or last,
    tensor traffic is done first; with one channel for all it comes when it was entered."""
    for order in ([MP, DP], [DP, MP]):
        ends = dict(
            zip([one.traffic_class for one in order], run_at_once(CLASSES, order), strict=True)
        )
        assert ends["mp"] < ends["dp"]
        assert ends["dp"] > 2 * 1024
    assert run_at_once(SMALL, [DP, MP])[0] < run_at_once(SMALL, [DP, MP])[1]
    together = run_at_once(CLASSES, [DP, PP, MP])
    assert max(together[1:]) < together[0]


def test_a_collective_that_the_table_was_not_made_for() -> None:
    backend = TlmBackend(PlanBook(SMALL, CHUNKS))
    with pytest.raises(ValueError, match=r"must be in the configuration memories, which hold 0"):
        backend.issue(Collective(ALL_REDUCE, 8, dims=(0,)), backend.representatives)


def test_a_payload_over_the_memory_is_refused_before_anything_is_built() -> None:
    request = Collective(ALL_REDUCE, 1 << 19, dims=(0,))
    with pytest.raises(InputError, match=r"^the payloads need 131072 flits beside each NPU, and"):
        check_payloads(SMALL, [request])


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
    check_payloads(where, collectives.values())


def test_a_tensor_group_that_does_not_divide_the_wafer() -> None:
    workload = read_experiment(EXAMPLES / "wafer.yaml").load_workload()
    message = "model_parallel_NPU_group must divide the 20 NPUs of the tree of switches, not 3"
    with pytest.raises(InputError, match=re.escape(message)):
        split_for_group(WAFER.topology, replace(workload, model_parallel_npus=3))


def agree(where: Platform, requests, exact=()) -> None:
    setting = Setting("tree", where, ScheduleOptions("baseline", "fifo", 8))
    result = Crosscheck(cases=tuple(check_case(Case(setting, tuple(requests)))))
    for case in result.cases:
        assert result.passes(case), case
    for number in exact:
        assert result.cases[number].rtl_cycles == result.cases[number].tlm_cycles


def test_two_switches_below_one_against_the_rtl() -> None:
    """Data bit for bit, counters exactly, cycles within the bound, and one chunk to the cycle."""
    agree(CLASSES, tree_collectives(), exact=(0, 4, 6))
    agree(CLASSES, tree_shards())


def at_once_on_both(
    where: Platform, schedule: ScheduleOptions, requests: Sequence[Collective]
) -> tuple[Outcome, TlmBackend, list[CrosscheckCase]]:
    """All entered in the first cycle: the RTL, watched where it has classes, the TLM, and a case
    for every collective; data and counters must be equal."""
    model = platform_model(where)
    build(model)
    work = SingleCollectives(tuple(requests), at_once=True)
    outcome = run_job(model, Job(where, schedule, work, watched=where.engine.lanes > 1))
    backend = model_at_once(where, schedule, requests)
    cases = compare("at once", outcome, backend, seed=1)
    for case in cases:
        assert case.data_ok, case
        assert case.counters_ok, case
    return outcome, backend, cases[: len(requests)]


def test_three_classes_at_once_against_the_rtl() -> None:
    """On the RTL, too, every class interrupts those below it. What differs is the order of two
    packets (docs/tlm.md)."""
    outcome, backend, cases = at_once_on_both(CLASSES, CHUNKS, [DP, PP, MP])
    assert outcome.interrupted is not None
    seen = by_class(CLASSES.engine.classes, outcome.interrupted)
    assert min(seen["pp"]["mp"], seen["dp"]["mp"], seen["dp"]["pp"]) > 0
    model = backend.interrupted_packets()
    assert model is not None
    assert min(model["dp"].values()) > 0
    check = Crosscheck(tuple(cases))
    for case in cases:
        assert check.passes(case), case


@pytest.mark.parametrize("requests", [[PP, MP], [DP, PP]])
def test_two_classes_at_once_against_the_rtl_to_the_cycle(requests) -> None:
    """In one chunk each, which the higher class begins before the lower."""
    for case in at_once_on_both(CLASSES, replace(CHUNKS, chunks=1), requests)[2]:
        assert case.rtl_cycles == case.tlm_cycles, case


@pytest.mark.full
def test_three_groups_of_the_wafer_at_once_against_the_rtl() -> None:
    """Two MP groups and a DP group share switches and no links; nothing is allowed for a packet,
    as all share one channel."""
    cases = at_once_on_both(WAFER, CHUNKS, GROUPS)[2]
    check = Crosscheck(tuple(cases))
    for case in cases:
        assert not case.packet_cycles
        assert check.passes(case), case


@pytest.mark.full
def test_the_wafer_against_the_rtl() -> None:
    """20 NPUs; the model takes minutes to build."""
    requests = [
        Collective(ALL_REDUCE, 8, dims=(0,), name="a flit"),
        EVERYONE,
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
    agree(WAFER, requests, exact=(0,))


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
