"""The banked SRAM."""

from itertools import cycle

import cocotb

from rtl.ace.sram import SRAM_READ_LATENCY
from testbenches import parameters, random_generator, seed
from testbenches.ace_memories import SramReadUser
from testbenches.bench import Bench, Part
from testbenches.streams import StreamMonitor, StreamSource, random_stalls


class _Refusals(Part):
    """What the ports and the SRAM itself say about refused requests."""

    def __init__(self, dut):
        self.dut = dut
        self.ports = [f"{kind}__{n}__request" for kind in ("read", "write") for n in range(2)]
        self.seen = 0
        self.counted = 0

    def sample(self, cycle):
        self.counted += int(self.dut.collisions.value)
        for port in self.ports:
            offered = int(getattr(self.dut, f"{port}__valid").value)
            self.seen += offered and not int(getattr(self.dut, f"{port}__ready").value)


class _Sram:
    """Bench with users on all ports of a 2-reader, 2-writer SRAM."""

    def __init__(self, dut, *, stalls=False):
        self.bits = (parameters()["depth"] - 1).bit_length()
        self.bench = Bench(dut)

        def pauses(number):
            return random_stalls(seed() + number, 0.4) if stalls else None

        self.readers = [
            self.bench.add(SramReadUser(dut, f"read__{n}", stalls=pauses(n))) for n in range(2)
        ]
        self.writers = [
            self.bench.add(StreamSource(dut, f"write__{n}__request", stalls=pauses(8 + n)))
            for n in range(2)
        ]
        self.refusals = self.bench.add(_Refusals(dut))
        for n in range(2):
            self.bench.add(StreamMonitor(dut, f"write__{n}__request"))
            self.bench.add(StreamMonitor(dut, f"read__{n}__request"))

    def write(self, writer, pairs):
        self.writers[writer].send(address | data << self.bits for address, data in pairs)

    async def finish(self, limit=2000):
        def idle():
            return all(w.idle for w in self.writers) and all(
                not r.queue and len(r.answers) == len(r.accepted) and r._offered is None
                for r in self.readers
            )

        await self.bench.until(idle, limit=limit, stuck="ports are not idle")


@cocotb.test()
async def read_latency_and_throughput(dut):
    """Answers come a fixed time after acceptance; consecutive flits one per cycle."""
    t = _Sram(dut)
    await t.bench.reset()
    t.write(0, [(a, 1000 + a) for a in range(32)])
    await t.finish()
    assert t.writers[0].cycles == list(range(32))
    t.readers[0].queue.extend(range(32))
    await t.finish()
    start = t.readers[0].accepted[0][0]
    assert [c for c, _ in t.readers[0].accepted] == list(range(start, start + 32))
    assert t.readers[0].answers == [(start + SRAM_READ_LATENCY + a, 1000 + a) for a in range(32)]


@cocotb.test()
async def two_streams_fall_in_step(dut):
    """Two readers, and two writers, that begin on one bank lose one cycle, once."""
    t = _Sram(dut)
    await t.bench.reset()
    banks = parameters()["banks"]
    for writer in range(2):
        t.write(writer, [(writer * 2 * banks + a, writer) for a in range(2 * banks)])
    await t.finish()
    assert t.writers[0].cycles == list(range(2 * banks))
    assert t.writers[1].cycles == list(range(1, 2 * banks + 1))
    begin = t.bench.cycle
    for reader in range(2):
        t.readers[reader].queue.extend(reader * 2 * banks + a for a in range(2 * banks))
    await t.finish()
    assert [c for c, _ in t.readers[0].accepted] == list(range(begin, begin + 2 * banks))
    assert [c for c, _ in t.readers[1].accepted] == list(range(begin + 1, begin + 2 * banks + 1))
    assert {d for _, d in t.readers[0].answers} == {0}
    assert {d for _, d in t.readers[1].answers} == {1}


@cocotb.test()
async def a_quick_stream_passes_a_slow_one(dut):
    """A stream of three flits in four cycles does not hold back one of a flit per cycle, on
    whichever port it is: the quick one catches up every 4 * banks cycles, and loses one."""
    banks = parameters()["banks"]
    for slow in range(2):
        t = _Sram(dut)
        await t.bench.reset()
        for kind, users in (("read", t.readers), ("write", t.writers)):
            users[slow].stalls = cycle([False, False, False, True])
            begin = t.bench.cycle
            for number in range(2):
                addresses = [(a + 2 * banks * number) % 64 for a in range(240)]
                if kind == "read":
                    t.readers[number].queue.extend(addresses)
                else:
                    t.write(number, [(a, 0) for a in addresses])
            await t.finish()
            if kind == "read":
                cycles = [[c for c, _ in user.accepted] for user in t.readers]
            else:
                cycles = [user.cycles for user in t.writers]
            quick = cycles[1 - slow][-1] + 1 - begin
            assert 240 <= quick <= 240 + 240 // (4 * banks) + 2, (kind, slow, quick)
            assert cycles[slow][-1] + 1 - begin <= 320 + 2 * (quick - 240) + 4
        assert t.refusals.counted == t.refusals.seen > 0


@cocotb.test()
async def same_cycle_read_is_old_next_cycle_read_is_new(dut):
    """A read sees the writes of all earlier cycles, and none of its own."""
    t = _Sram(dut)
    await t.bench.reset()
    t.write(0, [(5, 1)])
    await t.finish()
    t.write(0, [(5, 2)])
    t.readers[0].queue.extend([5, 5])
    await t.finish()
    assert t.writers[0].cycles[1] == t.readers[0].accepted[0][0]
    assert [d for _, d in t.readers[0].answers] == [1, 2]


@cocotb.test()
async def random_accesses(dut):
    """Random addresses on all ports with pauses, against a model in order of acceptance."""
    t = _Sram(dut, stalls=True)
    rng = random_generator("sram")
    depth = parameters()["depth"]
    await t.bench.reset()
    t.write(0, [(a, a) for a in range(depth)])
    await t.finish()
    t.writers[0].cycles.clear()
    log = []
    writes = [[(rng.randrange(depth), rng.getrandbits(120)) for _ in range(300)] for _ in range(2)]
    for writer in range(2):
        t.write(writer, writes[writer])
        t.readers[writer].queue.extend(rng.randrange(depth) for _ in range(300))
    await t.finish(limit=5000)
    for writer in range(2):
        log += list(zip(t.writers[writer].cycles, writes[writer], strict=True))
    log.sort(key=lambda entry: entry[0])
    for reader in t.readers:
        for (accepted, address), (answered, data) in zip(
            reader.accepted, reader.answers, strict=True
        ):
            assert answered == accepted + SRAM_READ_LATENCY
            before = [d for c, (a, d) in log if a == address and c < accepted]
            assert data == (before[-1] if before else address), (accepted, address)
    assert t.refusals.counted == t.refusals.seen > 0
