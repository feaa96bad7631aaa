"""Measuring a FRED switch under full load."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rtl.common.packet import DataType, Operator
from rtl.fred.configuration import request_layout
from rtl.fred.switch import FredSwitch
from sim_top.fred_traffic.component import FredTraffic
from sim_top.fred_traffic.pattern import expected_digests
from sim_top.simulator import simulate
from sw_model.fred.configuration import Configuration, Flow
from sw_model.fred.routing import route
from sw_model.fred.table import entry_image
from sw_model.fred.timing import FRED_TIMING

__all__ = ["FredFigures", "measure"]


@dataclass(frozen=True)
class FredFigures:
    """What a load has shown.

    Attributes
    ----------
    latency : cycles from the first flit in to the first flit out
    throughput : flits (headers too) per cycle, of the slowest port, from its first to its last
    goodput : payload flits per cycle, of the slowest port, likewise
    idle_per_change : idle cycles of a port for each change of the configuration
    flits : flits out of each port
    cycles : from the first to the last of them
    """

    latency: int
    throughput: float
    goodput: float
    idle_per_change: float
    flits: int
    cycles: int


def measure(
    *,
    ports: int,
    middle_copies: int = 3,
    flit_bytes: int = 16,
    packet_bytes: int = 4096,
    packets: int = 64,
    period: int | None = None,
    simulator: str = "verilator",
) -> FredFigures:
    """Load every port of FRED_m(P) with ``packets`` packets and check all that comes out.

    Parameters
    ----------
    ports, middle_copies, flit_bytes, packet_bytes : of the switch; packets are of full length
    packets : at each port
    period : alternate between an all-reduce over all ports and two over the halves of the ports,
        after so many packets; None for the all-reduce over all ports alone
    simulator : ``verilator`` or ``icarus``

    Raises
    ------
    SimulationError
        where the switch reports an error or does not finish.
    AssertionError
        where an output heard anything else than the model.
    """
    payload_flits = packet_bytes // flit_bytes
    credits = FRED_TIMING.output_credits(ports, payload_flits + 1, 0)
    switch = FredSwitch(
        ports=ports,
        middle_copies=middle_copies,
        flit_bytes=flit_bytes,
        packet_bytes=packet_bytes,
        data_types=frozenset({DataType.FP16}),
        operators=frozenset({Operator.SUM}),
        adder_depth=FRED_TIMING.adder_depth,
        configurations=2,
        input_depth=16,
        output_credits=credits,
    )
    everyone, half = range(ports), (ports + 1) // 2
    sets = [[Flow.all_reduce(everyone)]]
    if period is not None:
        sets.append([Flow.all_reduce(everyone[:half]), Flow.all_reduce(everyone[half:])])
    configurations = [_routed(ports, middle_copies, flows) for flows in sets]
    layout = request_layout(ports, middle_copies)
    requests = [
        index << layout["index"].offset | entry_image(configuration) << layout["entry"].offset
        for index, configuration in enumerate(configurations)
    ]
    with tempfile.TemporaryDirectory() as directory:
        results = Path(directory) / "results.json"
        simulate(
            FredTraffic(switch, payload_flits=payload_flits),
            testbench="sim_top.fred_traffic.inside",
            simulator=simulator,
            name="fred_traffic",
            parameters={
                "ports": ports,
                "packets": packets,
                "payload_flits": payload_flits,
                "period": period or packets,
                "alternate": int(period is not None),
                "requests": [f"{request:x}" for request in requests],
                "results": str(results),
            },
        )
        counters = json.loads(results.read_text())
    expected = expected_digests(
        configurations,
        flit_bytes=flit_bytes,
        packets=packets,
        period=period or packets,
        payload_flits=payload_flits,
    )
    assert counters["digest"] == expected, "the outputs differ from the model"
    return _figures(counters, packets, payload_flits, period)


def _routed(ports: int, middle_copies: int, flows: Sequence[Flow]) -> Configuration:
    outcome = route(ports, middle_copies, flows)
    assert isinstance(outcome, Configuration), str(outcome)
    return outcome


def _figures(counters: dict, packets: int, payload_flits: int, period: int | None) -> FredFigures:
    spans = [
        last - first + 1 for first, last in zip(counters["first"], counters["last"], strict=True)
    ]
    flits = packets * (payload_flits + 1)
    changes = (packets - 1) // period if period else 0
    return FredFigures(
        latency=min(counters["first"]) - counters["entered"],
        throughput=flits / max(spans),
        goodput=packets * payload_flits / max(spans),
        idle_per_change=(max(spans) - flits) / changes if changes else 0.0,
        flits=flits,
        cycles=max(spans),
    )
