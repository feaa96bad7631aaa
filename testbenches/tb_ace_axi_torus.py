"""A torus of engines on AXI with two dims and two classes, and every register that it has."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, Combine
from cocotbext.axi import AxiResp

from rtl.ace.status import CompletionStatus, WaitCause
from rtl.axi.register_map import Access
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
        ranks=TORUS.topology.npus,
        dims=2,
        sizes=(2, 2),
        classes=CLASSES,
        expected=parameters()["expected"],
        seed=seed(),
        stall=parameters().get("stall", 0),
    )


async def _together(group: AxiGroup, action: Callable[[int, AxiEngine], Any]) -> None:
    """The hosts of all ranks at once."""
    tasks = [cocotb.start_soon(action(rank, one)) for rank, one in enumerate(group.engines)]
    await Combine(*tasks)
    for task in tasks:
        task.result()


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
