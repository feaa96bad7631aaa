"""The forwarding buffer between a transmitter and the SRAM."""

import cocotb
from amaranth.lib import data

from rtl.ace.contexts import Progress
from rtl.ace.sram import SRAM_READ_LATENCY
from testbenches import parameters, random_generator
from testbenches.bench import Bench, Part

_OLD = 1 << 100  # marks what the SRAM answers


class _Sram(Part):
    """Behind the buffer: takes requests four times in five."""

    def __init__(self, dut, rng):
        self.dut = dut
        self.rng = rng
        self.answers: dict[int, int] = {}
        self.asked: list[int] = []

    def drive(self, cycle):
        self.dut.sram__request__ready.value = int(self.rng.random() < 0.8)
        self.dut.sram__valid.value = int(cycle in self.answers)
        self.dut.sram__data.value = self.answers.get(cycle, 0)

    def sample(self, cycle):
        if int(self.dut.sram__request__valid.value) and int(self.dut.sram__request__ready.value):
            address = int(self.dut.sram__request__payload.value)
            self.asked.append(address)
            self.answers[cycle + SRAM_READ_LATENCY] = _OLD + address


class _Answers(Part):
    def __init__(self, dut):
        self.dut = dut
        self.seen: list[tuple[int, int]] = []
        self.forwarded = False  # in the last cycle

    def sample(self, cycle):
        self.forwarded = bool(int(self.dut.forwarded.value))
        if int(self.dut.read__valid.value):
            self.seen.append((cycle, int(self.dut.read__data.value)))


@cocotb.test()
async def random_messages(dut):
    """Every message has SRAM of its own."""
    await _random_messages(dut, "forward", places=128)


@cocotb.test()
async def random_messages_in_one_place(dut):
    """Every fourth message of a context goes to the same SRAM: what the one before has left there
    is never taken for it."""
    await _random_messages(dut, "forward in one place", places=4)


async def _random_messages(dut, name, *, places):
    """Messages of two contexts are written, now and then mixed, and read at random distances: what
    is answered without the SRAM is the youngest flit of that address, what is young enough and came
    in one piece never goes to the SRAM, and what is no forward always does. What is read next shows
    a cycle before; what is taken is followed by the next flit of its message."""
    rng = random_generator(name)
    depth, contexts = parameters()["depth"], parameters()["contexts"]
    bench = Bench(dut)
    sram = bench.add(_Sram(dut, rng))
    answers = bench.add(_Answers(dut))
    for signal in ("received__valid", "read__request__valid", "reading__chase"):
        getattr(dut, signal).value = 0
    await bench.reset()
    layout = data.ArrayLayout(Progress, contexts)
    progress = [[0, 0] for _ in range(contexts)]  # steps, flits
    base = [8192 * c for c in range(contexts)]
    written: list[tuple[int, int, int, int]] = []  # (context, step, flit, address) by age
    pieces: dict[tuple[int, int], int] = {}  # message: place of flit 0, or -1 if in pieces
    value: dict[int, int] = {}
    age: dict[tuple[int, int, int], int] = {}
    youngest: dict[int, int] = {}
    expected: list[tuple[int, int]] = []
    forwards = read_backs = fresh = follows = 0
    context, left = 0, 0
    asked = (0, 0, 0, base[0])
    chase = shown = moved = False
    for number in range(1600):
        # Write.
        writing = rng.random() < 0.7
        if left == 0 or rng.random() < 0.02:
            context = rng.randrange(contexts)
            left = rng.randint(1, 6)
        steps, flits = progress[context]
        address = base[context] + 64 * (steps % places) + flits
        dut.received__valid.value = int(writing)
        dut.received__context.value = context
        dut.received__address.value = address
        dut.received__data.value = number
        dut.progress.value = layout.const([{"steps": s, "flits": f} for s, f in progress]).as_bits()
        # Read what was written before, or, at the earliest, what is written just now.
        known = asked[:3] in age and youngest[asked[3]] == age[asked[:3]]
        if rng.random() < (0.2 if known else 0.6):
            if writing and rng.random() < 0.3:
                asked = (context, steps, flits, address)
            elif written:
                back = min(len(written), rng.choice((1, 2, depth - 1, depth, depth + 1, 2 * depth)))
                asked = written[-back]
            chase = rng.random() < 0.9
            shown = moved = False
        dut.reading__chase.value = int(chase)
        dut.reading__context.value = asked[0]
        dut.reading__step.value = asked[1] % 4
        dut.reading__index.value = asked[2]
        dut.read__request__payload.value = asked[3]
        valid = shown and known and rng.random() < 0.9
        dut.read__request__valid.value = int(valid)
        before = len(sram.asked)
        taken_at = bench.cycle
        await bench.step()
        shown = True
        if valid:
            went = len(sram.asked) > before
            forwarded = answers.forwarded
            back = len(written) - age[asked[:3]]
            assert not (went and forwarded)
            if went:
                expected.append((taken_at + SRAM_READ_LATENCY, _OLD + asked[3]))
                read_backs += chase
            elif forwarded:
                expected.append((taken_at + SRAM_READ_LATENCY, value[asked[3]]))
                forwards += 1
                fresh += back == 1
                follows += moved
            recent = progress[asked[0]][0] - asked[1] < 4
            if chase and back <= depth and recent and pieces[asked[:2]] >= 0:
                assert forwarded, asked
            if not chase or back > depth:
                assert not forwarded, asked
            moved = went or forwarded
            if moved:
                asked = (asked[0], asked[1], asked[2] + 1, asked[3] + 1)
        if writing:
            place = len(written) - flits
            if flits == 0:
                pieces[context, steps] = place
            elif pieces[context, steps] != place:
                pieces[context, steps] = -1
            age[context, steps, flits] = youngest[address] = len(written)
            written.append((context, steps, flits, address))
            value[address] = number
            left -= 1
            if left == 0:
                progress[context] = [(steps + 1) % 200, 0]
            else:
                progress[context][1] += 1
    dut.read__request__valid.value = 0
    dut.received__valid.value = 0
    await bench.step(4)
    assert answers.seen == expected
    assert forwards > 200, forwards
    assert fresh > 20, fresh
    assert follows > 50, follows
    assert read_backs > 50, read_backs
