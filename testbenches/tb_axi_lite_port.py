"""AXI4-Lite to register accesses, between a host and registers that both pause."""

from typing import Any

import cocotb

from rtl.axi.signatures import Response
from testbenches import random_generator, seed
from testbenches.bench import Bench, Part
from testbenches.streams import always, never, random_stalls

_WORDS = 1 << 4
_READ_ONLY = 3
"""The word that refuses writes; 5 refuses reads."""
_WRITE_ONLY = 5


class _Channel(Part):
    """One of the host's channels: valid, ready and values; both sides keep the rules of AXI.

    Parameters
    ----------
    name : of the channel
    values : of its signals, without the name
    sends : the host is its source
    """

    def __init__(self, dut, name, values, *, sends, stalls=None):
        self.valid = getattr(dut, f"axi__{name}valid")
        self.ready = getattr(dut, f"axi__{name}ready")
        self.values = [getattr(dut, f"axi__{name}{value}") for value in values]
        self.sends = sends
        self.stalls = never() if stalls is None else stalls
        self.queue = []
        self.cycles = []  # of each handshake
        self.taken = []
        self.offers = []  # from which cycle on each stood
        self._offered = None
        (self.valid if sends else self.ready).value = 0
        if sends:
            for signal in self.values:
                signal.value = 0

    def drive(self, cycle):
        if not self.sends:
            self.ready.value = int(not next(self.stalls))
            return
        if self._offered is None and self.queue and not next(self.stalls):
            self._offered = self.queue.pop(0)
            for signal, value in zip(self.values, self._offered, strict=True):
                signal.value = value
        self.valid.value = int(self._offered is not None)

    def sample(self, cycle):
        valid = bool(int(self.valid.value))
        if not self.sends:
            now = tuple(int(signal.value) for signal in self.values) if valid else None
            if self._offered is None and valid:
                self.offers.append(cycle)
            assert self._offered in (None, now), f"changed in cycle {cycle}"
            self._offered = now
        if valid and int(self.ready.value):
            self.taken.append(self._offered)
            self.cycles.append(cycle)
            self._offered = None


class _Registers(Part):
    """Words behind the port: an access takes ``wait()`` cycles.

    Attributes
    ----------
    reads, writes : (cycle, address[, data]) of accesses that began
    due : by kind, when the access is over and with what, or None
    """

    def __init__(self, dut, wait=lambda: 1):
        self.dut = dut
        self.wait = wait
        self.words = [0x1000 + number for number in range(_WORDS)]
        self.reads, self.writes = [], []
        self.due: dict[str, Any] = {"read": None, "write": None}
        for name in ("read_done", "write_done", "read_data", "read_refused", "write_refused"):
            getattr(dut, f"access__{name}").value = 0

    def drive(self, cycle):
        access = self.dut
        done = {kind: due is not None and due[0] == cycle for kind, due in self.due.items()}
        access.access__read_done.value = int(done["read"])
        access.access__write_done.value = int(done["write"])
        # What is said beside ``done`` counts for nothing.
        refused, value = self.due["read"][1:] if done["read"] else (1, 0xBAD)
        access.access__read_refused.value = refused
        access.access__read_data.value = value
        access.access__write_refused.value = self.due["write"][1] if done["write"] else 1
        for kind, over in done.items():
            if over:
                self.due[kind] = None

    def sample(self, cycle):
        dut = self.dut
        if int(dut.access__read.value):
            assert self.due["read"] is None
            address = int(dut.access__read_address.value)
            self.reads.append((cycle, address))
            word = address // 4 % _WORDS
            self.due["read"] = (
                cycle + self.wait(),
                int(word == _WRITE_ONLY),
                self.words[word],
            )
        if int(dut.access__write.value):
            assert self.due["write"] is None
            address, data = (
                int(dut.access__write_address.value),
                int(dut.access__write_data.value),
            )
            self.writes.append((cycle, address, data))
            word = address // 4 % _WORDS
            refused = word == _READ_ONLY
            if not refused:
                self.words[word] = data
            self.due["write"] = (cycle + self.wait(), int(refused))


class _Port:
    def __init__(self, dut, *, stalls=0.0, wait=lambda: 1):
        self.bench = Bench(dut)

        def pauses(number):
            return random_stalls(seed() + number, stalls)

        add = self.bench.add
        self.ar = add(_Channel(dut, "ar", ("addr", "prot"), sends=True, stalls=pauses(0)))
        self.aw = add(_Channel(dut, "aw", ("addr", "prot"), sends=True, stalls=pauses(1)))
        self.w = add(_Channel(dut, "w", ("data", "strb"), sends=True, stalls=pauses(2)))
        self.r = add(_Channel(dut, "r", ("data", "resp"), sends=False, stalls=pauses(3)))
        self.b = add(_Channel(dut, "b", ("resp",), sends=False, stalls=pauses(4)))
        self.registers = add(_Registers(dut, wait))

    def read(self, *addresses):
        self.ar.queue += [(address, address & 7) for address in addresses]

    def write(self, address, data, strobe=0b1111):
        self.aw.queue.append((address, address & 7))
        self.w.queue.append((data, strobe))


@cocotb.test()
async def reads_in_their_cycles(dut):
    """The access one cycle after the address, the response one after the access is over; the next
    address when the response is taken. The last two bits of an address count for nothing."""
    t = _Port(dut)
    await t.bench.reset()
    for wait in (1, 3):
        t.registers.wait = lambda wait=wait: wait
        first = t.bench.cycle
        t.read(0x8, 0xD, 4 * _WRITE_ONLY)
        await t.bench.step(20)
        starts = [first + n * (3 + wait) for n in range(3)]
        assert t.ar.cycles[-3:] == starts
        assert t.registers.reads[-3:] == [
            (start + 1, address) for start, address in zip(starts, (0x8, 0xC, 0x14), strict=True)
        ]
        assert t.r.cycles[-3:] == [start + 2 + wait for start in starts]
        assert t.r.taken[-3:] == [
            (0x1002, Response.OKAY),
            (0x1003, Response.OKAY),
            (0x1005, Response.SLVERR),
        ]
    assert len(t.r.taken) == len(t.registers.reads) == 6


@cocotb.test()
async def writes_in_their_cycles(dut):
    """As reads; and no sooner than both address and data are there, whichever is first."""
    t = _Port(dut)
    await t.bench.reset()
    for wait in (1, 3):
        t.registers.wait = lambda wait=wait: wait
        first = t.bench.cycle
        for address in (0x8, 0xF, 0x13):
            t.write(address, 0xA0000000 | address)
        await t.bench.step(20)
        starts = [first + n * (3 + wait) for n in range(3)]
        assert t.aw.cycles[-3:] == t.w.cycles[-3:] == starts
        assert t.registers.writes[-3:] == [
            (start + 1, address & ~3, 0xA0000000 | address)
            for start, address in zip(starts, (0x8, 0xF, 0x13), strict=True)
        ]
        assert t.b.cycles[-3:] == [start + 2 + wait for start in starts]
        assert t.b.taken[-3:] == [(Response.OKAY,), (Response.SLVERR,), (Response.OKAY,)]
        for late, other in ((t.aw, t.w), (t.w, t.aw)):
            late.stalls = always()
            t.write(0x4, 7)
            await t.bench.step(5)
            assert len(other.cycles) == len(late.cycles)
            late.stalls, begun = never(), t.bench.cycle
            await t.bench.step(6 + wait)
            assert late.cycles[-1] == other.cycles[-1] == begun
    assert len(t.b.taken) == len(t.registers.writes) == 10


@cocotb.test()
async def a_partial_write_does_nothing(dut):
    """Any byte strobe low: SLVERR, two cycles after, and no access."""
    t = _Port(dut)
    await t.bench.reset()
    for strobe in range(16):
        t.write(0x4, 0xFFFFFFFF, strobe)
    await t.bench.step(15 * 3 + 6)
    assert t.b.taken == [(Response.SLVERR,)] * 15 + [(Response.OKAY,)]
    assert t.aw.cycles == [3 * number for number in range(16)]
    assert t.b.cycles[:15] == [3 * number + 2 for number in range(15)]
    assert t.registers.writes == [(46, 0x4, 0xFFFFFFFF)]


@cocotb.test()
async def a_response_stands_until_it_is_taken(dut):
    """And holds back the next access of its direction, not those of the other."""
    t = _Port(dut)
    await t.bench.reset()
    t.r.stalls = always()
    t.read(0x8, 0xC)
    for number in range(5):
        t.write(0x4, number)
    await t.bench.step(30)
    assert (len(t.ar.cycles), len(t.b.cycles)) == (1, 5)
    t.b.stalls, t.r.stalls = always(), never()
    t.write(0x4, 9)
    t.write(0x4, 10)
    begun = t.bench.cycle
    await t.bench.step(20)
    assert t.r.offers[0] == 3
    assert t.r.cycles == [begun, begun + 4]
    assert (len(t.aw.cycles), len(t.b.cycles)) == (6, 5)
    t.b.stalls = never()
    await t.bench.step(10)
    assert len(t.b.cycles) == 7
    assert t.registers.words[1] == 10


@cocotb.test()
async def random_accesses(dut):
    """All five channels and the registers pause; every access begins once, in order, with its
    response."""
    generator = random_generator("lite")
    t = _Port(dut, stalls=0.4, wait=lambda: generator.randrange(1, 6))
    await t.bench.reset()
    reads = [generator.randrange(1 << 12) for _ in range(200)]
    t.read(*reads)
    writes = []
    for _ in range(200):
        strobe = generator.choice((15, 15, 15, generator.randrange(16)))
        writes.append((generator.randrange(1 << 12), generator.getrandbits(32), strobe))
        t.write(*writes[-1])
    seen = []
    registers = t.registers

    class _Seen(Part):
        """What every read found: words change under the writes."""

        def sample(self, cycle):
            if int(dut.access__read.value):
                seen.append(registers.due["read"][2])

    t.bench.add(_Seen())
    await t.bench.until(
        lambda: len(t.r.cycles) == len(t.b.cycles) == 200, limit=6000, stuck="responses"
    )
    assert [address for _, address in registers.reads] == [address & ~3 for address in reads]
    answers = [
        Response.SLVERR if address // 4 % _WORDS == _WRITE_ONLY else Response.OKAY
        for address in reads
    ]
    assert t.r.taken == list(zip(seen, answers, strict=True))
    whole = [(address & ~3, data) for address, data, strobe in writes if strobe == 15]
    assert [write[1:] for write in registers.writes] == whole
    assert t.b.taken == [
        (Response.SLVERR if strobe != 15 or address // 4 % _WORDS == _READ_ONLY else Response.OKAY,)
        for address, _, strobe in writes
    ]
