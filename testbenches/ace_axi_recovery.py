"""Planned collectives on engines on AXI in 2 x 2 rings, for test benches."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim_top.records import RecordCompiler
from sw_model.collective.check import check_plan
from sw_model.collective.plan import Collective, Operation
from sw_model.platform import EngineParameters, MemoryParameters, Partition, Platform
from sw_model.schedule.limits import Limits
from sw_model.schedule.options import PlanBook, ScheduleOptions
from sw_model.topology import Dim, DimKind, Topology
from testbenches.ace_axi_collectives import Collectives

__all__ = ["PLATFORM", "PlannedWork", "TorusCollectives"]

PLATFORM = Platform.from_topology(
    Topology((Dim(DimKind.RING, 2, Fraction(16 * 10**9), 10_000),) * 2),
    clock_hz=10**9,
    engine=EngineParameters(
        partitions=(Partition(2, 16), Partition(2, 8), Partition(2, 8), Partition(2, 16)),
        contexts=2,
        sram_banks=4,
        packet_bytes=64,
        program_steps=32,
        data_types=("int32",),
    ),
    memory=MemoryParameters(words=8192),
)


@dataclass(frozen=True)
class PlannedWork:
    """One collective: what it is, who takes part in it with whom, and the records of every rank."""

    request: Collective
    groups: tuple[tuple[int, ...], ...]
    collective: int
    source: int
    result: int
    codes: tuple[list[int], ...]

    def records(self, rank: int) -> list[int]:
        """Of a rank, END not included."""
        return self.codes[rank]

    def group(self, rank: int) -> tuple[int, ...]:
        """Whoever has a part in the result of a rank."""
        return next(group for group in self.groups if rank in group)


class TorusCollectives(Collectives):
    """Collectives of integers, planned; parameters ``operation`` (a name of :class:`Operation`),
    ``scheduler``, ``chunks`` and ``chunk_flits``."""

    def __init__(self, dut: Any) -> None:
        super().__init__(dut, sizes=[dim.size for dim in PLATFORM.topology.dims])
        p, limits = self.p, Limits.of(PLATFORM)
        self._book = PlanBook(
            PLATFORM,
            ScheduleOptions(p["scheduler"], "fifo", p["chunks"]),
            check=lambda plan: check_plan(plan, limits=limits),
        )
        ranks = range(PLATFORM.topology.npus)
        self._compilers = [RecordCompiler(PLATFORM, rank, {}) for rank in ranks]

    def work(self, **changes: Any) -> PlannedWork:
        """The next collective, over both dims, or those that ``dims`` says."""
        dims = tuple(changes.get("dims", (0, 1)))
        number = self.number
        self.number += 1
        request = Collective(
            Operation[self.p["operation"]],
            4 * self.p["chunk_flits"] * self.p["chunks"],
            "int32",
            dims=dims,
        )
        plan = self._book.plan(number, request)
        place, name = number % 4, 100 + number
        source, result = 2048 + 512 * place, 4096 + 512 * place
        codes = tuple(
            compiler.compile(plan, collective=name, source=source, result=result, begin=True)
            for compiler in self._compilers
        )
        groups = {0: ((0, 1), (2, 3)), 1: ((0, 2), (1, 3))}
        shared = groups[dims[0]] if len(dims) == 1 else ((0, 1, 2, 3),)
        return PlannedWork(request, shared, name, source, result, codes)

    def contributed(self, work: Any) -> NDArray[Any]:
        """See the class this is derived from."""
        shape = (PLATFORM.topology.npus, work.request.elements)
        return self.generator.integers(-(2**31), 2**31, shape).astype(np.int32)

    def expected(self, work: Any, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Sums of integers, the same in any order; of a reduce-scatter, a rank's part of them."""
        out = []
        for rank in range(len(values)):
            group = work.group(rank)
            total = values[list(group)].sum(axis=0, dtype=np.int32)
            if work.request.operation is Operation.REDUCE_SCATTER:
                total = np.split(total, len(group))[group.index(rank)]
            else:
                assert work.request.operation is Operation.ALL_REDUCE
            out.append(total)
        return out
