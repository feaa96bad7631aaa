"""The counters."""

import cocotb
from amaranth.lib import data

from rtl.ace.counters import EVENTS, EngineCounters, engine_counters
from rtl.ace.status import DimEvents
from testbenches import parameters, random_generator
from testbenches.ace_records import encode
from testbenches.bench import Bench


def _drive(dut, events, amounts):
    size = DimEvents.as_shape().size
    word = sum(encode(DimEvents, event) << (dim * size) for dim, event in enumerate(events))
    dut.dim_events.value = word
    names = [name for name, _ in EngineCounters.as_shape()]
    width = len(dut.amounts) // len(names)
    dut.amounts.value = sum(amounts[name] << (n * width) for n, name in enumerate(names))


@cocotb.test()
async def every_event_has_its_counter(dut):
    """Random events on all inputs against sums in Python; a count shows two cycles later."""
    dims = parameters()["dims"]
    rng = random_generator("counters")
    layout: data.StructLayout = engine_counters(dims)
    bench = Bench(dut)
    names = [name for name, _ in EngineCounters.as_shape()]
    widths = {name: field.width for name, field in DimEvents.as_shape()}
    totals = dict.fromkeys(names, 0)
    dim_totals = [dict.fromkeys([*EVENTS, "busy_cycles"], 0) for _ in range(dims)]
    _drive(dut, [{}] * dims, dict.fromkeys(names, 0))
    await bench.reset()
    for _ in range(300):
        events = [
            {name: rng.getrandbits(width) for name, width in widths.items()} for _ in range(dims)
        ]
        amounts = {name: rng.choice((0, 1, 7, 16, 32)) for name in names}
        _drive(dut, events, amounts)
        await bench.step()
        before = dict(totals)
        for name in names:
            totals[name] += amounts[name]
        for dim in range(dims):
            for name, event in EVENTS.items():
                dim_totals[dim][name] += events[dim][event]
            dim_totals[dim]["busy_cycles"] += events[dim]["contexts"] != 0
    _drive(dut, [{}] * dims, dict.fromkeys(names, 0))
    early = layout.from_bits(int(dut.counts.value))
    assert {name: int(early.engine[name]) for name in names} == before
    await bench.step()
    counts = layout.from_bits(int(dut.counts.value))
    assert {name: int(counts.engine[name]) for name in names} == totals
    for dim in range(dims):
        assert {n: int(counts.dims[dim][n]) for n in dim_totals[dim]} == dim_totals[dim]
