"""The in-order SRAM reader."""

import cocotb

from rtl.ace.sram_reader import SRAM_READER_LATENCY
from testbenches import parameters, random_generator, seed
from testbenches.ace_memories import SramReadPort
from testbenches.bench import Bench
from testbenches.streams import StreamMonitor, StreamSink, StreamSource, always, random_stalls


class _Reader:
    """Tokens carry a 16-bit tag; SRAM flit a holds 7 * a."""

    def __init__(self, dut, *, stalls=0.0):
        p = parameters()
        self.bits = p["address_bits"]
        self.bench = Bench(dut)

        def pauses(number):
            return random_stalls(seed() + number, stalls)

        self.source = self.bench.add(StreamSource(dut, "i", stalls=pauses(1)))
        contents = {a: 7 * a for a in range(1 << self.bits)}
        self.port = self.bench.add(SramReadPort(dut, "port", contents, stalls=pauses(2)))
        self.sink = self.bench.add(StreamSink(dut, "o", stalls=pauses(3)))
        self.bench.add(StreamMonitor(dut, "i"))
        self.monitor = self.bench.add(StreamMonitor(dut, "o"))
        self.bench.add(StreamMonitor(dut, "port__request"))

    def send(self, tokens):
        self.source.send(
            read | address << 1 | tag << (1 + self.bits) for read, address, tag in tokens
        )

    def check(self, tokens):
        for (read, address, tag), got in zip(tokens, self.sink.items, strict=True):
            assert got >> 128 == tag
            if read:
                assert got & ((1 << 128) - 1) == 7 * address

    async def finish(self, count, limit=3000):
        await self.bench.until(
            lambda: len(self.sink.items) == count, limit=limit, stuck="tokens are missing"
        )


@cocotb.test()
async def latency_and_throughput(dut):
    """Read or not, a token takes the same time; one per cycle."""
    t = _Reader(dut)
    await t.bench.reset()
    tokens = [(n % 3 != 0, n % 50, n) for n in range(40)]
    t.send(tokens)
    await t.finish(40)
    t.check(tokens)
    assert t.source.cycles == list(range(40))
    assert t.sink.cycles == [c + SRAM_READER_LATENCY for c in range(40)]


@cocotb.test()
async def accepts_exactly_depth(dut):
    """While the output is stalled."""
    t = _Reader(dut)
    t.sink.stalls = always()
    await t.bench.reset()
    tokens = [(1, n, n) for n in range(30)]
    t.send(tokens)
    await t.bench.step(60)
    assert len(t.source.cycles) == parameters()["depth"]
    t.sink.stalls = random_stalls(seed(), 0.0)
    await t.finish(30)
    t.check(tokens)


@cocotb.test()
async def random_tokens(dut):
    """Stalls on all sides."""
    t = _Reader(dut, stalls=0.4)
    rng = random_generator("reader")
    await t.bench.reset()
    tokens = [(rng.randrange(2), rng.randrange(1 << t.bits), n) for n in range(400)]
    t.send(tokens)
    await t.finish(400)
    t.check(tokens)
    assert t.port.addresses == [address for read, address, _ in tokens if read]
