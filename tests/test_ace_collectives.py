"""The table of collectives, and what the guard's parameters allow."""

import re
from dataclasses import replace

import pytest

from rtl.ace.collective_table import CollectiveTable
from sim_top.simulator import simulate
from tests.ace_axi_models import ENGINE


@pytest.mark.parametrize(("entries", "simulator"), [(1, "icarus"), (4, "icarus")])
def test_random_life(entries, simulator):
    simulate(
        CollectiveTable(entries=entries, queries=3, marks=2),
        testbench="testbenches.tb_ace_collective_table",
        simulator=simulator,
        parameters={"entries": entries, "queries": 3, "marks": 2},
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"collectives": 0}, "collectives must be in 1..64, not 0"),
        ({"collectives": 65}, "collectives must be in 1..64, not 65"),
        ({"regions": 0}, "regions must be in 1..15, not 0"),
        ({"regions": 16}, "regions must be in 1..15, not 16"),
    ],
)
def test_wrong_sizes(changes, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        replace(ENGINE, **changes)
