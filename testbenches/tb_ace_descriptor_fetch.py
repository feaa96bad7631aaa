"""Descriptor fetch: from doorbells to records."""

import cocotb

from rtl.ace.layouts import RECORD_BYTES
from sw_model.endpoint.timing import ACE_TIMING
from testbenches import parameters, random_generator, seed
from testbenches.ace_memories import MemoryReadPort
from testbenches.bench import Bench, Part
from testbenches.streams import StreamMonitor, StreamSink, StreamSource, always, random_stalls

_LATENCY = 20


class _Pulses(Part):
    def __init__(self, dut):
        self.dut = dut
        self.count = {"ended": 0, "taken": 0, "fetched": 0, "fault": 0}
        dut.forbidden.value = 0
        dut.failed.value = 0

    def sample(self, cycle):
        for name in self.count:
            self.count[name] += int(getattr(self.dut, name).value)


class _Fetch:
    def __init__(self, dut, *, stalls=0.0):
        p = parameters()
        self.dut = dut
        self.flit = p["flit_bytes"]
        self.bench = Bench(dut)

        def pauses(number):
            return random_stalls(seed() + number, stalls)

        self.contents: dict[int, int] = {}
        self.doorbell = self.bench.add(StreamSource(dut, "doorbell", stalls=pauses(1)))
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
        self.sink = self.bench.add(StreamSink(dut, "record", stalls=pauses(4)))
        self.pulses = self.bench.add(_Pulses(dut))
        for name in ("doorbell", "memory__request", "memory__data", "record"):
            self.bench.add(StreamMonitor(dut, name))

    def place(self, address, records):
        """Put a descriptor into memory, closed by END, with garbage behind it."""
        rng = random_generator(f"garbage {address}")
        garbage = [rng.getrandbits(256) | 1 for _ in range(64)]
        raw = b"".join(r.to_bytes(RECORD_BYTES, "little") for r in [*records, 0, *garbage])
        for beat in range(len(raw) // self.flit):
            word = raw[beat * self.flit : (beat + 1) * self.flit]
            self.contents[address + beat] = int.from_bytes(word, "little")

    async def idle(self, limit=4000):
        await self.bench.step(3)
        await self.bench.until(
            lambda: self.doorbell.idle and int(self.dut.idle.value) == 1,
            limit=limit,
            stuck="fetch is not idle",
        )


def _records(count, purpose):
    rng = random_generator(purpose)
    return [rng.getrandbits(252) << 4 | rng.randint(1, 15) for _ in range(count)]


@cocotb.test()
async def cycle_by_cycle(dut):
    """First request, first record, and one record in as many cycles as it has beats."""
    t = _Fetch(dut)
    await t.bench.reset()
    records = _records(12, "cycles")
    t.place(64, records)
    t.doorbell.send([64])
    await t.idle()
    rung = t.doorbell.cycles[0]
    beats = max(1, RECORD_BYTES // t.flit)
    burst = parameters()["burst"] * RECORD_BYTES // t.flit
    assert t.memory.bursts[0] == (rung + ACE_TIMING.doorbell, 64, burst)
    assert t.sink.items == records
    first = t.memory.bursts[0][0] + _LATENCY + beats - 1 + ACE_TIMING.record_arrival
    assert t.sink.cycles[0] == first
    window = parameters()["window"]
    expected = [first + beats * k for k in range(window)]
    assert t.sink.cycles[:window] == expected[: len(t.sink.cycles)]
    assert t.pulses.count["ended"] == 1
    assert t.pulses.count["taken"] == 13


@cocotb.test()
async def the_window_is_bounded(dut):
    """While nobody takes records, exactly ``window`` are fetched."""
    t = _Fetch(dut)
    t.sink.stalls = always()
    await t.bench.reset()
    t.place(0, _records(60, "window"))
    t.doorbell.send([0])
    await t.bench.step(200)
    assert t.pulses.count["fetched"] == parameters()["window"] * RECORD_BYTES // t.flit
    t.sink.stalls = random_stalls(seed(), 0.0)
    await t.idle()
    assert t.sink.items == _records(60, "window")


@cocotb.test()
async def doorbells_queue_up(dut):
    """Exactly ``doorbells`` wait besides the one at work; descriptors come in order, none mixed."""
    t = _Fetch(dut)
    t.sink.stalls = always()
    await t.bench.reset()
    expected = []
    for number in range(7):
        records = _records(number % 3, f"list {number}")  # some are empty
        t.place(1024 * number, records)
        expected += records
    # The first has a record, so it stays at work.
    t.doorbell.send([1024 * n for n in (1, 0, 2, 3, 4, 5, 6)])
    await t.bench.step(200)
    assert len(t.doorbell.cycles) == 1 + parameters()["doorbells"]
    t.sink.stalls = random_stalls(seed(), 0.0)
    await t.idle()
    assert sorted(t.sink.items) == sorted(expected)
    assert t.pulses.count["ended"] == 7


@cocotb.test()
async def random_descriptors(dut):
    """Stalls on all sides."""
    t = _Fetch(dut, stalls=0.3)
    rng = random_generator("descriptors")
    await t.bench.reset()
    expected = []
    for number in range(12):
        records = _records(rng.randrange(30), f"random {number}")
        t.place(1024 * number, records)
        t.doorbell.send([1024 * number])
        expected += records
    await t.idle(limit=20000)
    assert t.sink.items == expected
    assert t.pulses.count["taken"] == len(expected) + 12
