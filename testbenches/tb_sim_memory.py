"""The memory of the simulation, cycle by cycle."""

from fractions import Fraction
from math import floor

import cocotb

from testbenches import parameters, random_generator, seed
from testbenches.bench import Bench, Part
from testbenches.streams import random_stalls


class MemoryDriver(Part):
    """Drives the three channels of the memory and keeps what it saw, with cycles.

    ``reads`` and ``writes`` are offered in order, each as soon as the one before is accepted.
    """

    def __init__(self, dut, *, refuse=None):
        self.dut = dut
        self.reads = []
        self.writes = []
        self.refuse = refuse
        self.accepted_reads = []
        self.accepted_writes = []
        self.beats = []
        self.acknowledged = []
        dut.read_request_valid.value = 0
        dut.write_valid.value = 0
        dut.read_data_ready.value = 1
        self._waiting = None

    def drive(self, cycle):
        dut = self.dut
        dut.read_request_valid.value = int(bool(self.reads))
        if self.reads:
            address, beats = self.reads[0]
            dut.read_request_address.value = address
            dut.read_request_beats.value = beats
        dut.write_valid.value = int(bool(self.writes))
        if self.writes:
            address, data, strobe = self.writes[0]
            dut.write_address.value = address
            dut.write_data.value = data
            dut.write_strobe.value = strobe
        if self.refuse is not None:
            dut.read_data_ready.value = int(not next(self.refuse))

    def sample(self, cycle):
        dut = self.dut
        if self.reads and int(dut.read_request_ready.value):
            self.accepted_reads.append((cycle, *self.reads.pop(0)))
        if self.writes and int(dut.write_ready.value):
            self.accepted_writes.append((cycle, *self.writes.pop(0)))
        if int(dut.read_data_valid.value):
            data = int(dut.read_data_payload.value)
            assert self._waiting in (None, data), "the beat changed while it waited"
            self._waiting = data
            if int(dut.read_data_ready.value):
                self.beats.append((cycle, data))
                self._waiting = None
        else:
            assert self._waiting is None, "the beat was withdrawn"
        if int(dut.write_acknowledged.value):
            self.acknowledged.append(cycle)


async def _bench(dut, *, read_rate=Fraction(1), write_rate=Fraction(1), **options):
    for name in ("chosen", "load", "dump", "first", "last"):
        getattr(dut, name).value = 0
    for name, rate in (("read", read_rate), ("write", write_rate)):
        getattr(dut, f"{name}_gain").value = rate.numerator
        getattr(dut, f"{name}_cost").value = rate.denominator
    bench = Bench(dut)
    driver = bench.add(MemoryDriver(dut, **options))
    await bench.reset()
    return bench, driver


async def _write(bench, driver, values):
    driver.writes += [(address, data, (1 << 16) - 1) for address, data in enumerate(values)]
    already = len(driver.acknowledged)
    wanted = already + len(values)
    await bench.until(
        lambda: len(driver.acknowledged) == wanted, limit=5000, stuck="writes not acknowledged"
    )


@cocotb.test(skip=bool(parameters().get("stalls")))
async def writes_are_acknowledged_after_their_latency(dut):
    bench, driver = await _bench(dut)
    await _write(bench, driver, range(100, 120))
    accepted = [cycle for cycle, *_ in driver.accepted_writes]
    assert accepted == list(range(accepted[0], accepted[0] + 20))
    assert driver.acknowledged == [cycle + parameters()["write_latency"] for cycle in accepted]


@cocotb.test(skip=bool(parameters().get("stalls")))
async def reads_answer_after_their_latency_without_a_bubble(dut):
    bench, driver = await _bench(dut)
    await _write(bench, driver, range(64))
    driver.reads += [(0, 10), (20, 1), (30, 5), (60, 4)]
    await bench.until(lambda: len(driver.beats) == 20, limit=500, stuck="beats missing")
    first = driver.accepted_reads[0][0]
    assert [cycle for cycle, *_ in driver.accepted_reads] == [first + n for n in range(4)]
    start = first + parameters()["read_latency"]
    assert [cycle for cycle, _ in driver.beats] == list(range(start, start + 20))
    expected = [*range(10), 20, *range(30, 35), *range(60, 64)]
    assert [data for _, data in driver.beats] == expected


@cocotb.test(skip=bool(parameters().get("stalls")))
async def a_late_request_has_its_own_latency(dut):
    bench, driver = await _bench(dut)
    driver.reads.append((0, 2))
    await bench.step(7)
    driver.reads.append((4, 1))
    await bench.until(lambda: len(driver.beats) == 3, limit=500, stuck="beats missing")
    latency = parameters()["read_latency"]
    assert driver.beats[0][0] == driver.accepted_reads[0][0] + latency
    assert driver.beats[2][0] == driver.accepted_reads[1][0] + latency


@cocotb.test(skip=bool(parameters().get("stalls")))
async def accepts_exactly_its_queue_while_stalled(dut):
    bench, driver = await _bench(dut, refuse=iter(lambda: True, False))
    driver.reads += [(0, 1)] * 20
    await bench.step(100)
    # Eight wait in the queue; the beat of one more waits at the port.
    assert len(driver.accepted_reads) == 8 + 1


_RATES = [(Fraction(5, 8), Fraction(3, 10)), (Fraction(8, 25), Fraction(1)),
          (Fraction(1), Fraction(19, 20)), (Fraction(1, 7), Fraction(12_345, 65_535))]  # fmt: skip


@cocotb.test(skip=bool(parameters().get("stalls")))
async def both_directions_keep_their_rates_at_the_same_time(dut):
    """Behind an idle time, k beats more take floor(k / rate) cycles: each direction at its own."""
    for read_rate, write_rate in _RATES:
        bench, driver = await _bench(dut, read_rate=read_rate, write_rate=write_rate)
        driver.reads += [(0, 9), (20, 1), (30, 60)]
        driver.writes += [(100 + n % 20, n, 0xFFFF) for n in range(70)]
        await bench.until(
            lambda driver=driver: len(driver.beats) == len(driver.acknowledged) == 70,
            limit=2000,
            stuck="traffic did not end",
        )
        for rate, cycles, start in (
            (read_rate, [c for c, _ in driver.beats], parameters()["read_latency"]),
            (write_rate, [c for c, *_ in driver.accepted_writes], 0),
        ):
            assert cycles == [start + floor(k / rate) for k in range(70)], rate


@cocotb.test(skip=bool(parameters().get("stalls")))
async def who_comes_late_gets_no_more_than_the_rate(dut):
    """After a long pause, and with a reader that pauses: never more than ceil(n · rate) beats in n
    cycles, and at the end none is lost."""
    rate = Fraction(3, 8)
    bench, driver = await _bench(dut, read_rate=rate, write_rate=rate)
    await bench.step(100)
    driver.refuse = random_stalls(seed(), 0.5)
    driver.reads += [(0, 80)]
    driver.writes += [(n, n, 0xFFFF) for n in range(80)]
    await bench.until(
        lambda: len(driver.beats) == len(driver.acknowledged) == 80,
        limit=2000,
        stuck="traffic did not end",
    )
    writes = [cycle for cycle, *_ in driver.accepted_writes]
    # What is taken late was presented earlier, so a reader may see one beat more than the rate.
    for cycles, more in ((writes, 0), ([cycle for cycle, _ in driver.beats], 1)):
        for first in range(80):
            for last in range(first, 80):
                n = cycles[last] - cycles[first] + 1
                assert last - first + 1 <= -floor(-n * rate) + more


@cocotb.test()
async def strobes_choose_bytes(dut):
    bench, driver = await _bench(dut)
    driver.writes.append((5, int.from_bytes(range(16), "little"), 0xFFFF))
    driver.writes.append((5, int.from_bytes([0xAA] * 16, "little"), 0x8421))
    await bench.until(lambda: len(driver.acknowledged) == 2, limit=200, stuck="no acknowledgement")
    driver.reads.append((5, 1))
    await bench.until(lambda: len(driver.beats) == 1, limit=200, stuck="no beat")
    expected = [0xAA if index in (0, 5, 10, 15) else index for index in range(16)]
    assert list(driver.beats[0][1].to_bytes(16, "little")) == expected
    assert int(dut.fault.value) == 0


@cocotb.test()
async def access_past_the_end_is_a_fault(dut):
    words = parameters()["words"]
    for what in ("read", "write"):
        bench, driver = await _bench(dut)
        await bench.step(2)
        assert int(dut.fault.value) == 0, what
        if what == "read":
            driver.reads.append((words - 1, 2))
        else:
            driver.writes.append((words, 1, 0xFFFF))
        await bench.step(60)
        assert int(dut.fault.value) == 1, what


@cocotb.test()
async def random_traffic_matches_a_list(dut):
    """Reads and writes of different halves, with stalls, against a plain list."""
    generator = random_generator("memory")
    bench, driver = await _bench(dut, refuse=random_stalls(seed(), 0.3))
    half = parameters()["words"] // 2
    model = [generator.getrandbits(128) for _ in range(half)]
    await _write(bench, driver, model)
    expected = []
    for _ in range(60):
        beats = generator.randint(1, 8)
        address = generator.randrange(half - beats + 1)
        driver.reads.append((address, beats))
        expected += model[address : address + beats]
        driver.writes.append((half + generator.randrange(half), 1, 0xFFFF))
    await bench.until(
        lambda: len(driver.beats) == len(expected) and not driver.writes,
        limit=5000,
        stuck="traffic did not end",
    )
    assert [data for _, data in driver.beats] == expected
    for (cycle, address, beats), beat in zip(
        driver.accepted_reads[:1], driver.beats[:1], strict=True
    ):
        assert beat[0] >= cycle + parameters()["read_latency"], (address, beats)
