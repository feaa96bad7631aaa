"""Engines on AXI with the models around them: memories, hosts and links, all of them stalling."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import (
    AxiBus,
    AxiLiteBus,
    AxiLiteMaster,
    AxiRam,
    AxiResp,
    AxiStreamBus,
    AxiStreamFrame,
    AxiStreamSink,
    AxiStreamSource,
)

from rtl.ace.status import CompletionStatus
from rtl.axi.register_map import Register, registers
from testbenches.axi_monitor import AxiMonitor, stays

__all__ = ["AxiEngine", "AxiGroup"]

MEMORY_BYTES = 1 << 18
_RESPONSES = {"b": ("resp",), "r": ("data", "resp")}


def _stalls(generator: random.Random, percent: int) -> Iterator[bool]:
    """Stalls of single cycles and of whole stretches."""
    while True:
        if generator.randrange(100) < percent:
            yield from (True for _ in range(generator.choice((1, 1, 2, 8))))
        else:
            yield from (False for _ in range(generator.choice((1, 1, 2, 8))))


def _streams(dims: int, classes: Sequence[str]) -> list[tuple[int, str]]:
    """(dim, what its streams are called) of every link of an engine."""
    return [
        (dim, f"{dim}_{name}" if name else f"{dim}")
        for name in classes or ("",)
        for dim in range(dims)
    ]


class AxiEngine:
    """One engine with its memory and its host.

    Parameters
    ----------
    dut : the group
    rank : which
    dims, classes : of the engine; the classes' names, in small letters, where there are several
    expected : see :class:`testbenches.axi_monitor.AxiMonitor`
    links : its streams are ports of the group
    """

    def __init__(
        self,
        dut: Any,
        rank: int,
        *,
        dims: int,
        expected: Mapping[str, int],
        links: bool,
        classes: Sequence[str] = (),
    ) -> None:
        prefix = f"r{rank}"
        clocked = (dut.clk, dut.rst)
        self.clk = dut.clk
        self._dut = dut
        self.rank = rank
        self.interrupt = getattr(dut, f"{prefix}_irq")
        self.memory = AxiRam(
            AxiBus.from_prefix(dut, f"{prefix}_m_axi"), *clocked, size=MEMORY_BYTES
        )
        self.host = AxiLiteMaster(AxiLiteBus.from_prefix(dut, f"{prefix}_s_axi"), *clocked)
        self.monitor = AxiMonitor(dut, f"{prefix}_m_axi", dict(expected))
        lanes = max(1, len(classes))
        rows = registers(dims=dims * lanes, regions=4, lanes=lanes)
        self.table: dict[str, Register] = {r.name: r for r in rows}
        self.accesses = {"read": 0, "write": 0}
        self.sinks: dict[str, AxiStreamSink] = {}
        self.sources: dict[str, AxiStreamSource] = {}
        for _, name in _streams(dims if links else 0, classes):
            for kind in ("", "grant_"):
                sink = AxiStreamBus.from_prefix(dut, f"{prefix}_m_axis_{kind}{name}")
                source = AxiStreamBus.from_prefix(dut, f"{prefix}_s_axis_{kind}{name}")
                self.sinks[f"{kind}{name}"] = AxiStreamSink(sink, *clocked)
                self.sources[f"{kind}{name}"] = AxiStreamSource(source, *clocked)

    def watch(self) -> None:
        """Check the rules of all ports, from now on."""
        cocotb.start_soon(self.monitor.run())
        prefix = f"r{self.rank}"
        channels: list[tuple[str, tuple[str, ...]]] = [
            (f"{prefix}_s_axi_{c}", names) for c, names in _RESPONSES.items()
        ]
        for name in self.sinks:
            user = () if "grant" in name else ("user",)
            channels.append((f"{prefix}_m_axis_{name}_t", ("data", "last", *user)))
        for port, payload in channels:
            names = (f"{port}{part}" for part in ("valid", "ready", *payload))
            cocotb.start_soon(stays(self._dut, *names))

    def channels(self) -> dict[str, Any]:
        """Everything that can stall, by name."""
        ram, host = self.memory, self.host
        return {
            "aw": ram.write_if.aw_channel,
            "w": ram.write_if.w_channel,
            "b": ram.write_if.b_channel,
            "ar": ram.read_if.ar_channel,
            "r": ram.read_if.r_channel,
            "host aw": host.write_if.aw_channel,
            "host w": host.write_if.w_channel,
            "host b": host.write_if.b_channel,
            "host ar": host.read_if.ar_channel,
            "host r": host.read_if.r_channel,
            **{f"from {name}": sink for name, sink in self.sinks.items()},
            **{f"to {name}": source for name, source in self.sources.items()},
        }

    def stall(self, generator: random.Random, percent: int) -> None:
        """Let every channel stall at random."""
        for channel in self.channels().values():
            channel.set_pause_generator(_stalls(random.Random(generator.random()), percent))

    def address(self, name: str, number: int = 0) -> int:
        """Of a register."""
        return self.table[name].addresses()[number]

    async def read(self, name: str, number: int = 0) -> int:
        """A register, or both halves of a 64-bit one."""
        self.accesses["read"] += 1
        address = self.address(name, number)
        low = await self.host.read(address, 4)
        assert low.resp is AxiResp.OKAY, (name, low)
        value = int.from_bytes(low.data, "little")
        if self.table[name].wide:
            value |= int.from_bytes((await self.host.read(address + 4, 4)).data, "little") << 32
        return value

    async def write(self, name: str, value: int, number: int = 0) -> AxiResp:
        """Write a register; the response."""
        self.accesses["write"] += 1
        answer = await self.host.write(self.address(name, number), value.to_bytes(4, "little"))
        return answer.resp

    async def fields(self, name: str, number: int = 0) -> dict[str, int]:
        """The fields of a register."""
        value = await self.read(name, number)
        return {f.name: value >> f.low & ((1 << f.width) - 1) for f in self.table[name].fields}

    async def region(self, number: int, first: int, flits: int, *, access: int = 3) -> None:
        """Register a memory region; bit 0 of ``access`` lets the engine read it, bit 1 write."""
        await self.write("REGION_BASE", first, number)
        await self.write("REGION_LIMIT", first + flits - 1, number)
        await self.write("REGION_ACCESS", access, number)

    async def open_memory(self) -> None:
        """Let the engine touch all of its memory."""
        await self.region(0, 0, MEMORY_BYTES // 16)

    async def completion(self, cycles: int = 50_000) -> tuple[int, CompletionStatus]:
        """Wait for the interrupt and take a completion: collective and status."""
        await self.interrupted(cycles, self.clk)
        fields = await self.fields("COMPLETION")
        assert fields["valid"] == 1
        return fields["collective"], CompletionStatus(fields["status"])

    async def interrupted(self, cycles: int, clk: Any) -> None:
        """Wait for the interrupt, without looking at anything else."""
        for _ in range(cycles):
            await RisingEdge(clk)
            if int(self.interrupt.value):
                return
        raise TimeoutError(f"rank {self.rank}: no interrupt in {cycles} cycles")


class AxiGroup:
    """Rings of engines on every dim: coordinate i sends to coordinate i + 1.

    Parameters
    ----------
    dut : an :class:`testbenches.ace_axi_ring.AceAxiGroup`
    sizes : of the rings of each dim, innermost first
    classes : see :class:`AxiEngine`
    expected : attributes of the memory ports
    seed : of all stalls
    stall : per cent of the turns in which a channel stalls
    links : the bench carries what the engines send one another; else the group joins them itself
    """

    def __init__(
        self,
        dut: Any,
        *,
        sizes: Sequence[int],
        expected: Mapping[str, int],
        seed: int,
        stall: int = 0,
        links: bool = True,
        classes: Sequence[str] = (),
    ) -> None:
        self.dut = dut
        self.clk = dut.clk
        self.engines = [
            AxiEngine(dut, r, dims=len(sizes), expected=expected, links=links, classes=classes)
            for r in range(prod(sizes))
        ]
        self._streams = _streams(len(sizes) if links else 0, classes)
        self._sizes = sizes
        generator = random.Random(seed)
        if stall:
            for engine in self.engines:
                engine.stall(generator, stall)

    async def begin(self) -> None:
        """Clock, reset, and the carriers between the engines."""
        Clock(self.clk, 2, unit="ns").start()
        self.dut.rst.value = 1
        await ClockCycles(self.clk, 4)
        self.dut.rst.value = 0
        for rank, engine in enumerate(self.engines):
            engine.watch()
            for dim, name in self._streams:
                after, before = (self.engines[self._there(rank, dim, by)] for by in (1, -1))
                cocotb.start_soon(_carry(engine.sinks[name], after.sources[name]))
                name = f"grant_{name}"
                cocotb.start_soon(_carry(engine.sinks[name], before.sources[name]))
        await ClockCycles(self.clk, 2)

    def _there(self, rank: int, dim: int, by: int) -> int:
        """The rank that is ``by`` further on a dim's ring."""
        stride = prod(self._sizes[:dim])
        place = rank // stride % self._sizes[dim]
        return rank + ((place + by) % self._sizes[dim] - place) * stride


async def _carry(sink: AxiStreamSink, source: AxiStreamSource) -> None:
    """Frames from one engine to another, each when it has come in full."""
    while True:
        frame = await sink.recv(compact=False)
        await source.send(AxiStreamFrame(frame.tdata, tuser=frame.tuser or None))
