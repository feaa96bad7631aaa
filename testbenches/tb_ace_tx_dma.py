"""TX DMA."""

import cocotb

from rtl.ace.layouts import Load, RecordKind
from sw_model.endpoint.timing import ACE_TIMING
from testbenches import parameters, random_generator, seed
from testbenches.ace_memories import MemoryReadPort, SramWritePort
from testbenches.ace_records import encode
from testbenches.bench import Bench, Part
from testbenches.streams import StreamMonitor, StreamSource, random_stalls

_LATENCY = 12


class _Scoreboard(Part):
    """Answers ``freed`` from a set of buffers and records fills."""

    def __init__(self, dut):
        self.dut = dut
        self.free: set[tuple[int, int]] | None = None  # None: every buffer is free
        self.fills: list[tuple[int, int]] = []
        for name in ("freed__ok", "query__void", "failed"):
            getattr(dut, name).value = 0

    def drive(self, cycle):
        """The query depends on the record at the head, which does not move in mid-cycle."""
        self.dut.freed__ok.value = int(self.free is None)

    def sample(self, cycle):
        if int(self.dut.fill__valid.value):
            self.fills.append((cycle, int(self.dut.fill__buffer.value)))


class _Dma:
    def __init__(self, dut, *, stalls=0.0):
        p = parameters()
        self.bench = Bench(dut)

        def pauses(number):
            return random_stalls(seed() + number, stalls)

        self.contents = {
            a: a * 0x0123456789ABCDEF0123456789ABCDEF % (1 << 128) for a in range(4096)
        }
        self.sram: dict[int, int] = {}
        self.records = self.bench.add(StreamSource(dut, "load", stalls=pauses(1)))
        self.memory = self.bench.add(
            MemoryReadPort(
                dut,
                "memory",
                self.contents,
                latency=_LATENCY,
                request_stalls=pauses(2),
                data_stalls=pauses(3),
            )
        )
        self.write = self.bench.add(
            SramWritePort(dut, "write", self.sram, address_bits=p["address_bits"], stalls=pauses(4))
        )
        self.scoreboard = self.bench.add(_Scoreboard(dut))
        for name in ("load", "memory__request", "memory__data", "write__request"):
            self.bench.add(StreamMonitor(dut, name))
        self.dut = dut

    def load(self, sram, memory, length, *, last_bytes=16, buffer=0, first=1, final=1, shift=0):
        values = {"kind": RecordKind.LOAD, "first": first, "final": final, "buffer": buffer}
        values |= {"shift": shift}
        values |= {"sram_address": sram, "length": length, "last_bytes": last_bytes}
        self.records.send([encode(Load, values | {"memory_address": memory})])

    def expected(self, sram, memory, length, last_bytes=16, shift=0):
        """What SRAM holds behind the load."""
        bits = sum(self.contents[memory + i] << 128 * i for i in range(length + 1)) >> 8 * shift
        out = {sram + i: bits >> 128 * i & (1 << 128) - 1 for i in range(length)}
        if length:
            out[sram + length - 1] &= (1 << 8 * last_bytes) - 1
        return out

    async def finish(self, limit=4000):
        await self.bench.until(
            lambda: self.records.idle and int(self.dut.idle.value) == 1,
            limit=limit,
            stuck="TX DMA is not idle",
        )


@cocotb.test()
async def one_load_cycle_by_cycle(dut):
    """First request one cycle after the record; beats are written as they come; then the fill."""
    t = _Dma(dut)
    await t.bench.reset()
    t.load(100, 40, 5, buffer=7)
    await t.bench.step(40)
    queued = t.records.cycles[0]
    assert t.memory.bursts == [(queued + 1, 40, 5)]
    first = queued + 1 + _LATENCY
    assert t.write.cycles == [first + i for i in range(5)]
    assert t.scoreboard.fills == [(first + 4, 7)]
    assert t.sram == t.expected(100, 40, 5)


@cocotb.test()
async def a_buffer_is_filled_behind_its_last_beat(dut):
    """``load_fill`` cycles behind the last beat, however late that comes; a pulse is seen one cycle
    after it."""
    t = _Dma(dut, stalls=0.5)
    await t.bench.reset()
    for number, length in enumerate((1, 5, 17)):
        t.load(100 * number, 40, length, buffer=number)
        await t.finish()
        seen = t.memory.beats[-1] + ACE_TIMING.load_fill
        assert t.scoreboard.fills[number:] == [(seen - 1, number)]
    assert len(t.memory.beats) == 1 + 5 + 17


@cocotb.test()
async def no_bubble_between_records_and_bursts(dut):
    """Long loads keep the port busy in every cycle, with bounded bursts and outstanding beats."""
    t = _Dma(dut)
    p = parameters()
    await t.bench.reset()
    for number in range(4):
        t.load(64 * number, 300 + 70 * number, 40, buffer=number)
    await t.finish()
    assert t.memory.beats == list(range(t.memory.beats[0], t.memory.beats[0] + 160))
    assert max(beats for _, _, beats in t.memory.bursts) == p["burst_beats"]
    assert p["read_beats"] - p["burst_beats"] < t.memory.most_outstanding <= p["read_beats"]
    for number in range(4):
        assert t.expected(64 * number, 300 + 70 * number, 40).items() <= t.sram.items()
    assert [buffer for _, buffer in t.scoreboard.fills] == [0, 1, 2, 3]


@cocotb.test()
async def a_shifted_load_takes_one_cycle_more(dut):
    """Payload from byte 6 of a flit on: no flit of memory more than its bytes lie in is read."""
    for last_bytes, beats in ((10, 5), (11, 6)):
        t = _Dma(dut)
        await t.bench.reset()
        t.load(100, 40, 5, buffer=7, last_bytes=last_bytes, shift=6)
        await t.bench.step(40)
        queued = t.records.cycles[0]
        assert t.memory.bursts == [(queued + 1, 40, beats)]
        first = queued + 1 + _LATENCY
        assert t.write.cycles == [first + 1 + i for i in range(5)]
        assert t.scoreboard.fills == [(first + 5, 7)]
        assert t.sram == t.expected(100, 40, 5, last_bytes, 6)


@cocotb.test()
async def shifted_loads_at_random(dut):
    """Any shift and length, with stalls everywhere, one load behind the other."""
    generator = random_generator("shifts")
    t = _Dma(dut, stalls=0.3)
    await t.bench.reset()
    wanted: dict[int, int] = {}
    place = 0
    for _ in range(40):
        length, last_bytes = generator.randint(1, 6), generator.randint(1, 16)
        memory, shift = generator.randint(0, 4000), generator.randint(0, 15)
        t.load(place, memory, length, last_bytes=last_bytes, shift=shift)
        wanted |= t.expected(place, memory, length, last_bytes, shift)
        place += length
    await t.finish()
    assert t.sram == wanted


@cocotb.test()
async def the_last_flit_is_masked(dut):
    """Bytes beyond the payload are written as zero, and counted as not read."""
    t = _Dma(dut)
    await t.bench.reset()
    total = 0
    counted = []

    class Counter(Part):
        def sample(self, cycle):
            counted.append(int(dut.read_bytes.value))

    t.bench.add(Counter())
    for number, last_bytes in enumerate((1, 2, 8, 15, 16)):
        t.load(16 * number, 16 * number, 3, last_bytes=last_bytes)
        total += 32 + last_bytes
    await t.finish()
    for number, last_bytes in enumerate((1, 2, 8, 15, 16)):
        assert t.expected(16 * number, 16 * number, 3, last_bytes).items() <= t.sram.items()
    assert sum(counted) == total


@cocotb.test()
async def empty_records_and_pieces(dut):
    """A record of length 0 reads nothing; only the record with ``final`` fills."""
    t = _Dma(dut)
    await t.bench.reset()
    t.load(0, 0, 0, buffer=1)
    t.load(0, 10, 3, buffer=2, final=0)
    t.load(3, 0, 0, buffer=2, first=0, final=0)
    t.load(3, 20, 2, buffer=2, first=0)
    t.load(9, 0, 0, buffer=3)
    await t.finish()
    assert [buffer for _, buffer in t.scoreboard.fills] == [1, 2, 3]
    assert [(a, n) for _, a, n in t.memory.bursts] == [(10, 3), (20, 2)]
    assert t.sram == t.expected(0, 10, 3) | t.expected(3, 20, 2)


@cocotb.test()
async def waits_for_a_free_buffer(dut):
    """Nothing is requested before the buffer is free; then at once. The queue holds its depth."""
    t = _Dma(dut)
    t.scoreboard.free = set()
    await t.bench.reset()
    for number in range(parameters()["queue_depth"] + 3):
        t.load(8 * number, 8 * number, 4)
    await t.bench.step(30)
    assert t.memory.bursts == []
    assert len(t.records.cycles) == parameters()["queue_depth"]
    t.scoreboard.free = None
    freed = t.bench.cycle
    await t.finish()
    assert t.memory.bursts[0][0] == freed


@cocotb.test()
async def random_loads(dut):
    """Stalls on all sides."""
    t = _Dma(dut, stalls=0.3)
    rng = random_generator("tx_dma")
    await t.bench.reset()
    expected: dict[int, int] = {}
    place = 0
    for number in range(40):
        length = rng.choice((0, 1, 2, 3, 5, 8, 17, 40))
        last_bytes = rng.randint(1, 16)
        memory = rng.randrange(4000)
        t.load(place, memory, length, last_bytes=last_bytes, buffer=number % 8)
        expected |= t.expected(place, memory, length, last_bytes)
        place += length
    await t.finish(limit=8000)
    assert t.sram == expected
    assert [buffer for _, buffer in t.scoreboard.fills] == [n % 8 for n in range(40)]
    assert t.memory.most_outstanding <= parameters()["read_beats"]
