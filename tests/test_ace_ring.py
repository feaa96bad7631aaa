"""Rings of endpoints (see the bench)."""

import pytest

from rtl.ace.parameters import AceParameters, DimParameters
from sim_top.shell import MemoryAttachment, ShellPlan, shell_model
from sim_top.simulator import run_cocotb
from testbenches.ace_ring import AceRing


def ring_model(*, ranks, latency=10, contexts=4, simulator="icarus", buffers=8, chunk_flits=64):
    """A ring in its shell."""
    parameters = AceParameters(
        flit_bytes=16,
        dims=(DimParameters(grants=True, credits=40, depth=40),),
        sram_flits=2 * buffers * chunk_flits,
        buffers=2 * buffers,
        sram_banks=8,
        contexts=contexts,
        program_steps=16,
    )
    plan = ShellPlan(
        events=("done",),
        activity="activity",
        public=("start", "descriptor", "skew", "target", "counters", "status", "completed"),
        memories=tuple(
            MemoryAttachment(read=f"memory_read__{rank}", write=f"memory_write__{rank}")
            for rank in range(ranks)
        ),
        memory_words=16384,
    )
    ring = AceRing(ranks=ranks, parameters=parameters, latency=latency)
    return shell_model(ring, plan, name="ace_ring", simulator=simulator, optimise="-O1")


@pytest.mark.parametrize("data_type", ["FP16", "INT32"])
@pytest.mark.parametrize("operation", ["ar", "rs", "ag"])
def test_ring_of_four(operation, data_type):
    run_cocotb(
        ring_model(ranks=4),
        module="testbenches.tb_ace_ring",
        parameters={
            "ranks": 4,
            "operation": operation,
            "data_type": data_type,
            "chunk_flits": 64,
            "chunks": 12,
            "sources": 8,
            "destinations": 8,
        },
    )
