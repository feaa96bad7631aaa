"""A dim engine between two SRAM models, a link and a scoreboard."""

import cocotb
import numpy as np

from rtl.ace.status import WaitCause
from rtl.common.packet import DataType, PacketHeader
from sw_model.endpoint.timing import ACE_TIMING
from testbenches import parameters, random_generator, seed
from testbenches.ace_dim_engine import HEAD, LAST, EngineBench
from testbenches.ace_records import encode
from testbenches.streams import (
    always,
    random_stalls,
    stall_pattern,
)

_DATA = (1 << 128) - 1
_T = ACE_TIMING


def _flit_sum(a: int, b: int) -> int:
    """INT32 sum of two flits."""
    x, y = (np.frombuffer(v.to_bytes(16, "little"), "<u4") for v in (a, b))
    return int.from_bytes((x + y).astype("<u4").tobytes(), "little")


@cocotb.test()
async def one_message_cycle_by_cycle(dut):
    """From the record to the flits, and from the last flit to the end of the op."""
    t = EngineBench(dut)
    t.signals.grants = {0}
    await t.begin([{"offset": 3, "length": 4, "step": 5, "configuration": 77}])
    t.op(1, source=32, source_epoch=0, destination=64, traffic_class=2)
    await t.ended(1)
    start = t.ops.cycles[0] + _T.queue
    assert t.signals.seen["grant"] == [start]
    header = start + _T.first_step + _T.transmit
    assert t.sink.cycles == list(range(header, header + 5))
    assert _T.payload == _T.transmit + 1
    end = header + 4 + _T.sent_end - 1  # seen one cycle behind the pulse
    assert t.signals.seen["fill"] == t.signals.seen["release"] == [end]
    (packet,) = t.packets()
    assert packet[1] == [t.sram[35 + i] for i in range(4)]
    head = packet[0]
    assert (head.op, head.step, head.sequence, head.length, head.last) == (0, 5, 0, 64, 1)
    assert (head.traffic_class, head.data_type, head.collective) == (2, DataType.INT32, 9)
    assert head.configuration == 77
    assert t.sink.items[-1] & LAST


@cocotb.test()
async def a_message_is_cut_into_packets(dut):
    """Headers in band, no bubble, the last packet's bytes."""
    t = EngineBench(dut)
    t.signals.grants = {0}
    limit = parameters()["packet_flits"]
    await t.begin([{"offset": 0, "length": 2 * limit + 1, "last_bytes": 3}])
    t.op(1)
    await t.ended(1)
    heads = [head for head, _ in t.packets()]
    assert [h.sequence for h in heads] == [0, limit, 2 * limit]
    assert [h.length for h in heads] == [16 * limit, 16 * limit, 3]
    assert [h.last for h in heads] == [0, 0, 1]
    first = t.sink.cycles[0]
    assert t.sink.cycles == list(range(first, first + 2 * limit + 4))


@cocotb.test()
async def no_bubble_between_messages(dut):
    """Messages of one op with two flits or more follow one another without a gap."""
    t = EngineBench(dut)
    t.signals.grants = {0}
    lengths = (2, 3, 2, 2, 4, 2)
    await t.begin([{"offset": 8 * n, "length": length} for n, length in enumerate(lengths)])
    t.op(len(lengths))
    await t.ended(1)
    first = t.sink.cycles[0]
    assert t.sink.cycles == list(range(first, first + sum(lengths) + len(lengths)))
    sent = [payload for _, payload in t.packets()]
    assert sent == [[t.sram[8 * n + i] for i in range(k)] for n, k in enumerate(lengths)]


@cocotb.test()
async def both_directions_at_line_rate(dut):
    """A reduce-scatter of a ring of four in the steady state: over 12 ops a flit comes and one goes
    in every cycle, headers included, from the first to the last."""
    contexts, limit = parameters()["contexts"], parameters()["packet_flits"]
    if contexts < 4:
        return
    t = EngineBench(dut)
    count, length = 12, 8
    assert length <= limit  # one packet a message
    shards = [{"offset": length * n, "length": length, "step": n} for n in range(3)]
    await t.begin(
        [shards[0], *({**shards[n], "chase": 1, "after": n - 1} for n in (1, 2))],
        [
            {
                "reduce": 1,
                "into_destination": int(n == 3),
                "offset": length * n,
                "write_offset": length * n,
                "length": length,
            }
            for n in (1, 2, 3)
        ],
    )
    for number in range(count):
        place = 64 * (number % 8)
        t.op(3, 3, source=place, destination=1024 + place)
    await t.bench.step(12)
    # Not so soon that the last messages would have to wait for what they forward.
    t.signals.grants = {t.bench.cycle + 20 + number for number in range(count)}
    rng = random_generator("both directions")
    for number in range(count):
        for step in range(3):
            t.message(number, step, [rng.getrandbits(128) for _ in range(length)])
    await t.ended(count)
    flits = count * 3 * (length + 1)
    for cycles in (t.source.cycles, t.sink.cycles):
        assert cycles == list(range(cycles[0], cycles[0] + flits))
    forwarded = count * 2 * length
    assert t.signals.counts["forwarded"] == forwarded
    assert t.signals.counts["read_back"] == 0


@cocotb.test()
async def one_flit_messages_of_several_ops(dut):
    """With enough contexts even the shortest messages leave no gap; oldest op first."""
    t = EngineBench(dut)
    contexts = parameters()["contexts"]
    t.signals.grants = set(range(contexts))
    await t.begin([{"offset": n, "length": 1, "step": n} for n in range(4)])
    for number in range(contexts):
        t.op(4, source=8 * number)
    await t.ended(contexts)
    order = [(head.op, head.step) for head, _ in t.packets()]
    assert sorted(order) == [(o, s) for o in range(contexts) for s in range(4)]
    for op in range(contexts):
        assert [s for o, s in order if o == op] == [0, 1, 2, 3]
    if contexts >= 4:
        gaps = np.diff(t.sink.cycles[4:])
        assert gaps.max() == 1


@cocotb.test()
async def one_flit_messages_of_one_op(dut):
    """A header every ``next_step`` cycles and its flit behind it, however many contexts there are:
    the others run no op."""
    t = EngineBench(dut)
    t.signals.grants = {0}
    count = 6
    await t.begin([{"offset": n, "length": 1, "step": n} for n in range(count)])
    t.op(count)
    await t.ended(1)
    first = t.ops.cycles[0] + _T.queue + _T.first_step + _T.transmit
    headers = [first + n * _T.next_step for n in range(count)]
    assert t.sink.cycles == [cycle + k for cycle in headers for k in (0, 1)]
    assert _T.next_step > 2  # a gap: the next message could not go sooner for its flits


@cocotb.test()
async def waits_for_its_grant(dut):
    """A grant in cycle g lets the header out at g + granted + transmit; grants count ahead."""
    if not parameters()["grants"]:
        return
    t = EngineBench(dut)
    await t.begin([{"offset": 0, "length": 2}])
    t.op(1)
    await t.bench.step(30)
    assert t.sink.items == []
    assert t.signals.status.cause == WaitCause.GRANT
    granted = t.bench.cycle
    t.signals.grants |= {granted, granted + 1}
    await t.ended(1)
    assert t.sink.cycles[0] == granted + _T.granted + _T.transmit
    t.op(1)
    await t.ended(2)
    assert len(t.sink.items) == 6
    t.op(1)
    await t.bench.step(30)
    assert len(t.sink.items) == 6


@cocotb.test()
async def ops_pass_one_another_only_with_grants(dut):
    """The older op waits for data. With grants a younger one goes first, without it waits too."""
    t = EngineBench(dut)
    if parameters()["contexts"] < 2:
        return
    t.signals.grants = {0, 1}
    await t.begin(
        [{"offset": 0, "length": 2, "chase": 1, "after": 0}, {"offset": 4, "length": 2}],
        [{"write_offset": 0, "length": 2}],
    )
    t.op(1, 1, tx=0)
    t.op(1, tx=1)
    await t.bench.step(30)
    assert len(t.sink.items) == (3 if parameters()["grants"] else 0)
    t.message(0, 0, [1, 2])
    await t.ended(2)
    order = [int(head.op) for head, _ in t.packets()]
    assert order == ([1, 0] if parameters()["grants"] else [0, 1])


@cocotb.test()
async def received_flits_are_reduced_and_stored(dut):
    """Into the source in place, or into the destination; at the cycle they must be written."""
    t = EngineBench(dut)
    receives = [
        {"reduce": 1, "offset": 2, "write_offset": 2, "length": 3},
        {"reduce": 1, "offset": 6, "write_offset": 1, "into_destination": 1, "length": 3},
        {"write_offset": 8, "into_destination": 1, "length": 2},
    ]
    await t.begin([], receives)
    t.op(0, 3, source=16, destination=48)
    before = dict(t.sram)
    await t.bench.step(4)
    for step, length in enumerate((3, 3, 2)):
        t.message(0, step, [(1 << 96) + 7 * (10 * step + i) for i in range(length)])
    await t.ended(1)
    payload = [
        c for c, n in zip(t.source.cycles, (0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1), strict=True) if n
    ]
    assert t.source.cycles == list(range(t.source.cycles[0], t.source.cycles[0] + 11))
    assert t.rx_write.cycles == [c + _T.receive for c in payload]
    assert t.rx_write.writes == (
        [(18 + i, _flit_sum(before[18 + i], (1 << 96) + 7 * i)) for i in range(3)]
        + [(49 + i, _flit_sum(before[22 + i], (1 << 96) + 7 * (10 + i))) for i in range(3)]
        + [(56 + i, (1 << 96) + 7 * (20 + i)) for i in range(2)]
    )
    assert t.signals.seen["fill"] == [t.rx_write.cycles[-1] + _T.received_end - 1]
    assert t.signals.counts["reduced"] == 6
    assert t.signals.counts["flit_received"] == 11


@cocotb.test()
async def chases_what_arrives(dut):
    """A forwarded message follows the arriving one, flit by flit, at a fixed distance."""
    t = EngineBench(dut)
    t.signals.grants = {0}
    n = parameters()["packet_flits"]
    await t.begin(
        [{"from_destination": 1, "offset": 4, "length": n, "chase": 1, "after": 0, "step": 1}],
        [{"write_offset": 4, "into_destination": 1, "length": n}],
    )
    t.op(1, 1, destination=64)
    await t.bench.step(20)
    assert t.signals.status.cause == WaitCause.DATA
    t.source.stalls = stall_pattern([False] * 4 + [True] * 20)
    t.message(0, 0, list(range(100, 100 + n)))
    await t.ended(1)
    written = t.rx_write.cycles
    header = written[0] + _T.chase + _T.transmit
    assert t.sink.cycles[0] == header
    expected: list[int] = []
    for cycle in written:
        previous = expected[-1] if expected else header
        expected.append(max(previous + 1, cycle + _T.chase_last))
    assert t.sink.cycles[1:] == expected
    assert t.packets()[0][1] == list(range(100, 100 + n))
    assert t.signals.counts["stall_data"] > 15


@cocotb.test()
async def copies_what_it_sends(dut):
    """``copy`` also writes the flits to the destination buffer; the op ends when they are there."""
    t = EngineBench(dut)
    t.signals.grants = {0}
    await t.begin([{"offset": 1, "length": 6, "copy": 1, "copy_offset": 10}])
    t.op(1, source=8, destination=100)
    t.tx_write.stalls = stall_pattern([True] * 60)
    await t.bench.step(55)
    assert t.signals.seen["fill"] == []
    await t.ended(1)
    assert t.tx_write.writes == [(110 + i, t.sram[9 + i]) for i in range(6)]
    assert t.packets()[0][1] == [t.sram[9 + i] for i in range(6)]


@cocotb.test()
async def a_stalled_link_stops_reading(dut):
    """Exactly ``run_ahead`` flits are taken up in front of a link that takes none."""
    t = EngineBench(dut)
    t.signals.grants = {0}
    t.sink.stalls = always()
    await t.begin([{"offset": 0, "length": 12}])
    t.op(1)
    await t.bench.step(40)
    assert len(t.tx_read.cycles) == _T.run_ahead - 1  # and a header
    assert t.signals.status.cause == WaitCause.LINK
    t.sink.stalls = random_stalls(seed(), 0.0)
    await t.ended(1)
    assert len(t.sink.items) == 14


@cocotb.test()
async def a_message_for_an_op_to_come_waits(dut):
    """It is not lost and not written; it goes on when the op starts."""
    t = EngineBench(dut)
    t.signals.filled = False
    await t.begin([], [{"write_offset": 0, "into_destination": 1, "length": 2}])
    t.message(0, 0, [5, 6])
    t.op(0, 1, destination=32)
    await t.bench.step(20)
    assert t.source.cycles == []
    assert t.signals.status.cause == WaitCause.OPERATION
    assert t.signals.status.start_cause == WaitCause.SOURCE
    t.signals.filled = True
    started = t.bench.cycle
    await t.ended(1)
    assert t.signals.seen["grant"] == [started]
    assert t.source.cycles[0] == started + 1
    assert t.rx_write.writes == [(32, 5), (33, 6)]


@cocotb.test()
async def a_message_of_another_collective_is_never_taken(dut):
    """Its op number is that of an op here, but ranks disagree whose op that is."""
    t = EngineBench(dut)
    await t.begin([], [{"write_offset": 0, "into_destination": 1, "length": 2}])
    t.op(0, 1, destination=32, collective=8)
    t.message(0, 0, [5, 6])
    await t.bench.step(60)
    assert t.source.cycles == []
    assert t.rx_write.writes == []
    assert t.signals.status.running
    assert t.signals.status.cause == WaitCause.FOREIGN


@cocotb.test()
async def ops_start_in_order_when_all_is_there(dut):
    """Source, destination and context, each named while it is missing."""
    t = EngineBench(dut)
    contexts = parameters()["contexts"]
    await t.begin([], [{"write_offset": 0, "into_destination": 1, "length": 1}])
    t.signals.freed = False
    for number in range(contexts + 2):
        t.op(0, 1, destination=number, source=number + 20, source_epoch=3)
    await t.bench.step(10)
    assert t.signals.seen["grant"] == []
    assert t.signals.status.start_cause == WaitCause.DESTINATION
    t.signals.freed = True
    await t.bench.step(10 + contexts)
    assert len(t.signals.seen["grant"]) == contexts
    assert t.signals.status.start_cause == WaitCause.CONTEXT
    assert t.signals.status.cause == WaitCause.RECEIVE
    if contexts > 1:  # the last of them ends first, but the first one's context is next
        t.message(contexts - 1, 0, [1])
        await t.ended(1)
        assert len(t.signals.seen["grant"]) == contexts
    t.message(0, 0, [1])
    await t.bench.until(lambda: len(t.signals.seen["grant"]) > contexts, limit=50, stuck="no start")
    end = t.signals.seen["fill"][-1]
    assert t.signals.seen["grant"][contexts] == end + 1


@cocotb.test()
async def an_empty_op_just_passes_its_buffer_on(dut):
    """No step at all."""
    t = EngineBench(dut)
    await t.begin()
    t.op(source=1, destination=2)
    await t.ended(1)
    assert t.signals.seen["fill"] == [t.signals.seen["grant"][0] + 1]
    assert int(dut.idle.value) == 1


@cocotb.test()
async def packets_of_two_ops_interleave(dut):
    """Packets of two messages in turn, as a network may deliver them, all go to their places."""
    t = EngineBench(dut)
    if parameters()["contexts"] < 2:
        return
    await t.begin([], [{"write_offset": 0, "into_destination": 1, "length": 4}])
    t.op(0, 1, destination=32)
    t.op(0, 1, destination=64)
    await t.bench.step(5)
    for begin in (0, 2):
        for op in (0, 1):
            values = {"op": op, "sequence": begin, "length": 32, "last": int(begin == 2)}
            values["collective"] = 9
            t.source.send([encode(PacketHeader, values) | HEAD])
            t.source.send([100 * op + begin, 100 * op + begin + 1 | LAST])
    await t.ended(2)
    assert [t.sram[32 + i] for i in range(4)] == [0, 1, 2, 3]
    assert [t.sram[64 + i] for i in range(4)] == [100, 101, 102, 103]


@cocotb.test()
async def random_ops(dut):
    """Random steps, messages and stalls; every message, write and end against a model."""
    t = EngineBench(dut, stalls=0.3)
    rng = random_generator("dim_engine")
    receives, sends = [], []
    for _ in range(8):
        length = rng.randint(1, 12)
        sends.append(
            {
                "offset": rng.randint(0, 8),
                "length": length,
                "copy": rng.randrange(2),
                "copy_offset": 32,
                "step": rng.randrange(256),
            }
        )
        receives.append(
            {
                "reduce": rng.randrange(2),
                "into_destination": 1,
                "offset": rng.randint(0, 8),
                "write_offset": rng.randint(0, 8),
                "length": length,
            }
        )
    await t.begin(sends, receives)
    t.signals.grants = {t.bench.cycle + 3 * k + 1 for k in range(40)}
    contexts = parameters()["contexts"]
    model = dict(t.sram)
    expected_sent = []
    for number in range(24):
        slot = number % (2 * contexts)
        source, destination = 512 + 64 * slot, 1024 + 64 * slot
        tx, tx_count = rng.randrange(6), rng.randint(0, 2)
        rx, rx_count = rng.randrange(6), rng.randint(0, 2)
        t.op(tx_count, rx_count, tx=tx, rx=rx, source=source, destination=destination)
        for step in sends[tx : tx + tx_count]:
            data = [model[source + step["offset"] + i] for i in range(step["length"])]
            expected_sent.append((number, step["step"], data))
            if step["copy"]:
                model |= {destination + 32 + i: d for i, d in enumerate(data)}
        for index, step in enumerate(receives[rx : rx + rx_count]):
            flits = [rng.getrandbits(128) for _ in range(step["length"])]
            t.message(number, index, flits, packet=rng.randint(1, 8))
            for i, flit in enumerate(flits):
                if step["reduce"]:
                    flit = _flit_sum(model[source + step["offset"] + i], flit)
                model[destination + step["write_offset"] + i] = flit
    await t.ended(24, limit=8000)
    sent: dict[tuple[int, int], list] = {}
    for head, payload in t.packets():
        sent.setdefault((int(head.op), int(head.step)), []).append((int(head.sequence), payload))
    got = sorted(
        (op, step, [f for _, p in sorted(parts, key=lambda x: x[0]) for f in p])
        for (op, step), parts in sent.items()
        if len({s for s, _ in parts}) == len(parts)
    )
    once = [e for e in expected_sent if sum(x[:2] == e[:2] for x in expected_sent) == 1]
    assert [e for e in sorted(once) if e not in got] == []
    assert t.sram == model
