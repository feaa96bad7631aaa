"""RX DMA."""

import cocotb

from rtl.ace.layouts import RecordKind, Store
from sw_model.endpoint.timing import ACE_TIMING
from testbenches import parameters, random_generator, seed
from testbenches.ace_memories import MemoryWritePort, SramReadPort
from testbenches.ace_records import encode
from testbenches.bench import Bench, Part
from testbenches.streams import StreamMonitor, StreamSink, StreamSource, always, random_stalls

_LATENCY = 9


class _Scoreboard(Part):
    """Answers ``filled`` and records releases and idleness."""

    def __init__(self, dut):
        self.dut = dut
        self.filled = True
        self.releases: list[tuple[int, int]] = []
        self.bytes = 0
        for name in ("filled__ok", "query__void", "failed"):
            getattr(dut, name).value = 0

    def drive(self, cycle):
        self.dut.filled__ok.value = int(self.filled)

    def sample(self, cycle):
        if int(self.dut.release__valid.value):
            self.releases.append((cycle, int(self.dut.release__buffer.value)))
        self.bytes += int(self.dut.written_bytes.value)


class _Dma:
    def __init__(self, dut, *, stalls=0.0):
        self.bench = Bench(dut)

        def pauses(number):
            return random_stalls(seed() + number, stalls)

        self.sram = {
            a: (a + 1) * 0x0101010101010101FFEEDDCCBBAA9988 % (1 << 128) for a in range(512)
        }
        self.memory: dict[int, int] = {}
        self.records = self.bench.add(StreamSource(dut, "store", stalls=pauses(1)))
        self.read = self.bench.add(SramReadPort(dut, "read", self.sram, stalls=pauses(2)))
        self.write = self.bench.add(
            MemoryWritePort(
                dut, "memory", self.memory, flit_bytes=16, latency=_LATENCY, stalls=pauses(3)
            )
        )
        self.completions = self.bench.add(StreamSink(dut, "completion", stalls=pauses(4)))
        self.scoreboard = self.bench.add(_Scoreboard(dut))
        for name in ("store", "read__request", "memory__request", "completion"):
            self.bench.add(StreamMonitor(dut, name))
        self.dut = dut

    def store(
        self, sram, memory, length, *,
        last_bytes=16, buffer=0, first=1, final=1, complete=None, shift=0,
    ):  # fmt: skip
        values = {"kind": RecordKind.STORE, "first": first, "final": final, "buffer": buffer}
        values |= {"shift": shift}
        values |= {"sram_address": sram, "length": length, "last_bytes": last_bytes}
        values |= {"complete": int(complete is not None), "collective": complete or 0}
        self.records.send([encode(Store, values | {"memory_address": memory})])

    async def finish(self, limit=4000):
        await self.bench.until(
            lambda: self.records.idle and int(self.dut.idle.value) == 1,
            limit=limit,
            stuck="RX DMA is not idle",
        )


@cocotb.test()
async def one_store_cycle_by_cycle(dut):
    """Read, write, release and completion at their cycles."""
    t = _Dma(dut)
    await t.bench.reset()
    t.store(10, 100, 4, buffer=5, complete=0xABC)
    await t.bench.step(40)
    queued = t.records.cycles[0]
    assert t.read.cycles == [queued + 1 + i for i in range(4)]
    assert [(c, a) for c, a, _, _ in t.write.writes] == [
        (queued + 1 + parameters()["store_read"] + i, 100 + i) for i in range(4)
    ]
    assert t.scoreboard.releases == [(queued + 4, 5)]
    assert t.completions.items == [0xABC]
    assert t.completions.cycles == [t.write.last_acknowledgement + parameters()["completion"]]
    assert t.memory == {100 + i: t.sram[10 + i] for i in range(4)}


@cocotb.test()
async def shifted_stores_at_random(dut):
    """Any shift and length, with stalls everywhere: the bytes of the flits from there on, one store
    behind the other, and no byte besides, in no more flits than they lie in."""
    generator = random_generator("shifts")
    t = _Dma(dut, stalls=0.3)
    await t.bench.reset()
    wanted: dict[int, int] = {}
    place, count = 16 * 7 + 5, 0
    for number in range(40):
        length, last_bytes = generator.randint(1, 6), generator.randint(1, 16)
        sram = generator.randint(0, 500)
        t.store(sram, place // 16, length, last_bytes=last_bytes, shift=place % 16, buffer=number)
        size = 16 * (length - 1) + last_bytes
        data = b"".join(t.sram[sram + i].to_bytes(16, "little") for i in range(length))
        wanted |= {place + i: data[i] for i in range(size)}
        count += (place + size - 1) // 16 - place // 16 + 1
        place += size
    await t.finish()
    assert len(t.write.writes) == count
    written = {
        16 * flit + byte: value >> 8 * byte & 0xFF
        for flit, value in t.memory.items()
        for byte in range(16)
    }
    assert {place: written[place] for place in wanted} == wanted
    assert not any(value for place, value in written.items() if place not in wanted)
    assert t.scoreboard.bytes == len(wanted)
    assert [buffer for _, buffer in t.scoreboard.releases] == list(range(40))


@cocotb.test()
async def no_bubble_between_records(dut):
    """One flit per cycle."""
    t = _Dma(dut)
    await t.bench.reset()
    for number in range(5):
        t.store(20 * number, 100 * number, 20, buffer=number)
    await t.finish()
    begin = t.write.writes[0][0]
    assert [c for c, _, _, _ in t.write.writes] == list(range(begin, begin + 100))


@cocotb.test()
async def flits_in_front_of_memory_are_bounded(dut):
    """While memory takes nothing exactly ``store_buffer`` flits are read, one in every cycle; for
    each that it takes then one more."""
    t = _Dma(dut)
    t.write.stalls = always()
    await t.bench.reset()
    t.store(0, 0, 40)
    await t.bench.step(60)
    assert t.write.writes == []
    begin = t.records.cycles[0] + ACE_TIMING.queue
    assert t.read.cycles == list(range(begin, begin + ACE_TIMING.store_buffer))
    t.write.stalls = random_stalls(seed(), 0.0)
    await t.finish()
    assert [c for c, _, _, _ in t.write.writes] == list(
        range(t.write.writes[0][0], t.write.writes[0][0] + 40)
    )
    ahead = [
        sum(c <= now for c in t.read.cycles) - sum(c <= now for c, _, _, _ in t.write.writes)
        for now in range(begin, t.write.writes[-1][0])
    ]
    assert max(ahead) == ACE_TIMING.store_buffer


@cocotb.test()
async def unacknowledged_writes_are_bounded(dut):
    """With a slow memory exactly ``write_beats`` flits are read ahead of acknowledgements."""
    t = _Dma(dut)
    t.write.latency = 200
    await t.bench.reset()
    t.store(0, 0, 100)
    await t.bench.step(150)
    assert len(t.read.cycles) == parameters()["write_beats"]
    await t.finish()
    assert len(t.write.writes) == 100


@cocotb.test()
async def strobes_and_bytes(dut):
    """Only the payload of the last flit is written and counted."""
    t = _Dma(dut)
    await t.bench.reset()
    sizes = (1, 7, 8, 15, 16)
    for number, last_bytes in enumerate(sizes):
        t.store(4 * number, 4 * number, 2, last_bytes=last_bytes)
    await t.finish()
    for number, last_bytes in enumerate(sizes):
        mask = (1 << 8 * last_bytes) - 1
        assert t.memory[4 * number] == t.sram[4 * number]
        assert t.memory[4 * number + 1] == t.sram[4 * number + 1] & mask
    assert t.scoreboard.bytes == sum(16 + b for b in sizes)


@cocotb.test()
async def completion_waits_for_acknowledgements_of_all(dut):
    """Also that of an empty record; completions stay in order and wait for their reader."""
    t = _Dma(dut)
    t.completions.stalls = always()
    await t.bench.reset()
    t.store(0, 0, 6, final=0)
    t.store(0, 0, 0, first=0, complete=1)
    t.store(0, 0, 0, complete=2)
    t.store(9, 9, 1, complete=3)
    await t.bench.step(60)
    assert int(dut.idle.value) == 0
    assert int(dut.completion__valid.value) == 1
    t.completions.stalls = random_stalls(seed(), 0.0)
    await t.finish()
    assert t.completions.items == [1, 2, 3]
    assert len(t.scoreboard.releases) == 3


@cocotb.test()
async def waits_for_a_filled_buffer(dut):
    """Reads nothing before; then in that cycle. The queue holds its depth."""
    t = _Dma(dut)
    t.scoreboard.filled = False
    await t.bench.reset()
    for number in range(parameters()["queue_depth"] + 2):
        t.store(8 * number, 8 * number, 4)
    await t.bench.step(30)
    assert t.read.cycles == []
    assert len(t.records.cycles) == parameters()["queue_depth"]
    t.scoreboard.filled = True
    filled = t.bench.cycle
    await t.finish()
    assert t.read.cycles[0] == filled


@cocotb.test()
async def random_stores(dut):
    """Stalls on all sides."""
    t = _Dma(dut, stalls=0.3)
    rng = random_generator("rx_dma")
    await t.bench.reset()
    expected: dict[int, int] = {}
    place = 0
    for number in range(40):
        length = rng.choice((0, 1, 2, 3, 5, 8, 17))
        last_bytes = rng.randint(1, 16)
        sram = rng.randrange(400)
        t.store(
            sram, place, length, last_bytes=last_bytes, complete=number if number % 3 == 0 else None
        )
        for i in range(length):
            mask = (1 << 8 * (last_bytes if i == length - 1 else 16)) - 1
            expected[place + i] = t.sram[sram + i] & mask
        place += length
    await t.finish(limit=8000)
    assert t.memory == expected
    assert t.completions.items == [n for n in range(40) if n % 3 == 0]
