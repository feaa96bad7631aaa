"""Engines with a lane for each class (docs/ace.md, *Classes*); see the bench."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache

import pytest

from rtl.ace.memory_write import MemoryWriteArbiter
from rtl.ace.parameters import AceParameters, DimParameters
from rtl.ace.sram_share import SramReadShare, SramWriteShare
from rtl.common.packet import TrafficClass
from rtl.common.turns import Turns
from sim_top.shell import MemoryAttachment, ShellPlan, shell_model
from sim_top.simulator import run_cocotb
from testbenches.ace_class_ring import AceClassRing

MP, PP, DP = TrafficClass.MP, TrafficClass.PP, TrafficClass.DP
RANKS = 4


@cache
def ring_model(*, classes=(MP, DP), contexts=4, buffers=8, flits=64, packet=256, rate=Fraction(1)):
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
    model = ring_model(classes=classes, contexts=contexts)
    for seed, link_stalls in enumerate((40, 128, 200)):
        for sources, destinations in ((1, 1), (2, 1), (8, 8)):
            _run(
                model,
                "worst_case",
                classes=classes,
                plusargs=(f"memory_stalls={60 * seed + 60}", f"memory_seed={seed}"),
                sources=sources,
                destinations=destinations,
                chunks=[5, 9, 12][: len(classes)],
                link_stalls=link_stalls,
                rounds=12,
            )


@pytest.mark.full
def test_three_classes():
    model = ring_model(classes=(MP, PP, DP))
    for testcase in ("all_at_once", "a_class_that_stands_still"):
        _run(model, testcase, classes=(MP, PP, DP), chunks=[12, 8, 30])


@pytest.mark.parametrize("classes", [(), (DP, MP), (MP, MP), (MP, TrafficClass.CONTROL)])
def test_bad_classes(classes):
    message = f"classes must be classes of data in falling priority, or None, not {classes!r}"
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
