"""Ops that say other numbers of send steps than their ports have."""

import cocotb

from rtl.ace.layouts import Op, RecordKind, TxStep
from rtl.ace.status import CompletionStatus
from rtl.common.packet import DataType
from testbenches import parameters
from testbenches.ace_memories import SramReadPort
from testbenches.ace_records import encode
from testbenches.bench import Bench, Part
from testbenches.streams import StreamSource

_FLITS = (2, 9)
"""Of every message of a port: what an op waits for is that of the second port."""


class _Wires(Part):
    """Grants to each op from all peers; marks, and ends of ops."""

    def __init__(self, dut, ports):
        self.dut = dut
        self.ports = ports
        self.marks: list[tuple[int, int]] = []
        self.ends: list[int] = []
        self.awaited = 0
        self.started = 0
        self.read = [0] * ports  # flits
        dut.filled__ok.value = dut.freed__ok.value = 1
        for number in range(1 + ports):
            getattr(dut, f"query__{number}__void").value = 0
        dut.granted.value = 0

    def drive(self, cycle):
        self.dut.granted.value = self.started * ((1 << self.ports) - 1)
        self.started = 0

    def sample(self, cycle):
        self.started = int(self.dut.grant.value)
        if int(self.dut.found__valid.value):
            found = self.dut.found__collective.value, self.dut.found__status.value
            self.marks.append((int(found[0]), int(found[1])))
        for port in range(self.ports):
            request = f"tx_read__{port}__request"
            if int(getattr(self.dut, f"{request}__valid").value):
                self.read[port] += int(getattr(self.dut, f"{request}__ready").value)
        if int(self.dut.fill__valid.value):
            self.ends.append(sum(self.read))


@cocotb.test(timeout_time=100, timeout_unit="us")
async def counts(dut):
    """An op ends when its ports have sent what they have, not before, and never hangs; where that
    is not what it says, its collective is marked, with PLAN_ERROR."""
    ports = parameters()["ports"]
    bench = Bench(dut)
    wires = bench.add(_Wires(dut, ports))
    records = bench.add(StreamSource(dut, "record"))
    sram = dict.fromkeys(range(64), 0)
    for port in range(ports):
        bench.add(SramReadPort(dut, f"tx_read__{port}", sram))
        getattr(dut, f"i__{port}__valid").value = 0
        getattr(dut, f"o__{port}__ready").value = 1
        for name in ("rx_read", "tx_write", "rx_write"):
            getattr(dut, f"{name}__{port}__request__ready").value = 1
    dut.tx_program__valid.value = dut.rx_program__valid.value = 0
    await bench.reset()
    for port in range(ports):
        for index in range(4):
            step = {"length": _FLITS[port], "last_bytes": 16, "local": 1}
            dut.tx_program__valid.value = 1
            dut.tx_program__port.value = port
            dut.tx_program__index.value = index
            dut.tx_program__step.value = encode(TxStep, step)
            await bench.step()
    dut.tx_program__valid.value = 0

    cases = [
        (2, (1, 1), True),
        (3, (1, 1), False),  # would wait for a third message forever
        (1, (1, 1), False),  # would end before the second message has been read
        (3, (1, 2), True),
        (0, (2, 0), False),
        (4, (0, 0), False),
        (144, (200, 200), False),  # the sum, modulo 256
        (255, (200, 200), False),
        (2, (2, 0), True),
    ]
    sent = 0
    for number, (said, there, right) in enumerate(cases):
        values = {
            "kind": RecordKind.OP,
            "data_type": DataType.INT32,
            "collective": 70 + number,
            "tx_count": said,
            "port_counts": sum(count << 8 * port for port, count in enumerate(there)),
        }
        records.send([encode(Op, values)])
        wires.awaited = number + 1
        await bench.until(
            lambda: len(wires.ends) == wires.awaited,
            limit=200,
            stuck=f"an op that says {said} of {there} does not end",
        )
        await bench.step(20)
        if sum(there) < 256:
            sent += sum(count * flits for count, flits in zip(there, _FLITS, strict=True))
        assert wires.ends[number] == sum(wires.read) == sent, (said, there, wires.ends, sent)
        expected = [] if right else [(70 + number, CompletionStatus.PLAN_ERROR)]
        assert wires.marks == expected, (said, there, wires.marks)
        wires.marks.clear()
