"""Rings of whole endpoints: real collectives, bit for bit, with their counters and their speed."""

import cocotb
import numpy as np

from rtl.ace.counters import engine_counters
from rtl.ace.status import DimStatus, WaitCause
from rtl.common.packet import DataType
from sim_top.shell.control import Shell
from testbenches import parameters, seed
from testbenches.ace_records import RingChunks, bounds, descriptor

_FLIT = 16
_DESCRIPTOR, _SOURCE, _RESULT = 0, 2048, 8192
_DTYPES = {DataType.FP16: np.dtype("<f2"), DataType.INT32: np.dtype("<i4")}


def _values(ranks: int, flits: int, data_type: DataType) -> np.ndarray:
    """Random contributions, (ranks, elements)."""
    generator = np.random.default_rng(seed())
    elements = flits * _FLIT // _DTYPES[data_type].itemsize
    if data_type is DataType.INT32:
        return generator.integers(-(2**31), 2**31, (ranks, elements)).astype("<i4")
    return generator.normal(0, 4, (ranks, elements)).astype("<f2")


def _reduced(chunk: np.ndarray, ranks: int) -> np.ndarray:
    """The sum in ring order: shard s starts at rank s + 1 and ends at rank s."""
    flits = chunk.shape[1] * chunk.dtype.itemsize // _FLIT
    per_flit = _FLIT // chunk.dtype.itemsize
    edge = [b * per_flit for b in bounds(flits, ranks)]
    out = np.empty_like(chunk[0])
    for s in range(ranks):
        part = slice(edge[s], edge[s + 1])
        total = chunk[(s + 1) % ranks, part]
        for step in range(2, ranks + 1):
            total = chunk[(s + step) % ranks, part] + total
        out[part] = total
    return out


def _expected(work: RingChunks, values: np.ndarray) -> list[np.ndarray]:
    """Result region of every rank."""
    per_flit = _FLIT // values.dtype.itemsize
    edge = bounds(work.chunk_flits, work.ranks)
    results: list[list[np.ndarray]] = [[] for _ in range(work.ranks)]
    for chunk in range(work.chunks):
        if work.operation == "ag":
            parts = []
            for rank in range(work.ranks):
                size = work.shares(rank)[0] * per_flit
                parts.append(values[rank, chunk * size : (chunk + 1) * size])
            whole = np.concatenate(parts)
        else:
            size = work.chunk_flits * per_flit
            whole = _reduced(values[:, chunk * size : (chunk + 1) * size], work.ranks)
        for rank in range(work.ranks):
            part = whole
            if work.operation == "rs":
                part = whole[edge[rank] * per_flit : edge[rank + 1] * per_flit]
            results[rank].append(part)
    return [np.concatenate(parts) for parts in results]


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


@cocotb.test()
async def collective(dut):
    """One or more collectives, back to back in one descriptor."""
    p = parameters()
    ranks = p["ranks"]
    data_type = DataType[p.get("data_type", "INT32")]
    shell = Shell(dut, events=("done",), describe=lambda: _describe(dut, ranks))
    await shell.reset(watchdog_limit=2000)
    shape = {
        "ranks": ranks,
        "chunk_flits": p["chunk_flits"],
        "chunks": p["chunks"],
        "data_type": data_type,
        "sources": p["sources"],
        "destinations": p["destinations"],
    }
    work = RingChunks(operation=p["operation"], source=_SOURCE, result=_RESULT, **shape)
    flits = work.chunk_flits * work.chunks
    values = _values(ranks, flits, data_type)
    contents = []
    for rank in range(ranks):
        image = np.zeros(16384 * _FLIT, dtype=np.uint8)
        code = np.frombuffer(descriptor(work.records(rank)), dtype=np.uint8)
        assert code.size <= _SOURCE * _FLIT
        image[: code.size] = code
        raw = values[rank].view(np.uint8)
        image[_SOURCE * _FLIT : _SOURCE * _FLIT + raw.size] = raw
        contents.append(image)
    await shell.load(list(range(ranks)), contents)

    shell.write("target", 1)
    shell.write("descriptor", _DESCRIPTOR)
    shell.write("skew", p.get("skew", 0))
    begin = shell.cycle
    shell.write("start", 1)
    wake = await shell.run(until=begin + 200_000)
    assert wake.events == ("done",), _describe(dut, ranks)
    cycles = wake.cycle - begin
    shell.write("target", 0)
    await shell.run(until=wake.cycle + 200)

    results = await shell.dump(list(range(ranks)), first=_RESULT, beats=flits)
    counters = _counters(dut, ranks)
    for rank, expected in enumerate(_expected(work, values)):
        got = results[rank][: expected.nbytes].view(expected.dtype)
        wrong = np.flatnonzero(got.view(np.uint8) != expected.view(np.uint8))
        assert wrong.size == 0, f"rank {rank}: {wrong.size} bytes differ, first at {wrong[0]}"
        count = counters[rank]
        loaded, stored = work.shares(rank)
        assert count.engine.memory_read_bytes == loaded * work.chunks * _FLIT
        assert count.engine.memory_written_bytes == stored * work.chunks * _FLIT
        assert count.engine.descriptor_bytes == len(descriptor(work.records(rank)))
        assert count.engine.records_refused == 0
        assert count.engine.completions == 1
        edge = bounds(work.chunk_flits, ranks)
        steps = 2 * (ranks - 1) if work.operation == "ar" else ranks - 1
        if work.chunk_flits % ranks == 0:
            assert count.dims[0].flits_sent == work.chunks * steps * (edge[1] + 1)
            assert count.dims[0].flits_received == count.dims[0].flits_sent
        assert count.dims[0].headers_sent == work.chunks * steps
    sent = max(int(count.dims[0].flits_sent) for count in counters)
    dut._log.info(
        f"{work.operation} over {ranks}: {cycles} cycles, {sent} flits sent, "
        f"{100 * sent / cycles:.1f}% of one flit per cycle end to end; "
        f"stalls link {counters[0].dims[0].stall_link} grant {counters[0].dims[0].stall_grant} "
        f"data {counters[0].dims[0].stall_data} contexts {counters[0].dims[0].context_cycles}"
    )
