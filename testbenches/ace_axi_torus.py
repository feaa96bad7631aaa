"""A torus of 2 x 2 engines on AXI with two classes: what they run, and what comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sim_top.records import RecordCompiler, descriptor_bytes
from sw_model.collective.plan import Collective, Operation
from sw_model.platform import EngineParameters, Partition, Platform
from sw_model.schedule.options import PlanBook, ScheduleOptions
from sw_model.topology import Dim, DimKind, Topology

__all__ = ["CLASSES", "FLIT", "TORUS", "Traffic", "Work", "sram_flits", "traffic", "works"]

FLIT = 16
CLASSES = ("mp", "dp")
_RING = Dim(DimKind.RING, 2, Fraction(16 * 10**9), 10_000)
TORUS = Platform.from_topology(
    Topology((_RING, _RING)),
    clock_hz=10**9,
    engine=EngineParameters(
        flit_bytes=FLIT,
        contexts=2,
        partitions=(Partition(4, 16), Partition(4, 8), Partition(4, 8), Partition(4, 16)),
        sram_banks=4,
        packet_bytes=4 * FLIT,
        program_steps=16,
        queue_depth=4,
        classes=CLASSES,
    ),
)
_DTYPES: dict[str, np.dtype] = {"int32": np.dtype("<i4"), "fp16": np.dtype("<f2")}


@dataclass(frozen=True)
class Work:
    """A collective of all ranks, ready to be posted.

    Parameters
    ----------
    request : what is asked for
    identity : its id
    descriptors : by rank
    place, source, result : flits in memory: of the descriptor, the contributions, the result
    values : contributions, (ranks, elements)
    chunks : how many it is cut into, all equal
    """

    request: Collective
    identity: int
    descriptors: tuple[bytes, ...]
    place: int
    source: int
    result: int
    values: NDArray
    chunks: int

    @property
    def lane(self) -> int:
        """The place of its class."""
        return CLASSES.index(self.request.traffic_class)

    @property
    def flits(self) -> tuple[int, int]:
        """Of a rank's contribution, and of its result."""
        loaded = self.values[0].nbytes // FLIT
        return loaded, loaded // (1 if self.request.operation is Operation.ALL_REDUCE else 4)

    def expected(self, rank: int) -> bytes:
        """The result of a rank, by NumPy: in whole numbers, no order of the sum shows."""
        total = self.values.sum(axis=0, dtype=self.values.dtype)
        if self.request.operation is Operation.REDUCE_SCATTER:
            total = total.reshape(len(self.values), -1)[rank]
        return total.tobytes()


def works(
    requests: Sequence[tuple[Operation, str, str, int, int]], generator: np.random.Generator
) -> list[Work]:
    """Collectives in the order in which all ranks post them.

    Parameters
    ----------
    requests : operation, class, data type, flits of a contribution, chunks of each
    generator : of the contributions: 32-bit numbers whose sums overflow, or small ones in FP16
    """
    compilers = {
        (rank, lane): RecordCompiler(TORUS, rank, {}, lane)
        for rank in range(TORUS.topology.npus)
        for lane in range(len(CLASSES))
    }
    chunks = {row[-1] for row in requests}
    assert len(chunks) == 1, "a plan book has one number of chunks"
    book = PlanBook(TORUS, ScheduleOptions("baseline", "fifo", chunks.pop()))
    free = 0
    out = []
    for number, (operation, name, data_type, flits, count) in enumerate(requests):
        dtype = _DTYPES[data_type]
        shape = (TORUS.topology.npus, flits * FLIT // dtype.itemsize)
        limit = 1 << 31 if data_type == "int32" else 200
        values = generator.integers(-limit, limit, shape).astype(dtype)
        request = Collective(operation, shape[1], data_type, traffic_class=name, dims=(0, 1))
        plan = book.plan(number, request)
        identity = 0x1234 + 0x1111 * number
        source, result, place = free, free + flits, free + 2 * flits
        descriptors = tuple(
            descriptor_bytes(
                compilers[rank, CLASSES.index(name)].compile(
                    plan, collective=identity, source=source, result=result, begin=True
                )
            )
            for rank in range(len(values))
        )
        # Behind a descriptor lies what its last burst may read.
        free = place + max(map(len, descriptors)) // FLIT + 64
        out.append(
            Work(request, identity, descriptors, place, source, result, values, len(plan.chunks))
        )
        assert out[-1].chunks == count
    return out


@dataclass
class Traffic:
    """What a rank's lane does on one dim, in flits; see ``rtl.ace.counters.DimCounters``."""

    flits_sent: int = 0
    headers_sent: int = 0
    flits_received: int = 0
    reductions: int = 0
    sent_on: int = 0  # from the forwarding buffer or from SRAM


def traffic(posted: Sequence[Work]) -> list[Traffic]:
    """Of every dim of every class, in the registers' order, after some collectives.

    Of a chunk of C flits a ring of 2 sends and reduces C / 2 to scatter it, and the other one then
    C / 4; to gather, the same the other way round. Only where one op does both, on the last dim of
    an all-reduce, is what comes sent on.
    """
    out = [Traffic() for _ in CLASSES for _ in range(2)]
    for work in posted:
        chunk = work.flits[0] // work.chunks
        reduces = work.request.operation is Operation.ALL_REDUCE
        for dim, message in enumerate((chunk // 2, chunk // 4)):
            count = work.chunks * (2 if reduces else 1)
            headers = -(-message // (TORUS.engine.packet_bytes // FLIT))
            row = out[2 * work.lane + dim]
            row.headers_sent += count * headers
            row.flits_sent += count * (headers + message)
            row.flits_received += count * (headers + message)
            row.reductions += work.chunks * message
            row.sent_on += work.chunks * message if reduces and dim == 1 else 0
    return out


def sram_flits(posted: Sequence[Work]) -> tuple[int, int]:
    """Read and written in the SRAM, if nothing that is sent on were read beside it.

    Every received flit is written, every one that is reduced has its partner read; loads write and
    stores read; to gather a chunk that an earlier op has scattered, its own half is copied.
    """
    reads = writes = 0
    for work in posted:
        loaded, stored = work.flits
        rows = traffic([work])
        payload = sum(row.flits_sent - row.headers_sent for row in rows)
        reads += payload + sum(row.reductions for row in rows) + stored
        copied = loaded // 2 if work.request.operation is Operation.ALL_REDUCE else 0
        writes += loaded + payload + copied
    return reads, writes
