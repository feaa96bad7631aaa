"""rtl.fred.switch and random flow sets: 100 % of the line, the latency formula, every bit."""

import pytest

from rtl.common.packet import DataType, Operator
from rtl.fred.switch import FredSwitch
from sim_top.simulator import simulate
from tests.fred_models import once_per_kind


def run(
    ports,
    copies,
    flow_sets,
    simulator="icarus",
    adder_depth=2,
    types=("fp16",),
    expected_sets=None,
):
    options = {
        "ports": ports,
        "middle_copies": copies,
        "flit_bytes": 16,
        "packet_bytes": 64,
        "adder_depth": adder_depth,
        "configurations": 1,
        "input_depth": 24,
        "output_credits": 60,
    }
    operators = ("sum",) if types == ("fp16",) else ("sum", "max", "min")
    simulate(
        FredSwitch(
            data_types=frozenset(DataType[name.upper()] for name in types),
            operators=frozenset(Operator[name.upper()] for name in operators),
            **options,
        ),
        testbench="testbenches.tb_fred_line_rate",
        simulator=simulator,
        timeout_seconds=1200,
        change=once_per_kind(ports, simulator),
        parameters={
            **options,
            "data_types": types,
            "operators": operators,
            "flow_sets": flow_sets,
            **({"expected_sets": expected_sets} if expected_sets else {}),
        },
    )


@pytest.mark.parametrize(("ports", "copies"), [(3, 2), pytest.param(5, 3, marks=pytest.mark.full)])
def test_some_flow_sets(ports, copies):
    run(ports, copies, 12)


@pytest.mark.full
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
@pytest.mark.parametrize("ports", [3, 5, 8, 11, 12, 16])
def test_three_hundred_flow_sets(ports, simulator):
    run(ports, 3, 50, simulator)


@pytest.mark.full
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
@pytest.mark.parametrize(("copies", "sets"), [(2, 1939), (3, 2099)])
def test_every_configuration_of_four_ports(copies, sets, simulator):
    """There are 2099 sets of disjoint flows; two copies route all but 160 of them."""
    run(4, copies, "all", simulator, expected_sets=sets)


@pytest.mark.full
@pytest.mark.parametrize(("ports", "adder_depth"), [(6, 1), (7, 4)])
def test_all_data_types_and_other_depths(ports, adder_depth):
    run(ports, 3, 25, "icarus", adder_depth, ("fp16", "bf16", "fp32", "int32"))
