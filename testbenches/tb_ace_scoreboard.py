"""Fill and release counters of the SRAM buffers."""

import cocotb

from testbenches import parameters, random_generator
from testbenches.bench import Bench, Part


def _events(dut, kind, values):
    """Raise events on the ports of one kind: a buffer or None for each."""
    for number, buffer in enumerate(values):
        getattr(dut, f"{kind}__{number}__valid").value = int(buffer is not None)
        getattr(dut, f"{kind}__{number}__buffer").value = buffer or 0


def _ask(dut, kind, number, buffer, epoch):
    getattr(dut, f"{kind}__{number}__buffer").value = buffer
    getattr(dut, f"{kind}__{number}__epoch").value = epoch % 256


def _idle(dut):
    p = parameters()
    _events(dut, "fill", [None] * p["writers"])
    _events(dut, "release", [None] * p["readers"])
    for n in range(p["writers"]):
        _ask(dut, "freed", n, 0, 0)
    for n in range(p["readers"]):
        _ask(dut, "filled", n, 0, 0)


@cocotb.test()
async def a_buffer_through_its_life(dut):
    """Free for use 0, filled, released, free for use 1; each seen in the next cycle."""
    bench = Bench(dut)
    _idle(dut)
    await bench.reset()
    _ask(dut, "freed", 0, 3, 0)
    _ask(dut, "freed", 1, 3, 1)
    _ask(dut, "filled", 0, 3, 0)
    _ask(dut, "filled", 1, 3, 1)

    def seen():
        return [
            int(getattr(dut, f"{kind}__{n}__ok").value)
            for kind in ("freed", "filled")
            for n in (0, 1)
        ]

    await bench.step()
    assert seen() == [1, 0, 0, 0]
    _events(dut, "fill", [None, 3, None][: parameters()["writers"]])
    await bench.step()
    _events(dut, "fill", [None] * parameters()["writers"])
    await bench.step()
    assert seen() == [1, 0, 1, 0]
    _events(dut, "release", [3, None, None][: parameters()["readers"]])
    await bench.step()
    _events(dut, "release", [None] * parameters()["readers"])
    await bench.step()
    assert seen() == [0, 1, 1, 0]


@cocotb.test()
async def counts_wrap_at_256(dut):
    """Use 256 is use 0 again, for fills and for releases; no use before it is mistaken for it."""
    bench = Bench(dut)
    for event, query, ports, ahead in (
        ("release", "freed", parameters()["readers"], 0),
        ("fill", "filled", parameters()["writers"], 1),
    ):
        _idle(dut)
        await bench.reset()
        for use in range(300):
            _ask(dut, query, 0, 1, use - ahead)
            _ask(dut, query, 1, 1, use - ahead + 1)
            _events(dut, event, [1] + [None] * (ports - 1))
            await bench.step()
            assert int(getattr(dut, f"{query}__0__ok").value) == 0  # counted by now
            assert int(getattr(dut, f"{query}__1__ok").value) == 1


class _Checker(Part):
    """Samples the answers of a cycle and compares them with what is expected there."""

    def __init__(self, dut):
        self.dut = dut
        self.expected: dict[tuple[str, int], bool] = {}

    def sample(self, cycle):
        for (kind, number), expected in self.expected.items():
            got = int(getattr(self.dut, f"{kind}__{number}__ok").value)
            assert got == expected, (cycle, kind, number)


@cocotb.test()
async def random_events(dut):
    """All ports at once, against counters in Python: a count shows one cycle later, not before."""
    p = parameters()
    bench = Bench(dut)
    checker = bench.add(_Checker(dut))
    rng = random_generator("scoreboard")
    _idle(dut)
    await bench.reset()
    counts = {"fill": [0] * p["buffers"], "release": [0] * p["buffers"]}
    for _ in range(600):
        raised: dict[str, list[int | None]] = {}
        for kind, ports in (("fill", p["writers"]), ("release", p["readers"])):
            buffers = rng.sample(range(p["buffers"]), ports)
            raised[kind] = [b if rng.random() < 0.5 else None for b in buffers]
            _events(dut, kind, raised[kind])
        for kind, ports, source, ahead in (
            ("freed", p["writers"], "release", 0),
            ("filled", p["readers"], "fill", 1),
        ):
            for number in range(ports):
                buffer = rng.randrange(p["buffers"])
                wrong = rng.choice((0, 0, 1, -1))
                _ask(dut, kind, number, buffer, counts[source][buffer] - ahead + wrong)
                checker.expected[kind, number] = wrong == 0
        await bench.step()
        for kind, events in raised.items():
            for event in events:
                if event is not None:
                    counts[kind][event] += 1
