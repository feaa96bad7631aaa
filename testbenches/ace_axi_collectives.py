"""Collectives on engines on AXI of which one may refuse, fail or be aborted, for test benches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiResp
from numpy.typing import NDArray

from rtl.ace.layouts import RecordKind
from rtl.ace.status import CompletionStatus
from rtl.common.packet import DataType
from sw_model.fred.configuration import Configuration, Flow
from sw_model.fred.routing import route
from sw_model.fred.table import entry_image
from testbenches import parameters, seed
from testbenches.ace_axi import MEMORY_BYTES, AxiGroup
from testbenches.ace_records import FredChunks, RingChunks, descriptor
from testbenches.ace_ring_values import contributions, results

__all__ = ["FLIT", "HALF", "Change", "Collectives", "changed"]

FLIT = 16
HALF = MEMORY_BYTES // FLIT // 2
"""Flits of memory that are the engine's."""

_UNTOUCHED = b"\xa5"

Change = Callable[[list[int]], list[int]]


def changed(kind: RecordKind, layout, number: int, values: Mapping[str, int]) -> Change:
    """Put other values into the ``number``-th record of a kind."""

    def change(records: list[int]) -> list[int]:
        places = [i for i, word in enumerate(records) if word & 15 == kind]
        word = records[places[number]]
        for name, value in values.items():
            field = layout.as_shape()[name]
            word &= ~(((1 << field.width) - 1) << field.offset)
            word |= value << field.offset
        return [*records[: places[number]], word, *records[places[number] + 1 :]]

    return change


class Work(Protocol):
    """A collective on all ranks: its id, its regions in memory in flits, and its records."""

    @property
    def collective(self) -> int: ...

    @property
    def source(self) -> int: ...

    @property
    def result(self) -> int: ...

    def records(self, rank: int) -> list[int]: ...


class Collectives:
    """Runs collectives one after another on a group, each with fresh regions and epochs.

    Here they are hand-made ones on a ring or around a switch; others in a class derived from this.

    Parameters
    ----------
    dut : the group
    sizes : of its dims; one dim of all ranks by default
    changes : of the bench's parameters
    """

    def __init__(self, dut: Any, *, sizes: Sequence[int] = (), **changes: Any) -> None:
        logging.getLogger("cocotb").setLevel(logging.WARNING)
        p = parameters() | changes
        self.p = p
        self.group = AxiGroup(
            dut,
            sizes=sizes or [p["ranks"]],
            expected=p["expected"],
            seed=seed(),
            stall=p.get("stall", 0),
            links=not p.get("fred"),
        )
        self.dut = dut
        self.engines = self.group.engines
        self.generator = np.random.default_rng(seed())
        self.number = 0
        self.used = 0

    async def begin(self) -> None:
        if self.p.get("fred"):
            everyone = tuple(range(self.p["ranks"]))
            kind = {"traffic_class": "dp", "data_type": "int32", "operator": "sum"}
            routed = route(len(everyone), 3, [Flow(everyone, everyone, **kind)])
            assert isinstance(routed, Configuration)
            self.dut.entry.value = entry_image(routed)
            self.dut.write.value = 0
        await self.group.begin()
        if self.p.get("fred"):
            self.dut.write.value = 1
            await ClockCycles(self.dut.clk, 1)
            self.dut.write.value = 0
            await ClockCycles(self.dut.clk, 8)
        for engine in self.engines:
            # The upper half of memory is not the engine's.
            await engine.region(1, 0, HALF)
            await engine.write("INTERRUPT_ENABLE", 1)

    def work(self, **changes: Any) -> Any:
        """The next collective; there is room for four at a time."""
        p = self.p
        self.number += 1
        place = self.number % 4
        shape = {
            "operation": p["operation"],
            "ranks": p["ranks"],
            "chunk_flits": p["chunk_flits"],
            "chunks": p["chunks"],
            "data_type": DataType.INT32,
            "sources": 4,
            "destinations": 4,
            "source": 2048 + 512 * place,
            "result": 4096 + 512 * place,
            "collective": 100 + self.number,
            "first_use": self.used,
            "begin": {},
        }
        work = (FredChunks if p.get("fred") else RingChunks)(**shape | changes)
        self.used += work.chunks
        return work

    def place(self, work: Work, others: Mapping[int, tuple[Work, Change]]):
        """Fill the memories; ``others`` are ranks that do something else than all."""
        values = self.contributed(work)
        for rank, engine in enumerate(self.engines):
            own, change = others.get(rank, (work, list))
            code = descriptor(change(own.records(rank)))
            address = self.descriptor(work)
            assert len(code) <= 256 * FLIT
            engine.memory.write(FLIT * address, code)
            engine.memory.write(FLIT * work.source, values[rank].tobytes())
            engine.memory.write(FLIT * work.result, _UNTOUCHED * (512 * FLIT))
        return values

    def descriptor(self, work: Work) -> int:
        """Its address."""
        return 256 * (work.collective % 4)

    async def ring(self, work: Work) -> None:
        for engine in self.engines:
            assert await engine.write("DOORBELL", self.descriptor(work)) is AxiResp.OKAY

    async def statuses(self, work: Work) -> list[CompletionStatus]:
        """Wait until all have completed."""
        out = []
        for engine in self.engines:
            collective, status = await engine.completion()
            assert collective == work.collective, (engine.rank, collective, status)
            out.append(status)
        return out

    def contributed(self, work: Any) -> NDArray[Any]:
        """What every rank brings, at random."""
        return contributions(work, self.generator)

    def expected(self, work: Any, values: NDArray[Any]) -> list[NDArray[Any]]:
        """What every rank must get."""
        return results(work, values)

    def right(self, work: Work, values, ranks=None) -> None:
        """The results of these ranks."""
        for rank, expected in enumerate(self.expected(work, values)):
            if ranks is None or rank in ranks:
                got = self.engines[rank].memory.read(FLIT * work.result, expected.nbytes)
                assert got == expected.tobytes(), f"rank {rank} of collective {work.collective}"

    def untouched(self, work: Work, ranks=None) -> None:
        for rank, engine in enumerate(self.engines):
            if ranks is None or rank in ranks:
                got = engine.memory.read(FLIT * work.result, 512 * FLIT)
                assert got == _UNTOUCHED * len(got), f"rank {rank} of {work.collective}"

    async def good(self) -> None:
        """A collective that must be right on all ranks."""
        work = self.work()
        values = self.place(work, {})
        await self.ring(work)
        assert set(await self.statuses(work)) == {CompletionStatus.OK}
        self.right(work, values)

    async def aborts(self, *, latest: int) -> None:
        """Hosts give collectives up, on one rank or on the first and the last, at any of so many
        cycles: who says OK is right, who is wrong says so, what was rung behind is right."""
        s, last = CompletionStatus, len(self.engines) - 1
        seen = set()
        for turn in range(self.p["turns"]):
            bad = self.work()
            values = self.place(bad, {})
            good = self.work()
            values_good = self.place(good, {})
            await self.ring(bad)
            await self.ring(good)
            await ClockCycles(self.dut.clk, int(self.generator.integers(1, latest)))
            who = {turn % len(self.engines)} if turn % 3 else {0, last}
            for rank in who:
                await self.engines[rank].write("ABORT", bad.collective)
                await self.engines[rank].write("ABORT", 0xFFFF)  # at work nowhere: no effect
            ended = await self.statuses(bad)
            for rank, status in enumerate(ended):
                allowed = {s.OK, s.PEER_ERROR} | ({s.ABORTED} if rank in who else set())
                assert status in allowed, ended
                if status is s.OK:
                    self.right(bad, values, [rank])
            if s.PEER_ERROR in ended:
                assert s.ABORTED in ended, ended
            seen |= set(ended)
            assert set(await self.statuses(good)) == {s.OK}
            self.right(good, values_good)
        assert {s.ABORTED, s.PEER_ERROR} <= seen, seen

    def others(self, rank: int) -> list[int]:
        return [r for r in range(self.p["ranks"]) if r != rank]
