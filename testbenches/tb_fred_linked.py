"""Switch and links together, all classes: line rate, isolation, every bit, reset.

Parameters: ``ports``, ``middle_copies``, ``flit_bytes``, ``packet_bytes``, ``control_bytes``,
``classes`` (control last), ``latency``, ``depth`` (by channel), ``configurations``.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import cocotb

from rtl.fred.configuration import request_layout
from sw_model.fred.configuration import Configuration, Flow
from sw_model.fred.table import entry_image
from sw_model.fred.timing import FRED_TIMING
from testbenches import parameters, random_generator
from testbenches.bench import Bench
from testbenches.fred_flows import configured, random_classes, routed
from testbenches.fred_packets import Header, control_packet, flow_packets, merged
from testbenches.streams import (
    StreamMonitor,
    StreamSink,
    StreamSource,
    always,
    bursty_stalls,
    never,
    random_stalls,
)

_GIVEN = parameters()
PORTS: int = _GIVEN.get("ports", 2)
CLASSES: list[str] = _GIVEN.get("classes", ["dp", "control"])
FLIT_BYTES: int = _GIVEN.get("flit_bytes", 16)
LATENCY: int = _GIVEN.get("latency", 1)
PLACES = range(PORTS * len(CLASSES))


class LinkedBench(Bench):
    """Streams at both ends, and what the model says must come out of each."""

    def __init__(self, dut: Any):
        super().__init__(dut)
        self.generator = random_generator("data")
        self.sources = [self.add(StreamSource(dut, f"i__{k}")) for k in PLACES]
        self.sinks = [self.add(StreamSink(dut, f"o__{k}")) for k in PLACES]
        self.monitors = [self.add(StreamMonitor(dut, f"o__{k}")) for k in PLACES]
        self.expected: dict[int, list[int]] = defaultdict(list)
        dut.configure__valid.value = 0

    async def begin(self, configurations: list[Configuration]) -> None:
        """Reset, with nothing under way and no stalls, and load."""
        for source, sink, monitor in zip(self.sources, self.sinks, self.monitors, strict=True):
            source.clear()
            sink.clear()
            monitor.clear()
            source.stalls, sink.stalls = never(), never()
        self.expected.clear()
        await self.reset(cycles=1)
        layout = request_layout(PORTS, _GIVEN["middle_copies"])
        for index, configuration in enumerate(configurations):
            self.dut.configure__payload.value = (
                index << layout["index"].offset
                | entry_image(configuration) << layout["entry"].offset
            )
            self.dut.configure__valid.value = 1
            await self.step()
            self.dut.configure__valid.value = 0
            await self.step(3)
            assert int(self.dut.refusal.value) == 0

    def message(self, configuration: Configuration, index: int, flow: Flow, **fields: int) -> None:
        """Queue a packet of a flow."""
        channel = CLASSES.index(flow.traffic_class)
        packets = flow_packets(
            self.generator, flow, Header(configuration=index, **fields), FLIT_BYTES
        )
        for port, packet in packets.items():
            self.sources[channel * PORTS + port].send(packet.flits(FLIT_BYTES))
        result = merged(configuration, flow, packets, FLIT_BYTES).flits(FLIT_BYTES)
        for port in flow.outputs:
            self.expected[channel * PORTS + port] += result

    def control(self, source: int, destination: int, length: int) -> None:
        """Queue a control packet; it names its source, whose packets stay in order."""
        header = Header(configuration=destination, length=length, op=source)
        flits = control_packet(self.generator, header, FLIT_BYTES).flits(FLIT_BYTES)
        first = (len(CLASSES) - 1) * PORTS
        self.sources[first + source].send(flits)
        self.expected[first + destination] += flits

    async def finish(self, limit: int) -> None:
        """Run until all is out and compare, packets of one op in order."""
        await self.until(
            lambda: all(len(self.monitors[k].items) >= len(self.expected[k]) for k in PLACES),
            limit=limit,
            stuck="all flits to arrive",
        )
        await self.step(2 * LATENCY + 40)
        for k in PLACES:
            assert by_op(self.monitors[k].items) == by_op(self.expected[k]), f"output {k}"
        assert int(self.dut.errors.value) == int(self.dut.overrun.value) == 0
        assert int(self.dut.idle.value)


def by_op(flits: list[int]) -> dict[int, list[int]]:
    """The flits of the packets of each op."""
    found: dict[int, list[int]] = defaultdict(list)
    op = 0
    for flit in flits:
        if flit >> (8 * FLIT_BYTES) & 1:
            op = flit >> 23 & 0xFFFF
        found[op].append(flit)
    return dict(found)


@cocotb.test()
async def each_class_has_line_rate_with_the_credits_of_the_formula(dut: Any) -> None:
    """From stream to stream, with nothing but the latencies in between."""
    bench = LinkedBench(dut)
    data = CLASSES[:-1]
    flows = [Flow.all_reduce(range(PORTS), traffic_class=name) for name in data]
    configurations = [configured(PORTS, _GIVEN["middle_copies"], [flow]) for flow in flows]
    packet = 1 + _GIVEN["packet_bytes"] // FLIT_BYTES
    for channel, flow in enumerate(flows):
        assert _GIVEN["depth"][channel] == FRED_TIMING.output_credits(PORTS, packet, LATENCY)
        await bench.begin(configurations)
        for op in range(20):
            bench.message(
                configurations[channel], channel, flow, length=_GIVEN["packet_bytes"], op=op
            )
        await bench.finish(3000)
        for port in range(PORTS):
            sent = bench.sources[channel * PORTS + port].cycles
            came = bench.monitors[channel * PORTS + port].cycles
            whole = 1 + LATENCY + FRED_TIMING.latency(PORTS) + LATENCY + 1
            assert came == [sent[0] + whole + k for k in range(20 * packet)]


@cocotb.test()
async def a_reader_that_stops_stops_its_class_alone(dut: Any) -> None:
    """Through both links and the switch, all buffers in between full."""
    bench = LinkedBench(dut)
    data = CLASSES[:-1]
    flows = [Flow.all_reduce(range(PORTS), traffic_class=name) for name in data]
    configurations = [configured(PORTS, _GIVEN["middle_copies"], [flow]) for flow in flows]
    for stuck in range(len(data)):
        await bench.begin(configurations)
        bench.sinks[stuck * PORTS].stalls = always()
        for op in range(30):
            bench.message(configurations[stuck], stuck, flows[stuck], length=64, op=op)
        await bench.step(300)
        others = [c for c in range(len(data)) if c != stuck]
        for op in range(10):
            for other in others:
                bench.message(configurations[other], other, flows[other], length=64, op=op)
            for port in range(PORTS):
                bench.control(port, (port + 1) % PORTS, 32)
        await bench.step(600)
        for channel in (*others, len(data)):
            for k in range(channel * PORTS, (channel + 1) * PORTS):
                assert by_op(bench.monitors[k].items) == by_op(bench.expected[k])
        assert not bench.monitors[stuck * PORTS].items
        bench.sinks[stuck * PORTS].stalls = never()
        await bench.finish(4000)


@cocotb.test()
async def random_traffic_and_reset_in_the_middle(dut: Any) -> None:
    """All classes with stalls at every stream; a reset cuts the second round short."""
    generator = random_generator("traffic")
    bench = LinkedBench(dut)
    for cut in (0, 150, 0):
        configurations = [
            random_classes(generator, found, CLASSES[:-1])
            for found in routed(generator, PORTS, _GIVEN["middle_copies"], _GIVEN["configurations"])
        ]
        await bench.begin(configurations)
        for source, sink in zip(bench.sources, bench.sinks, strict=True):
            source.stalls = random_stalls(generator.getrandbits(32), 0.3)
            sink.stalls = bursty_stalls(generator.getrandbits(32), 10)
        for op in range(25):
            index = generator.randrange(len(configurations))
            for flow in configurations[index].flows:
                length = generator.randint(1, _GIVEN["packet_bytes"])
                bench.message(configurations[index], index, flow, length=length, op=op)
            if generator.random() < 0.6:
                ends = generator.randrange(PORTS), generator.randrange(PORTS)
                bench.control(*ends, generator.randint(1, _GIVEN["control_bytes"]))
        if cut:
            await bench.step(cut)
        else:
            await bench.finish(20_000)
