"""Rings of whole endpoints: real collectives, bit for bit, with their counters and their speed."""

import re
from itertools import pairwise

import cocotb
import numpy as np

from rtl.ace.counters import engine_counters
from rtl.ace.status import DimStatus, WaitCause
from rtl.common.packet import DataType
from sim_top.shell.control import Shell, StuckError
from testbenches import parameters, seed
from testbenches.ace_records import RingChunks, bounds, descriptor
from testbenches.ace_ring_values import contributions, results

_FLIT = 16
_SOURCE, _RESULT, _WORDS = 2048, 8192, 16384


def _describe(dut, ranks: int) -> str:
    """Where every endpoint stands."""
    word = int(dut.status.value)
    size = DimStatus.as_shape().size
    texts = []
    for rank in range(ranks):
        status = DimStatus.from_bits((word >> (rank * size)) & ((1 << size) - 1))
        texts.append(
            f"rank {rank}: op {status.op} sent {status.sent} received {status.received} "
            f"waits for {WaitCause(status.cause).name}, next op for "
            f"{WaitCause(status.start_cause).name}"
        )
    return "; ".join(texts)


def _counters(dut, ranks: int) -> list:
    layout = engine_counters(1)
    word = int(dut.counters.value)
    mask = (1 << layout.size) - 1
    return [layout.from_bits((word >> (rank * layout.size)) & mask) for rank in range(ranks)]


class _Ring:
    """A ring in its shell, with the contents of its memories."""

    def __init__(self, dut):
        self.p = parameters()
        self.dut = dut
        self.ranks = self.p["ranks"]
        self.everybody = list(range(self.ranks))
        self.shell = Shell(dut, events=("done",), describe=lambda: _describe(dut, self.ranks))
        self.images = [np.zeros(_WORDS * _FLIT, dtype=np.uint8) for _ in range(self.ranks)]

    def place(self, work: RingChunks, address: int) -> np.ndarray:
        """Put descriptors and random contributions into the images; the contributions."""
        values = contributions(work, np.random.default_rng(seed()))
        for rank, image in enumerate(self.images):
            code = np.frombuffer(descriptor(work.records(rank)), dtype=np.uint8)
            raw = values[rank].view(np.uint8)
            for first, data in ((address, code), (work.source, raw)):
                assert not image[first * _FLIT : first * _FLIT + data.size].any(), "overlap"
                image[first * _FLIT : first * _FLIT + data.size] = data
        return values

    async def begin(self, *, watchdog_limit: int = 2000) -> None:
        """Reset, and fill the memories."""
        await self.shell.reset(watchdog_limit=watchdog_limit)
        await self.shell.load(self.everybody, self.images)

    async def ring(self, address: int, *, ranks: int | None = None) -> None:
        """Ring the doorbells of all ranks, or of those chosen by one bit each."""
        self.shell.write("descriptor", address)
        self.shell.write("chosen", (1 << self.ranks) - 1 if ranks is None else ranks)
        self.shell.write("skew", self.p.get("skew", 0))
        self.shell.write("start", 1)
        await self.shell.run(until=self.shell.cycle + 2)
        self.shell.write("start", 0)

    async def complete(self, collectives: int) -> int:
        """Run until every rank has completed so many since reset; the cycle in which it had."""
        self.shell.write("target", collectives)
        wake = await self.shell.run(until=self.shell.cycle + 200_000)
        assert wake.events == ("done",), _describe(self.dut, self.ranks)
        self.shell.write("target", 0)
        await self.shell.run(until=wake.cycle + 10)
        return wake.cycle

    async def check(self, work: RingChunks, values: np.ndarray) -> None:
        """Compare the result region of every rank, bit for bit."""
        flits = work.chunk_flits * work.chunks
        found = await self.shell.dump(self.everybody, first=work.result, beats=flits)
        for rank, expected in enumerate(results(work, values)):
            got = found[rank][: expected.nbytes]
            wrong = np.flatnonzero(got != expected.view(np.uint8))
            assert wrong.size == 0, f"rank {rank}: {wrong.size} bytes differ, first at {wrong[0]}"


def _work(**changes) -> RingChunks:
    p = parameters()
    shape = {
        "operation": p.get("operation", "ar"),
        "ranks": p["ranks"],
        "chunk_flits": p["chunk_flits"],
        "chunks": p["chunks"],
        "data_type": DataType[p.get("data_type", "INT32")],
        "sources": p["sources"],
        "destinations": p["destinations"],
        "source": _SOURCE,
        "result": _RESULT,
    }
    return RingChunks(**shape | changes)


def _check_sram(work: RingChunks, rank: int, count) -> None:
    """Every flit that is sent on comes from the forwarding buffer, unless that is too small. The
    SRAM is read only for operands, for what a rank sends first, and for what is stored."""
    shares = [b - a for a, b in pairwise(bounds(work.chunk_flits, work.ranks))]
    sends = [
        sum(n for place, n in enumerate(shares) if place != (rank + 1 - skip) % work.ranks)
        for skip in (0, 1)
    ]  # all shards but that of the next rank (all-gather), but its own (reduce-scatter)
    own, first = shares[rank], shares[(rank - 1) % work.ranks]
    loaded, stored = work.shares(rank)
    if work.operation == "ag":
        forwarded, operands, first = sends[0] - own, 0, own
    else:
        forwarded, operands = sends[1] - first, work.chunk_flits - first
        if work.operation == "ar":
            forwarded += sends[0]
    dim = count.dims[0]
    read = first + operands + stored
    back = int(dim.flits_read_back)
    read_back = parameters().get("read_back", "none")  # by a forwarding buffer that is too small
    if read_back == "some":
        assert 0 < back < forwarded * work.chunks
    else:
        assert back == (forwarded * work.chunks if read_back == "all" else 0)
    assert dim.flits_forwarded + back == forwarded * work.chunks
    assert count.engine.sram_reads == read * work.chunks + back
    received = int(dim.flits_received) - work.chunks * (work.ranks - 1) * (
        2 if work.operation == "ar" else 1
    )
    copied = own if work.operation == "ag" else 0
    assert count.engine.sram_writes == loaded * work.chunks + received + copied * work.chunks


@cocotb.test()
async def collective(dut):
    """One collective: data, counters and, where asked for, the rate of the steady state."""
    t = _Ring(dut)
    p = t.p
    work = _work()
    values = t.place(work, 0)
    await t.begin()
    begin = t.shell.cycle
    await t.ring(0)
    rate = None
    if "window" in p:  # flits sent in between, headers count
        first, last = p["window"]
        await t.shell.run(until=begin + first)
        before = [int(count.dims[0].flits_sent) for count in _counters(dut, t.ranks)]
        await t.shell.run(until=begin + last)
        after = [int(count.dims[0].flits_sent) for count in _counters(dut, t.ranks)]
        rate = min(b - a for a, b in zip(before, after, strict=True)) / (last - first)
        assert rate >= p["least_rate"], rate
    cycles = await t.complete(1) - begin
    await t.check(work, values)

    counters = _counters(dut, t.ranks)
    for rank, count in enumerate(counters):
        loaded, stored = work.shares(rank)
        assert count.engine.memory_read_bytes == loaded * work.chunks * _FLIT
        assert count.engine.memory_written_bytes == stored * work.chunks * _FLIT
        assert count.engine.descriptor_bytes == len(descriptor(work.records(rank)))
        assert count.engine.records_refused == 0
        assert count.engine.completions == 1
        steps = 2 * (t.ranks - 1) if work.operation == "ar" else t.ranks - 1
        if work.chunk_flits % t.ranks == 0:
            message = work.chunk_flits // t.ranks + 1
            assert count.dims[0].flits_sent == work.chunks * steps * message
            assert count.dims[0].flits_received == count.dims[0].flits_sent
        assert count.dims[0].headers_sent == work.chunks * steps
        _check_sram(work, rank, count)
    sent = max(int(count.dims[0].flits_sent) for count in counters)
    some = counters[0].dims[0]
    dut._log.info(
        f"{work.operation} over {t.ranks}: {cycles} cycles, {sent} flits sent, "
        f"{sent / cycles:.3f} flits per cycle end to end, steady {rate}; stalls: link "
        f"{some.stall_link}, grant {some.stall_grant}, data {some.stall_data}; "
        f"context cycles {some.context_cycles}"
    )


@cocotb.test()
async def two_doorbells(dut):
    """A second descriptor rung while the first is at work; buffers go on in their epochs."""
    t = _Ring(dut)
    chunks = t.p["chunks"]
    half = (_RESULT - _SOURCE) // 2
    works = [
        _work(operation="ar", collective=1),
        _work(
            operation="rs",
            collective=2,
            first_use=chunks,
            program=8,
            source=_SOURCE + half,
            result=_RESULT + half,
        ),
    ]
    values = [t.place(work, 1024 * number) for number, work in enumerate(works)]
    await t.begin()
    await t.ring(0)
    await t.shell.run(until=t.shell.cycle + 60 * t.ranks)
    await t.ring(1024)
    await t.complete(2)
    for work, inputs in zip(works, values, strict=True):
        await t.check(work, inputs)


@cocotb.test()
async def reset_in_the_middle(dut):
    """Everything on its way is gone, and the next collective is right."""
    t = _Ring(dut)
    work = _work(operation="ar")
    values = t.place(work, 0)
    for cycles in (200, 333):
        await t.begin()
        await t.ring(0)
        await t.shell.run(until=cycles)
    await t.begin()
    await t.ring(0)
    await t.complete(1)
    await t.check(work, values)
    assert all(count.engine.completions == 1 for count in _counters(dut, t.ranks))


@cocotb.test()
async def a_missing_rank_is_found(dut):
    """One rank is not told: the watchdog says who waits for what."""
    t = _Ring(dut)
    t.place(_work(operation="ar"), 0)
    await t.begin(watchdog_limit=500)
    await t.ring(0, ranks=(1 << t.ranks) - 1 - 2)
    try:
        await t.complete(1)
    except StuckError as error:
        text = str(error)
    else:
        raise AssertionError("it completed")
    # Rank 1 grants nothing to rank 0, and sends nothing to rank 2.
    assert re.search(r"rank 0: op 0 sent 0 received \d waits for GRANT", text), text
    assert "rank 1: op 0 sent 0 received 0 waits for NONE, next op for NONE" in text, text
    assert "rank 2: op 0 sent 1 received 0 waits for DATA" in text, text
