"""rtl.common.turns (see the bench)."""

import pytest
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.common.turns import Turns
from sim_top.simulator import simulate


def run(askers, bound, simulator="icarus"):
    simulate(
        Turns(askers=askers, bound=bound),
        testbench="testbenches.tb_turns",
        simulator=simulator,
        parameters={"askers": askers, "bound": bound},
    )


@pytest.mark.parametrize(("askers", "bound"), [(1, 4), (2, 1), (3, 3), (3, None)])
def test_turns(askers, bound):
    run(askers, bound)


@pytest.mark.full
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
@pytest.mark.parametrize(("askers", "bound"), [(2, 16), (3, 2), (4, 16), (7, 6)])
def test_turns_wide(askers, bound, simulator):
    run(askers, bound, simulator)


def test_signature():
    assert Turns(askers=3, bound=2).signature == wiring.Signature(
        {"asks": In(3), "offered": In(1), "taken": In(1), "turn": Out(3)}
    )
