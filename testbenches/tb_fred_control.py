"""Control packets through the switch: their own path, beside data at full load.

Parameters: those of :class:`testbenches.fred_bench.SwitchBench` with ``classes`` (one for data at
least, and control), ``control_bytes``, ``starvation_bound``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cocotb

from rtl.common.packet import PacketHeader
from sw_model.fred.configuration import Flow
from testbenches import parameters, random_generator, seed
from testbenches.fred_bench import SwitchBench
from testbenches.fred_flows import configured
from testbenches.fred_packets import Header, control_packet
from testbenches.streams import always, bursty_stalls, never, random_stalls

_GIVEN = parameters()
DATA = _GIVEN.get("classes", ["dp"])[0]
CONTROL = len(_GIVEN.get("classes", ["dp"])) - 1
BOUND = _GIVEN.get("starvation_bound", 16)
PORTS = _GIVEN.get("ports", 2)


async def start(dut: Any) -> SwitchBench:
    """A reset switch whose configuration 0 is an all-reduce over all ports."""
    bench = SwitchBench(dut, _GIVEN, random_generator("data"))
    await bench.bench.reset()
    await bench.load({0: configured(PORTS, _GIVEN["middle_copies"], [everyone()])})
    return bench


def everyone() -> Flow:
    """All ports."""
    return Flow.all_reduce(range(PORTS), traffic_class=DATA)


@cocotb.test()
async def every_input_reaches_every_output_in_time(dut: Any) -> None:
    """One cycle less than data, and one flit per cycle."""
    bench = await start(dut)
    flits = 1 + _GIVEN["control_bytes"] // _GIVEN["flit_bytes"]
    for source in range(PORTS):
        for destination in range(PORTS):
            bench.forget()
            bench.expected.clear()
            bench.control(source, destination, _GIVEN["control_bytes"])
            await bench.finish(settle=5)
            receiver = bench.receivers[destination]
            assert set(receiver.channels) == {CONTROL}
            assert receiver.cycles[0] - bench.senders[source].cycles[0] == bench.latency - 1
            assert receiver.cycles[-1] - receiver.cycles[0] == flits - 1
    assert not bench.errors()
    assert int(dut.switchovers.value) == 0


@cocotb.test()
async def permutations_run_at_the_same_time(dut: Any) -> None:
    """Every output is served by itself; between two packets lies one cycle."""
    bench = await start(dut)
    for op in range(6):
        for source in range(PORTS):
            bench.control(source, (source + 1) % PORTS, 48, op=op)
    await bench.finish()
    for receiver in bench.receivers:
        first = receiver.cycles[0]
        assert receiver.cycles == [first + 5 * packet + k for packet in range(6) for k in range(4)]


@cocotb.test()
async def inputs_of_one_output_take_turns(dut: Any) -> None:
    """Round-robin by packets: in every round each input once."""
    bench = await start(dut)
    queued = 4
    for source in range(PORTS):
        for op in range(queued):
            bench.control(source, 0, 16, op=op, collective=source)
    limit = 400
    await bench.bench.until(
        lambda: len(bench.receivers[0].flits) == 2 * queued * PORTS, limit=limit, stuck="turns"
    )
    field = PacketHeader.as_shape()["collective"]
    found = [
        flit >> field.offset & ((1 << field.width) - 1) for flit in bench.receivers[0].flits[::2]
    ]
    assert sorted(found) == sorted(list(range(PORTS)) * queued)
    for turn in range(queued):
        assert sorted(found[turn * PORTS : (turn + 1) * PORTS]) == list(range(PORTS))


@cocotb.test()
async def data_at_full_load_lets_control_through_within_the_bound(dut: Any) -> None:
    """Data flits fill every cycle; a control packet gets in after N packets of data, in one
    piece, and no cycle is lost."""
    bench = await start(dut)
    most = Flow(tuple(range(1, PORTS)), tuple(range(PORTS)), DATA)
    await bench.load({1: configured(PORTS, _GIVEN["middle_copies"], [most])})
    for op in range(3 * BOUND + 6):
        bench.message(1, most, [_GIVEN["packet_bytes"]], op=op)
    for op in range(2):
        bench.control(0, 0, 32, op=op)
    bench.senders[0].stalls = iter([True] * 40 + [False] * 4000)
    await bench.finish(limit=4000)
    receiver = bench.receivers[0]
    assert receiver.cycles[-1] - receiver.cycles[0] == len(receiver.cycles) - 1
    places = [k for k, c in enumerate(receiver.channels) if c == CONTROL]
    assert [k - places[0] for k in places[:3]] == [k - places[3] for k in places[3:]] == [0, 1, 2]
    head = 1 << 8 * _GIVEN["flit_bytes"]
    between = [k for k in range(places[2] + 1, places[3]) if receiver.flits[k] & head]
    assert len(between) == BOUND
    # The flow paused at its other outputs too, for as many cycles.
    for other in bench.receivers[1:]:
        assert other.cycles[-1] - other.cycles[0] == len(other.cycles) - 1 + 6


@cocotb.test()
async def control_uses_the_cycles_that_data_leaves(dut: Any) -> None:
    """Data leaves exactly as if there were no control packets."""
    bench = await start(dut)
    single = Flow((0,), (0,), DATA)
    await bench.load({1: configured(PORTS, _GIVEN["middle_copies"], [single])})
    seen = []
    for control in (0, 4):
        bench.forget()
        bench.expected.clear()
        bench.senders[0].stalls = iter([True, False] * 200)
        for op in range(8):
            bench.message(1, single, [48], op=op)
        await bench.bench.step(30)
        for op in range(control):
            bench.control(1, 0, 32, op=op)
        await bench.finish()
        receiver = bench.receivers[0]
        data = [t for t, c in zip(receiver.cycles, receiver.channels, strict=True) if c != CONTROL]
        assert len(receiver.cycles) == len(data) + 3 * control
        seen.append([cycle - data[0] for cycle in data])
    assert seen[0] == seen[1]


@cocotb.test()
async def an_output_without_credit_holds_only_its_own_packets(dut: Any) -> None:
    """Data, other outputs and other inputs go on; exactly its credits' worth has come out."""
    bench = await start(dut)
    bench.receivers[0].stalls = [
        always() if c == CONTROL else never() for c in range(bench.channels)
    ]
    room = bench._each("output_credits")[CONTROL]
    for op in range(room // 4 + 2):
        bench.control(0, 0, 48, op=op)
    await bench.bench.step(4 * room + 40)
    assert len(bench.receivers[0].flits) == room
    for receiver in bench.receivers:
        receiver.cycles.clear()
    for op in range(6):
        bench.message(0, everyone(), [64], op=op)
        for source in range(1, PORTS):
            bench.control(source, source, 48, op=op)
    await bench.bench.step(200)
    data = sum(c != CONTROL for c in bench.receivers[0].channels)
    assert data == 6 * 5
    for source in range(1, PORTS):
        assert bench.receivers[source].channels.count(CONTROL) == 6 * 4
    bench.receivers[0].stalls = never()
    await bench.finish(limit=4000)
    assert not bench.errors()


@cocotb.test()
async def faulty_control_packets_are_reported_and_thrown_away(dut: Any) -> None:
    """A port that is none, another class, a length out of range."""
    bench = await start(dut)
    place = 1 << CONTROL * PORTS + 1
    good = control_packet(bench.generator, Header(configuration=0, length=32), bench.flit_bytes)
    for op, (error, change) in enumerate(
        {
            "unloaded": {"configuration": PORTS},
            "kind": {"traffic_class": 2},
            "length": {"length": _GIVEN["control_bytes"] + 1},
        }.items()
    ):
        wrong = replace(good, header=replace(good.header, **change))
        bench.senders[1].send(wrong.flits(bench.flit_bytes), CONTROL)
        bench.control(1, 0, 48, op=op)
        bench.message(0, everyone(), [64], op=op)
        await bench.finish()
        assert bench.errors() == {error: place}
        dut.clear.value = 1
        await bench.bench.step()
        dut.clear.value = 0
        await bench.bench.step()
    far = replace(good, header=replace(good.header, configuration=PORTS + 64))
    bench.senders[1].send(far.flits(bench.flit_bytes), CONTROL)
    await bench.bench.step(30)
    assert bench.errors() == {"unloaded": place}
    assert int(dut.idle.value)


@cocotb.test()
async def a_slow_output_shares_its_rate(dut: Any) -> None:
    """Data and control together leave no faster than the link, flit by flit."""
    numerator, denominator = _GIVEN["rate"]
    bench = await start(dut)
    for op in range(6):
        bench.message(0, everyone(), [64], op=op)
        bench.control(1, 0, 32, op=op)
    await bench.finish(limit=4000)
    cycles = bench.receivers[0].cycles
    for k, first in enumerate(cycles):
        for more, later in enumerate(cycles[k + 1 :], 1):
            assert later - first >= more * denominator // numerator


@cocotb.test()
async def random_control_and_data_under_stalls(dut: Any) -> None:
    """Every packet whole, in order of its input, and nothing left; twice, with a reset between."""
    generator = random_generator("control")
    bench = SwitchBench(dut, _GIVEN, random_generator("data"))
    await bench.bench.reset()
    for _ in range(2):
        await bench.load({0: configured(PORTS, _GIVEN["middle_copies"], [everyone()])})
        for port in range(PORTS):
            bench.senders[port].stalls = random_stalls(seed() + port, 0.2)
            bench.receivers[port].stalls = [
                bursty_stalls(seed() + 10 * c + port, 9) for c in range(bench.channels)
            ]
        number = 0
        for op in range(12):
            bench.message(0, everyone(), [generator.randint(1, 64)], op=op)
            for _ in range(generator.randint(0, 4)):
                source, destination = generator.randrange(PORTS), generator.randrange(PORTS)
                length = generator.randint(1, _GIVEN["control_bytes"])
                bench.control(source, destination, length, op=source << 8 | number)
                number += 1
        await bench.finish(limit=20_000, by_op=True)
        assert not bench.errors()
        assert int(dut.idle.value)
        bench.control(0, 1, 48)
        await bench.bench.step(generator.randint(3, 12))
        await bench.restart()
        await bench.bench.step(60)
        assert int(dut.idle.value)
        assert not any(receiver.flits for receiver in bench.receivers)
