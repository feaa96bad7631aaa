"""A FRED dim behind an all-gather: what may be sent, and when."""

import cocotb

from rtl.common.packet import PacketHeader
from sw_model.endpoint.timing import ACE_TIMING
from testbenches import parameters
from testbenches.ace_dim_engine import HEAD, LAST, EngineBench
from testbenches.ace_records import encode

_SENDS = [{"offset": 0, "length": 2}, {"offset": 8, "length": 2}]
_RECEIVES = [{"write_offset": 4 * n, "into_destination": 1, "length": 4} for n in range(3)]


async def _gather(dut):
    """Op 0 sends one message and receives three; op 1 behind it sends one."""
    t = EngineBench(dut)
    await t.begin(_SENDS, _RECEIVES)
    t.op(1, 3, tx=0)
    t.op(1, tx=1)
    await t.bench.step(30)
    return t


def _ops(t):
    return [int(header.op) for header, _ in t.packets()]


@cocotb.test()
async def nothing_passes_an_all_gather(dut):
    """The last step first: it is not the last message, and op 1 still waits."""
    t = await _gather(dut)
    assert _ops(t) == [0]
    for step in (2, 0):
        t.message(0, step, [1, 2, 3, 4])
        await t.bench.step(40)
        assert _ops(t) == [0]
    t.message(0, 1, [1, 2, 3, 4])
    await t.ended(2)
    assert _ops(t) == [0, 1]


@cocotb.test()
async def it_goes_on_with_the_last_header(dut):
    """From the header of the last message on, not from its end; to the cycle."""
    t = await _gather(dut)
    for step in (1, 2):
        t.message(0, step, [1, 2, 3, 4])
    await t.bench.step(40)
    t.message(0, 0, [1, 2, 3, 4])
    await t.ended(2)
    header = t.source.cycles[-5]
    assert t.sink.cycles[-3] == header + 1 + ACE_TIMING.transmit


@cocotb.test()
async def only_the_last_packet_of_a_message_counts(dut):
    """A message of two packets: between them op 1 waits."""
    t = await _gather(dut)
    for step in (1, 2):
        t.message(0, step, [1, 2, 3, 4])
    first = {"op": 0, "step": 0, "length": 32, "last": 0, "collective": 9}
    t.source.send([encode(PacketHeader, first) | HEAD, 1, 2 | LAST])
    await t.bench.step(60)
    assert _ops(t) == [0]
    t.message(0, 0, [3, 4], sequence=2)
    await t.ended(2)
    assert _ops(t) == [0, 1]


@cocotb.test()
async def an_op_that_sends_as_much_as_it_receives_is_passed_at_once(dut):
    """An all-reduce needs no such order: all its members feed its flow."""
    t = EngineBench(dut)
    await t.begin(_SENDS, _RECEIVES)
    t.op(1, 1, tx=0)
    t.op(1, tx=1)
    await t.bench.step(30)
    assert _ops(t) == [0, 1]
    assert parameters()["contexts"] >= 2
