"""Registers by their table: every kind of access, its cycles, and what is refused."""

import cocotb

from rtl.axi.register_file import RegisterFile
from rtl.axi.register_map import Access
from testbenches import random_generator
from testbenches.bench import Bench, Part
from testbenches.register_table import TABLE

_WORDS = {}  # address to (register, number in its row, high half)
for _register in TABLE:
    for _number, _address in enumerate(_register.addresses()):
        _WORDS[_address] = (_register, _number, False)
        if _register.wide:
            _WORDS[_address + 4] = (_register, _number, True)
_BY_NAME = {register.name: register for register in TABLE}
_MEMBERS = RegisterFile(table=TABLE).signature.members
_MASKS = {"MODE": 0b1111_0111, "BASE": 0xFFFFFFFF}
"""Bits that the stored registers have, as TABLE says them."""


class _File(Part):
    """Drives accesses by cycle, and says what comes of them.

    Attributes
    ----------
    values : by name, rows of what is read
    refuse : names of the registers that cannot be written now
    reads, writes : by cycle, what begins: an address, or address and data
    answers : (cycle, data, refused) of the reads that are over
    done : (cycle, refused) of the writes
    written, taken : (cycle, name, number), (cycle, name)
    stored : in the last cycle, by name
    """

    def __init__(self, dut):
        self.dut = dut
        self.values = {
            register.name: [0] * register.count
            for register in TABLE
            if register.access in (Access.READ, Access.POP, Access.CLEAR)
        }
        self.refuse = set()
        self.reads, self.writes = {}, {}
        self.answers, self.done, self.written, self.taken = [], [], [], []
        self.stored = {}

    def drive(self, cycle):
        dut = self.dut
        dut.access__read.value = int(cycle in self.reads)
        dut.access__write.value = int(cycle in self.writes)
        if cycle in self.reads:
            dut.access__read_address.value = self.reads[cycle]
        if cycle in self.writes:
            address, data = self.writes[cycle]
            dut.access__write_address.value = address
            dut.access__write_data.value = data
        dut.values.value = _pack("values", self.values)
        dut.refuse.value = _pack(
            "refuse", {name: int(name in self.refuse) for name in _shape("refuse")}
        )

    def sample(self, cycle):
        dut = self.dut
        if int(dut.access__read_done.value):
            self.answers.append(
                (cycle, int(dut.access__read_data.value), int(dut.access__read_refused.value))
            )
        if int(dut.access__write_done.value):
            self.done.append((cycle, int(dut.access__write_refused.value)))
        for name, bits in _unpack("written", int(dut.written.value)).items():
            rows = range(_BY_NAME[name].count)
            self.written += [(cycle, name, number) for number in rows if bits >> number & 1]
        taken = _unpack("taken", int(dut.taken.value))
        self.taken += [(cycle, name) for name, bit in taken.items() if bit]
        self.stored = {
            name: [word >> 32 * n & 0xFFFFFFFF for n in range(_BY_NAME[name].count)]
            for name, word in _unpack("stored", int(dut.stored.value)).items()
        }


def _shape(member):
    return dict(_MEMBERS[member].shape)


def _pack(member, values):
    """A struct as one number, its first member lowest; rows are lists."""
    word = 0
    for name, field in _MEMBERS[member].shape:
        value = values[name]
        if isinstance(value, list):
            width = field.width // len(value)
            value = sum(item << width * number for number, item in enumerate(value))
        word |= value << field.offset
    return word


def _unpack(member, word):
    return {
        name: word >> field.offset & ((1 << field.width) - 1)
        for name, field in _MEMBERS[member].shape
    }


def _somewhere(generator):
    """Mostly the address of a register."""
    if generator.random() < 0.9:
        return generator.choice(list(_WORDS))
    return 4 * generator.randrange(1024)


async def _start(dut):
    bench = Bench(dut)
    part = bench.add(_File(dut))
    await bench.reset()
    return bench, part


@cocotb.test()
async def a_read_in_three_cycles(dut):
    """It gives the values of the cycle after it began, the cycle of ``taken``."""
    bench, part = await _start(dut)
    oldest = _BY_NAME["OLDEST"].offset
    part.reads = {4: oldest}
    for cycle in range(10):
        part.values["OLDEST"] = [100 + cycle]
        await bench.step()
    assert part.answers == [(7, 105, 0)]
    assert part.taken == [(5, "OLDEST")]


@cocotb.test()
async def a_write_in_two_cycles(dut):
    """``written`` and ``refuse`` are of the cycle after it began; what is stored shows one later,
    when it is over."""
    bench, part = await _start(dut)
    go, mode, clear = (_BY_NAME[name].offset for name in ("GO", "MODE", "CAUSES"))
    part.writes = {2: (go, 1), 6: (go, 2), 10: (mode, 0xFFFFFFFF), 14: (clear, 3)}
    for cycle in range(20):
        part.refuse = {"GO"} if cycle == 7 else {"OTHER_GO"}
        await bench.step()
        expected = _MASKS["MODE"] if cycle >= 12 else 0
        assert part.stored["MODE"] == [expected], cycle
    assert part.done == [(4, 0), (8, 1), (12, 0), (16, 0)]
    assert part.written == [(3, "GO", 0), (15, "CAUSES", 0)]


@cocotb.test()
async def every_address(dut):
    """Accesses of every address of the space, each begun in the cycle in which the one before is
    over; what has no register, or not that access, is refused, gives 0 and does nothing."""
    bench, part = await _start(dut)
    generator = random_generator("addresses")
    for rows in part.values.values():
        rows[:] = [generator.getrandbits(32) for _ in rows]
    for name in ("COUNT", "DIM_COUNT"):
        part.values[name] = [generator.getrandbits(64) for _ in part.values[name]]
    addresses = list(range(0, 1 << 12, 4))
    part.writes = {2 * n: (address, address * 0x10001) for n, address in enumerate(addresses)}
    await bench.step(2 * len(addresses) + 4)
    can = (Access.WRITE, Access.READ_WRITE, Access.CLEAR)
    writable = [a for a in addresses if a in _WORDS and _WORDS[a][0].access in can]
    assert part.done == [
        (2 * n + 2, int(address not in writable)) for n, address in enumerate(addresses)
    ]
    assert part.written == [
        (2 * addresses.index(address) + 1, register.name, number)
        for address in writable
        for register, number, _ in (_WORDS[address],)
        if register.access is not Access.READ_WRITE
    ]
    start = bench.cycle
    part.reads = {start + 3 * n: address for n, address in enumerate(addresses)}
    await bench.step(3 * len(addresses) + 4)
    expected = []
    for n, address in enumerate(addresses):
        register, number, high = _WORDS.get(address, (None, 0, False))
        value, refused = 0, 0
        if register is None or register.access is Access.WRITE:
            refused = 1
        elif register.access is Access.READ_WRITE:
            value = address * 0x10001 & _MASKS[register.name]
        else:
            word = part.values[register.name][number]
            value = word >> 32 if high else word & 0xFFFFFFFF
        expected.append((start + 3 * n + 3, value, refused))
    assert part.answers == expected
    pops = [a for a, (register, *_) in _WORDS.items() if register.access is Access.POP]
    assert part.taken == [(start + 3 * (a // 4) + 1, _WORDS[a][0].name) for a in sorted(pops)]


@cocotb.test()
async def halves_belong_together(dut):
    """The high half is that of the moment in which the low one was read, of the register whose low
    half was read last, whatever is read between that is not wide."""
    bench, part = await _start(dut)
    count, other = _BY_NAME["COUNT"].offset, _BY_NAME["DIM_COUNT"].addresses()[1]
    part.values["COUNT"] = [0x1_FFFFFFFF]
    part.values["DIM_COUNT"] = [0, 0x5_00000006]
    part.reads = {0: count, 8: _BY_NAME["ID"].offset, 16: count + 4, 20: other, 24: other + 4}
    for cycle in range(30):
        if cycle == 2:
            part.values["COUNT"] = [0x2_00000000]
        if cycle == 22:
            part.values["DIM_COUNT"] = [0, 0x7_00000000]
        await bench.step()
    assert [data for _, data, _ in part.answers] == [0xFFFFFFFF, 0, 1, 6, 5]


@cocotb.test()
async def random_accesses(dut):
    """Reads and writes at random distances, values and refusals that change in every cycle; they
    know nothing of each other."""
    bench, part = await _start(dut)
    generator = random_generator("file")
    stored = {name: [0] * _BY_NAME[name].count for name in _MASKS}
    high, expected, over, begun, pulses, takes = 0, [], [], {}, [], []
    for cycle in range(3000):
        for name, rows in part.values.items():
            width = 64 if _BY_NAME[name].wide else 32
            rows[:] = [generator.getrandbits(width) for _ in rows]
        part.refuse = {name for name in ("GO", "OTHER_GO") if generator.random() < 0.5}
        # What began in the cycle before meets the values of this one.
        if cycle - 1 in part.reads:
            address = part.reads[cycle - 1]
            register, number, is_high = _WORDS.get(address, (None, 0, False))
            value, refused = 0, int(register is None or register.access is Access.WRITE)
            if not refused and register.access is Access.READ_WRITE:
                value = stored[register.name][number]
            elif not refused and is_high:
                value = high
            elif not refused:
                value = part.values[register.name][number]
                if register.wide:
                    high, value = value >> 32, value & 0xFFFFFFFF
            expected.append((cycle + 2, value, refused))
            if register is not None and register.access is Access.POP:
                takes.append((cycle, register.name))
        if cycle - 1 in part.writes:
            address, data = part.writes[cycle - 1]
            register, number, _ = _WORDS.get(address, (None, 0, False))
            access = register and register.access
            refused = access not in (Access.WRITE, Access.CLEAR, Access.READ_WRITE) or (
                access is Access.WRITE and register.name in part.refuse
            )
            over.append((cycle + 1, int(refused)))
            if access is Access.READ_WRITE:
                begun[cycle] = (register.name, number, data & _MASKS[register.name])
            elif not refused:
                pulses.append((cycle, register.name, number))
        await bench.step()
        if cycle in begun:  # shows from the next cycle on
            name, number, data = begun.pop(cycle)
            stored[name][number] = data
        if generator.random() < 0.2 and not any(bench.cycle - n in part.reads for n in range(4)):
            part.reads[bench.cycle] = _somewhere(generator)
        if generator.random() < 0.3 and bench.cycle - 1 not in part.writes:
            part.writes[bench.cycle] = (_somewhere(generator), generator.getrandbits(32))
    await bench.step(4)
    assert part.answers[: len(expected)] == expected
    assert part.done[: len(over)] == over
    assert part.written[: len(pulses)] == pulses
    assert part.taken[: len(takes)] == takes
    assert len(expected) > 200
    assert len(over) > 200
