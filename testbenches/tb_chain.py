"""A chain of increments, and runs that must fail: what the tests of the simulator are about."""

import cocotb

from testbenches import parameters, random_generator, seed
from testbenches.bench import Bench
from testbenches.streams import StreamMonitor, StreamSink, StreamSource, random_stalls


@cocotb.test()
async def increments_under_stalls(dut):
    """Nothing lost, nothing twice, in order, with stalls on both sides."""
    bench = Bench(dut)
    source = bench.add(StreamSource(dut, "i", stalls=random_stalls(seed(), 0.3)))
    sink = bench.add(StreamSink(dut, "o", stalls=random_stalls(seed() + 1, 0.3)))
    bench.add(StreamMonitor(dut, "o"))
    await bench.reset()
    generator = random_generator("items")
    items = [generator.randrange(256) for _ in range(200)]
    source.send(items)
    await bench.until(lambda: len(sink.items) == 200, limit=2000, stuck="fewer than 200 items")
    assert sink.items == [(item + parameters()["sum"]) % 256 for item in items]


@cocotb.test(skip="wrong" not in parameters())
async def a_wrong_expectation(dut):
    """Fails, and says why."""
    assert parameters()["wrong"] == "right", "the expectation is wrong"


@cocotb.test(skip="hang" not in parameters())
async def never_ends(dut):
    """Waits for items that are never sent, without a limit of its own."""
    bench = Bench(dut)
    await bench.reset()
    while True:
        await bench.step()
