"""Compound collectives through rtl.fred.switch as configurations in series."""

import pytest

from rtl.common.packet import DataType, Operator
from rtl.fred.switch import FredSwitch
from sim_top.simulator import simulate
from tests.fred_models import once_per_kind


def run(ports, simulator="icarus", packet_bytes=64, testcase=None):
    options = {
        "ports": ports,
        "middle_copies": 3,
        "flit_bytes": 16,
        "packet_bytes": packet_bytes,
        "adder_depth": 2,
        "configurations": 4 * ports,
        "input_depth": 24,
        "output_credits": 40,
    }
    simulate(
        FredSwitch(
            data_types=frozenset({DataType.INT32}), operators=frozenset({Operator.SUM}), **options
        ),
        testbench="testbenches.tb_fred_collectives",
        simulator=simulator,
        timeout_seconds=1200,
        change=once_per_kind(ports, simulator),
        testcase=testcase,
        parameters=options,
    )


def test_collectives_over_four_ports():
    run(4)


@pytest.mark.full
@pytest.mark.parametrize("ports", [8, 12])
def test_collectives_over_more_ports(ports):
    run(ports, "verilator", 48)
