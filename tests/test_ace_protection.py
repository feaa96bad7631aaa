"""Refusals, errors, aborts and resets among engines on AXI (see the bench)."""

import pytest

from sim_top.simulator import run_cocotb
from tests.ace_axi_models import EXPECTED, model

WORK = {"operation": "ar", "chunk_flits": 12, "chunks": 6, "turns": 6}


def run(testcase: str, *, ranks: int = 4, simulator: str = "verilator", seed: int = 1, **work):
    run_cocotb(
        model(ranks, simulator),
        module="testbenches.tb_ace_protection",
        testcase=testcase,
        seed=seed,
        parameters={"ranks": ranks, "expected": EXPECTED} | WORK | work,
    )


@pytest.mark.parametrize("testcase", ["refusals", "memory_errors", "aborts", "resets"])
def test_four(testcase):
    run(testcase)
