"""Measuring a FRED switch under full load."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtl.common.packet import DataType, Operator
from rtl.fred.configuration import request_layout
from rtl.fred.switch import FredSwitch
from sim_top.emission import emit_systemverilog
from sim_top.fred_traffic.component import FredTraffic
from sim_top.fred_traffic.pattern import expected_digests, headers
from sim_top.shell import ShellPlan, shell_model
from sim_top.simulator import Model, run_cocotb
from sw_model.fred.configuration import Configuration, Flow
from sw_model.fred.routing import route
from sw_model.fred.table import entry_image
from sw_model.fred.timing import FRED_TIMING

__all__ = ["FredFigures", "each_cycle", "measure"]

_PLAN = ShellPlan(
    events=("ended",),
    public=(
        "configure__valid", "configure__payload", "refusal", "start", "packets", "period",
        "alternate", "done", "error", "entered", "first", "last", "flits", "digest", "received",
        "sent",
    ),
    memory_words=1,
)  # fmt: skip

_BLOCKS = ("reduce_switch", "reduce_distribute_switch")
"""What Verilator compiles once each; larger switches consist of many of them."""


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
    received, sent : bytes of payload into and out of each port, by the switch's counters of flits,
        the headers taken off
    simulated, seconds : cycles from the start to the end, and the processor time they took
    model : what was simulated
    """

    latency: int
    throughput: float
    goodput: float
    idle_per_change: float
    flits: int
    cycles: int
    received: tuple[int, ...]
    sent: tuple[int, ...]
    simulated: int
    seconds: float
    model: Model


def measure(
    *,
    ports: int,
    middle_copies: int = 3,
    flit_bytes: int = 16,
    packet_bytes: int = 4096,
    packets: int = 64,
    period: int | None = None,
    simulator: str = "verilator",
    optimise: str = "-O1",
    record: Path | None = None,
) -> FredFigures:
    """Load every port of FRED_m(P) with ``packets`` packets and check all that comes out.

    Parameters
    ----------
    ports, middle_copies, flit_bytes, packet_bytes : of the switch; packets are of full length
    packets : at each port
    period : alternate between an all-reduce over all ports and two over the halves of the ports,
        after so many packets; None for the all-reduce over all ports alone
    simulator : ``verilator`` or ``icarus``
    optimise : compiler option for Verilator's model
    record : file that takes down what is done, for a run without Python

    Raises
    ------
    SimulationError
        where the switch reports an error or does not finish.
    AssertionError
        where an output heard anything else than the model.
    """
    payload_flits = packet_bytes // flit_bytes
    switch = _switch(ports, middle_copies, flit_bytes, packet_bytes)
    everyone, half = range(ports), (ports + 1) // 2
    sets = [[Flow.all_reduce(everyone)]]
    if period is not None:
        sets.append([Flow.all_reduce(everyone[:half]), Flow.all_reduce(everyone[half:])])
    configurations = [_routed(ports, middle_copies, flows) for flows in sets]
    model = shell_model(
        FredTraffic(switch, payload_flits=payload_flits),
        _PLAN,
        name="fred_traffic",
        optimise=optimise,
        simulator=simulator,
        blocks=_BLOCKS if simulator == "verilator" and ports > 4 else (),
    )
    counters = _run(
        model,
        "inside",
        {
            "ports": ports,
            "packets": packets,
            "payload_flits": payload_flits,
            "period": period or packets,
            "alternate": int(period is not None),
            "requests": [_request(*entry) for entry in enumerate(configurations)],
            "record": "" if record is None else str(record),
        },
        configurations,
        flit_bytes,
    )
    return _figures(model, counters, packets, payload_flits * flit_bytes, payload_flits, period)


def each_cycle(
    *,
    ports: int,
    middle_copies: int = 3,
    flit_bytes: int = 16,
    packet_bytes: int = 4096,
    packets: int = 4,
    optimise: str = "-O1",
) -> float:
    """Cycles per second of processor time where Python drives and samples all ports in every cycle,
    on Verilator; the load is the all-reduce of :func:`measure`.

    Raises
    ------
    SimulationError
        where the switch reports an error or does not finish.
    AssertionError
        where an output heard anything else than the model.
    """
    payload_flits = packet_bytes // flit_bytes
    switch = _switch(ports, middle_copies, flit_bytes, packet_bytes)
    configuration = _routed(ports, middle_copies, [Flow.all_reduce(range(ports))])
    model = Model(
        top="fred_switch",
        sources={"fred_switch.sv": emit_systemverilog(switch, name="fred_switch")},
        public={"fred_switch": ("*",)},
        optimise=optimise,
    )
    counters = _run(
        model,
        "each_cycle",
        {
            "ports": ports,
            "flit_bytes": flit_bytes,
            "packets": packets,
            "payload_flits": payload_flits,
            "period": packets,
            "input_depth": switch.input_depth,
            "request": _request(0, configuration),
            "headers": [
                f"{word:x}" for word in headers(packets, payload_flits, flit_bytes=flit_bytes)
            ],
        },
        [configuration],
        flit_bytes,
    )
    return counters["simulated"] / counters["seconds"]


def _switch(ports: int, middle_copies: int, flit_bytes: int, packet_bytes: int) -> FredSwitch:
    """With room for line rate."""
    flits = packet_bytes // flit_bytes + 1
    return FredSwitch(
        ports=ports,
        middle_copies=middle_copies,
        flit_bytes=flit_bytes,
        packet_bytes=packet_bytes,
        data_types=frozenset({DataType.FP16}),
        operators=frozenset({Operator.SUM}),
        adder_depth=FRED_TIMING.adder_depth,
        configurations=2,
        input_depth=16,
        output_credits=FRED_TIMING.output_credits(ports, flits, 0),
    )


def _request(index: int, configuration: Configuration) -> str:
    """What loads a configuration, in hexadecimal digits."""
    layout = request_layout(configuration.ports, configuration.middle_copies)
    bits = index << layout["index"].offset | entry_image(configuration) << layout["entry"].offset
    return f"{bits:x}"


def _run(
    model: Model,
    module: str,
    parameters: dict[str, Any],
    configurations: Sequence[Configuration],
    flit_bytes: int,
) -> dict[str, Any]:
    """What a module of this package counts; what the outputs heard is compared with the model."""
    with tempfile.TemporaryDirectory() as directory:
        results = Path(directory) / "results.json"
        run_cocotb(
            model,
            module=f"sim_top.fred_traffic.{module}",
            timeout_seconds=1200,
            parameters={**parameters, "results": str(results)},
        )
        counters: dict[str, Any] = json.loads(results.read_text())
    expected = expected_digests(
        configurations,
        flit_bytes=flit_bytes,
        packets=parameters["packets"],
        period=parameters["period"],
        payload_flits=parameters["payload_flits"],
    )
    assert counters["digest"] == expected, "the outputs differ from the model"
    return counters


def _routed(ports: int, middle_copies: int, flows: Sequence[Flow]) -> Configuration:
    outcome = route(ports, middle_copies, flows)
    assert isinstance(outcome, Configuration), str(outcome)
    return outcome


def _figures(
    model: Model,
    counters: dict[str, Any],
    packets: int,
    packet_bytes: int,
    payload_flits: int,
    period: int | None,
) -> FredFigures:
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
        received=_payload(counters["received"], packets, packet_bytes, payload_flits),
        sent=_payload(counters["sent"], packets, packet_bytes, payload_flits),
        simulated=counters["simulated"],
        seconds=counters["seconds"],
        model=model,
    )


def _payload(
    flits: Sequence[int], packets: int, packet_bytes: int, payload_flits: int
) -> tuple[int, ...]:
    """Bytes of payload in so many flits, of which one in each packet is a header."""
    return tuple((count - packets) * packet_bytes // payload_flits for count in flits)
