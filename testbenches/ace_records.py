"""Hand-made descriptors for test benches of the engine: ring collectives on one dim.

Written from docs/ace.md alone, apart from the plan compiler, so that each checks the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from amaranth.lib import data

from rtl.ace.layouts import (
    RECORD_BYTES,
    Begin,
    CollectiveKind,
    Load,
    Op,
    Program,
    RecordKind,
    RxStep,
    Store,
    TxStep,
)

__all__ = ["FredChunks", "RingChunks", "bounds", "descriptor", "encode", "ring_steps"]

_KINDS = {"ar": "ALL_REDUCE", "rs": "REDUCE_SCATTER", "ag": "ALL_GATHER"}


def encode(layout: type[data.Struct], values: Mapping[str, int]) -> int:
    """The bits of a record or step; refuses what does not fit."""
    word = 0
    for name, value in values.items():
        place = layout.as_shape()[name]
        assert 0 <= value < 1 << place.width, (layout.__name__, name, value)
        word |= value << place.offset
    return word


def descriptor(records: Iterable[int]) -> bytes:
    """Records as they lie in memory, closed by END."""
    words = [*records, encode(Program, {"kind": RecordKind.END})]
    return b"".join(word.to_bytes(RECORD_BYTES, "little") for word in words)


def bounds(flits: int, ranks: int) -> list[int]:
    """Shard i is ``[bounds[i], bounds[i + 1])``."""
    return [i * flits // ranks for i in range(ranks + 1)]


def ring_steps(
    operation: str, flits: int, ranks: int, i: int, flit_bytes: int = 16
) -> tuple[list[int], list[int]]:
    """Send and receive steps of coordinate ``i`` on a unidirectional ring.

    ``operation`` is "rs", "ag" or "ar"; ``flits`` are those of the whole chunk (for "ag" of the
    result), at least one per shard.
    """
    edge = bounds(flits, ranks)
    length = [edge[s + 1] - edge[s] for s in range(ranks)]
    assert min(length) > 0
    sends: list[dict[str, int]] = []
    receives: list[dict[str, int]] = []
    own = i % ranks
    if operation in ("rs", "ar"):
        for s in range(ranks - 1):
            shard = (i - 1 - s) % ranks
            sends.append({"offset": edge[shard], "length": length[shard]})
            shard = (i - 2 - s) % ranks
            last = s == ranks - 2
            target = (edge[own] if operation == "ar" else 0) if last else edge[shard]
            receives.append(
                {
                    "reduce": 1,
                    "into_destination": int(last),
                    "offset": edge[shard],
                    "write_offset": target,
                    "length": length[shard],
                }
            )
    if operation in ("ag", "ar"):
        for s in range(ranks - 1):
            shard = (i - s) % ranks
            send = {"from_destination": 1, "offset": edge[shard], "length": length[shard]}
            if operation == "ag" and s == 0:
                send = {"offset": 0, "length": length[shard], "copy": 1, "copy_offset": edge[shard]}
            sends.append(send)
            shard = (i - 1 - s) % ranks
            receives.append(
                {"into_destination": 1, "write_offset": edge[shard], "length": length[shard]}
            )
    for s, send in enumerate(sends):
        send |= {"step": s, "last_bytes": flit_bytes, "chase": int(s > 0), "after": max(0, s - 1)}
    return [encode(TxStep, s) for s in sends], [encode(RxStep, r) for r in receives]


@dataclass(frozen=True)
class RingChunks:
    """A collective of equal chunks, each one op on dim 0.

    Parameters
    ----------
    operation : "rs", "ag" or "ar"
    ranks : size of the ring
    chunk_flits : flits of a whole chunk
    chunks : how many
    data_type : code
    sources, destinations : buffers of the two partitions
    source, result : flit addresses of the regions in memory; the chunks lie one after another
    collective : id
    first_use : chunks that used the buffers before (for epochs)
    program : first step in both program memories
    begin : fields of a BEGIN record in front, over the right ones; None: no such record
    traffic_class : code
    sram : first flit of its buffers in the SRAM
    """

    operation: str
    ranks: int
    chunk_flits: int
    chunks: int
    data_type: int
    sources: int
    destinations: int
    source: int
    result: int
    collective: int = 1
    first_use: int = 0
    program: int = 0
    begin: Mapping[str, int] | None = None
    traffic_class: int = 2
    sram: int = 0

    def shares(self, rank: int) -> tuple[int, int]:
        """Flits of a chunk in the source and in the destination buffer of a rank."""
        edge = bounds(self.chunk_flits, self.ranks)
        own = edge[rank + 1] - edge[rank]
        return (
            own if self.operation == "ag" else self.chunk_flits,
            own if self.operation == "rs" else self.chunk_flits,
        )

    def steps(self, rank: int) -> tuple[list[int], list[int]]:
        """Send and receive steps of an op."""
        return ring_steps(self.operation, self.chunk_flits, self.ranks, rank)

    def records(self, rank: int) -> list[int]:
        """The records of a rank, END not included."""
        sends, receives = self.steps(rank)
        records = [] if self.begin is None else [self._begin(rank, len(sends))]
        records += [
            encode(
                Program,
                {
                    "kind": RecordKind.PROGRAM,
                    "receive": receive,
                    "index": self.program + index,
                    "step": step,
                },
            )
            for receive, steps in enumerate((sends, receives))
            for index, step in enumerate(steps)
        ]
        for chunk in range(min(self.sources, self.chunks)):
            records.append(self._load(rank, chunk))
        for chunk in range(self.chunks):
            records.append(self._op(chunk, len(sends), len(receives)))
            if chunk + self.sources < self.chunks:
                records.append(self._load(rank, chunk + self.sources))
            records.append(self._store(rank, chunk))
        return records

    def _begin(self, rank: int, steps: int) -> int:
        loaded, stored = self.shares(rank)
        values = {
            "kind": RecordKind.BEGIN,
            "operation": CollectiveKind[_KINDS[self.operation]],
            "traffic_class": self.traffic_class,
            "data_type": self.data_type,
            "collective": self.collective,
            "source": self.source,
            "source_bytes": 16 * self.chunks * loaded,
            "result": self.result,
            "result_bytes": 16 * self.chunks * stored,
            "program_steps": self.program + steps,
        }
        return encode(Begin, values | dict(self.begin or {}))

    def _source(self, chunk: int) -> tuple[int, int, int]:
        epoch, buffer = divmod(self.first_use + chunk, self.sources)
        return buffer, epoch % 256, self.sram + buffer * self.chunk_flits

    def _destination(self, chunk: int) -> tuple[int, int, int]:
        epoch, buffer = divmod(self.first_use + chunk, self.destinations)
        number = self.sources + buffer
        return number, epoch % 256, self.sram + number * self.chunk_flits

    def _load(self, rank: int, chunk: int) -> int:
        buffer, epoch, address = self._source(chunk)
        flits = self.shares(rank)[0]
        values = {"kind": RecordKind.LOAD, "first": 1, "final": 1, "buffer": buffer}
        values |= {"epoch": epoch, "sram_address": address, "length": flits, "last_bytes": 16}
        values |= {"collective": self.collective}
        return encode(Load, values | {"memory_address": self.source + chunk * flits})

    def _op(self, chunk: int, sends: int, receives: int) -> int:
        source, destination = self._source(chunk), self._destination(chunk)
        values = {
            "kind": RecordKind.OP,
            "traffic_class": self.traffic_class,
            "data_type": self.data_type,
        }
        values |= {"collective": self.collective}
        values |= {"tx_program": self.program, "tx_count": sends}
        values |= {"rx_program": self.program, "rx_count": receives}
        for name, (buffer, epoch, address) in (("source", source), ("destination", destination)):
            values |= {name: buffer, f"{name}_epoch": epoch, f"{name}_address": address}
        return encode(Op, values)

    def _store(self, rank: int, chunk: int) -> int:
        buffer, epoch, address = self._destination(chunk)
        flits = self.shares(rank)[1]
        values = {"kind": RecordKind.STORE, "first": 1, "final": 1, "buffer": buffer}
        values |= {"epoch": epoch, "sram_address": address, "length": flits, "last_bytes": 16}
        values |= {"complete": int(chunk == self.chunks - 1), "collective": self.collective}
        return encode(Store, values | {"memory_address": self.result + chunk * flits})


class FredChunks(RingChunks):
    """All-reduce by a switch: every op is one flow, configuration 0, from all to all."""

    def steps(self, rank: int) -> tuple[list[int], list[int]]:
        length = {"length": self.chunk_flits}
        return (
            [encode(TxStep, length | {"last_bytes": 16})],
            [encode(RxStep, length | {"into_destination": 1})],
        )


def concatenate(parts: Sequence[list[int]]) -> list[int]:
    """Records of several collectives in one descriptor."""
    return [record for part in parts for record in part]
