"""The switch against its twin at packet level: every flit, every credit, to the cycle.

Parameters: those of :class:`testbenches.fred_bench.SwitchBench` with ``classes`` (data only),
``data_types``, ``starvation_bound``, ``rate``; ``rounds`` and ``ops`` of each.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import cocotb
import numpy as np

from rtl.common.packet import PacketHeader
from sw_model.fabric.fred_packets import ArrivingPacket, PacketSwitch
from sw_model.fred.timing import FredTiming
from testbenches import parameters, random_generator
from testbenches.bench import Part
from testbenches.fred_bench import SwitchBench
from testbenches.fred_flows import random_classes, routed
from testbenches.streams import bursty_stalls, never, random_stalls

_GIVEN = parameters()
CLASSES: list[str] = _GIVEN.get("classes", ["dp"])
_LAYOUT = PacketHeader.as_shape()


class CreditMonitor(Part):
    """Records the cycles of the credits on an input's wire, by channel."""

    def __init__(self, dut: Any, port: int):
        self.credit = getattr(dut, f"i__{port}__credit")
        self.cycles: list[list[int]] = [[] for _ in CLASSES]

    def sample(self, cycle: int) -> None:
        """Look at it."""
        value = int(self.credit.value)
        for channel, cycles in enumerate(self.cycles):
            if value >> channel & 1:
                cycles.append(cycle)


def header_field(flit: int, name: str) -> int:
    """A field of a header flit."""
    return flit >> _LAYOUT[name].offset & ((1 << _LAYOUT[name].width) - 1)


def arrivals(sent: list[int], cycles: list[int]) -> list[ArrivingPacket]:
    """The packets of one channel, from its flits and the cycles in which they were on the wire."""
    last = 1 << (8 * _GIVEN["flit_bytes"] + 1)
    found, begin = [], 0
    for k, flit in enumerate(sent):
        if flit & last:
            head = sent[begin]
            order = (
                header_field(head, "op") << 24
                | header_field(head, "step") << 16
                | header_field(head, "sequence")
            )
            found.append(
                ArrivingPacket(
                    configuration=header_field(head, "configuration"),
                    order=order,
                    wire=np.array(cycles[begin : k + 1], np.int64),
                )
            )
            begin = k + 1
    return found


@cocotb.test()
async def every_flit_leaves_when_the_twin_says(dut: Any) -> None:
    """Random flow sets, classes, lengths, gaps at the inputs and late credits at the outputs."""
    generator = random_generator("twin")
    bench = SwitchBench(dut, _GIVEN, random_generator("data"))
    ports = range(bench.ports)
    monitors = [bench.bench.add(CreditMonitor(dut, p)) for p in ports]
    await bench.bench.reset()
    for number in range(_GIVEN.get("rounds", 6)):
        if number:
            await bench.restart()
        configurations = [
            random_classes(generator, configuration, CLASSES)
            for configuration in routed(
                generator,
                bench.ports,
                _GIVEN["middle_copies"],
                _GIVEN["configurations"],
                data_types=tuple(_GIVEN["data_types"]),
            )
        ]
        await bench.load(dict(enumerate(configurations)))
        for port in ports:
            bits = generator.getrandbits(32)
            bench.senders[port].stalls = generator.choice(
                (never(), random_stalls(bits, 0.3), bursty_stalls(bits, 25))
            )
            bench.receivers[port].delay = generator.choice((1, 2, 7, 30))
            monitors[port].cycles = [[] for _ in CLASSES]
        for op in range(_GIVEN.get("ops", 30)):
            index = generator.randrange(len(configurations))
            for flow in configurations[index].flows:
                if generator.random() < 0.7:
                    lengths = [
                        generator.randint(1, _GIVEN["packet_bytes"])
                        for _ in range(generator.randint(1, 4))
                    ]
                    bench.message(index, flow, lengths, op=op)
        sent = [[list(queue) for queue in bench.senders[port].queues] for port in ports]
        await bench.finish(limit=60_000, by_op=True)
        assert not bench.errors()
        compare(bench, configurations, sent, monitors, int(dut.switchovers.value))


def compare(
    bench: SwitchBench,
    configurations: list,
    sent: list[list[list[int]]],
    monitors: list[CreditMonitor],
    switchovers: int,
) -> None:
    """The twin, given what was on the input wires, against what was seen on the others."""
    twin = PacketSwitch(
        configurations,
        classes=CLASSES,
        credits=bench._each("output_credits"),
        credit_delay=lambda port: bench.receivers[port].delay,
        rate=Fraction(*_GIVEN["rate"]),
        starvation_bound=_GIVEN["starvation_bound"],
        timing=FredTiming(adder_depth=_GIVEN["adder_depth"]),
    )
    for port, sender in enumerate(bench.senders):
        for channel in range(len(CLASSES)):
            cycles = [
                cycle
                for cycle, c in zip(sender.cycles, sender.channels, strict=True)
                if c == channel
            ]
            for packet in arrivals(sent[port][channel], cycles):
                twin.offer(port, channel, packet)
    twin.run()
    assert not twin.waiting()
    assert twin.switchovers == switchovers
    expected: list[list[tuple[int, int]]] = [[] for _ in bench.receivers]
    for departure in twin.departures:
        for port in departure.outputs:
            expected[port] += [(int(cycle), departure.channel) for cycle in departure.cycles]
    for port, receiver in enumerate(bench.receivers):
        found = list(zip(receiver.cycles, receiver.channels, strict=True))
        if found != expected[port]:
            k = next(
                (k for k, (a, b) in enumerate(zip(found, expected[port], strict=False)) if a != b),
                min(len(found), len(expected[port])),
            )
            raise AssertionError(
                f"output {port}, flit {k}: {found[k : k + 3]}, the twin {expected[port][k : k + 3]}"
            )
    for port, monitor in enumerate(monitors):
        for channel, cycles in enumerate(monitor.cycles):
            assert cycles == twin.credits_returned(port, channel).tolist(), f"credits of {port}"
