"""The whole switch: latency, line rate, switch-over, credits, order, errors, random traffic.

Parameters: those of :class:`testbenches.fred_bench.SwitchBench`, and ``data_types``.
"""

from collections import Counter
from dataclasses import replace

import cocotb

from rtl.fred.configuration import Refusal
from sw_model.fred.configuration import Configuration, Flow
from sw_model.fred.table import entry_image
from testbenches import parameters, random_generator, seed
from testbenches.fred_bench import SwitchBench
from testbenches.fred_flows import configured, routed
from testbenches.fred_packets import Packet
from testbenches.streams import always, bursty_stalls, never, random_stalls


async def start(dut, *flow_sets):
    """A reset switch with configuration k for the k-th set of flows."""
    given = parameters()
    bench = SwitchBench(dut, given, random_generator("data"))
    await bench.bench.reset()
    found = [configured(given["ports"], given["middle_copies"], flows) for flows in flow_sets]
    await bench.load(dict(enumerate(found)))
    return bench


def everyone(ports=None):
    return Flow.all_reduce(range(parameters()["ports"] if ports is None else ports))


def first_and_last(bench, port):
    cycles = bench.receivers[port].cycles
    return cycles[0], cycles[-1], len(cycles)


@cocotb.test()
async def latency_counts_from_the_last_input(dut):
    flow, other = everyone(), Flow((0,), (0,))
    bench = await start(dut, [flow], [other])
    # The first packet finds no configuration active, the second the same, the third another.
    for op, (index, used, late) in enumerate([(0, flow, 0), (0, flow, 9), (1, other, 0)]):
        bench.forget()
        bench.message(index, used, [2 * bench.flit_bytes], op=op)
        held = bench.senders[used.inputs[-1]]
        held.stalls = always()
        await bench.bench.step(late)
        held.stalls = never()
        await bench.finish()
        entered = max(bench.senders[p].cycles[0] for p in used.inputs)
        for port in used.outputs:
            assert bench.receivers[port].cycles[0] - entered == bench.latency
    assert not bench.errors()


@cocotb.test()
async def every_port_moves_a_flit_in_every_cycle(dut):
    flow = everyone()
    bench = await start(dut, [flow])
    for op, lengths in enumerate([[64, 64, 64], [16], [1], [64, 33], [16, 16, 16, 16]]):
        bench.message(0, flow, lengths, op=op)
    await bench.finish()
    for port in flow.outputs:
        first, last, count = first_and_last(bench, port)
        assert last - first == count - 1, f"output {port} has bubbles"
        assert int(dut.sent.value) >> (32 * port) & 0xFFFFFFFF == count
        assert int(dut.received.value) >> (32 * port) & 0xFFFFFFFF == count
    assert int(dut.switchovers.value) == 1


@cocotb.test()
async def configurations_follow_each_other_without_a_gap(dut):
    together, swapped = [everyone()], [Flow((0,), (1,)), Flow((1,), (0,))]
    bench = await start(dut, together, swapped)
    for op in range(6):
        for flow in (together, swapped)[op % 2]:
            bench.message(op % 2, flow, [64, 64], op=op)
    await bench.finish()
    for port in (0, 1):
        first, last, count = first_and_last(bench, port)
        assert last - first - (count - 1) == 6 * bench.timing.reconfiguration
    assert int(dut.switchovers.value) == 6


@cocotb.test()
async def a_packet_needs_credit_for_all_its_flits_at_every_output(dut):
    flow = everyone()
    bench = await start(dut, [flow])
    given = parameters()
    packet = 1 + given["packet_bytes"] // given["flit_bytes"]
    whole = given["output_credits"] // packet
    bench.receivers[1].stalls = always()
    held = given["input_depth"] + bench.timing.look_ahead
    for op in range(whole + held // packet + 2):
        bench.message(0, flow, [given["packet_bytes"]], op=op)
    await bench.bench.step(packet * (whole + held // packet + 10))
    assert {len(receiver.flits) for receiver in bench.receivers} == {whole * packet}
    # The inputs now hold exactly their buffers' worth.
    assert {len(s.cycles) for s in bench.senders} == {whole * packet + held}
    bench.receivers[1].stalls = never()
    await bench.finish(limit=4000)


@cocotb.test()
async def output_credits_just_suffice_for_line_rate(dut):
    """With the round trip of the timing model there is no bubble; one cycle more makes some."""
    flow = Flow((0,), (0,))
    bench = await start(dut, [flow])
    given = parameters()
    packet = 1 + given["packet_bytes"] // given["flit_bytes"]
    # The output has more credits than that, so the receiver may sit on them longer: a receiver
    # without flight time returns a credit after 2 cycles.
    spare = given["output_credits"] - bench.timing.output_credits(bench.ports, packet, 0)
    for late, bubbles in ((0, False), (1, True)):
        bench.forget()
        bench.receivers[0].delay = 2 + spare + late
        for op in range(24):
            bench.message(0, flow, [given["packet_bytes"]], op=op)
        await bench.finish(settle=80)
        first, last, count = first_and_last(bench, 0)
        assert (last - first > count - 1) is bubbles


@cocotb.test()
async def one_flow_pauses_and_the_others_go_on(dut):
    flows = [Flow((0,), (0,)), Flow((1,), (1,))]
    bench = await start(dut, flows)
    bench.senders[0].stalls = iter([False] * 4 + [True] * 30 + [False] * 1000)
    for flow in flows:
        bench.message(0, flow, [64, 64], op=0)
    await bench.finish()
    first, last, count = first_and_last(bench, 1)
    assert last - first == count - 1
    assert first_and_last(bench, 0)[1] > last + 10


@cocotb.test()
async def a_slow_output_paces_its_flow_and_no_other(dut):
    """The k-th flit after the first leaves floor(k * denominator / numerator) cycles later."""
    numerator, denominator = parameters()["rate"]
    flows = (
        [Flow.all_reduce((0, 1)), Flow((2,), (2,))] if parameters()["ports"] > 2 else [everyone()]
    )
    bench = await start(dut, flows)
    bench.senders[flows[-1].inputs[0]].stalls = iter([True] * 20 + [False] * 1000)
    for flow in flows:
        bench.message(0, flow, [64, 64, 64], op=0)
    await bench.finish()
    for flow in flows:
        for port in flow.outputs:
            first, *rest = bench.receivers[port].cycles
            assert [cycle - first for cycle in rest] == [
                k * denominator // numerator for k in range(1, len(rest) + 1)
            ]


@cocotb.test()
async def unready_packets_do_not_hold_the_switch(dut):
    flow, single = everyone(), Flow((1,), (1,))
    bench = await start(dut, [flow], [single])
    late = bench.senders[0]
    late.stalls = always()
    bench.message(0, flow, [64], op=0)
    await bench.bench.step(50)
    assert not any(receiver.flits for receiver in bench.receivers)
    assert int(dut.waiting.value) == (1 << bench.ports) - 2
    assert int(dut.missing.value) == 1
    late.stalls = never()
    bench.message(1, single, [64], op=1)
    await bench.finish()
    assert int(dut.missing.value) == 0


@cocotb.test()
async def orders_that_form_a_cycle_block_and_are_named(dut):
    """Groups {0, 1}, {1, 2}, {2, 0}, each source starting with another one."""
    groups = [Flow.all_reduce(g) for g in ((0, 1), (1, 2), (2, 0))]
    bench = await start(dut, *([group] for group in groups))
    sent = {g: bench.packets(g, flow, length=16, op=g) for g, flow in enumerate(groups)}
    for port, order in {0: (0, 2), 1: (1, 0), 2: (2, 1)}.items():
        for group in order:
            bench.senders[port].send(sent[group][port].flits(bench.flit_bytes))
    await bench.bench.step(200)
    assert not any(receiver.flits for receiver in bench.receivers)
    assert int(dut.waiting.value) == int(dut.missing.value) == 0b111


@cocotb.test()
async def the_earlier_op_goes_first(dut):
    slow, fast = Flow((0, 1), (0,)), Flow((2,), (0,))
    bench = await start(dut, [slow], [fast])
    for receiver in bench.receivers:
        receiver.stalls = always()
    # Fill the output's credits, so that both wait for the same credits, the later op first.
    given = parameters()
    packet = 1 + given["packet_bytes"] // given["flit_bytes"]
    whole = given["output_credits"] // packet
    for _ in range(whole):
        bench.message(1, fast, [given["packet_bytes"]], op=65530)
    await bench.bench.step(20 + whole * packet)
    later = bench.packets(1, fast, length=given["packet_bytes"], op=3)
    earlier = bench.packets(0, slow, length=given["packet_bytes"], op=65535)
    for packets in (later, earlier):
        for port, one in packets.items():
            bench.senders[port].send(one.flits(bench.flit_bytes))
        await bench.bench.step(30)
    bench.expect(0, slow, earlier)
    bench.expect(1, fast, later)
    bench.receivers[0].stalls = never()
    await bench.finish()


def faulty(bench, kind, packet):
    """A packet with one thing wrong with it, as flits."""
    header = packet.header
    changes = {
        "unloaded": {"configuration": 5},
        "out of memory": {"configuration": 4000},
        "stranger": {"configuration": 1},
        "class": {"traffic_class": 0},
        "type": {"data_type": 3},
        "operator": {"operator": 1},
        "empty": {"length": 0},
        "too long": {"length": parameters()["packet_bytes"] + 1},
    }
    if kind in changes:
        packet = replace(packet, header=replace(header, **changes[kind]))
    flits = packet.flits(bench.flit_bytes)
    last = 1 << (8 * bench.flit_bytes + 1)
    if kind == "no header":
        return flits[1:]
    if kind == "header only":
        return [flits[0] | last]
    return flits


@cocotb.test()
async def a_faulty_packet_is_thrown_away_and_reported_and_the_switch_goes_on(dut):
    flow, only = everyone(), Flow((0,), (0,))
    bench = await start(dut, [flow], [only])
    reported = {
        "unloaded": "unloaded",
        "out of memory": "unloaded",
        "stranger": "stranger",
        "class": "kind",
        "type": "kind",
        "operator": "kind",
        "empty": "length",
        "too long": "length",
        "header only": "length",
        "no header": "framing",
    }
    counted: Counter[str] = Counter()
    for op, (kind, error) in enumerate(reported.items()):
        packet = bench.packets(0, flow, length=48, op=op)[1]
        bench.senders[1].send(faulty(bench, kind, packet))
        bench.message(0, flow, [64, 20], op=op)
        await bench.finish()
        assert bench.errors() == {error: 0b10}, kind
        counted[error] += 1
        assert bench.counts() == counted, kind
        assert int(dut.error.value)
        dut.clear.value = 1
        await bench.bench.step()
        dut.clear.value = 0
        await bench.bench.step()
        assert not int(dut.error.value)


@cocotb.test()
async def a_packet_of_the_wrong_number_of_flits_keeps_its_promise(dut):
    """Too few flits are filled up with zeros, too many are cut; others are not harmed."""
    flow = Flow((1,), (0,))
    bench = await start(dut, [flow])
    width = 8 * bench.flit_bytes
    last = 1 << (width + 1)
    packet = bench.packets(0, flow, length=64)[1]
    flits = packet.flits(bench.flit_bytes)
    short = [*flits[:2], flits[2] | last]
    interrupted = flits[:3]
    long = [*flits[:-1], flits[-1] & ~last, *flits[1:]]
    filled = Packet(packet.header, (*packet.payload[:2], 0, 0))
    for op, (wrong, made, errors) in enumerate(
        [(short, filled, {"length": 2}), (interrupted, filled, {"framing": 2}),
         (long, packet, {"length": 2})]
    ):  # fmt: skip
        bench.senders[1].send(wrong)
        bench.expected[0].extend(made.flits(bench.flit_bytes))
        bench.message(0, flow, [64, 16], op=op + 1)
        await bench.finish()
        assert bench.errors() == errors
        dut.clear.value = 1
        await bench.bench.step()
        dut.clear.value = 0


@cocotb.test()
async def packets_that_do_not_agree_are_never_summed(dut):
    """A lost packet: its partners are thrown away, and the flow is aligned again."""
    flow = everyone()
    bench = await start(dut, [flow])
    for op in range(4):
        packets = bench.packets(0, flow, length=64, op=op)
        lost = op == 1
        for port, packet in packets.items():
            if not (lost and port == 1):
                bench.senders[port].send(packet.flits(bench.flit_bytes))
        if not lost:
            bench.expect(0, flow, packets)
    await bench.finish()
    everyone_but_1 = ((1 << bench.ports) - 1) & ~0b10
    assert bench.errors() == {"misaligned": everyone_but_1}
    assert bench.counts() == {"misaligned": 1}


@cocotb.test()
async def headers_that_differ_elsewhere_are_all_thrown_away(dut):
    flow = everyone()
    bench = await start(dut, [flow])
    for change in ({"collective": 7}, {"length": 16}, {"last": 0}):
        packets = bench.packets(0, flow, length=32, op=1)
        odd = replace(packets[0], header=replace(packets[0].header, **change))
        if "length" in change:
            odd = Packet(odd.header, odd.payload[:1])
        for port, packet in (packets | {0: odd}).items():
            bench.senders[port].send(packet.flits(bench.flit_bytes))
        bench.message(0, flow, [64], op=2)
        await bench.finish()
        assert bench.errors() == {"misaligned": (1 << bench.ports) - 1}
        dut.clear.value = 1
        await bench.bench.step()
        dut.clear.value = 0


@cocotb.test()
async def modes_that_do_not_carry_the_flows_are_reported(dut):
    bench = await start(dut)
    ports, copies = bench.ports, parameters()["middle_copies"]
    right, wrong = (configured(ports, copies, [Flow((0,), (output,))]) for output in (0, ports - 1))
    mixed = Configuration(ports, copies, right.flows, wrong.modes)
    assert await bench.configure(0, entry_image(mixed)) is Refusal.NONE
    bench.configurations[0] = right
    packets = bench.packets(0, right.flows[0], length=16)
    bench.senders[0].send(packets[0].flits(bench.flit_bytes))
    await bench.bench.step(60)
    assert not any(receiver.flits for receiver in bench.receivers)
    assert bench.errors() == {"route": 1 | 1 << (ports - 1)}
    assert bench.counts() == {"route": len(packets[0].flits(bench.flit_bytes))}


@cocotb.test()
async def an_overrun_is_reported(dut):
    flow = Flow((0, 1), (0,))
    bench = await start(dut, [flow])
    bench.senders[0].credits = None
    for op in range(30):
        packet = bench.packets(0, flow, length=64, op=op)[0]
        bench.senders[0].send(packet.flits(bench.flit_bytes))
    await bench.bench.step(200)
    assert bench.errors() == {"overrun": 1}
    assert bench.counts() == {"overrun": 1}


@cocotb.test()
async def entries_are_checked(dut):
    flow = everyone()
    bench = await start(dut, [flow])
    ports, copies = bench.ports, parameters()["middle_copies"]
    good = entry_image(configured(ports, copies, [flow]))
    side = 1 + (ports - 1).bit_length()
    number = (1 << side) - 2  # the flow number's bits in a side's field
    flows_at = 2 * ports * side
    modes_at = flows_at + ports * 7
    assert await bench.configure(parameters()["configurations"], good) is Refusal.INDEX
    centre = modes_at + 2 * copies.bit_length() * (ports // 2)  # of the first middle copy
    if ports == 4:
        assert await bench.configure(1, good | 0xF << centre) is Refusal.MODE
    if (ways := (1 << copies.bit_length()) - 1) > copies:  # else every code is a way
        assert await bench.configure(1, good | ways << modes_at) is Refusal.MODE
    # Input 0 leaves the flow that is numbered after it.
    assert await bench.configure(1, good & ~1) is Refusal.FLOW
    # The flow has no output.
    assert await bench.configure(1, good & ~(((1 << ports * side) - 1) << ports * side)) is (
        Refusal.FLOW
    )
    # Output 0 belongs to a flow that is none.
    assert await bench.configure(1, good | number << ports * side) is Refusal.FLOW
    for field, value in ((0, 3), (2, 1), (5, 2)):  # class control, type bf16, operator min
        width = (2, 3, 2)[(0, 2, 5).index(field)]
        cleared = good & ~(((1 << width) - 1) << (flows_at + field))
        assert await bench.configure(1, cleared | value << (flows_at + field)) is Refusal.KIND
    # A refused entry is not there.
    bench.senders[0].send(bench.packets(1, flow, length=16)[0].flits(bench.flit_bytes))
    await bench.bench.step(30)
    assert bench.errors() == {"unloaded": 1}


@cocotb.test()
async def a_loaded_entry_is_replaced_only_while_the_switch_is_idle(dut):
    both, one = Flow((0, 1), (0,)), Flow((0,), (1,))
    bench = await start(dut, [both])
    ports, copies = bench.ports, parameters()["middle_copies"]
    other = configured(ports, copies, [one])
    held = bench.packets(0, both, length=32)
    bench.senders[0].send(held[0].flits(bench.flit_bytes))
    await bench.bench.step(20)
    assert not int(dut.idle.value)
    assert await bench.configure(0, entry_image(other)) is Refusal.BUSY
    assert await bench.configure(1, entry_image(other)) is Refusal.NONE
    bench.senders[1].send(held[1].flits(bench.flit_bytes))
    bench.expect(0, both, held)
    await bench.finish()
    assert int(dut.idle.value)
    await bench.load({0: other})
    bench.message(0, one, [64], op=1)
    await bench.finish()


@cocotb.test()
async def random_traffic_under_stalls_on_both_sides(dut):
    given = parameters()
    bench = SwitchBench(dut, given, random_generator("data"))
    generator = random_generator("traffic")
    count = given["configurations"]
    types = tuple(given["data_types"])
    await bench.bench.reset()
    await bench.load(
        dict(
            enumerate(
                routed(generator, bench.ports, given["middle_copies"], count, data_types=types)
            )
        )
    )
    for port in range(bench.ports):
        bench.senders[port].stalls = random_stalls(seed() + port, 0.3)
        bench.receivers[port].stalls = bursty_stalls(seed() + 100 + port, 12)
        bench.receivers[port].delay = generator.randint(1, 9)
    for op in range(given.get("ops", 40)):
        index = generator.randrange(count)
        for flow in bench.configurations[index].flows:
            lengths = [
                generator.randint(1, given["packet_bytes"]) for _ in range(generator.randint(1, 3))
            ]
            bench.message(index, flow, lengths, op=op, step=0)
    await bench.finish(limit=40000, by_op=True)
    assert not bench.errors()
    assert int(dut.idle.value)
