"""The switch with a channel for each class: errors touch their own class only.

Parameters: those of :class:`testbenches.fred_bench.SwitchBench` with ``classes``, ``data_types``
and ``starvation_bound``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cocotb

from rtl.fred.configuration import Refusal
from sw_model.fred.configuration import Flow
from sw_model.fred.table import entry_image
from testbenches import parameters
from testbenches.fred_classes import (
    CLASSES,
    clear_errors,
    everyone,
    no_bubbles,
    one_per_class,
    start,
)
from testbenches.fred_flows import configured
from testbenches.streams import always, never

_GIVEN = parameters()


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
