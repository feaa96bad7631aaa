"""The switch with a channel for each class: priority, starvation bound, isolation.

Parameters: those of :class:`testbenches.fred_bench.SwitchBench` with ``classes``, ``data_types``
and ``starvation_bound``.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import cocotb

from sw_model.fred.configuration import Flow
from testbenches import parameters
from testbenches.fred_bench import SwitchBench
from testbenches.fred_classes import (
    CLASSES,
    everyone,
    no_bubbles,
    one_per_class,
    packet_flits,
    start,
)
from testbenches.streams import always, never

_GIVEN = parameters()
BOUND = _GIVEN.get("starvation_bound", 16)


@cocotb.test()
async def each_class_has_the_latency_and_the_whole_rate(dut: Any) -> None:
    """As if it were alone; nothing of it depends on the class."""
    bench = await start(dut, *one_per_class())
    for index, name in enumerate(CLASSES):
        bench.forget()
        for op, lengths in enumerate([[64, 64, 64], [16], [1], [64, 33]]):
            bench.message(index, everyone(name), lengths, op=op)
        await bench.finish()
        bench.expected.clear()
        entered = max(sender.cycles[0] for sender in bench.senders)
        for port, receiver in enumerate(bench.receivers):
            assert receiver.cycles[0] - entered == bench.latency
            assert no_bubbles(bench, port)
            assert set(receiver.channels) == {index}
    assert not bench.errors()


class Holder:
    """A flow from port 0 to port 0 that has started and lacks its last flits: no configuration
    can follow before it ends, while all that comes to the other ports gets ready."""

    def __init__(self, bench: SwitchBench, index: int):
        self.bench = bench
        self.flow = Flow((0,), (0,), CLASSES[0])
        self.packets = bench.packets(index, self.flow, length=64)
        self.flits = self.packets[0].flits(bench.flit_bytes)
        bench.senders[0].send(self.flits[:2], 0)
        bench.expect(index, self.flow, self.packets)

    def release(self) -> None:
        """Send the rest."""
        self.bench.senders[0].send(self.flits[2:], 0)


def others(traffic_class: str) -> Flow:
    """An all-reduce over all ports but 0."""
    return Flow.all_reduce(range(1, _GIVEN["ports"]), traffic_class=traffic_class)


@cocotb.test()
async def the_higher_class_goes_first_without_a_gap(dut: Any) -> None:
    """The lower a class, the earlier it is ready: yet they come out class by class."""
    sets = [[others(name)] for name in CLASSES]
    bench = await start(dut, *sets, [Flow((0,), (0,), CLASSES[0])])
    holder = Holder(bench, len(sets))
    await bench.bench.step(15)
    for index, name in reversed(list(enumerate(CLASSES))):
        bench.message(index, others(name), [64], op=1)
        await bench.bench.step(15)
    assert not any(receiver.flits for receiver in bench.receivers[1:])
    holder.release()
    await bench.finish()
    end = bench.receivers[0].cycles[-1]
    for port, receiver in enumerate(bench.receivers[1:], 1):
        assert no_bubbles(bench, port)
        assert receiver.channels == [c for c in range(len(CLASSES)) for _ in range(5)]
        assert receiver.cycles[0] == end + 1 + bench.timing.reconfiguration
    assert int(dut.switchovers.value) == 1 + len(CLASSES)


@cocotb.test()
async def a_lower_class_passes_once_in_n_packets(dut: Any) -> None:
    """The highest has packets all the time; exactly N of it pass each of the lowest, no gap."""
    sets = [[others(name)] for name in CLASSES]
    bench = await start(dut, *sets, [Flow((0,), (0,), CLASSES[0])])
    holder = Holder(bench, len(sets))
    await bench.bench.step(15)
    rounds, low = 3, len(CLASSES) - 1
    for op in range(rounds):
        bench.message(low, others(CLASSES[low]), [64], op=op)
    await bench.bench.step(30)
    for op in range(rounds * BOUND + 4):
        bench.message(0, others(CLASSES[0]), [64], op=op)
    await bench.bench.step(40)
    assert not any(receiver.flits for receiver in bench.receivers[1:])
    holder.release()
    await bench.finish(limit=20_000)
    for port, receiver in enumerate(bench.receivers[1:], 1):
        packets = receiver.channels[:: packet_flits(64)]
        assert packets == ([0] * BOUND + [low]) * rounds + [0] * 4
        assert no_bubbles(bench, port)


@cocotb.test()
async def no_class_starves_whatever_the_bound(dut: Any) -> None:
    """All have packets all the time: N, and one of each other class that is due, pass at most."""
    sets = [[others(name)] for name in CLASSES]
    bench = await start(dut, *sets, [Flow((0,), (0,), CLASSES[0])])
    holder = Holder(bench, len(sets))
    await bench.bench.step(15)
    count = 12
    for op in range(count):
        for index, name in reversed(list(enumerate(CLASSES))):
            bench.message(index, others(name), [16], op=op)
    await bench.bench.step(100)  # until the buffers hold all of it
    assert not any(queue for sender in bench.senders[1:] for queue in sender.queues)
    holder.release()
    await bench.finish(limit=4000)
    most = BOUND + len(CLASSES) - 1
    for receiver in bench.receivers[1:]:
        packets = receiver.channels[::2]
        for index in range(len(CLASSES)):
            places = [-1, *(k for k, c in enumerate(packets) if c == index)]
            waits = [b - a - 1 for a, b in pairwise(places)]
            assert max(waits) <= most, packets


@cocotb.test()
async def a_class_without_credit_holds_no_other(dut: Any) -> None:
    """Its packets wait in their own buffer, and the others have the whole rate."""
    bench = await start(dut, *one_per_class())
    stuck = 0
    for receiver in bench.receivers:
        receiver.stalls = [always() if c == stuck else never() for c in range(bench.channels)]
    credits, depth = bench._each("output_credits")[stuck], bench._each("input_depth")[stuck]
    count = (credits + depth + bench.timing.look_ahead) // packet_flits(64) + 4
    for op in range(count):
        bench.message(stuck, everyone(CLASSES[stuck]), [64], op=op)
    await bench.bench.step(10 * count + 60)
    through = credits // packet_flits(64) * packet_flits(64)
    assert {len(receiver.flits) for receiver in bench.receivers} == {through}
    for receiver in bench.receivers:
        receiver.cycles.clear()
    for index in range(1, len(CLASSES)):
        for op in range(10):
            bench.message(index, everyone(CLASSES[index]), [64], op=op)
        await bench.bench.step(60 + 10 * packet_flits(64))
        for port, receiver in enumerate(bench.receivers):
            assert len(receiver.cycles) == 10 * packet_flits(64)
            assert no_bubbles(bench, port)
            receiver.cycles.clear()
    for receiver in bench.receivers:
        receiver.stalls = never()
    await bench.finish(limit=4000)


@cocotb.test()
async def a_class_that_waits_for_a_port_holds_no_other(dut: Any) -> None:
    """The watchdog's bits name the class and the ports."""
    bench = await start(dut, *one_per_class())
    ports = bench.ports
    late = bench.senders[0]
    held = bench.packets(0, everyone(CLASSES[0]), length=64)
    for port in range(1, ports):
        bench.senders[port].send(held[port].flits(bench.flit_bytes), 0)
    await bench.bench.step(30)
    assert int(dut.waiting.value) == (1 << ports) - 2
    assert int(dut.missing.value) == 1
    for op in range(6):
        bench.message(1, everyone(CLASSES[1]), [64, 64], op=op)
    await bench.finish()
    assert int(dut.waiting.value) == (1 << ports) - 2
    late.send(held[0].flits(bench.flit_bytes), 0)
    bench.expect(0, everyone(CLASSES[0]), held)
    await bench.finish()
    assert int(dut.waiting.value) == int(dut.missing.value) == 0
    # A lower class that waits is named by its own bits.
    low = len(CLASSES) - 1
    packets = bench.packets(low, everyone(CLASSES[low]), length=64)
    bench.senders[1].send(packets[1].flits(bench.flit_bytes), low)
    await bench.bench.step(30)
    assert int(dut.waiting.value) == 0b10 << low * ports
    assert int(dut.missing.value) == ((1 << ports) - 1 & ~0b10) << low * ports


@cocotb.test()
async def flows_of_the_active_configuration_start_whenever_ready(dut: Any) -> None:
    """Classes and lengths mixed in one configuration; a lower configuration waits meanwhile."""
    ports = _GIVEN["ports"]
    half = ports // 2
    left = Flow.all_reduce(range(half), traffic_class=CLASSES[0])
    right = Flow.all_reduce(range(half, ports), traffic_class=CLASSES[0])
    below = everyone(CLASSES[1])
    bench = await start(dut, [left, right], [below])
    for op in range(12):
        bench.message(0, left, [16], op=op)
    for op in range(4):
        bench.message(0, right, [64], op=op)
    await bench.bench.step(2)
    bench.message(1, below, [64], op=0)
    await bench.finish()
    for port in (0, half):
        receiver = bench.receivers[port]
        mine = [t for t, c in zip(receiver.cycles, receiver.channels, strict=True) if c == 0]
        assert mine[-1] - mine[0] == len(mine) - 1, f"output {port} has bubbles"
    above = [
        t for r in bench.receivers for t, c in zip(r.cycles, r.channels, strict=True) if c == 0
    ]
    under = [
        t for r in bench.receivers for t, c in zip(r.cycles, r.channels, strict=True) if c == 1
    ]
    assert min(under) == max(above) + 1
    assert int(dut.switchovers.value) == 2


@cocotb.test()
async def flows_of_several_classes_share_a_configuration(dut: Any) -> None:
    """They run at the same time, each in its channel."""
    ports = _GIVEN["ports"]
    half = ports // 2
    flows = [
        Flow.all_reduce(range(half), traffic_class=CLASSES[0]),
        Flow.all_reduce(range(half, ports), traffic_class=CLASSES[1]),
    ]
    bench = await start(dut, flows)
    for op in range(5):
        for flow in flows:
            bench.message(0, flow, [64, 20], op=op)
    await bench.finish()
    for port, receiver in enumerate(bench.receivers):
        assert no_bubbles(bench, port)
        assert set(receiver.channels) == {0 if port < half else 1}
    starts = {receiver.cycles[0] for receiver in bench.receivers}
    assert len(starts) == 1
    assert int(dut.switchovers.value) == 1
