"""Engines with a lane for each class (docs/ace.md, *Classes*); see the bench."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from fractions import Fraction
from functools import cache

import pytest

from rtl.ace.memory_write import MemoryWriteArbiter
from rtl.ace.parameters import AceParameters, DimParameters
from rtl.ace.sram_share import SramReadShare, SramWriteShare
from rtl.axi.endpoint import AceAxi
from rtl.axi.register_map import registers
from rtl.common.packet import TrafficClass
from rtl.common.turns import Turns
from rtl.link import transmitter
from sim_top.cosim.outcome import Job, SingleCollectives, load, save
from sim_top.cosim.run import run_job
from sim_top.cosim.verify import compare
from sim_top.emit import TOPS
from sim_top.platform.build import platform_model
from sim_top.shell import MemoryAttachment, ShellPlan, shell_model
from sim_top.simulator import build, run_cocotb
from sw_model.collective.plan import Collective, Operation
from sw_model.endpoint import link as link_model
from sw_model.endpoint.class_turns import ClassTurns
from sw_model.errors import InputError
from sw_model.experiment import read_experiment
from sw_model.fabric.backend import TlmBackend
from sw_model.platform import EngineParameters, MemoryParameters, Partition, Platform
from sw_model.schedule.options import PlanBook, ScheduleOptions
from sw_model.topology import Dim, DimKind, Topology
from testbenches.ace_class_ring import AceClassRing

MP, PP, DP = TrafficClass.MP, TrafficClass.PP, TrafficClass.DP
RANKS = 4


@cache
def ring_model(
    *,
    classes=(MP, DP),
    contexts=4,
    buffers=8,
    flits=64,
    packet=256,
    rate=Fraction(1),
    doorbells=4,
):
    """A ring in its shell, and the SRAM flits of a lane."""
    latency = 10
    parameters = AceParameters(
        flit_bytes=16,
        dims=(
            DimParameters(grants=True, credits=2 * latency + 8, depth=2 * latency + 8, rate=rate),
        ),
        sram_flits=len(classes) * 2 * buffers * flits,
        buffers=2 * buffers,
        sram_banks=8,
        contexts=contexts,
        classes=classes,
        packet_bytes=packet,
        program_steps=16,
        doorbells=doorbells,
    )
    inputs = ("start", "chosen", "lane", "descriptor", "watched", "target", "link_stalls")
    plan = ShellPlan(
        events=("done",),
        activity="activity",
        public=(*inputs, "counters", "status", "completed", "last_status", "overrun"),
        memories=tuple(
            MemoryAttachment(read=f"memory_read__{rank}", write=f"memory_write__{rank}")
            for rank in range(RANKS)
        ),
        memory_words=32768,
    )
    ring = AceClassRing(ranks=RANKS, parameters=parameters, latency=latency)
    model = shell_model(ring, plan, name="ace_class_ring", optimise="-O1")
    return model, 2 * buffers * flits


def _run(found, testcase, *, classes=(MP, DP), plusargs=(), **work):
    model, lane_flits = found
    shape = {"chunk_flits": 64, "sources": 8, "destinations": 8, "chunks": [12] * len(classes)}
    result = run_cocotb(
        model,
        module="testbenches.tb_ace_class_ring",
        testcase=testcase,
        parameters={
            "ranks": RANKS,
            "classes": [int(c) for c in classes],
            "lane_flits": lane_flits,
        }
        | shape
        | work,
        plusargs=plusargs,
    )
    print([line for line in result.log.splitlines() if " cycles" in line])


def test_all_at_once():
    _run(ring_model(), "all_at_once")


def test_a_class_that_stands_still_holds_up_no_other():
    _run(ring_model(), "a_class_that_stands_still", chunks=[12, 30])


def test_priority():
    """MP beside DP that always has packets: DP gets every 17th packet, and what MP leaves."""
    _run(ring_model(), "priority", chunks=[60, 100], most_share=0.35, slowed=1.35)


def test_worst_case():
    """One buffer of a partition, links and memories that stall: see the bench."""
    stalls = ("memory_stalls=100", "memory_seed=7")
    work = {"sources": 2, "destinations": 1, "chunks": [6, 9], "link_stalls": 96, "rounds": 3}
    _run(ring_model(), "worst_case", plusargs=stalls, **work)


def test_another_class_is_refused():
    _run(ring_model(), "wrong_class")


@pytest.mark.full
@pytest.mark.parametrize("contexts", [1, 4])
@pytest.mark.parametrize("classes", [(MP, DP), (MP, PP, DP)])
def test_worst_case_for_long(classes, contexts):
    """The same for hundreds of thousands of cycles, with few and many contexts, and on three
    classes."""
    rounds = 12  # the bench rings without asking for room
    model = ring_model(classes=classes, contexts=contexts, doorbells=rounds)
    for seed, link_stalls in enumerate((40, 128, 200)):
        for sources, destinations in ((1, 1), (2, 1), (8, 8)):
            _run(
                model,
                "worst_case",
                classes=classes,
                plusargs=(f"memory_stalls={60 * seed + 60}", f"memory_seed={seed}"),
                sources=sources,
                destinations=destinations,
                chunks=[5, 9] if len(classes) == 2 else [3, 6, 5],
                link_stalls=link_stalls,
                rounds=rounds,
            )


@pytest.mark.full
def test_three_classes():
    model = ring_model(classes=(MP, PP, DP))
    for testcase in ("all_at_once", "a_class_that_stands_still"):
        _run(model, testcase, classes=(MP, PP, DP), chunks=[12, 8, 24])


@pytest.mark.parametrize(
    ("classes", "names"),
    [
        ((), ""),
        ((DP, MP), "dp+mp"),
        ((MP, MP), "mp+mp"),
        ((MP, TrafficClass.CONTROL), "mp+control"),
    ],
)
def test_bad_classes(classes, names):
    message = f"classes must be of mp, pp, dp in this order, each once, or None, not {names!r}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        AceParameters(
            flit_bytes=16,
            dims=(DimParameters(grants=True),),
            sram_flits=64,
            buffers=2,
            classes=classes,
        )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Turns(askers=0, bound=1), "askers must be a positive integer, not 0"),
        (lambda: Turns(askers=2, bound=0), "bound must be a positive integer, not 0"),
        (
            lambda: SramReadShare(users=0, address_bits=4, flit_bytes=16),
            "users must be a positive integer, not 0",
        ),
        (
            lambda: SramWriteShare(users=0, address_bits=4, flit_bytes=16),
            "users must be a positive integer, not 0",
        ),
        (
            lambda: MemoryWriteArbiter(users=2, flit_bytes=16, writes=0),
            "writes must be a positive integer, not 0",
        ),
    ],
)
def test_bad_shares(make, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        make()


# The transaction-level model.


def test_one_bound_everywhere():
    assert link_model.STARVATION_BOUND == transmitter.STARVATION_BOUND


def test_turns_of_classes():
    """The highest first; what 16 packets have passed goes next, such ones in turn."""
    turns = ClassTurns()
    served = []
    for _ in range(35):
        lane = turns.choose((0, 1, 2))
        turns.begin(lane, 1, (0, 1, 2))
        served.append(lane)
    assert served == [0] * 16 + [1, 2] + [0] * 15 + [1, 2]


def _platform(kind, classes, rate=Fraction(1)):
    topology = Topology((Dim(kind, 4, rate * 16 * 10**9, 10_000),))
    engine = EngineParameters(classes=classes)
    memory = MemoryParameters(words=1 << 18)
    return Platform.from_topology(topology, clock_hz=10**9, engine=engine, memory=memory)


def _reduce(elements, name):
    return Collective(
        Operation.ALL_REDUCE, elements, data_type="int32", traffic_class=name, dims=(0,)
    )


async def _contend(backend, collectives):
    for collective in collectives:
        backend.issue(collective, backend.representatives)
    left = len(collectives) * len(backend.representatives)
    while left:
        left -= len(await backend.wait(None))


def _tlm(platform, collectives):
    backend = TlmBackend(PlanBook(platform, ScheduleOptions(chunks=16)))
    asyncio.run(_contend(backend, collectives))
    return backend


@pytest.mark.parametrize("kind", [DimKind.RING, DimKind.FRED])
def test_classes_in_the_model(kind):
    """Alone a class is as quick as if there were no others; beside a lower one it ends long before
    it would behind it, and both move what they must, each counted by itself."""
    big, small = _reduce(20_000, "dp"), _reduce(2000, "mp")
    shared, own = _platform(kind, ()), _platform(kind, ("mp", "dp"))
    end = {}
    for where, platform in (("shared", shared), ("own", own)):
        for what, jobs in (("small", [small]), ("big", [big]), ("both", [big, small])):
            entries = _tlm(platform, jobs).entries
            end[where, what] = [max(entry.ended.values()) for entry in entries]
    for what in ("small", "big"):
        assert end["own", what] == end["shared", what]
    assert end["own", "both"][1] < end["shared", "both"][1] / 2
    assert end["own", "both"][0] < 1.05 * end["shared", "both"][1]
    counted = _tlm(own, [big, small]).counters()[0]
    apart = [_tlm(own, [one]).counters()[0].dims for one in (small, big)]
    assert counted.by_class == tuple(apart)
    assert counted.dims[0].flits_sent == sum(dims[0].flits_sent for dims in apart)


def test_a_class_without_a_lane():
    message = "engine.classes must name every class of traffic, 'pp' too, not mp, dp alone"
    with pytest.raises(InputError, match=f"^{message}$"):
        _tlm(_platform(DimKind.RING, ("mp", "dp")), [_reduce(64, "pp")])


@pytest.mark.parametrize("classes", [("dp", "mp"), ("mp", "mp"), ("control",)])
def test_bad_classes_of_a_platform(classes):
    message = f"classes must be some of mp, pp, dp in this order, not {', '.join(classes)}"
    with pytest.raises(ValueError, match=f"^{message}$"):
        EngineParameters(classes=classes)


def _bench_platform():
    """What `ring_model` builds."""
    return Platform.from_topology(
        Topology((Dim(DimKind.RING, RANKS, Fraction(16 * 10**9), 10_000),)),
        clock_hz=10**9,
        engine=EngineParameters(
            partitions=(Partition(8, 64),) * 2,
            sram_banks=8,
            packet_bytes=256,
            program_steps=16,
            classes=("mp", "dp"),
        ),
        memory=MemoryParameters(words=32768),
    )


def test_two_classes_that_saturate_memory_and_links(tmp_path):
    """Both have 64 KiB for a ring at the line rate: first memory is the limit, then the links. The
    higher class ends as if it were nearly alone, on RTL and TLM in the same cycle or so."""
    platform = _bench_platform()
    collectives = [_reduce(16384, name) for name in ("mp", "dp")]
    book = PlanBook(platform, ScheduleOptions(chunks=64))
    plans = [book.plan(number, one) for number, one in enumerate(collectives)]
    path = tmp_path / "job"
    save((platform, plans), path)
    _run(ring_model(), "as_planned", job=str(path))
    cycles, collisions = load(path.with_suffix(".outcome"))
    backend = TlmBackend(PlanBook(platform, ScheduleOptions(chunks=64)))
    asyncio.run(_contend(backend, collectives))
    model = [max(entry.ended.values()) for entry in backend.entries]
    print(f"RTL {cycles}, TLM {model}, collisions {collisions}")
    for rtl, tlm in zip(cycles, model, strict=True):
        assert abs(tlm / rtl - 1) <= 0.03, (cycles, model)


_MIXES = {
    "both saturate": ((20_000, "dp"), (20_000, "mp")),
    "short ones": ((20_000, "dp"), (2000, "mp"), (2000, "mp")),
}
_BOUNDS = {
    ("ring", "both saturate"): (0.03, 0.03),
    ("fred", "both saturate"): (0.03, 0.04),
    ("ring", "short ones"): (0.05, 0.17),
    ("fred", "short ones"): (0.05, 0.05),
}
"""Relative errors of the TLM's cycles: of the lower class, of the higher one. On a ring a lost
cycle costs short collectives a packet of the lower class (docs/tlm.md)."""


@pytest.mark.full
@pytest.mark.parametrize(("kind", "mix"), _BOUNDS)
def test_two_classes_contend_on_rtl_and_tlm(kind, mix):
    """The whole platform, rings or one FRED switch: data, counters by class, cycles."""
    rate = Fraction(1) if kind == "ring" else Fraction(3, 4)
    platform = _platform(DimKind[kind.upper()], ("mp", "dp"), rate)
    collectives = tuple(_reduce(*one) for one in _MIXES[mix])
    model = platform_model(platform)
    build(model)
    schedule = ScheduleOptions(chunks=16)
    work = SingleCollectives(collectives, at_once=True)
    outcome = run_job(model, Job(platform=platform, schedule=schedule, work=work))
    cases = compare(kind, outcome, _tlm(platform, collectives), seed=1)
    assert all(case.data_ok and case.counters_ok for case in cases), cases
    lower, higher = _BOUNDS[kind, mix]
    for number, case in enumerate(cases[: len(collectives)]):
        bound = higher if number else lower
        assert abs(case.tlm_cycles / case.rtl_cycles - 1) <= bound, case


# On AXI.


def test_ports_on_axi():
    parameters = AceParameters(
        flit_bytes=16,
        dims=(DimParameters(grants=True), DimParameters(grants=False)),
        sram_flits=64,
        buffers=2,
        classes=(MP, DP),
    )
    streams = {n for n in AceAxi(parameters=parameters).signature.members if "axis" in n}
    assert streams == {
        f"{side}_axis_{name}"
        for side in "ms"
        for name in ("0_mp", "1_mp", "0_dp", "1_dp", "grant_0_mp", "grant_0_dp")
    }
    names = {register.name for register in registers(lanes=2)}
    assert {"CLASSES", "DOORBELL", "DOORBELL_1", "DOORBELL_ROOM"} <= names
    assert "DOORBELL_2" not in names
    assert "CLASSES" not in {register.name for register in registers(lanes=1)}
    many = replace(parameters, dims=(DimParameters(grants=True),) * 8)
    message = "dims must be at most 15 for all classes together on AXI, not 16"
    with pytest.raises(ValueError, match=f"^{message}$"):
        AceAxi(parameters=many)


def test_emitted_with_classes():
    """``antiphon emit ace --set classes=mp+dp``."""
    settings = dict(TOPS["ace"].presets["sim"])
    plain = TOPS["ace"].build(settings).signature.members
    assert {"m_axis_0", "m_axis_1"} <= plain.keys()
    several = TOPS["ace"].build(settings | {"classes": (MP, DP)}).signature.members
    assert {"m_axis_0_mp", "m_axis_1_dp"} <= several.keys()


# Experiment files.

_FILE = """workload: {file: w.txt, ranks: 4, priorities: [%s]}
network: {dims: [{kind: Ring, size: 4, bandwidth_per_npu: 16 GB/s, latency: 10 ns}]}
"""


def test_priorities_of_a_workload_are_the_classes_of_the_platform():
    experiment = read_experiment("e.yaml", text=_FILE % "mp, dp")
    assert experiment.platform().engine.classes == ("mp", "dp")
    own = read_experiment("e.yaml", text="engine: {classes: [mp, pp, dp]}\n" + _FILE % "mp, dp")
    assert own.platform().engine.classes == ("mp", "pp", "dp")
    message = (
        "e.yaml:1: workload.priorities must be in the engines' own order, mp, pp, dp, on this "
        "platform, not dp, mp"
    )
    with pytest.raises(InputError, match=f"^{message}$"):
        read_experiment("e.yaml", text=_FILE % "dp, mp").platform()
