"""Refusals, errors, aborts and resets among engines on AXI (see the bench)."""

import pytest

from sim_top.simulator import run_cocotb
from tests.ace_axi_models import EXPECTED, fred_model, model

WORK = {"operation": "ar", "chunk_flits": 12, "chunks": 6, "turns": 4}


def run(testcase: str, *, ranks: int = 4, simulator: str = "verilator", seed: int = 1, **work):
    fabric = fred_model if work.get("fred") else model
    run_cocotb(
        fabric(ranks, simulator),
        module="testbenches.tb_ace_protection",
        testcase=testcase,
        seed=seed,
        parameters={"ranks": ranks, "expected": EXPECTED} | WORK | work,
    )


@pytest.mark.parametrize("testcase", ["refusals", "memory_errors", "aborts"])
def test_four_in_a_ring(testcase):
    run(testcase)


def test_resets_in_a_ring():
    """With stalls, so that bursts and messages are under way when resets come."""
    run("resets", stall=30)


def test_two_around_a_switch():
    run("aborts", ranks=2, simulator="icarus", fred=1)


@pytest.mark.full
@pytest.mark.parametrize("testcase", ["refusals", "memory_errors", "aborts"])
def test_three_around_a_switch(testcase):
    run(testcase, ranks=3, fred=1)


@pytest.mark.full
@pytest.mark.parametrize("operation", ["ar", "rs", "ag"])
@pytest.mark.parametrize("testcase", ["refusals", "memory_errors", "aborts", "resets"])
def test_under_stalls(testcase, operation):
    """Every channel of every port stalls at random; two simulators, sizes and seeds."""
    for seed in (1, 2):
        run(testcase, operation=operation, seed=seed, stall=30, turns=10)
    run(testcase, ranks=2, simulator="icarus", operation=operation, stall=20, chunk_flits=9)
