"""Dispatch of records."""

import cocotb

from rtl.ace.layouts import Load, Op, Program, RecordKind, RxStep, Store, TxStep
from testbenches import parameters, random_generator, seed
from testbenches.ace_records import encode
from testbenches.bench import Bench, Part
from testbenches.streams import StreamMonitor, StreamSink, StreamSource, always, random_stalls


class _Watch(Part):
    """Program writes, refusals, and the idle input."""

    def __init__(self, dut, dims):
        self.dut = dut
        self.dims = dims
        self.idle = True
        self.programs: list[tuple[str, int, int, int]] = []
        self.refused = 0

    def drive(self, cycle):
        self.dut.units_idle.value = int(self.idle)

    def sample(self, cycle):
        self.refused += int(self.dut.refused.value)
        for kind in ("tx", "rx"):
            for dim in range(self.dims):
                port = f"{kind}_program__{dim}"
                if int(getattr(self.dut, f"{port}__valid").value):
                    index = int(getattr(self.dut, f"{port}__index").value)
                    step = int(getattr(self.dut, f"{port}__step").value)
                    self.programs.append((kind, dim, index, step))


class _Command:
    def __init__(self, dut, *, stalls=0.0):
        self.dims = parameters()["dims"]
        self.bench = Bench(dut)

        def pauses(number):
            return random_stalls(seed() + number, stalls)

        self.source = self.bench.add(StreamSource(dut, "record", stalls=pauses(1)))
        names = ["load", "store"] + [f"op__{d}" for d in range(self.dims)]
        self.sinks = {
            name: self.bench.add(StreamSink(dut, name, stalls=pauses(2 + n)))
            for n, name in enumerate(names)
        }
        for name in ("record", *names):
            self.bench.add(StreamMonitor(dut, name))
        self.watch = self.bench.add(_Watch(dut, self.dims))

    async def finish(self, limit=3000):
        await self.bench.until(lambda: self.source.idle, limit=limit, stuck="records are left")
        await self.bench.step(2)


@cocotb.test()
async def every_kind_goes_to_its_unit(dut):
    """Without delay, one per cycle."""
    t = _Command(dut)
    await t.bench.reset()
    tx = encode(TxStep, {"offset": 5, "length": 6, "step": 7})
    rx = encode(RxStep, {"reduce": 1, "offset": 8, "length": 9})
    last = t.dims - 1
    program = {"kind": RecordKind.PROGRAM, "dim": last, "index": 3}
    records = [
        encode(Load, {"kind": RecordKind.LOAD, "buffer": 1}),
        encode(Store, {"kind": RecordKind.STORE, "buffer": 2}),
        encode(Op, {"kind": RecordKind.OP, "dim": last, "source": 3}),
        encode(Program, program | {"step": tx}),
        encode(Program, program | {"step": rx, "receive": 1}),
    ]
    t.source.send(records)
    await t.finish()
    assert t.source.cycles == list(range(5))
    assert t.sinks["load"].items == [records[0]]
    assert t.sinks["load"].cycles == [0]
    assert t.sinks["store"].items == [records[1]]
    assert t.sinks["store"].cycles == [1]
    assert t.sinks[f"op__{last}"].items == [records[2]]
    assert t.watch.programs == [("tx", last, 3, tx), ("rx", last, 3, rx)]
    assert t.watch.refused == 0


@cocotb.test()
async def a_full_queue_holds_all_behind_it(dut):
    """Order over all units is kept."""
    t = _Command(dut)
    t.sinks["load"].stalls = always()
    await t.bench.reset()
    t.source.send(
        [
            encode(Load, {"kind": RecordKind.LOAD}),
            encode(Store, {"kind": RecordKind.STORE}),
        ]
    )
    await t.bench.step(20)
    assert t.sinks["store"].items == []
    t.sinks["load"].stalls = random_stalls(1, 0.0)
    await t.finish()
    assert len(t.sinks["store"].items) == 1


@cocotb.test()
async def a_fence_waits_until_all_units_are_idle(dut):
    """Also for a record dispatched in the cycle before it."""
    t = _Command(dut)
    await t.bench.reset()
    fence = encode(Program, {"kind": RecordKind.FENCE})
    t.source.send([encode(Load, {"kind": RecordKind.LOAD}), fence])
    await t.bench.step()  # the load is taken
    t.watch.idle = True  # the unit's idleness falls one cycle behind
    await t.bench.step()
    t.watch.idle = False
    await t.bench.step(20)
    assert len(t.source.cycles) == 1
    t.watch.idle = True
    now = t.bench.cycle
    await t.finish()
    assert t.source.cycles == [0, now]


@cocotb.test()
async def what_is_unknown_is_dropped_and_reported(dut):
    """Unknown kinds, and dims that are not there."""
    t = _Command(dut)
    await t.bench.reset()
    t.source.send(
        [
            6,
            15,
            encode(Op, {"kind": RecordKind.OP, "dim": t.dims}),
            encode(Program, {"kind": RecordKind.PROGRAM, "dim": 15}),
            encode(Load, {"kind": RecordKind.LOAD}),
        ]
    )
    await t.finish()
    assert t.watch.refused == 4
    assert t.watch.programs == []
    assert len(t.sinks["load"].items) == 1


@cocotb.test()
async def random_records(dut):
    """Stalls on all sides; every unit gets its records in order."""
    t = _Command(dut, stalls=0.4)
    rng = random_generator("command")
    await t.bench.reset()
    expected: dict[str, list[int]] = {name: [] for name in t.sinks}
    programs = 0
    for number in range(300):
        kind = rng.choice((RecordKind.LOAD, RecordKind.STORE, RecordKind.OP, RecordKind.PROGRAM))
        dim = rng.randrange(t.dims)
        if kind == RecordKind.LOAD:
            word = encode(Load, {"kind": kind, "length": number})
            expected["load"].append(word)
        elif kind == RecordKind.STORE:
            word = encode(Store, {"kind": kind, "length": number})
            expected["store"].append(word)
        elif kind == RecordKind.OP:
            word = encode(Op, {"kind": kind, "dim": dim, "collective": number})
            expected[f"op__{dim}"].append(word)
        else:
            word = encode(Program, {"kind": kind, "dim": dim, "index": number})
            programs += 1
        t.source.send([word])
    await t.finish()
    for name, words in expected.items():
        assert t.sinks[name].items == words
    assert len(t.watch.programs) == programs
