"""What the benches of a switch with a channel for each class have in common."""

from __future__ import annotations

from typing import Any

from sw_model.fred.configuration import Flow
from testbenches import parameters, random_generator
from testbenches.fred_bench import SwitchBench
from testbenches.fred_flows import configured

__all__ = [
    "CLASSES",
    "clear_errors",
    "everyone",
    "no_bubbles",
    "one_per_class",
    "packet_flits",
    "start",
]

_GIVEN = parameters()
CLASSES = [name for name in _GIVEN.get("classes", []) if name != "control"]
"""Names of the classes of data, by channel."""


async def start(dut: Any, *flow_sets: list[Flow]) -> SwitchBench:
    """A reset switch with configuration k for the k-th set of flows."""
    bench = SwitchBench(dut, _GIVEN, random_generator("data"))
    await bench.bench.reset()
    found = [configured(_GIVEN["ports"], _GIVEN["middle_copies"], flows) for flows in flow_sets]
    await bench.load(dict(enumerate(found)))
    return bench


def everyone(traffic_class: str) -> Flow:
    """An all-reduce over all ports."""
    return Flow.all_reduce(range(_GIVEN["ports"]), traffic_class=traffic_class)


def one_per_class() -> list[list[Flow]]:
    """For each class a configuration with an all-reduce over all ports."""
    return [[everyone(name)] for name in CLASSES]


async def clear_errors(bench: SwitchBench) -> None:
    """Forget the sticky bits."""
    bench.dut.clear.value = 1
    await bench.bench.step()
    bench.dut.clear.value = 0
    await bench.bench.step()
    assert not int(bench.dut.error.value)


def no_bubbles(bench: SwitchBench, port: int) -> bool:
    """Whether flits came out of a port in every cycle from the first to the last."""
    cycles = bench.receivers[port].cycles
    return cycles[-1] - cycles[0] == len(cycles) - 1


def packet_flits(length: int) -> int:
    """Flits of a packet."""
    return 1 + -(-length // _GIVEN["flit_bytes"])
