"""The bench of a whole FRED switch: configurations, traffic and the expectation from the model."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

from rtl.common.packet import PacketHeader
from rtl.fred.configuration import Refusal, request_layout
from rtl.fred.switch import error_layout
from sw_model.fred.configuration import Configuration, Flow
from sw_model.fred.table import entry_image
from sw_model.fred.timing import FredTiming
from testbenches.bench import Bench
from testbenches.fred_packets import Header, Packet, flow_packets, merged
from testbenches.fred_wires import WireReceiver, WireSender

__all__ = ["SwitchBench"]


class SwitchBench:
    """Wires of all ports, the host, and what the model says must come out.

    Parameters
    ----------
    dut : the switch
    given : its parameters: ``ports``, ``middle_copies``, ``flit_bytes``, ``packet_bytes``,
        ``adder_depth``, ``input_depth``, ``output_credits``
    generator : data of packets

    Attributes
    ----------
    bench, senders, receivers : the parts
    expected : by output port, the flits that must come out, in order
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
        self.senders = [
            self.bench.add(WireSender(dut, p, credits=given["input_depth"]))
            for p in range(self.ports)
        ]
        self.receivers = [
            self.bench.add(WireReceiver(dut, p, credits=given["output_credits"]))
            for p in range(self.ports)
        ]
        self.configurations: dict[int, Configuration] = {}
        self.expected: dict[int, list[int]] = defaultdict(list)
        dut.configure__valid.value = 0
        dut.configure__payload.value = 0
        dut.clear.value = 0

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
        for port, packet in packets.items():
            self.senders[port].send(packet.flits(self.flit_bytes))
        self.expect(index, flow, packets)

    def expect(self, index: int, flow: Flow, packets: dict[int, Packet]) -> None:
        """Add what ``packets`` make to the expectation of the flow's outputs."""
        result = merged(self.configurations[index], flow, packets, self.flit_bytes)
        for port in flow.outputs:
            self.expected[port].extend(result.flits(self.flit_bytes))

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
        return all(
            len(receiver.flits) >= len(self.expected[port])
            for port, receiver in enumerate(self.receivers)
        )

    async def finish(self, *, limit: int = 2000, settle: int = 40, by_op: bool = False) -> None:
        """Run until everything expected is out, and some cycles more; then compare.

        ``by_op`` : packets of different ops may come in any order, since an op that is ready
        does not wait for one that is not
        """
        await self.bench.until(lambda: self.done, limit=limit, stuck=self.stuck())
        await self.bench.step(settle)
        for port, receiver in enumerate(self.receivers):
            found, expected = receiver.flits, self.expected[port]
            if by_op:
                found, expected = self._by_op(found), self._by_op(expected)
            assert found == expected, (
                f"output {port}: {len(receiver.flits)} flits, expected "
                f"{len(self.expected[port])}, or with other data"
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
            receiver.flits.clear()
            receiver.cycles.clear()
        for sender in self.senders:
            sender.cycles.clear()

    def errors(self) -> dict[str, int]:
        """The error masks that are not empty, by kind."""
        value = int(self.dut.errors.value)
        found = {}
        for name, field in error_layout(self.ports):
            mask = value >> field.offset & ((1 << self.ports) - 1)
            if mask:
                found[name] = mask
        return found
