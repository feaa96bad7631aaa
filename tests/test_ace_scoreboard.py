"""Fill and release counters."""

import re

import pytest
from amaranth.lib.wiring import In

from rtl.ace.scoreboard import Scoreboard
from sim_top.simulator import simulate

GOOD = {"buffers": 6, "writers": 3, "readers": 2}


@pytest.mark.parametrize("buffers", [4, 6])
def test_scoreboard(buffers):
    parameters = GOOD | {"buffers": buffers}
    simulate(
        Scoreboard(**parameters), testbench="testbenches.tb_ace_scoreboard", parameters=parameters
    )


def test_signature():
    members = Scoreboard(**GOOD).signature.members
    shapes = {name: (member.flow, member.dimensions) for name, member in members.items()}
    assert shapes == {
        "freed": (In, (3,)),
        "filled": (In, (2,)),
        "fill": (In, (3,)),
        "release": (In, (2,)),
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"buffers": 0}, "buffers must be an integer in 1..256, not 0"),
        ({"buffers": 257}, "buffers must be an integer in 1..256, not 257"),
        ({"writers": 0}, "writers must be a positive integer, not 0"),
        ({"readers": "x"}, "readers must be a positive integer, not 'x'"),
    ],
)
def test_parameters(change, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Scoreboard(**GOOD | change)
