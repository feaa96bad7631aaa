"""The switch with a channel for each class: random traffic, and a reset in the middle of it.

Parameters: those of :class:`testbenches.fred_bench.SwitchBench` with ``classes``, ``data_types``
and ``starvation_bound``.
"""

from __future__ import annotations

from typing import Any

import cocotb

from sw_model.fred.configuration import Configuration
from testbenches import parameters, random_generator, seed
from testbenches.fred_bench import SwitchBench
from testbenches.fred_classes import CLASSES, clear_errors
from testbenches.fred_flows import random_classes, routed
from testbenches.streams import bursty_stalls, random_stalls

_GIVEN = parameters()


async def _traffic(bench: SwitchBench, generator: Any, ops: int, configurations: list) -> None:
    """Random messages of all classes, and control packets where there is a channel for them."""
    for op in range(ops):
        index = generator.randrange(len(configurations))
        for flow in configurations[index].flows:
            lengths = [
                generator.randint(1, _GIVEN["packet_bytes"]) for _ in range(generator.randint(1, 3))
            ]
            bench.message(index, flow, lengths, op=op)
        if "control" in bench.classes and generator.random() < 0.5:
            source, destination = (generator.randrange(bench.ports) for _ in range(2))
            bench.control(source, destination, generator.randint(1, 48), op=source << 8 | op)


def _stalls(bench: SwitchBench, generator: Any) -> None:
    for port in range(bench.ports):
        bench.senders[port].stalls = random_stalls(seed() + port, 0.3)
        bench.receivers[port].stalls = [
            bursty_stalls(seed() + 100 * c + port, 12) for c in range(bench.channels)
        ]
        bench.receivers[port].delay = generator.randint(1, 9)


def _random_configurations(bench: SwitchBench, generator: Any) -> list[Configuration]:
    found = routed(
        generator,
        bench.ports,
        _GIVEN["middle_copies"],
        _GIVEN["configurations"],
        data_types=tuple(_GIVEN["data_types"]),
        operators=tuple(_GIVEN["operators"]),
    )
    return [random_classes(generator, configuration, CLASSES) for configuration in found]


@cocotb.test()
async def random_traffic_of_all_classes_under_stalls(dut: Any) -> None:
    """Every bit as the model says, each class by itself; nothing is left."""
    bench = SwitchBench(dut, _GIVEN, random_generator("data"))
    generator = random_generator("traffic")
    await bench.bench.reset()
    configurations = _random_configurations(bench, generator)
    await bench.load(dict(enumerate(configurations)))
    _stalls(bench, generator)
    await _traffic(bench, generator, _GIVEN.get("ops", 40), configurations)
    await bench.finish(limit=60_000, by_op=True)
    assert not bench.errors()
    assert int(dut.idle.value)


@cocotb.test()
async def reset_in_the_middle(dut: Any) -> None:
    """Packets, credits, configurations and errors under way are gone; then it is as new."""
    bench = SwitchBench(dut, _GIVEN, random_generator("data"))
    generator = random_generator("reset")
    await bench.bench.reset()
    configurations = _random_configurations(bench, generator)
    for _ in range(4):
        await bench.load(dict(enumerate(configurations)))
        _stalls(bench, generator)
        await _traffic(bench, generator, 12, configurations)
        bench.senders[0].send(bench.senders[0].queues[0], 0)  # a packet too many: an error
        await bench.bench.step(generator.randint(30, 200))
        await bench.restart()
        await bench.bench.step(bench.latency + 5)
        assert int(dut.idle.value)
        assert not int(dut.error.value)
        assert not any(receiver.flits for receiver in bench.receivers)
        assert int(dut.sent.value) == int(dut.received.value) == 0
        # Its memory is empty, and its credits are all there.
        packet = bench_packet(bench, configurations)
        bench.senders[packet[0]].send(packet[1], packet[2])
        await bench.bench.step(30)
        assert bench.errors() == {"unloaded": 1 << packet[2] * bench.ports + packet[0]}
        await clear_errors(bench)
        await bench.load(dict(enumerate(configurations)))
        await _traffic(bench, generator, 6, configurations)
        await bench.finish(limit=20_000, by_op=True)
        assert not bench.errors()
        assert int(dut.idle.value)
        await bench.restart()


def bench_packet(
    bench: SwitchBench, configurations: list[Configuration]
) -> tuple[int, list[int], int]:
    """Port, flits and channel of a packet of the first configuration's first flow."""
    bench.configurations[0] = configurations[0]
    flow = configurations[0].flows[0]
    port = flow.inputs[0]
    packet = bench.packets(0, flow, length=16)[port]
    return port, packet.flits(bench.flit_bytes), bench.channel(flow.traffic_class)
