"""The switch with a channel for each class: priority, starvation bound, isolation, reset.

Parameters: those of :class:`testbenches.fred_bench.SwitchBench` with ``classes``, ``data_types``
and ``starvation_bound``.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import cocotb

from rtl.fred.configuration import Refusal
from sw_model.fred.configuration import Configuration, Flow
from sw_model.fred.table import entry_image
from testbenches import parameters, random_generator, seed
from testbenches.fred_bench import SwitchBench
from testbenches.fred_flows import configured, random_classes, routed
from testbenches.streams import always, bursty_stalls, never, random_stalls

_GIVEN = parameters()
CLASSES = [name for name in _GIVEN.get("classes", []) if name != "control"]
BOUND = _GIVEN.get("starvation_bound", 16)


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


@cocotb.test()
async def errors_name_class_and_port_and_only_that_class_is_touched(dut: Any) -> None:
    """A packet in the channel of another class, or of another class than its flow, and so on."""
    flow_sets = one_per_class()
    bench = await start(dut, *flow_sets, [Flow((0,), (0,), CLASSES[0])])
    ports = bench.ports
    strangers = len(CLASSES)
    for channel, name in enumerate(CLASSES):
        flow = everyone(name)
        other = (channel + 1) % len(CLASSES)
        changes = {
            "unloaded": {"configuration": 9},
            "stranger": {"configuration": strangers},
            "kind": {"configuration": other},
            "length": {"length": _GIVEN["packet_bytes"] + 1},
        }
        for op, (error, change) in enumerate(changes.items()):
            packet = bench.packets(channel, flow, length=48, op=op)[1]
            wrong = replace(packet, header=replace(packet.header, **change))
            bench.senders[1].send(wrong.flits(bench.flit_bytes), channel)
            for index, fine in enumerate(CLASSES):
                bench.message(index, everyone(fine), [64, 20], op=op)
            await bench.finish()
            assert bench.errors() == {error: 0b10 << channel * ports}, (name, error)
            await clear_errors(bench)
        # Right for its flow, but in the channel of another class.
        packet = bench.packets(channel, flow, length=48, op=9)[1]
        bench.senders[1].send(packet.flits(bench.flit_bytes), other)
        bench.message(channel, flow, [64], op=10)
        await bench.finish()
        assert bench.errors() == {"kind": 0b10 << other * ports}
        await clear_errors(bench)
        # Headers that differ are thrown away in their class only.
        packets = bench.packets(channel, flow, length=32, op=11)
        odd = replace(packets[0], header=replace(packets[0].header, collective=7))
        for port, one in (packets | {0: odd}).items():
            bench.senders[port].send(one.flits(bench.flit_bytes), channel)
        bench.message(other, everyone(CLASSES[other]), [64], op=12)
        await bench.finish()
        assert bench.errors() == {"misaligned": ((1 << ports) - 1) << channel * ports}
        await clear_errors(bench)


@cocotb.test()
async def a_faulty_packet_that_does_not_end_holds_only_its_channel(dut: Any) -> None:
    """Its flits stop half-way; the others have the whole rate."""
    bench = await start(dut, *one_per_class())
    packet = bench.packets(0, everyone(CLASSES[0]), length=64)[1]
    wrong = replace(packet, header=replace(packet.header, configuration=9))
    flits = wrong.flits(bench.flit_bytes)
    bench.senders[1].send(flits[:2], 0)
    await bench.bench.step(20)
    for op in range(4):
        bench.message(1, everyone(CLASSES[1]), [64, 64], op=op)
    await bench.finish()
    assert all(no_bubbles(bench, port) for port in range(bench.ports))
    bench.senders[1].send(flits[2:], 0)
    bench.message(0, everyone(CLASSES[0]), [64], op=1)
    await bench.finish()
    assert bench.errors() == {"unloaded": 0b10}


@cocotb.test()
async def what_lies_behind_a_faulty_packet_starts_after_its_end(dut: Any) -> None:
    """All of it is in the channel already, between two packets that wait for port 0."""
    flow = everyone(CLASSES[0])
    bench = await start(dut, *one_per_class())
    bench.senders[0].stalls = always()
    bench.message(0, flow, [16], op=1)
    wrong = bench.packets(0, flow, length=48)[1]
    wrong = replace(wrong, header=replace(wrong.header, configuration=9))
    bench.senders[1].send(wrong.flits(bench.flit_bytes), 0)
    bench.message(0, flow, [16, 16], op=2)
    await bench.bench.step(30)
    bench.senders[0].stalls = never()
    await bench.finish()
    assert bench.errors() == {"unloaded": 0b10}


@cocotb.test()
async def an_entry_is_replaced_while_its_classes_are_idle(dut: Any) -> None:
    """Packets of another class do not matter."""
    bench = await start(dut, *one_per_class())
    ports, copies = bench.ports, _GIVEN["middle_copies"]
    held = bench.packets(1, everyone(CLASSES[1]), length=32)
    bench.senders[0].send(held[0].flits(bench.flit_bytes), 1)
    await bench.bench.step(20)
    single = [Flow((0,), (1,), name) for name in CLASSES]
    assert await bench.configure(1, entry_image(configured(ports, copies, [single[1]]))) is (
        Refusal.BUSY
    )
    # Not even by an entry of a class that is idle: packets of the old one are here.
    assert await bench.configure(1, entry_image(configured(ports, copies, [single[0]]))) is (
        Refusal.BUSY
    )
    await bench.load({0: configured(ports, copies, [single[0]])})
    bench.message(0, single[0], [64], op=1)
    await bench.finish()
    for port in range(1, ports):
        bench.senders[port].send(held[port].flits(bench.flit_bytes), 1)
    bench.expect(1, everyone(CLASSES[1]), held)
    await bench.finish()
    await bench.load({1: configured(ports, copies, [single[1]])})
    bench.message(1, single[1], [64], op=1)
    await bench.finish()
    # A class without a channel is refused.
    foreign = next(c for c in ("mp", "pp", "dp", "control") if c not in CLASSES)
    wrong = configured(ports, copies, [Flow((0,), (1,), foreign)])
    assert await bench.configure(2, entry_image(wrong)) is Refusal.KIND
    assert not bench.errors()


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
