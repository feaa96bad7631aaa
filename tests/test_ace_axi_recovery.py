"""Refusals and aborts among engines on AXI in 2 x 2 rings (see the bench; docs/ace.md, *Protection
and recovery*)."""

import pytest

from sim_top.simulator import run_cocotb
from tests.ace_axi_models import EXPECTED, recovery_model


def run(testcase: str, operation: str, *, scheduler="baseline", seed=1, stall=0, **work):
    run_cocotb(
        recovery_model("verilator"),
        module="testbenches.tb_ace_axi_recovery",
        testcase=testcase,
        seed=seed,
        parameters={
            "ranks": 4,
            "expected": EXPECTED,
            "operation": operation,
            "scheduler": scheduler,
            "stall": stall,
            "chunk_flits": 16,
            "chunks": 4,
            "turns": 4,
            "latest": 400,
            "few": True,
        }
        | work,
    )


def test_refusals():
    run("refusals", "ALL_REDUCE", stall=30)


@pytest.mark.parametrize("testcase", ["refusals", "aborts_before_data"])
def test_reduce_scatter(testcase):
    run(testcase, "REDUCE_SCATTER")


@pytest.mark.parametrize("testcase", ["aborts_before_data", "aborts"])
def test_aborts(testcase):
    run(testcase, "ALL_REDUCE", scheduler="themis")


@pytest.mark.full
@pytest.mark.parametrize(
    ("operation", "scheduler"),
    [("ALL_REDUCE", "baseline"), ("ALL_REDUCE", "themis"), ("REDUCE_SCATTER", "themis")],
)
@pytest.mark.parametrize("testcase", ["refusals", "aborts_before_data", "aborts"])
def test_under_stalls(testcase, operation, scheduler):
    """Every rank gives up in turn, over both dims and over each alone."""
    for seed, stall in ((1, 20), (2, 50)):
        run(
            testcase,
            operation,
            scheduler=scheduler,
            seed=seed,
            stall=stall,
            turns=12,
            latest=1000,
            few=False,
        )
