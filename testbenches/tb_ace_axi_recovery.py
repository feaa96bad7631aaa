"""Engines on AXI in 2 x 2 rings of which one refuses or is aborted: who hears of it, on all dims,
and that what comes next is right everywhere."""

from collections.abc import Callable
from itertools import product
from typing import Any

import cocotb
from cocotb.triggers import ClockCycles, Event

from rtl.ace.layouts import Begin, RecordKind
from rtl.ace.status import CompletionStatus
from testbenches.ace_axi_collectives import FLIT, HALF, changed
from testbenches.ace_axi_recovery import PlannedWork, TorusCollectives

S = CompletionStatus

_DIMS = ((0, 1), (0,), (1,))
"""Of a collective: with both all four ranks need each other, with one a rank needs one other."""

_FEW = (((0, 1), 0), ((0, 1), 3), ((0,), 1))
"""With a rank: where not all combinations are tried."""

_REFUSALS = (
    (S.ADDRESS_ERROR, {"source": HALF + 16}),
    (S.ADDRESS_ERROR, {"result": HALF + 16}),
    (S.SIZE_ERROR, {"result_bytes": 1}),
    (S.OPERATION_ERROR, {"operator": 1}),
)


def _told(work: PlannedWork, rank: int, status: CompletionStatus) -> list[CompletionStatus]:
    """The statuses of all ranks where ``rank`` gave up before it had sent anything."""
    hit = work.group(rank)
    return [status if r == rank else S.PEER_ERROR if r in hit else S.OK for r in range(4)]


def _cases(t: TorusCollectives) -> list[tuple[tuple[int, ...], int]]:
    return list(_FEW) if t.p["few"] else list(product(_DIMS, range(4)))


@cocotb.test(timeout_time=8000, timeout_unit="us")
async def refusals(dut):
    """One rank refuses: everybody whose result needs its part has PEER_ERROR, over two dims where
    need be, and an untouched result; everybody else has the right one. What was rung at the same
    time, and what comes afterwards, is right on all ranks."""
    t = TorusCollectives(dut)
    await t.begin()
    for number, (dims, rank) in enumerate(_cases(t)):
        status, values = _REFUSALS[(number + rank) % 4]
        bad = t.work(dims=dims)
        change = changed(RecordKind.BEGIN, Begin, 0, values)
        contributed = t.place(bad, {rank: (bad, change)})
        good = t.work()
        values_good = t.place(good, {})
        await t.ring(bad)
        await t.ring(good)
        assert await t.statuses(bad) == _told(bad, rank, status), (dims, rank)
        t.untouched(bad, bad.group(rank))
        t.right(bad, contributed, set(range(4)) - set(bad.group(rank)))
        assert set(await t.statuses(good)) == {S.OK}, (dims, rank)
        t.right(good, values_good)
    await t.good()
    for engine in t.engines:
        assert (await engine.fields("STATUS"))["idle"] == 1


def _holding(engine: Any, first: int, flits: int) -> Callable[[], None]:
    """Let memory keep the answers to reads of a range; returns how to end that."""
    port = engine.memory.read_if
    before, go = port._read, Event()

    async def read(address: int, size: int) -> bytes:
        if address < FLIT * (first + flits) and address + size > FLIT * first:
            await go.wait()
        return await before(address, size)

    def end() -> None:
        port._read = before
        go.set()

    port._read = read
    return end


@cocotb.test(timeout_time=8000, timeout_unit="us")
async def aborts_before_data(dut):
    """The host gives a collective up at a rank whose memory has not answered yet: the others, at
    work for long, wait for it, and all whose results need it hear of it."""
    t = TorusCollectives(dut)
    await t.begin()
    for dims, rank in _cases(t):
        bad = t.work(dims=dims)
        contributed = t.place(bad, {})
        end = _holding(t.engines[rank], bad.source, 512)
        good = t.work()
        values_good = t.place(good, {})
        await t.ring(bad)
        await t.ring(good)
        await ClockCycles(dut.clk, 600)
        for other in bad.group(rank):
            assert (await t.engines[other].fields("STATUS"))["idle"] == 0
            assert (await t.engines[other].fields("STATUS"))["completions"] == 0
        await t.engines[rank].write("ABORT", bad.collective)
        end()
        assert await t.statuses(bad) == _told(bad, rank, S.ABORTED), (dims, rank)
        t.right(bad, contributed, set(range(4)) - set(bad.group(rank)))
        assert set(await t.statuses(good)) == {S.OK}, (dims, rank)
        t.right(good, values_good)
    await t.good()


@cocotb.test(timeout_time=8000, timeout_unit="us")
async def aborts(dut):
    """The same at any time: who says OK is right, and who is wrong says so."""
    t = TorusCollectives(dut)
    await t.begin()
    await t.aborts(latest=t.p["latest"])
