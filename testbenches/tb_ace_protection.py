"""Engines on AXI of which one refuses, fails, is aborted, or is reset in the middle."""

from collections.abc import Callable
from dataclasses import replace

import cocotb
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiResp

from rtl.ace.layouts import Load, Op, Program, RecordKind, Store
from rtl.ace.status import CompletionStatus
from testbenches.ace_axi_collectives import FLIT, HALF, Change, Collectives, changed

S = CompletionStatus

_FAR = HALF + 16


def _begin(status: CompletionStatus, **values: int):
    return status, values, list, True


# What a rank may ask for and must not: its status, changes of BEGIN, changes of records, and
# whether nothing at all is written.
_REFUSALS: dict[str, tuple[CompletionStatus, dict[str, int], Change, bool]] = {
    "source outside": _begin(S.ADDRESS_ERROR, source=_FAR),
    "source across the end": _begin(S.ADDRESS_ERROR, source=HALF - 1),
    "source a flit too far": _begin(S.ADDRESS_ERROR, source=HALF + 1),
    "source beyond the space": _begin(S.ADDRESS_ERROR, source=(1 << 32) - 1),
    "result outside": _begin(S.ADDRESS_ERROR, result=_FAR),
    "unknown operation": _begin(S.OPERATION_ERROR, operation=7),
    "unknown operator": _begin(S.OPERATION_ERROR, operator=3),
    "operator not built": _begin(S.OPERATION_ERROR, operator=1),
    "class of control": _begin(S.OPERATION_ERROR, traffic_class=3),
    "unknown type": _begin(S.TYPE_ERROR, data_type=7),
    "type not built": _begin(S.TYPE_ERROR, data_type=1),
    "source size": _begin(S.SIZE_ERROR, source_bytes=46),
    "result size": _begin(S.SIZE_ERROR, result_bytes=1),
    "program too long": _begin(S.PLAN_ERROR, program_steps=17),
    "step beyond the table": (
        S.PLAN_ERROR, {}, changed(RecordKind.PROGRAM, Program, 1, {"index": 16}), True,
    ),
    "program beyond the table": (
        S.PLAN_ERROR, {}, changed(RecordKind.OP, Op, 0, {"rx_program": 4000}), True,
    ),
    "type of an op": (
        S.TYPE_ERROR, {}, changed(RecordKind.OP, Op, 0, {"data_type": 2}), True,
    ),
    "load outside": (
        S.ADDRESS_ERROR, {}, changed(RecordKind.LOAD, Load, 0, {"memory_address": _FAR}), True,
    ),
    "load beyond the SRAM": (
        S.PLAN_ERROR, {}, changed(RecordKind.LOAD, Load, 0, {"sram_address": 1 << 19}), True,
    ),
    "store outside": (
        S.ADDRESS_ERROR, {}, changed(RecordKind.STORE, Store, -1, {"memory_address": _FAR}),
        False,
    ),
}  # fmt: skip


@cocotb.test(timeout_time=4000, timeout_unit="us")
async def refusals(dut):
    """One rank refuses: its status there, PEER_ERROR elsewhere, nothing written, and a collective
    that was rung at the same time is right everywhere."""
    t = Collectives(dut)
    await t.begin()
    for number, (name, (status, values, change, nothing)) in enumerate(_REFUSALS.items()):
        if t.p.get("fred") and name == "type of an op":
            continue  # its packets do not match those of the others: an error of the switch
        bad = t.work()
        rank = number % t.p["ranks"]
        loaded = t.p["chunks"] * bad.shares(rank)[0]
        if name == "source a flit too far":
            values = {"source": values["source"] - loaded}
        own = replace(bad, begin=values)
        read = await t.engines[rank].read("COUNT_MEMORY_READ_BYTES")
        contributed = t.place(bad, {rank: (own, change)})
        good = t.work()
        values_good = t.place(good, {})
        await t.ring(bad)
        await t.ring(good)
        ended = await t.statuses(bad)
        assert ended[rank] == status, (name, ended)
        if nothing:
            assert {ended[r] for r in t.others(rank)} == {S.PEER_ERROR}, (name, ended)
            t.untouched(bad)
        else:
            for r in t.others(rank):
                assert ended[r] in (S.OK, S.PEER_ERROR), (name, ended)
                if ended[r] is S.OK:
                    t.right(bad, contributed, [r])
        outside = t.engines[rank].memory.read(FLIT * HALF, FLIT * HALF)
        assert not any(outside), name
        assert set(await t.statuses(good)) == {S.OK}, name
        t.right(good, values_good)
        if values:  # BEGIN was wrong: not a byte was read for it
            read = await t.engines[rank].read("COUNT_MEMORY_READ_BYTES") - read
            assert read == FLIT * loaded, (name, read)
    for engine in t.engines:
        assert (await engine.fields("STATUS"))["idle"] == 1


def _failing(engine, side: str, first: int, flits: int) -> Callable[[], None]:
    """Let memory answer SLVERR to bursts that touch a range; returns how to end that."""
    port = engine.memory.read_if if side == "read" else engine.memory.write_if
    name = f"_{side}"
    before = getattr(port, name)

    async def access(address, what):
        size = what if side == "read" else len(what)
        if address < FLIT * (first + flits) and address + size > FLIT * first:
            raise ValueError("no such memory")
        return await before(address, what)

    setattr(port, name, access)
    return lambda: setattr(port, name, before)


@cocotb.test(timeout_time=4000, timeout_unit="us")
async def memory_errors(dut):
    """Memory answers SLVERR: to a read, to a write, to the fetch of a descriptor."""
    t = Collectives(dut)
    await t.begin()
    ranks = t.p["ranks"]
    for rank in range(ranks):
        work = t.work()
        values = t.place(work, {})
        heal = _failing(t.engines[rank], "read", work.source + t.p["chunk_flits"] + 1, 1)
        good = t.work()
        values_good = t.place(good, {})
        await t.ring(work)
        await t.ring(good)
        ended = await t.statuses(work)
        assert ended[rank] is S.MEMORY_ERROR, ended
        assert {ended[r] for r in t.others(rank)} == {S.PEER_ERROR}, ended
        assert set(await t.statuses(good)) == {S.OK}
        t.right(good, values_good)
        heal()

        work = t.work()
        values = t.place(work, {})
        heal = _failing(t.engines[rank], "write", work.result, 1)
        await t.ring(work)
        ended = await t.statuses(work)
        assert ended[rank] is S.MEMORY_ERROR, ended
        for r in t.others(rank):
            assert ended[r] in (S.OK, S.PEER_ERROR), ended
            if ended[r] is S.OK:
                t.right(work, values, [r])
        heal()
        await t.good()

    # A descriptor that cannot be read, and one that may not be: the rank says so, the others wait
    # for it, and all is well when the host rings with the right one.
    for kind in ("error", "region"):
        work = t.work()
        values = t.place(work, {})
        engine = t.engines[1]
        mend: Callable[[], object] = list
        if kind == "error":
            mend = _failing(engine, "read", t.descriptor(work), 256)
            await t.ring(work)
        else:
            for other in t.engines:
                address = t.descriptor(work) if other is not engine else 2 * HALF - 256
                await other.write("DOORBELL", address)
        assert await engine.completion() == (0, S.DESCRIPTOR_ERROR)
        mend()
        await engine.write("DOORBELL", t.descriptor(work))
        assert set(await t.statuses(work)) == {S.OK}
        t.right(work, values)


@cocotb.test(timeout_time=4000, timeout_unit="us")
async def aborts(dut):
    """The host gives a collective up, in the middle, on one rank or on several."""
    t = Collectives(dut)
    await t.begin()
    await t.aborts(latest=400)


@cocotb.test(timeout_time=8000, timeout_unit="us")
async def resets(dut):
    """All engines are reset in the middle of two collectives, at different times, one of them
    twice: bursts end in order, the links come up, and the next collective is right."""
    t = Collectives(dut)
    await t.begin()
    at_work = bursts = 0
    for _turn in range(t.p["turns"]):
        for _ in range(2):
            work = t.work()
            t.place(work, {})
            await t.ring(work)
        await ClockCycles(dut.clk, int(t.generator.integers(1, 400)))
        order = [int(rank) for rank in t.generator.permutation(t.p["ranks"])]
        idle = [(await engine.fields("STATUS"))["idle"] for engine in t.engines]
        at_work += not any(idle)
        bursts += any(any(engine.monitor.outstanding.values()) for engine in t.engines)
        for rank in [order[-1], *order]:
            engine = t.engines[rank]
            assert await engine.write("CONTROL", 1) is AxiResp.OKAY
            await ClockCycles(dut.clk, int(t.generator.integers(1, 60)))
        for engine in t.engines:
            for _ in range(500):
                status = await engine.fields("STATUS")
                if not status["resetting"] and await engine.read("LINKS") == 1:
                    break
            else:
                raise TimeoutError(f"rank {engine.rank}: the links do not come up")
            assert status["idle"] == 1
            assert status["completions"] == 0
            assert await engine.read("COUNT_DESCRIPTOR_BYTES") == 0
            await engine.write("INTERRUPT_PENDING", 2)
            assert await engine.read("INTERRUPT_PENDING") == 0
            assert engine.monitor.outstanding == {"aw": 0, "ar": 0}
        t.used = 0
        await t.good()
        await t.good()
    # Work was under way when the resets came: on every engine, and bursts on a memory port.
    assert at_work > 0
    assert bursts > 0
    dut._log.warning(f"at work in {at_work} turns of {t.p['turns']}, with bursts in {bursts}")
    # Whoever is reset alone stops its neighbours, and they say so.
    await t.engines[0].write("CONTROL", 1)
    await ClockCycles(dut.clk, 200)
    for rank in (1, t.p["ranks"] - 1):
        assert (await t.engines[rank].fields("INTERRUPT_PENDING"))["link"] == 1
        assert await t.engines[rank].read("LINKS") == 0
