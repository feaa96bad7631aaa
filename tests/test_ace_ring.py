"""Rings of whole endpoints (see the bench)."""

from functools import cache

import pytest

from rtl.ace.parameters import AceParameters, DimParameters
from sim_top.shell import MemoryAttachment, ShellPlan, shell_model
from sim_top.simulator import run_cocotb
from testbenches.ace_ring import AceRing

WORK = {"chunk_flits": 64, "chunks": 12, "sources": 8, "destinations": 8}


@cache
def ring_model(
    *, ranks=4, latency=10, contexts=4, simulator="verilator", buffers=8, flits=64, forward=256
):
    """A ring in its shell."""
    parameters = AceParameters(
        flit_bytes=16,
        dims=(DimParameters(grants=True, credits=2 * latency + 8, depth=2 * latency + 8),),
        sram_flits=2 * buffers * flits,
        buffers=2 * buffers,
        sram_banks=8,
        contexts=contexts,
        forward_flits=forward,
        program_steps=16,
    )
    inputs = ("start", "chosen", "descriptor", "skew", "target")
    plan = ShellPlan(
        events=("done",),
        activity="activity",
        public=(*inputs, "counters", "status", "completed"),
        memories=tuple(
            MemoryAttachment(read=f"memory_read__{rank}", write=f"memory_write__{rank}")
            for rank in range(ranks)
        ),
        memory_words=16384,
    )
    ring = AceRing(ranks=ranks, parameters=parameters, latency=latency)
    return shell_model(ring, plan, name="ace_ring", simulator=simulator, optimise="-O1")


def _run(model, ranks, *, plusargs=(), testcase="collective", **work):
    result = run_cocotb(
        model,
        module="testbenches.tb_ace_ring",
        testcase=testcase,
        parameters={"ranks": ranks} | WORK | work,
        plusargs=plusargs,
    )
    print([line for line in result.log.splitlines() if " cycles, " in line])


@pytest.mark.parametrize("data_type", ["FP16", "INT32"])
@pytest.mark.parametrize("operation", ["ar", "rs", "ag"])
def test_ring_of_four(operation, data_type):
    """Chunks whose shards differ in size; ranks that are told at different times."""
    _run(ring_model(), 4, operation=operation, data_type=data_type, chunk_flits=63, skew=17)


def test_full_rate():
    """In the steady state every port sends a flit in more than 97 of 100 cycles."""
    _run(ring_model(), 4, operation="ar", chunks=60, window=[1000, 5000], least_rate=0.97)


@pytest.mark.parametrize("operation", ["ar", "ag"])
def test_small_forwarding_buffer(operation):
    """What the buffer no longer holds when its turn comes is read from SRAM."""
    _run(
        ring_model(forward=8),
        4,
        operation=operation,
        read_back={"ar": "some", "ag": "all"}[operation],
    )


@pytest.mark.parametrize("buffers", [(8, 8), (2, 1)])
def test_stalled_memories(buffers):
    """Every memory refuses at random; with plenty of buffers, and with next to none."""
    sources, destinations = buffers
    stalls = ("memory_stalls=100", "memory_seed=3")
    _run(ring_model(), 4, sources=sources, destinations=destinations, plusargs=stalls)


@pytest.mark.parametrize(
    "testcase", ["two_doorbells", "reset_in_the_middle", "a_missing_rank_is_found"]
)
def test_sequences(testcase):
    _run(ring_model(), 4, testcase=testcase, chunks=10)


def test_epochs_wrap():
    """300 chunks through one buffer of each partition: its uses are counted modulo 256."""
    _run(ring_model(), 4, chunk_flits=8, chunks=300, sources=1, destinations=1)


def test_on_icarus():
    """The same on the second simulator."""
    _run(ring_model(ranks=2, simulator="icarus"), 2, data_type="FP16", chunks=3)


@pytest.mark.full
@pytest.mark.parametrize("contexts", [1, 2, 8])
@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_wide(ranks, contexts):
    """Other sizes and numbers of contexts, with stalls, few and many buffers."""
    model = ring_model(ranks=ranks, contexts=contexts, latency=3 * ranks)
    for operation in ("ar", "rs", "ag"):
        for sources, destinations in ((1, 1), (3, 2), (8, 8)):
            for stalls in (0, 150):
                _run(
                    model,
                    ranks,
                    operation=operation,
                    sources=sources,
                    destinations=destinations,
                    plusargs=(f"memory_stalls={stalls}", "memory_seed=5"),
                )
