"""The bench of a whole FRED switch: configurations, traffic and the expectation from the model."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

from rtl.common.packet import PacketHeader
from rtl.fred.configuration import Refusal, request_layout
from rtl.fred.errors import ERROR_COUNTER_BITS, error_layout
from sw_model.fred.configuration import Configuration, Flow
from sw_model.fred.table import entry_image
from sw_model.fred.timing import FredTiming
from testbenches.bench import Bench
from testbenches.fred_packets import Header, Packet, control_packet, flow_packets, merged
from testbenches.fred_wires import WireReceiver, WireSender
from testbenches.streams import never

__all__ = ["SwitchBench"]


class SwitchBench:
    """Wires of all ports, the host, and what the model says must come out.

    Parameters
    ----------
    dut : the switch
    given : its parameters: ``ports``, ``middle_copies``, ``flit_bytes``, ``packet_bytes``,
        ``adder_depth``, ``input_depth``, ``output_credits``; with ``classes`` (names, in the order
        of the channels) the last two may be lists
    generator : data of packets

    Attributes
    ----------
    bench, senders, receivers : the parts
    classes : names of the classes by channel, or none where they share one
    channels : how many there are
    expected : by output (``channel * ports + port``), the flits that must come out, in order
    """

    def __init__(self, dut: Any, given: dict[str, Any], generator: random.Random):
        self.dut = dut
        self.given = given
        self.generator = generator
        self.ports: int = given["ports"]
        self.flit_bytes: int = given["flit_bytes"]
        self.timing = FredTiming(adder_depth=given["adder_depth"])
        self.latency = self.timing.latency(self.ports)
        self.bench = Bench(dut)
        self.classes: list[str] = given.get("classes") or []
        self.channels = max(1, len(self.classes))
        self.senders = [
            self.bench.add(WireSender(dut, p, credits=self._each("input_depth")))
            for p in range(self.ports)
        ]
        self.receivers = [
            self.bench.add(WireReceiver(dut, p, credits=self._each("output_credits")))
            for p in range(self.ports)
        ]
        self.configurations: dict[int, Configuration] = {}
        self.expected: dict[int, list[int]] = defaultdict(list)
        dut.configure__valid.value = 0
        dut.configure__payload.value = 0
        dut.clear.value = 0

    def _each(self, name: str) -> list[int]:
        value = self.given[name]
        return [value] * self.channels if isinstance(value, int) else value

    def channel(self, traffic_class: str) -> int:
        """Where packets of a class go."""
        return self.classes.index(traffic_class) if self.classes else 0

    async def restart(self) -> None:
        """Reset in the middle of whatever goes on; configurations are gone, and so are stalls."""
        for sender, receiver in zip(self.senders, self.receivers, strict=True):
            sender.clear()
            receiver.clear()
            sender.stalls = receiver.stalls = never()
        self.expected.clear()
        self.configurations.clear()
        await self.bench.reset(cycles=1)

    async def load(self, configurations: dict[int, Configuration]) -> None:
        """Load configurations; the switch must accept them."""
        for index, configuration in configurations.items():
            refusal = await self.configure(index, entry_image(configuration))
            assert refusal is Refusal.NONE, f"entry {index} refused: {refusal.name}"
            self.configurations[index] = configuration

    async def configure(self, index: int, image: int) -> Refusal:
        """Offer one entry; the switch's answer."""
        layout = request_layout(self.ports, self.given["middle_copies"])
        self.dut.configure__payload.value = (
            index << layout["index"].offset | image << layout["entry"].offset
        )
        self.dut.configure__valid.value = 1
        await self.bench.step()
        self.dut.configure__valid.value = 0
        for _ in range(4):
            if int(self.dut.configured.value):
                return Refusal(int(self.dut.refusal.value))
            await self.bench.step()
        raise AssertionError("the switch gives no answer to an entry")

    def packets(self, index: int, flow: Flow, **fields: int) -> dict[int, Packet]:
        """Packets of ``flow`` in configuration ``index`` with random data, not sent yet."""
        return flow_packets(
            self.generator, flow, Header(configuration=index, **fields), self.flit_bytes
        )

    def send(self, index: int, flow: Flow, packets: dict[int, Packet]) -> None:
        """Queue packets at the senders, and what they make at the receivers' expectation."""
        channel = self.channel(flow.traffic_class)
        for port, packet in packets.items():
            self.senders[port].send(packet.flits(self.flit_bytes), channel)
        self.expect(index, flow, packets)

    def expect(self, index: int, flow: Flow, packets: dict[int, Packet]) -> None:
        """Add what ``packets`` make to the expectation of the flow's outputs."""
        result = merged(self.configurations[index], flow, packets, self.flit_bytes)
        first = self.channel(flow.traffic_class) * self.ports
        for port in flow.outputs:
            self.expected[first + port].extend(result.flits(self.flit_bytes))

    def control(self, source: int, destination: int, length: int, **fields: int) -> None:
        """Queue a control packet from one port to another."""
        packet = control_packet(
            self.generator, Header(configuration=destination, length=length, **fields),
            self.flit_bytes,
        )  # fmt: skip
        flits = packet.flits(self.flit_bytes)
        channel = self.channel("control")
        self.senders[source].send(flits, channel)
        self.expected[channel * self.ports + destination].extend(flits)

    def message(self, index: int, flow: Flow, lengths: list[int], **fields: int) -> None:
        """Queue a message: packets of the given payload bytes, numbered by their first flit."""
        first = 0
        for number, length in enumerate(lengths):
            packets = self.packets(
                index,
                flow,
                length=length,
                sequence=first,
                last=int(number == len(lengths) - 1),
                **fields,
            )
            self.send(index, flow, packets)
            first += -(-length // self.flit_bytes)

    @property
    def done(self) -> bool:
        """As many flits have come out as are expected."""
        return all(len(heard) >= len(self.expected[output]) for output, heard in self._heard())

    def _heard(self) -> list[tuple[int, list[int]]]:
        """By output what has come out of it."""
        return [
            (channel * self.ports + port, heard)
            for port, receiver in enumerate(self.receivers)
            for channel, heard in enumerate(receiver.heard)
        ]

    async def finish(self, *, limit: int = 2000, settle: int = 40, by_op: bool = False) -> None:
        """Run until everything expected is out, and some cycles more; then compare.

        ``by_op`` : packets of different ops may come in any order, since an op that is ready
        does not wait for one that is not
        """
        await self.bench.until(lambda: self.done, limit=limit, stuck=self.stuck())
        await self.bench.step(settle)
        for output, heard in self._heard():
            found, expected = heard, self.expected[output]
            if by_op:
                found, expected = self._by_op(found), self._by_op(expected)
            channel, port = divmod(output, self.ports)
            assert found == expected, (
                f"output {port}, channel {channel}: {len(heard)} flits, expected "
                f"{len(self.expected[output])}, or with other data"
            )

    def _by_op(self, flits: list[int]) -> list[int]:
        """Whole packets in order of their ops, those of one op as they are."""
        width = 8 * self.flit_bytes
        op = PacketHeader.as_shape()["op"]
        packets: list[tuple[int, list[int]]] = []
        for flit in flits:
            if flit >> width & 1:
                packets.append((flit >> op.offset & ((1 << op.width) - 1), []))
            packets[-1][1].append(flit)
        packets.sort(key=lambda packet: packet[0])
        return [flit for _, packet in packets for flit in packet]

    def stuck(self) -> str:
        """For a watchdog: who waits for whom."""
        return "flits are missing at an output"

    def forget(self) -> None:
        """Drop what was received and expected so far."""
        self.expected.clear()
        for receiver in self.receivers:
            receiver.forget()
        for sender in self.senders:
            sender.cycles.clear()
            sender.channels.clear()

    def errors(self) -> dict[str, int]:
        """The error masks that are not empty, by kind; one bit for each input or output."""
        value = int(self.dut.errors.value)
        found = {}
        for name, field in error_layout(self.ports, self.channels):
            mask = value >> field.offset & ((1 << field.width) - 1)
            if mask:
                found[name] = mask
        return found

    def counts(self) -> dict[str, int]:
        """The error counters that are not 0, by kind."""
        value = int(self.dut.error_count.value)
        kinds = [name for name, _ in error_layout(self.ports, self.channels)]
        counters = {
            kind: value >> ERROR_COUNTER_BITS * place & ((1 << ERROR_COUNTER_BITS) - 1)
            for place, kind in enumerate(kinds)
        }
        return {kind: count for kind, count in counters.items() if count}
