"""The AXI4 masters one by one: cuts, rate and latency, against a memory that is always ready."""

import cocotb

from testbenches import random_generator
from testbenches.bench import Bench, Part

_FLIT = 16
_PAGE = 4096 // _FLIT
_BURST = 8


class _Reads(Part):
    """Requests one after another; a memory that answers bursts in order from the next cycle on."""

    def __init__(self, dut, requests):
        self.dut = dut
        self.requests = list(requests)
        self.bursts = []  # (cycle, flit address, beats)
        self.beats = []  # (cycle, value)
        self._due = []
        dut.halt.value = 0
        dut.axi__rid.value = 0
        dut.axi__rresp.value = 0

    def drive(self, cycle):
        dut = self.dut
        dut.port__request__valid.value = int(bool(self.requests))
        if self.requests:
            address, beats = self.requests[0]
            dut.port__request__payload.value = address | beats << 32
        dut.port__data__ready.value = 1
        dut.axi__arready.value = 1
        dut.axi__rvalid.value = int(bool(self._due))
        value, last = self._due[0] if self._due else (0, 0)
        dut.axi__rdata.value = value
        dut.axi__rlast.value = last

    def sample(self, cycle):
        dut = self.dut
        if int(dut.port__data__valid.value):
            self.beats.append((cycle, int(dut.port__data__payload.value)))
        if self._due and int(dut.axi__rready.value):
            self._due.pop(0)
        if int(dut.axi__arvalid.value):
            address, beats = int(dut.axi__araddr.value) // _FLIT, int(dut.axi__arlen.value) + 1
            self.bursts.append((cycle, address, beats))
            self._due += [(address + n, int(n == beats - 1)) for n in range(beats)]
        if self.requests and int(dut.port__request__ready.value):
            self.requests.pop(0)


def _cut(address, beats):
    """Bursts of at most _BURST beats within a page."""
    while beats:
        step = min(beats, _BURST, _PAGE - address % _PAGE)
        yield address, step
        address, beats = address + step, beats - step


@cocotb.test()
async def reads_are_cut_and_flow(dut):
    """Every request is cut as early as it must and no earlier, and beats come in every cycle."""
    generator = random_generator("reads")
    requests = [(0, 256), (_PAGE - 3, 20), (5 * _PAGE - 1, 1), (7, 1), (2 * _PAGE - 8, 16)]
    requests += [(generator.randrange(1 << 20), generator.randrange(1, 257)) for _ in range(20)]
    bench = Bench(dut)
    reads = bench.add(_Reads(dut, requests))
    await bench.reset()
    total = sum(beats for _, beats in requests)
    await bench.until(lambda: len(reads.beats) == total, limit=2 * total, stuck="data")
    expected = [burst for request in requests for burst in _cut(*request)]
    assert [burst[1:] for burst in reads.bursts] == expected
    assert [value for _, value in reads.beats] == [
        (address + n) for address, beats in requests for n in range(beats)
    ]
    assert reads.bursts[0][0] == 1  # a request of cycle 0
    first = reads.beats[0][0]
    assert first == 2
    # One beat per cycle while bursts are longer than what it takes to ask for them.
    assert [cycle for cycle, _ in reads.beats[:256]] == list(range(first, first + 256))
    await bench.step(2)
    assert int(dut.drained.value) == 1


class _Writes(Part):
    """Flits to consecutive addresses, in groups; a memory that answers a burst after its data."""

    def __init__(self, dut, flits, gaps=()):
        self.dut = dut
        self.flits = list(flits)
        self.gaps = set(gaps)  # indices before which nothing is offered for a while
        self.taken = []
        self.bursts = []
        self.beats = []
        self.acknowledged = []
        self._answers = 0
        self._pause = 0
        dut.halt.value = 0
        dut.axi__bid.value = 0
        dut.axi__bresp.value = 0

    def drive(self, cycle):
        dut = self.dut
        if len(self.taken) in self.gaps:
            self.gaps.remove(len(self.taken))
            self._pause = 20
        offers = bool(self.flits) and not self._pause
        self._pause = max(0, self._pause - 1)
        dut.port__request__valid.value = int(offers)
        if self.flits:
            address = self.flits[0]
            mask = (1 << _FLIT) - 1
            dut.port__request__payload.value = address | address << 32 | mask << 32 + 8 * _FLIT
        dut.axi__awready.value = 1
        dut.axi__wready.value = 1
        dut.axi__bvalid.value = int(self._answers > 0)

    def sample(self, cycle):
        dut = self.dut
        if int(dut.port__request__valid.value) and int(dut.port__request__ready.value):
            self.taken.append((cycle, self.flits.pop(0)))
        if int(dut.axi__bvalid.value) and int(dut.axi__bready.value):
            self._answers -= 1
        if int(dut.axi__awvalid.value):
            address, beats = int(dut.axi__awaddr.value) // _FLIT, int(dut.axi__awlen.value) + 1
            self.bursts.append((cycle, address, beats))
        if int(dut.axi__wvalid.value):
            assert int(dut.axi__wstrb.value) == (1 << _FLIT) - 1
            self.beats.append((cycle, int(dut.axi__wdata.value)))
            self._answers += int(dut.axi__wlast.value)
        if int(dut.port__acknowledged.value):
            self.acknowledged.append(cycle)


@cocotb.test()
async def writes_are_gathered_and_flow(dut):
    """Consecutive flits make up whole bursts; one flit per cycle passes, and is acknowledged."""
    bench = Bench(dut)
    flits = range(256)
    writes = bench.add(_Writes(dut, flits))
    await bench.reset()
    await bench.until(lambda: len(writes.acknowledged) == 256, limit=600, stuck="responses")
    assert [burst[1:] for burst in writes.bursts] == list(_cut(0, 256))
    assert [value for _, value in writes.beats] == list(flits)
    assert [cycle for cycle, _ in writes.taken] == list(range(256))
    first = writes.beats[0][0]
    assert first == _BURST + 3 - 1  # 3 cycles after the last flit of its burst
    assert [cycle for cycle, _ in writes.beats] == list(range(first, first + 256))
    acknowledged = writes.acknowledged
    assert acknowledged == list(range(acknowledged[0], acknowledged[0] + 256))
    assert int(dut.drained.value) == 1


@cocotb.test()
async def bursts_end_where_they_must(dut):
    """At 4 KiB, at a jump, and when nothing comes."""
    bench = Bench(dut)
    flits = [*range(_PAGE - 3, _PAGE + 4), *range(50, 53), 10, *range(300, 312)]
    expected = [(_PAGE - 3, 3), (_PAGE, 4), (50, 3), (10, 1), (300, 8), (308, 2), (310, 2)]
    writes = bench.add(_Writes(dut, flits, gaps=[len(flits) - 2]))
    await bench.reset()
    await bench.until(lambda: len(writes.acknowledged) == len(flits), limit=300, stuck="responses")
    assert [burst[1:] for burst in writes.bursts] == expected
    assert [value for _, value in writes.beats] == flits
