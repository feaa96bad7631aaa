"""Engines on AXI in rings, with the AXI models of cocotbext around them."""

import logging

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiResp

from rtl.ace.counters import DimCounters, EngineCounters
from rtl.ace.status import CompletionStatus
from rtl.axi.register_map import counters
from rtl.common.packet import DataType
from testbenches import parameters, seed
from testbenches.ace_axi import AxiGroup
from testbenches.ace_records import RingChunks, bounds, descriptor
from testbenches.ace_ring_values import contributions, results

_FLIT = 16
_SOURCE, _RESULT = 2048, 8192


def _group(dut) -> AxiGroup:
    logging.getLogger("cocotb").setLevel(logging.WARNING)
    p = parameters()
    return AxiGroup(
        dut,
        sizes=[p["ranks"]],
        expected=p["expected"],
        seed=seed(),
        stall=p.get("stall", 0),
    )


def _work(**changes) -> RingChunks:
    p = parameters()
    shape = {
        "operation": p["operation"],
        "ranks": p["ranks"],
        "chunk_flits": p["chunk_flits"],
        "chunks": p["chunks"],
        "data_type": DataType[p["data_type"]],
        "sources": 4,
        "destinations": 4,
        "source": _SOURCE + p.get("shift", 0),
        "result": _RESULT + p.get("shift", 0),
        "collective": 0x1234,
        "begin": {},
    }
    return RingChunks(**shape | changes)


def _place(group: AxiGroup, work: RingChunks, address: int, generator) -> np.ndarray:
    """Descriptors and contributions into the memories."""
    values = contributions(work, generator)
    for rank, engine in enumerate(group.engines):
        engine.memory.write(_FLIT * address, descriptor(work.records(rank)))
        engine.memory.write(_FLIT * work.source, values[rank].tobytes())
    return values


def _check(group: AxiGroup, work: RingChunks, values: np.ndarray) -> None:
    for rank, expected in enumerate(results(work, values)):
        got = group.engines[rank].memory.read(_FLIT * work.result, expected.nbytes)
        assert got == expected.tobytes(), f"rank {rank} of {work.operation} differs"


def _traffic(work: RingChunks, rank: int) -> tuple[int, int]:
    """Headers, and flits in all, that a rank sends."""
    edge = bounds(work.chunk_flits, work.ranks)
    shards = []
    if work.operation in ("rs", "ar"):
        shards += [(rank - 1 - step) % work.ranks for step in range(work.ranks - 1)]
    if work.operation in ("ag", "ar"):
        shards += [(rank - step) % work.ranks for step in range(work.ranks - 1)]
    flits = [edge[shard + 1] - edge[shard] for shard in shards]
    headers = sum(-(-length // parameters()["packet_flits"]) for length in flits)
    return work.chunks * headers, work.chunks * (headers + sum(flits))


async def _counts(engine, dims: int) -> tuple[dict[str, int], list[dict[str, int]]]:
    """The engine's counters, read by the host."""
    shared = {name: await engine.read(f"COUNT_{name.upper()}") for name in counters(EngineCounters)}
    by_dim = [
        {name: await engine.read(f"DIM_{name.upper()}", dim) for name in counters(DimCounters)}
        for dim in range(dims)
    ]
    return shared, by_dim


@cocotb.test(timeout_time=400, timeout_unit="us")
async def collective(dut):
    """A collective under stalls on every channel: the host's part, data, counters, bursts."""
    p = parameters()
    group = _group(dut)
    await group.begin()
    work = _work()
    values = _place(group, work, 0, np.random.default_rng(seed()))
    for engine in group.engines:
        await engine.open_memory()
        assert await engine.write("INTERRUPT_ENABLE", 1) is AxiResp.OKAY
        engine.accesses = {"read": 0, "write": 0}
        assert not int(engine.interrupt.value)

    # All that a host does: a doorbell, and when it is interrupted, one read.
    async def host(engine):
        assert await engine.write("DOORBELL", 0) is AxiResp.OKAY
        await engine.interrupted(100_000, dut.clk)
        return await engine.fields("COMPLETION")

    tasks = [cocotb.start_soon(host(engine)) for engine in group.engines]
    for engine, task in zip(group.engines, tasks, strict=True):
        completion = await task
        assert completion["valid"] == 1
        assert completion["collective"] == work.collective
        assert completion["status"] == CompletionStatus.OK
        assert engine.accesses == {"read": 1, "write": 1}
    _check(group, work, values)
    for engine in group.engines:
        await ClockCycles(dut.clk, 2)
        assert not int(engine.interrupt.value)
        assert await engine.read("COMPLETION") == 0

    for rank, engine in enumerate(group.engines):
        shared, (dim,) = await _counts(engine, 1)
        loaded, stored = work.shares(rank)
        assert shared["memory_read_bytes"] == loaded * work.chunks * _FLIT
        assert shared["memory_written_bytes"] == stored * work.chunks * _FLIT
        assert shared["descriptor_bytes"] == len(descriptor(work.records(rank)))
        assert shared["records_refused"] == 0
        assert shared["completions"] == 1
        assert (dim["headers_sent"], dim["flits_sent"]) == _traffic(work, rank)
        assert dim["flits_received"] == _traffic(work, rank - 1)[1]
        written = sum(engine.monitor.bursts["aw"])
        assert written == stored * work.chunks
        fetched = shared["descriptor_fetched_bytes"] // _FLIT
        assert sum(engine.monitor.bursts["ar"]) == loaded * work.chunks + fetched
        assert (await engine.fields("STATUS"))["idle"] == 1
        assert await engine.read("LINKS") == 1
        dut._log.warning(
            f"rank {rank}: longest bursts {max(engine.monitor.bursts['ar'])} read, "
            f"{max(engine.monitor.bursts['aw'])} written; most outstanding {engine.monitor.most}"
        )
    if p.get("reach"):
        assert group.engines[0].monitor.most == {
            "ar": p["expected"]["reads"],
            "aw": p["expected"]["writes"],
        }


@cocotb.test(timeout_time=100, timeout_unit="us")
async def registers(dut):
    """What the host can find out and what it is refused."""
    p = parameters()
    group = _group(dut)
    await group.begin()
    engine = group.engines[0]
    assert await engine.fields("ID") == {"version": 1, "magic": int.from_bytes(b"ACE")}
    built = p["built"]
    for name, expected in built.items():
        assert await engine.fields(name) == expected, name
    assert await engine.read("GRANTS") == 1
    for name in ("DOORBELL", "CONTROL"):
        answer = await engine.host.read(engine.address(name), 4)
        assert answer.resp is AxiResp.SLVERR, name
    for name in ("ID", "COMPLETION", "STATUS", "DIM_FLITS_SENT"):
        assert await engine.write(name, 1) is AxiResp.SLVERR, name
    for hole in (0x03C, 0x3FC, 0xFFC):
        assert (await engine.host.read(hole, 4)).resp is AxiResp.SLVERR
        assert (await engine.host.write(hole, bytes(4))).resp is AxiResp.SLVERR
    # Half a register is not written.
    enable = engine.address("INTERRUPT_ENABLE")
    assert (await engine.host.write(enable, b"\xff")).resp is AxiResp.SLVERR
    assert await engine.read("INTERRUPT_ENABLE") == 0
    assert await engine.write("INTERRUPT_ENABLE", 0xFFFFFFFF) is AxiResp.OKAY
    defined = sum(1 << f.low for f in engine.table["INTERRUPT_ENABLE"].fields)
    assert await engine.read("INTERRUPT_ENABLE") == defined


@cocotb.test(timeout_time=200, timeout_unit="us")
async def doorbells_without_room(dut):
    """More doorbells than there is room for are answered with SLVERR; the others all count."""
    group = _group(dut)
    await group.begin()
    work = _work(chunks=1)
    generator = np.random.default_rng(seed())
    values = _place(group, work, 0, generator)
    room = (await group.engines[0].fields("STATUS"))["doorbell_room"]
    taken = {}
    for rank, engine in enumerate(group.engines):
        await engine.open_memory()
        engine.memory.read_if.ar_channel.pause = True  # nothing is fetched
        answers = [await engine.write("DOORBELL", 0) for _ in range(2 * room + 6)]
        taken[rank] = answers.count(AxiResp.OKAY)
        assert answers == [AxiResp.OKAY] * taken[rank] + [AxiResp.SLVERR] * (
            len(answers) - taken[rank]
        )
        assert (await engine.fields("STATUS"))["doorbell_room"] == 0
    # The engine itself took the same number on every rank. Its buffers' epochs allow one run.
    assert len(set(taken.values())) == 1
    assert taken[0] > room
    for engine in group.engines:
        engine.memory.read_if.ar_channel.pause = False
    for engine in group.engines:
        await engine.write("INTERRUPT_ENABLE", 1)
        await engine.interrupted(50_000, dut.clk)
        # The counters have all of a collective by the time a host can read them.
        assert await engine.read("COUNT_COMPLETIONS") >= 1
        _, stored = work.shares(group.engines.index(engine))
        assert await engine.read("COUNT_MEMORY_WRITTEN_BYTES") >= stored * work.chunks * _FLIT
        assert (await engine.fields("COMPLETION"))["collective"] == work.collective
    _check(group, work, values)
