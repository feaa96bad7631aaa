"""A dim engine between two SRAM models, a link and a scoreboard: what its benches share."""

from typing import Any

from rtl.ace.layouts import Op, RecordKind, RxStep, TxStep
from rtl.ace.status import DimEvents, DimStatus
from rtl.common.packet import DataType, PacketHeader
from testbenches import parameters, seed
from testbenches.ace_memories import SramReadPort, SramWritePort
from testbenches.ace_records import encode
from testbenches.bench import Bench, Part
from testbenches.streams import StreamMonitor, StreamSink, StreamSource, random_stalls

__all__ = ["HEAD", "LAST", "EngineBench"]

_DATA = (1 << 128) - 1
HEAD, LAST = 1 << 128, 1 << 129


class _Signals(Part):
    """The engine's single wires: scoreboard answers, grants, and when pulses were seen."""

    def __init__(self, dut):
        self.dut = dut
        self.filled = True
        self.freed = True
        self.grants: set[int] = set()
        self.seen: dict[str, list[int]] = {"grant": [], "fill": [], "release": []}
        self.buffers: dict[str, list[int]] = {"fill": [], "release": []}
        self.status: Any = None
        self.counts = dict.fromkeys((name for name, _ in DimEvents.as_shape()), 0)
        for name in ("filled__ok", "freed__ok", "granted", "query__0__void", "query__1__void"):
            getattr(dut, name).value = 0

    def drive(self, cycle):
        self.dut.filled__ok.value = int(self.filled)
        self.dut.freed__ok.value = int(self.freed)
        self.dut.granted.value = int(cycle in self.grants)

    def sample(self, cycle):
        if int(self.dut.grant.value):
            self.seen["grant"].append(cycle)
        for kind in ("fill", "release"):
            if int(getattr(self.dut, f"{kind}__valid").value):
                self.seen[kind].append(cycle)
                self.buffers[kind].append(int(getattr(self.dut, f"{kind}__buffer").value))
        self.status = DimStatus.from_bits(int(self.dut.status.value))
        events = DimEvents.from_bits(int(self.dut.events.value))
        for name in self.counts:
            self.counts[name] += int(events[name])


class EngineBench:
    """Drives a dim engine; the parameters are ``contexts``, ``grants`` and ``address_bits``."""

    def __init__(self, dut, *, stalls=0.0):
        self.dut = dut
        bits = parameters()["address_bits"]
        self.bench = Bench(dut)

        def pauses(number):
            return random_stalls(seed() + number, stalls)

        self.sram = {a: (a * 0x9E3779B97F4A7C15F39CC0605CEDC835) & _DATA for a in range(1 << bits)}
        self.signals = self.bench.add(_Signals(dut))
        self.ops = self.bench.add(StreamSource(dut, "op"))
        self.source = self.bench.add(StreamSource(dut, "i", stalls=pauses(1)))
        self.sink = self.bench.add(StreamSink(dut, "o", stalls=pauses(2)))
        self.tx_read = self.bench.add(SramReadPort(dut, "tx_read", self.sram, stalls=pauses(3)))
        self.rx_read = self.bench.add(SramReadPort(dut, "rx_read", self.sram, stalls=pauses(4)))
        self.tx_write = self.bench.add(
            SramWritePort(dut, "tx_write", self.sram, address_bits=bits, stalls=pauses(5))
        )
        self.rx_write = self.bench.add(
            SramWritePort(dut, "rx_write", self.sram, address_bits=bits, stalls=pauses(6))
        )
        for name in ("op", "i", "o", "tx_read__request", "tx_write__request", "rx_write__request"):
            self.bench.add(StreamMonitor(dut, name))
        for kind in ("tx", "rx"):
            getattr(dut, f"{kind}_program__valid").value = 0

    async def begin(self, sends=(), receives=()):
        """Reset and write the programs, from step 0 on."""
        await self.bench.reset()
        for kind, layout, steps in (("tx", TxStep, sends), ("rx", RxStep, receives)):
            for index, step in enumerate(steps):
                getattr(self.dut, f"{kind}_program__valid").value = 1
                getattr(self.dut, f"{kind}_program__index").value = index
                default = {"last_bytes": 16} if kind == "tx" else {}
                word = encode(layout, default | step)
                getattr(self.dut, f"{kind}_program__step").value = word
                await self.bench.step()
            getattr(self.dut, f"{kind}_program__valid").value = 0

    def op(self, sends=0, receives=0, *, tx=0, rx=0, source=0, destination=0, **values):
        default = {"kind": RecordKind.OP, "data_type": DataType.INT32, "collective": 9}
        default |= {"tx_program": tx, "tx_count": sends, "rx_program": rx, "rx_count": receives}
        default |= {"source_address": source, "destination_address": destination}
        self.ops.send([encode(Op, default | values)])

    def message(self, op, step, flits, *, packet=None, sequence=0):
        """Queue a message at the input, cut into packets."""
        packet = packet or len(flits)
        for begin in range(0, len(flits), packet):
            part = flits[begin : begin + packet]
            values = {"op": op, "step": step, "sequence": sequence + begin, "collective": 9}
            values |= {"length": 16 * len(part), "last": int(begin + packet >= len(flits))}
            self.source.send([encode(PacketHeader, values) | HEAD])
            self.source.send(
                [flit | (LAST if i == len(part) - 1 else 0) for i, flit in enumerate(part)]
            )

    async def ended(self, count, limit=3000):
        await self.bench.until(
            lambda: len(self.signals.seen["fill"]) == count,
            limit=limit,
            stuck=f"{len(self.signals.seen['fill'])} of {count} ops ended: {self.signals.status}",
        )
        await self.bench.step(3)

    def packets(self):
        """What was sent: (header, payload) per packet."""
        out: list[tuple[Any, list[int]]] = []
        for flit in self.sink.items:
            if flit & HEAD:
                out.append((PacketHeader.from_bits(flit & _DATA), []))
                assert not flit & LAST
            else:
                out[-1][1].append(flit & _DATA)
        return out
