"""The switch's twin at packet level against the RTL, and against closed forms."""

import re
from fractions import Fraction

import numpy as np
import pytest

from rtl.common.packet import DataType, Operator, TrafficClass
from rtl.fred.switch import FredSwitch
from sim_top.simulator import simulate
from sw_model.fabric.fred_packets import ArrivingPacket, PacketSwitch
from sw_model.fred.configuration import Configuration, Flow
from sw_model.fred.routing import route
from sw_model.fred.timing import FRED_TIMING
from tests.fred_models import once_per_kind

MP, PP, DP, CONTROL = TrafficClass
GOOD = {
    "ports": 4,
    "middle_copies": 3,
    "flit_bytes": 16,
    "packet_bytes": 160,
    "adder_depth": 2,
    "configurations": 4,
    "input_depth": (24, 20, 40),
    "output_credits": (40, 30, 23),
    "classes": (MP, PP, DP),
    "starvation_bound": 4,
}


def run(simulator="icarus", rate=Fraction(1), rounds=6, ops=30, seed=None, **changes):
    options = GOOD | changes
    types = frozenset({DataType.FP16, DataType.INT32})
    simulate(
        FredSwitch(data_types=types, operators=frozenset({Operator.SUM}), rate=rate, **options),
        testbench="testbenches.tb_fred_twin",
        simulator=simulator,
        seed=seed,
        timeout_seconds=1200,
        change=once_per_kind(options["ports"], simulator),
        parameters={
            **options,
            "classes": [c.name.lower() for c in options["classes"]],
            "data_types": ["fp16", "int32"],
            "rate": [rate.numerator, rate.denominator],
            "rounds": rounds,
            "ops": ops,
        },
    )


def test_three_classes():
    run()


@pytest.mark.full
def test_a_bound_of_one():
    run(rounds=3, starvation_bound=1)


def test_two_classes_at_three_fifths():
    run(
        rate=Fraction(3, 5),
        rounds=4,
        classes=(MP, DP),
        input_depth=30,
        output_credits=(25, 33),
        starvation_bound=1,
    )


@pytest.mark.full
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("ports", "copies", "classes", "rate"),
    [
        (3, 2, (MP, PP, DP), Fraction(1)),
        (5, 3, (MP, DP), Fraction(2, 3)),
        (8, 3, (MP, PP, DP), Fraction(1)),
        (11, 3, (PP, DP), Fraction(1)),
        (12, 3, (MP, PP, DP), Fraction(5, 7)),
    ],
)
def test_matrix(ports, copies, classes, rate, seed):
    run(
        "icarus" if ports < 8 else "verilator",
        rate,
        8,
        30,
        seed,
        ports=ports,
        middle_copies=copies,
        classes=classes,
        input_depth=24,
        output_credits=30,
    )


def configured(flows, ports=4) -> Configuration:
    found = route(ports, 3, flows)
    assert isinstance(found, Configuration)
    return found


def packet(configuration: int, order: int, first: int, flits: int, step: int = 1):
    return ArrivingPacket(configuration, order, np.arange(first, first + step * flits, step))


def switch(*flow_sets, classes=("mp", "dp"), credits=(100, 100), **options):
    return PacketSwitch(
        [configured(flows) for flows in flow_sets], classes=classes, credits=credits, **options
    )


def test_one_packet_takes_the_latency():
    everyone = Flow.all_reduce(range(4))
    twin = switch([everyone])
    for port in range(4):
        twin.offer(port, 1, packet(0, 0, 10 + 3 * port, 5))
    twin.run()
    (found,) = twin.departures
    assert found.cycles.tolist() == [19 + FRED_TIMING.latency(4) + k for k in range(5)]
    assert (found.configuration, found.order, found.channel) == (0, 0, 1)
    assert found.outputs == (0, 1, 2, 3)
    assert twin.waiting() == []


def test_a_slow_input_paces_its_flow_and_a_slow_output_too():
    pair, single = Flow.all_reduce((0, 1)), Flow((2,), (2,))
    twin = switch([pair, single])
    twin.offer(0, 1, packet(0, 0, 0, 6, step=3))
    twin.offer(1, 1, packet(0, 0, 0, 6))
    twin.offer(2, 1, packet(0, 0, 0, 6))
    twin.run()
    gaps = {found.outputs: np.diff(found.cycles).tolist() for found in twin.departures}
    # The header waits for its start, so that flits two and three are there by then.
    assert gaps[(2,)] == [1] * 5
    assert sum(gaps[(0, 1)]) == 15 - (FRED_TIMING.start - FRED_TIMING.receive - 1)

    paced = switch([single], rate=Fraction(2, 5))
    paced.offer(2, 1, packet(0, 0, 0, 6))
    paced.run()
    first = int(paced.departures[0].cycles[0])
    assert [int(c) - first for c in paced.departures[0].cycles] == [k * 5 // 2 for k in range(6)]


def test_the_higher_class_first_and_the_bound():
    sets = [[Flow.all_reduce(range(4), traffic_class=name)] for name in ("mp", "dp")]
    twin = switch(*sets, starvation_bound=3)
    for port in range(4):
        for number in range(8):
            twin.offer(port, 0, packet(0, number, 5 * number, 5))
        for number in range(2):
            twin.offer(port, 1, packet(1, number, 5 * number, 5))
    twin.run()
    assert [d.channel for d in twin.departures] == [0, 0, 0, 1, 0, 0, 0, 1, 0, 0]
    cycles = np.concatenate([d.cycles for d in twin.departures])
    assert np.diff(cycles).tolist() == [1] * 49
    assert twin.switchovers == 5


def test_two_classes_that_are_due_do_not_keep_out_the_third():
    names = ("mp", "pp", "dp")
    sets = [[Flow.all_reduce(range(4), traffic_class=name)] for name in names]
    twin = switch(*sets, classes=names, credits=(100, 100, 100), starvation_bound=1)
    for port in range(4):
        for channel in range(3):
            for number in range(4):
                twin.offer(port, channel, packet(channel, number, 2 * number, 2))
    twin.run()
    order = [d.channel for d in twin.departures]
    assert [order.count(channel) for channel in range(3)] == [4, 4, 4]
    assert order == [0, 1, 2] * 4


def test_a_cycle_of_orders_waits_for_ever_and_is_named():
    groups = [Flow.all_reduce(ports) for ports in ((0, 1), (1, 2), (2, 0))]
    twin = switch(*([group] for group in groups))
    for port, order in {0: (0, 2), 1: (1, 0), 2: (2, 1)}.items():
        for k, group in enumerate(order):
            twin.offer(port, 1, packet(group, group, 5 * k, 5))
    twin.run()
    assert not twin.departures
    assert twin.waiting() == [(1, 0), (1, 1), (1, 2)]


def test_a_packet_of_another_class_is_refused():
    twin = switch([Flow((0,), (1,), "mp")])
    for port, channel, name in ((0, 1, "dp"), (2, 0, "mp")):
        text = f"configuration 0 must have a flow of class {name!r} from port {port}"
        with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
            twin.offer(port, channel, packet(0, 0, 0, 2))
