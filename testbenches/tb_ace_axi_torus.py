"""A torus of engines on AXI with two dims and two classes, and every register that it has."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiResp

from rtl.ace.counters import DimCounters
from rtl.ace.status import CompletionStatus, WaitCause
from rtl.axi.register_map import Access, counters
from sw_model.collective.plan import Operation
from testbenches import parameters, seed
from testbenches.ace_axi import AxiEngine, AxiGroup
from testbenches.ace_axi_torus import CLASSES, FLIT, TORUS, Work, sram_flits, traffic, works

_DOORBELLS = ("DOORBELL", "DOORBELL_1")
_PLACES = [(lane, dim) for lane in range(len(CLASSES)) for dim in range(2)]
_BURST = 4 * 32  # bytes of a descriptor that are read at a time
_WINDOW = 16 * 32  # bytes of one that may be read ahead
_REGIONS = [(0, 16383, 3), (0x11111111, 0x12222222, 1), (0x89ABCDEF, 0xFEDCBA98, 2), (7, 5, 0)]
"""First flit, last flit, access; only in the first is memory."""

Wanted = int | dict[str, int] | range
"""A number, fields, or the range in which a number lies."""


def _group(dut) -> AxiGroup:
    logging.getLogger("cocotb").setLevel(logging.WARNING)
    return AxiGroup(
        dut,
        sizes=(2, 2),
        classes=CLASSES,
        expected=parameters()["expected"],
        seed=seed(),
        stall=parameters().get("stall", 0),
    )


async def _together(group: AxiGroup, action: Callable[[int, AxiEngine], Any]) -> None:
    """The hosts of all ranks at once."""
    tasks = [cocotb.start_soon(action(rank, one)) for rank, one in enumerate(group.engines)]
    for task in tasks:
        await task


async def _begin(group: AxiGroup, posted: Sequence[Work]) -> None:
    """Reset; descriptors and contributions into the memories; regions."""
    await group.begin()
    for rank, engine in enumerate(group.engines):
        for work in posted:
            engine.memory.write(FLIT * work.place, work.descriptors[rank])
            engine.memory.write(FLIT * work.source, work.values[rank].tobytes())

    async def register(_, engine):
        for number, (first, last, access) in enumerate(_REGIONS):
            await engine.region(number, first, last - first + 1, access=access)
        assert await engine.write("INTERRUPT_ENABLE", 1) is AxiResp.OKAY

    await _together(group, register)


def _check_results(group: AxiGroup, posted: Sequence[Work]) -> None:
    for work in posted:
        for rank, engine in enumerate(group.engines):
            wanted = work.expected(rank)
            got = engine.memory.read(FLIT * work.result, len(wanted))
            assert got == wanted, f"{work.request}: rank {rank} differs"
            assert len(wanted) == FLIT * work.flits[1]


def _state(**changes: int) -> dict[str, int]:
    """DIM_STATUS; at rest, and nothing has been done, but for ``changes``."""
    rest = {"running": 0, "queued": 0, "op": 0}
    return rest | {"cause": WaitCause.NONE, "start_cause": WaitCause.NONE} | changes


def _progress(sent: int = 0, received: int = 0, collective: int = 0) -> dict[str, int]:
    return {"sent": sent, "received": received, "collective": collective}


def _at_rest(engine: AxiEngine, posted: Sequence[Work], cycles: int) -> dict[str, list[Wanted]]:
    """Every register that can be read, when all of ``posted`` is over and completions are taken.

    What stalls and collisions there were nobody can say beforehand: no more than cycles.
    """
    rank = engine.rank
    doorbells = parameters()["doorbells"]
    out: dict[str, list[Wanted]] = {name: [row] for name, row in parameters()["built"].items()}
    out |= {
        "COMPLETION": [0],
        "STATUS": [{"idle": 1, "resetting": 0, "doorbell_room": doorbells, "completions": 0}],
        "LINKS": [0b1111],
        "INTERRUPT_PENDING": [0],
        "INTERRUPT_ENABLE": [1],
        "DOORBELL_ROOM": [{"first": doorbells, "second": doorbells, "third": 0}],
        "REGION_BASE": [first for first, _, _ in _REGIONS],
        "REGION_LIMIT": [last for _, last, _ in _REGIONS],
        "REGION_ACCESS": [access for _, _, access in _REGIONS],
        "DIM_PROGRESS": [_progress() for _ in _PLACES],
    }
    rows = traffic(posted)
    # Ops of a chunk: to scatter it on both dims, and to gather it again on the first one.
    out["DIM_STATUS"] = [
        _state(
            op=sum(
                w.chunks * (2 if w.request.operation is Operation.ALL_REDUCE and dim == 0 else 1)
                for w in posted
                if w.lane == lane
            )
        )
        for lane, dim in _PLACES
    ]
    for name in ("flits_sent", "headers_sent", "flits_received", "reductions"):
        out[f"DIM_{name.upper()}"] = [getattr(row, name) for row in rows]
    # A grant comes before its message, so no message comes before its op.
    out["DIM_STALL_OPERATION"] = [0 for _ in rows]
    worked = [row.flits_sent > 0 for row in rows]
    for name in ("stall_link", "stall_grant", "stall_data"):
        out[f"DIM_{name.upper()}"] = [range(cycles) if work else 0 for work in worked]
    for name in ("flits_forwarded", "flits_read_back"):
        out[f"DIM_{name.upper()}"] = [range(row.sent_on + 1) for row in rows]
    for name, contexts in (("busy_cycles", 1), ("context_cycles", TORUS.engine.contexts)):
        out[f"DIM_{name.upper()}"] = [
            range(row.flits_sent, contexts * cycles) if row.flits_sent else 0 for row in rows
        ]
    loaded, stored = (sum(work.flits[n] for work in posted) for n in range(2))
    records = [len(work.descriptors[rank]) for work in posted]
    reads, writes = sram_flits(posted)
    sent_on = sum(row.sent_on for row in rows)
    fetched = FLIT * (sum(engine.monitor.bursts["ar"]) - loaded)
    assert sum(records) <= fetched <= sum(records) + len(records) * (_WINDOW + _BURST), fetched
    assert sum(engine.monitor.bursts["aw"]) == stored
    out |= {
        "COUNT_MEMORY_READ_BYTES": [FLIT * loaded],
        "COUNT_MEMORY_WRITTEN_BYTES": [FLIT * stored],
        "COUNT_DESCRIPTOR_BYTES": [sum(records)],
        "COUNT_DESCRIPTOR_FETCHED_BYTES": [fetched],
        "COUNT_RECORDS_REFUSED": [0],
        "COUNT_COMPLETIONS": [len(posted)],
        "COUNT_BANK_COLLISIONS": [range(4 * cycles) if posted else 0],
        "COUNT_SRAM_READS": [range(reads - sent_on, reads + 1)],
        "COUNT_SRAM_WRITES": [writes],
    }
    return out


async def _check(engine: AxiEngine, wanted: Mapping[str, Sequence[Wanted]]) -> dict[str, list]:
    """Read every register that can be read once; what was read."""
    rows = {r.name: r for r in engine.table.values() if r.access is not Access.WRITE}
    assert wanted.keys() == rows.keys(), wanted.keys() ^ rows.keys()
    found: dict[str, list] = {}
    for name, values in wanted.items():
        assert len(values) == rows[name].count, name
        for number, value in enumerate(values):
            got: Any
            if isinstance(value, dict):
                got = await engine.fields(name, number)
            else:
                got = await engine.read(name, number)
            right = got in value if isinstance(value, range) else got == value
            assert right, f"rank {engine.rank}: {name}({number}) is {got}, not {value}"
            found.setdefault(name, []).append(got)
    # What stands in several registers agrees.
    forwarded, back = found["DIM_FLITS_FORWARDED"], found["DIM_FLITS_READ_BACK"]
    busy, contexts = found["DIM_BUSY_CYCLES"], found["DIM_CONTEXT_CYCLES"]
    assert all(b <= c for b, c in zip(busy, contexts, strict=True)), (busy, contexts)
    return found | {"sent_on": [f + b for f, b in zip(forwarded, back, strict=True)]}


async def _check_all(group: AxiGroup, posted: Sequence[Work], cycles: int) -> None:
    rows = traffic(posted)

    async def check(_, engine):
        found = await _check(engine, _at_rest(engine, posted, cycles))
        assert found["sent_on"] == [row.sent_on for row in rows], found["sent_on"]
        reads = sram_flits(posted)[0] - sum(found["DIM_FLITS_FORWARDED"])
        assert found["COUNT_SRAM_READS"] == [reads], (found["COUNT_SRAM_READS"], reads)

    await _together(group, check)


@cocotb.test(timeout_time=400, timeout_unit="us")
async def two_classes(dut):
    """Both operations in both classes at once, under stalls on every channel: doorbells,
    completions, data, and all registers."""
    count, flits = parameters()["chunks"], parameters()["flits"]
    ar, rs = Operation.ALL_REDUCE, Operation.REDUCE_SCATTER
    requests = [(ar, "mp", "int32"), (rs, "dp", "fp16"), (rs, "mp", "int32"), (ar, "dp", "fp16")]
    posted = works(
        [(*row, n, count) for row, n in zip(requests, flits, strict=True)],
        np.random.default_rng(seed()),
    )
    group = _group(dut)
    await _begin(group, posted)
    start = cocotb.utils.get_sim_time("ns")

    async def host(_, engine):
        for work in posted:
            assert await engine.write(_DOORBELLS[work.lane], work.place) is AxiResp.OKAY
        seen: dict[int, list[int]] = {lane: [] for lane in range(len(CLASSES))}
        for _ in posted:
            await engine.interrupted(100_000, dut.clk)
            completion = await engine.fields("COMPLETION")
            assert completion["valid"] == 1
            assert completion["status"] == CompletionStatus.OK
            seen[completion["place"]].append(completion["collective"])
        assert seen == {
            lane: [work.identity for work in posted if work.lane == lane] for lane in seen
        }
        await ClockCycles(dut.clk, 4)
        assert not int(engine.interrupt.value)

    await _together(group, host)
    _check_results(group, posted)
    cycles = int(cocotb.utils.get_sim_time("ns") - start) // 2
    dut._log.warning(f"all over after {cycles} cycles")
    await _check_all(group, posted, cycles)


@cocotb.test(timeout_time=400, timeout_unit="us")
async def registers(dut):
    """Idle, refused, held up at every place where an op can wait, and after it all."""
    group = _group(dut)
    posted = works(
        [(Operation.ALL_REDUCE, name, "int32", 16, 1) for name in CLASSES],
        np.random.default_rng(seed()),
    )
    await _begin(group, posted)
    await _check_all(group, [], 1)
    await _refusals(group.engines[0])
    await _check_all(group, [], 1)
    held = _Held(group)
    start = cocotb.utils.get_sim_time("ns")
    for work in posted:
        await held.through(work)
    cycles = int(cocotb.utils.get_sim_time("ns") - start) // 2

    # Both completions wait, the first one first.
    async def take(_, engine):
        for number, work in enumerate(posted):
            assert int(engine.interrupt.value)
            assert await engine.read("INTERRUPT_PENDING") == 1
            assert (await engine.fields("STATUS"))["completions"] == len(posted) - number
            assert await engine.fields("COMPLETION") == {
                "collective": work.identity,
                "status": CompletionStatus.OK,
                "place": work.lane,
                "valid": 1,
            }
        await ClockCycles(dut.clk, 4)
        assert not int(engine.interrupt.value)

    await _together(group, take)
    _check_results(group, posted)
    await _check_all(group, posted, cycles)


async def _refusals(engine: AxiEngine) -> None:
    """Writes of what is only read, reads of what is only written; no doorbell is taken by it."""
    for register in engine.table.values():
        for address in register.addresses():
            if register.access in (Access.READ, Access.POP):
                for part in (address, address + 4)[: 1 + register.wide]:
                    answer = await engine.host.write(part, b"\xff\xff\xff\xff")
                    assert answer.resp is AxiResp.SLVERR, register.name
            elif register.access is Access.WRITE:
                read = await engine.host.read(address, 4)
                assert read.resp is AxiResp.SLVERR, register.name
    for number, row in enumerate(("DIM_STATUS", "DIM_PROGRESS", "DIM_BUSY_CYCLES")):
        last = engine.table[row].addresses()[-1]  # behind the last dim of the last class
        behind = last + engine.table[row].stride
        assert (await engine.host.read(behind, 4)).resp is AxiResp.SLVERR, (number, row)
    third = engine.address("DOORBELL_1") + 4  # of a third class
    assert (await engine.host.write(third, bytes(4))).resp is AxiResp.SLVERR


class _Held:
    """Takes an all-reduce of one chunk through all ranks, a wait at a time, and looks at it there.

    On dim 0 it is scattered (op 0), on dim 1 scattered and gathered (op 0), on dim 0 gathered
    (op 1). Ops wait for a grant, with the message at the port, for their neighbour's message.
    """

    def __init__(self, group: AxiGroup) -> None:
        self.group = group
        self.states = [_state() for _ in _PLACES]

    def _pause(self, model: str, pause: bool) -> None:
        for engine in self.group.engines:
            engine.channels()[model].pause = pause

    async def through(self, work: Work) -> None:
        """Post it, and see it to its end."""
        clk = self.group.clk
        name = work.request.traffic_class
        lane = work.lane
        links = [f"{dim}_{name}" for dim in range(2)]
        waits = WaitCause
        op = {"running": 1, "queued": 1, "start_cause": waits.SOURCE}  # an op waits behind it
        alone = {"running": 1}
        # What dim 0 and dim 1 say, and the counter that runs, at each stop.
        self._pause(f"from grant_{links[0]}", True)

        async def ring(_, engine):
            assert await engine.write(_DOORBELLS[lane], work.place) is AxiResp.OKAY

        await _together(self.group, ring)
        behind = _state(queued=1, start_cause=waits.SOURCE)
        stops = [
            # the models that hold on, those that let go; states; progress; what stalls
            ([], [], _state(**op, cause=waits.GRANT), behind, (0, 0, 0), "stall_grant"),
            ([f"from {links[0]}"], [f"from grant_{links[0]}"],
             _state(**op, cause=waits.LINK), behind, (0, 0, 0), "stall_link"),
            ([f"to {links[0]}"], [f"from {links[0]}"],
             _state(**op, cause=waits.RECEIVE), behind, (0, 1, 0), ""),
            ([f"from grant_{links[1]}"], [f"to {links[0]}"],
             _state(queued=1, start_cause=waits.SOURCE, op=1), _state(**alone, cause=waits.GRANT),
             (1, 0, 0), "stall_grant"),
            ([f"from {links[1]}"], [f"from grant_{links[1]}"],
             # All of the short message has left the SRAM: its next one waits already, for data.
             _state(queued=1, start_cause=waits.SOURCE, op=1), _state(**alone, cause=waits.DATA),
             (1, 0, 0), "stall_link stall_data"),
            ([f"to {links[1]}"], [f"from {links[1]}"],
             _state(queued=1, start_cause=waits.SOURCE, op=1), _state(**alone, cause=waits.DATA),
             (1, 1, 0), "stall_data"),
            ([f"to {links[0]}"], [f"to {links[1]}"],
             _state(**alone, op=1, cause=waits.RECEIVE), _state(op=1), (0, 1, 0), ""),
        ]  # fmt: skip
        for hold, release, *states, (dim, sent, received), running in stops:
            for model in hold:
                self._pause(model, True)
            for model in release:
                self._pause(model, False)
            await ClockCycles(clk, 120)
            self.states[2 * lane : 2 * lane + 2] = states
            progress = _progress(sent, received, work.identity)
            await _together(self.group, self._look(2 * lane + dim, progress, running))
        self._pause(f"to {links[0]}", False)
        for engine in self.group.engines:
            await engine.interrupted(2000, clk)
        await ClockCycles(clk, 200)
        self.states[2 * lane] = _state(op=2)

    def _look(self, place: int, progress: dict[str, int], running: str):
        """A host that reads what all dims say; at ``place`` something runs."""

        async def look(_, engine: AxiEngine) -> None:
            status = await engine.fields("STATUS")
            assert status["idle"] == 0
            for number, state in enumerate(self.states):
                got = await engine.fields("DIM_STATUS", number)
                assert got == state, (engine.rank, number, got, state)
                got = await engine.fields("DIM_PROGRESS", number)
                wanted = progress if number == place else _progress()
                assert got == wanted, (engine.rank, number, got, wanted)
            # Counters of cycles go on with the clock, at this place alone.
            steady = {"busy_cycles", "context_cycles", *running.split()}
            for name in counters(DimCounters):
                if not name.startswith("stall") and "cycles" not in name:
                    continue
                for number in range(len(_PLACES)):
                    first, begun = await self._timed(engine, f"DIM_{name.upper()}", number)
                    second, ended = await self._timed(engine, f"DIM_{name.upper()}", number)
                    runs = number == place and name in steady
                    passed = ended - begun if runs else 0
                    assert second - first == passed, (engine.rank, name, number, first, second)

        return look

    async def _timed(self, engine: AxiEngine, name: str, number: int) -> tuple[int, int]:
        """The low half of a counter, and the cycle in which it came; two such are as far apart as
        the counter was looked at."""
        answer = await engine.host.read(engine.address(name, number), 4)
        value = int.from_bytes(answer.data, "little")
        return value, int(cocotb.utils.get_sim_time("ns")) // 2
