"""Rings of engines with several classes at work: data, and that no class holds up another."""

from itertools import product
from pathlib import Path

import cocotb
import numpy as np
from amaranth.lib.data import ArrayLayout

from rtl.ace.counters import engine_counters
from rtl.ace.status import CompletionStatus, DimStatus, WaitCause
from rtl.common.packet import DataType
from sim_top.cosim.outcome import load, save
from sim_top.records import RecordCompiler, descriptor_bytes
from sim_top.shell.control import Shell
from testbenches import parameters, seed
from testbenches.ace_records import RingChunks, descriptor
from testbenches.ace_ring_values import contributions, results

_FLIT = 16
_WORDS = 32768


class _Ring:
    """A ring in its shell. Lane l has its descriptors, sources and results in part l of memory."""

    def __init__(self, dut):
        self.p = parameters()
        self.dut = dut
        self.ranks = self.p["ranks"]
        self.classes = self.p["classes"]  # codes, by lane
        self.lanes = len(self.classes)
        self.everybody = list(range(self.ranks))
        self.shell = Shell(dut, events=("done",), describe=self.describe)
        self.images = [np.zeros(_WORDS * _FLIT, dtype=np.uint8) for _ in range(self.ranks)]
        self.random = np.random.default_rng(seed())
        self.placed: list[tuple[RingChunks, np.ndarray, int]] = []
        self.used = [0] * self.lanes  # flits of the lane's part of memory
        self.chunks = [0] * self.lanes  # that have used the lane's buffers

    def describe(self) -> str:
        """What the watchdog says: completions, and what every rank's lanes wait for."""
        layout = ArrayLayout(ArrayLayout(DimStatus, self.lanes), self.ranks)
        values = layout.from_bits(int(self.dut.status.value))
        lines = [f"completed {self.completed()}"]
        for rank, lane in product(self.everybody, range(self.lanes)):
            status = values[rank][lane]
            lines.append(
                f"rank {rank}, lane {lane}: op {status.op}, running {status.running} "
                f"({WaitCause(status.cause).name}), queued {status.queued} "
                f"({WaitCause(status.start_cause).name})"
            )
        return "\n".join(lines)

    def completed(self) -> list[int]:
        word = int(self.dut.completed.value)
        return [word >> 16 * n & 0xFFFF for n in range(self.ranks * self.lanes)]

    def counters(self) -> list:
        layout = engine_counters(1, self.lanes)
        word = int(self.dut.counters.value)
        mask = (1 << layout.size) - 1
        return [layout.from_bits(word >> rank * layout.size & mask) for rank in self.everybody]

    def place(self, lane: int, **changes) -> int:
        """Put a collective of a lane into the images; the address of its descriptor."""
        p = self.p
        base = lane * (_WORDS // self.lanes) + self.used[lane]
        shape = {
            "operation": "ar",
            "ranks": self.ranks,
            "chunk_flits": p["chunk_flits"],
            "chunks": p["chunks"][lane],
            "data_type": DataType.INT32,
            "sources": p["sources"],
            "destinations": p["destinations"],
            "collective": len(self.placed) + 1,
            "first_use": self.chunks[lane],
            "traffic_class": self.classes[lane],
            "sram": lane * p["lane_flits"],
            "source": 0,
            "result": 0,
        } | changes
        code_flits = 2 * (3 * shape["chunks"] + 24)  # records of two flits
        payload = shape["chunk_flits"] * shape["chunks"]
        shape |= {"source": base + code_flits, "result": base + code_flits + payload}
        work = RingChunks(**shape)
        self.used[lane] += code_flits + 2 * payload
        assert self.used[lane] <= _WORDS // self.lanes
        self.chunks[lane] += work.chunks
        values = contributions(work, self.random)
        for rank, image in enumerate(self.images):
            code = np.frombuffer(descriptor(work.records(rank)), dtype=np.uint8)
            assert code.size <= code_flits * _FLIT
            raw = values[rank].view(np.uint8)
            for first, data in ((base, code), (work.source, raw)):
                image[first * _FLIT : first * _FLIT + data.size] = data
        self.placed.append((work, values, base))
        return base

    async def begin(self, *, watchdog_limit: int = 3000) -> None:
        self.shell.write("link_stalls", self.p.get("link_stalls", 0))
        await self.shell.reset(watchdog_limit=watchdog_limit)
        await self.shell.load(self.everybody, self.images)

    async def ring(self, address: int, lane: int, *, ranks: int | None = None) -> int:
        """Ring the doorbells of a lane; the cycle."""
        self.shell.write("descriptor", address)
        self.shell.write("lane", lane)
        self.shell.write("chosen", (1 << self.ranks) - 1 if ranks is None else ranks)
        self.shell.write("start", 1)
        cycle = self.shell.cycle
        await self.shell.run(until=cycle + 2)
        self.shell.write("start", 0)
        await self.shell.run(until=cycle + 4)
        return cycle

    async def complete(self, lane: int, collectives: int) -> int:
        """Run until every rank has completed so many of a lane; the cycle."""
        self.shell.write("watched", lane)
        self.shell.write("target", collectives)
        wake = await self.shell.run(until=self.shell.cycle + 2_000_000)
        assert wake.events == ("done",), self.describe()
        self.shell.write("target", 0)
        await self.shell.run(until=wake.cycle + 10)
        return wake.cycle

    async def check(self) -> None:
        """Compare all results, bit for bit."""
        for work, values, _ in self.placed:
            flits = work.chunk_flits * work.chunks
            found = await self.shell.dump(self.everybody, first=work.result, beats=flits)
            for rank, expected in enumerate(results(work, values)):
                got = found[rank][: expected.nbytes]
                wrong = np.flatnonzero(got != expected.view(np.uint8))
                assert wrong.size == 0, (
                    f"class {work.traffic_class}, collective {work.collective}, rank {rank}: "
                    f"{wrong.size} bytes differ, first at {wrong[0]}"
                )
        assert int(self.dut.overrun.value) == 0

    def check_counters(self) -> None:
        """Traffic by lane, and of memory, in closed form."""
        for rank, count in enumerate(self.counters()):
            payload = records = 0
            flits = [0] * self.lanes
            for work, _, _ in self.placed:
                steps = 2 * (self.ranks - 1)
                share = work.chunk_flits // self.ranks
                assert share * self.ranks == work.chunk_flits
                flits[self.classes.index(work.traffic_class)] += (share + 1) * steps * work.chunks
                payload += work.chunk_flits * work.chunks * _FLIT
                records += len(descriptor(work.records(rank)))
            assert count.engine.memory_read_bytes == payload
            assert count.engine.memory_written_bytes == payload
            assert count.engine.descriptor_bytes == records
            assert count.engine.completions == len(self.placed)
            assert count.engine.records_refused == 0
            for lane in range(self.lanes):
                assert count.dims[lane].flits_sent == flits[lane], (rank, lane)
                assert count.dims[lane].flits_received == flits[lane], (rank, lane)
            together = sum(int(count.dims[lane].busy_cycles) for lane in range(self.lanes))
            most = max(int(count.dims[lane].busy_cycles) for lane in range(self.lanes))
            assert most <= count.busy_cycles[0] <= together


@cocotb.test()
async def all_at_once(dut):
    """A collective of every class; every one is right, and counted by itself."""
    t = _Ring(dut)
    places = [t.place(lane) for lane in range(t.lanes)]
    await t.begin()
    for lane, place in enumerate(places):
        await t.ring(place, lane)
    for lane in range(t.lanes):
        await t.complete(lane, 1)
    await t.check()
    t.check_counters()


@cocotb.test()
async def a_class_that_stands_still(dut):
    """The lowest class is never told at one rank, with more descriptors than its doorbells hold:
    every queue, context and buffer of its lanes is taken for ever. The others complete. When that
    rank comes after all, the lowest class completes too."""
    t = _Ring(dut)
    low = t.lanes - 1
    rounds = 3
    stuck = [t.place(low) for _ in range(3)]
    others = [[t.place(lane) for lane in range(low)] for _ in range(rounds)]
    await t.begin()
    for place in stuck:
        await t.ring(place, low, ranks=(1 << t.ranks) - 2)
    await t.shell.run(until=t.shell.cycle + 1500)  # all of it has come to a standstill
    before = t.counters()
    for number, places in enumerate(others):
        for lane, place in enumerate(places):
            await t.ring(place, lane)
            await t.complete(lane, number + 1)
    after = t.counters()
    for a, b in zip(before, after, strict=True):
        assert a.dims[low].flits_sent == b.dims[low].flits_sent
        assert b.dims[low].busy_cycles > a.dims[low].busy_cycles or b.dims[low].flits_sent == 0
    done = t.completed()
    assert [done[rank * t.lanes + low] for rank in t.everybody] == [0] * t.ranks
    assert [done[rank * t.lanes] for rank in t.everybody] == [rounds] * t.ranks
    for place in stuck:
        await t.ring(place, low, ranks=1)
    await t.complete(low, len(stuck))
    await t.check()
    t.check_counters()


@cocotb.test()
async def priority(dut):
    """The highest class is hardly slowed down by the lowest, which gets no more than the bound
    gives it, and no less."""
    t = _Ring(dut)
    low = t.lanes - 1
    alone, together, background = t.place(0), t.place(0), t.place(low)
    await t.begin()
    start = await t.ring(alone, 0)
    solo = await t.complete(0, 1) - start
    await t.ring(background, low)
    await t.shell.run(until=t.shell.cycle + 600)  # the background is in its steady state
    before = [int(c.dims[low].headers_sent) for c in t.counters()]
    first = [int(c.dims[0].headers_sent) for c in t.counters()]
    start = await t.ring(together, 0)
    both = await t.complete(0, 2) - start
    after = [int(c.dims[low].headers_sent) for c in t.counters()]
    last = [int(c.dims[0].headers_sent) for c in t.counters()]
    for rank in t.everybody:
        share = (after[rank] - before[rank]) / (last[rank] - first[rank])
        assert 1 / 17 <= share < t.p["most_share"], share
    assert both < t.p["slowed"] * solo, (solo, both)
    dut._log.info(f"{solo} cycles alone, {both} cycles beside the lowest class, share {share:.3f}")
    await t.complete(low, 1)
    await t.check()
    t.check_counters()


@cocotb.test()
async def worst_case(dut):
    """As few buffers as there can be, links and memories that stall at random, collectives of all
    classes one behind another for a long time."""
    t = _Ring(dut)
    rounds = t.p["rounds"]
    places = [(lane, t.place(lane)) for _ in range(rounds) for lane in range(t.lanes)]
    await t.begin(watchdog_limit=20_000)
    start = t.shell.cycle
    for lane, place in places:
        for rank in t.random.permutation(t.ranks):
            await t.ring(place, lane, ranks=1 << int(rank))
            await t.shell.run(until=t.shell.cycle + int(t.random.integers(1, 60)))
    end = max([await t.complete(lane, rounds) for lane in range(t.lanes)])
    dut._log.info(f"{rounds} collectives of each class in {end - start} cycles")
    await t.check()
    t.check_counters()


@cocotb.test()
async def wrong_class(dut):
    """A collective of another class than its doorbell's is refused."""
    t = _Ring(dut)
    begin = {"traffic_class": t.classes[1]}
    place = t.place(0, begin=begin)
    right = t.place(0, begin={})
    await t.begin()
    await t.ring(place, 0)
    await t.complete(0, 1)
    word = int(dut.last_status.value)
    status = [word >> 4 * rank & 15 for rank in t.everybody]
    assert status == [CompletionStatus.OPERATION_ERROR] * t.ranks, status
    assert all(c.engine.memory_read_bytes == 0 for c in t.counters())
    # The lane is as good as new.
    await t.ring(right, 0)
    await t.complete(0, 2)
    assert int(dut.last_status.value) == 0
    del t.placed[0]
    await t.check()


@cocotb.test()
async def as_planned(dut):
    """All-reduces by plan, one of every class in the file ``job`` (platform, plans by lane), at
    once. Leaves the cycles to the end of each, beside it."""
    t = _Ring(dut)
    path = Path(t.p["job"])
    told = load(path)
    assert isinstance(told, tuple)
    platform, plans = told
    places, expected = [], []
    for lane, plan in enumerate(plans):
        elements = plan.collective.elements
        flits = 4 * elements // _FLIT
        source = lane * (_WORDS // t.lanes)
        result, code = source + flits, source + 2 * flits
        values = t.random.integers(-1000, 1000, (t.ranks, elements), dtype=np.int32)
        for rank, image in enumerate(t.images):
            records = RecordCompiler(platform, rank, {}, lane).compile(
                plan, collective=lane, source=source, result=result
            )
            words = np.frombuffer(descriptor_bytes(records), dtype=np.uint8)
            for first, data in ((code, words), (source, values[rank].view(np.uint8))):
                image[first * _FLIT : first * _FLIT + data.size] = data
        places.append(code)
        expected.append((result, values.sum(axis=0, dtype=np.int32)))
    await t.begin()
    starts = [await t.ring(place, lane) for lane, place in enumerate(places)]
    ends = [await t.complete(lane, 1) for lane in range(t.lanes)]
    for first, total in expected:
        found = await t.shell.dump(t.everybody, first=first, beats=4 * total.size // _FLIT)
        for memory in found:
            np.testing.assert_array_equal(memory.view(np.int32), total)
    cycles = [end - start for start, end in zip(starts, ends, strict=True)]
    save((cycles, [c.engine.bank_collisions for c in t.counters()]), path.with_suffix(".outcome"))
