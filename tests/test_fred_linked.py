"""rtl.fred.switch between links with virtual channels."""

import pytest

from rtl.common.packet import DataType, Operator, TrafficClass
from rtl.fred.switch import FredSwitch
from sim_top.simulator import simulate
from sw_model.fred.timing import FRED_TIMING
from testbenches.fred_linked import LinkedSwitch

MP, PP, DP, CONTROL = TrafficClass


def run(ports, copies, latency, classes, simulator="icarus"):
    credits = FRED_TIMING.output_credits(ports, 5, latency)
    depth = (credits,) * (len(classes) - 1) + (2 * latency + 4,)
    options = {
        "ports": ports,
        "middle_copies": copies,
        "flit_bytes": 16,
        "packet_bytes": 64,
        "control_bytes": 32,
        "configurations": 4,
    }
    switch = FredSwitch(
        data_types=frozenset({DataType.FP16}),
        operators=frozenset({Operator.SUM}),
        adder_depth=FRED_TIMING.adder_depth,
        input_depth=2 * latency + 4,
        output_credits=depth,
        classes=classes,
        starvation_bound=2,
        **options,
    )
    simulate(
        LinkedSwitch(switch, latency=latency, depth=depth),
        testbench="testbenches.tb_fred_linked",
        simulator=simulator,
        timeout_seconds=1200,
        parameters={
            **options,
            "latency": latency,
            "depth": depth,
            "classes": [c.name.lower() for c in classes],
        },
    )


def test_two_classes_and_control():
    run(3, 2, 3, (MP, DP, CONTROL))


@pytest.mark.full
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
@pytest.mark.parametrize("latency", [1, 2, 25])
def test_three_classes_and_control(latency, simulator):
    run(4, 3, latency, (MP, PP, DP, CONTROL), simulator)
