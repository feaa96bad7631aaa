"""From a plan to what an engine reads: step programs, records, descriptors.

The plan says what every rank does (``sw_model.collective``); this module only encodes it in the
layouts of ``rtl.ace.layouts``. Nothing is decided here but where a step program lies in a dim's
program memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

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
from rtl.common.packet import DataType, Operator, TrafficClass
from sim_top.configurations import FlowTable
from sw_model.collective.plan import BufferUse, Collective, CollectivePlan, Piece
from sw_model.collective.steps import load_pieces, store_pieces
from sw_model.endpoint.port_steps import PortReceive, PortSend, Wait, port_program
from sw_model.endpoint.switched_steps import engine_steps
from sw_model.errors import InputError
from sw_model.fred.tree.placement import flow_of
from sw_model.fred.tree.table import TreeTable
from sw_model.platform import EngineParameters, Platform

MAX_STEPS = 255  # of all ports, by the fields of an op

__all__ = ["BufferMap", "RecordCompiler", "descriptor_bytes", "pack"]


@cache
def _fields(layout: Any) -> dict[str, tuple[int, int]]:
    """Offset and width of every field of a layout."""
    shape = layout.as_shape()
    return {name: (f.offset, f.width) for name, f in shape}


def pack(layout: Any, values: Mapping[str, int]) -> int:
    """Bits of one record or step.

    Raises
    ------
    ValueError
        where a value does not fit its field: Amaranth itself would cut it in silence.
    """
    fields = _fields(layout)
    word = 0
    for name, value in values.items():
        offset, width = fields[name]
        if not 0 <= value < 1 << width:
            raise ValueError(
                f"{layout.__name__}.{name} must be in 0..{(1 << width) - 1}, not {value!r}"
            )
        word |= value << offset
    return word


@dataclass(frozen=True)
class BufferMap:
    """Where the buffers of a class lie in an engine's SRAM: number and first flit of each."""

    engine: EngineParameters
    lane: int = 0

    def number(self, use: BufferUse) -> int:
        """The scoreboard's number of a buffer: counts through the partitions."""
        return sum(p.buffers for p in self.engine.partitions[: use.partition]) + use.buffer

    def address(self, use: BufferUse) -> int:
        """First flit of a buffer."""
        before = self.lane * self.engine.lane_flits
        before += sum(p.buffers * p.flits for p in self.engine.partitions[: use.partition])
        return before + use.buffer * self.engine.partitions[use.partition].flits


#: The words of a program, by port.
Words = tuple[tuple[int, ...], ...]


@dataclass
class _ProgramMemory:
    """What the send or the receive step program memories of a dim's ports hold at this point of the
    record stream. A program begins at one place in all of them."""

    size: int
    used: int = 0
    starts: dict[Words, int] = field(default_factory=dict)

    def place(self, words: Words) -> tuple[int, bool] | None:
        """First step of a program and whether it must be written; None where it has no room."""
        if words in self.starts:
            return self.starts[words], False
        longest = max(len(part) for part in words)
        if self.used + longest > self.size:
            return None
        start, self.used = self.used, self.used + longest
        self.starts[words] = start
        return start, True

    def clear(self) -> None:
        self.used = 0
        self.starts.clear()


class RecordCompiler:
    """Encodes the plans of one rank, one after another, for its engine.

    Parameters
    ----------
    platform : what the engine can hold
    rank : whose records
    flows : by dim, the entries of its switches' configuration memories (FRED dims only)
    lane : place of the plans' class among those of the engine

    Notes
    -----
    A step program is written once and used by every op with the same steps. When a program
    memory is full, a ``FENCE`` lets all ops that use it end, and it is filled afresh.
    """

    def __init__(
        self,
        platform: Platform,
        rank: int,
        flows: Mapping[int, FlowTable | TreeTable],
        lane: int = 0,
    ) -> None:
        self.platform = platform
        self.rank = rank
        self.flows = flows
        self.buffers = BufferMap(platform.engine, lane)
        size = platform.engine.program_steps
        dims = range(len(platform.topology.dims))
        self._sends = [_ProgramMemory(size) for _ in dims]
        self._receives = [_ProgramMemory(size) for _ in dims]

    def compile(
        self,
        plan: CollectivePlan,
        *,
        collective: int,
        source: int,
        result: int,
        begin: bool = False,
    ) -> list[int]:
        """Records of one collective, without the closing ``END``.

        Parameters
        ----------
        collective : id, carried by packets and by the completion
        source, result : first flit of the input and output regions in this rank's memory
        begin : put a BEGIN record in front, which protects the collective (docs/ace.md); all ranks
            of a group do, or none

        Returns
        -------
        list of int
            each ``8 * RECORD_BYTES`` bits

        Raises
        ------
        InputError
            where the plan does not fit the engine: a program longer than the program memory, a
            message that no port can send.
        """
        records: list[int] = []
        last_store = len(plan.stores) - 1
        for slot in plan.sequence:
            if slot[0] == "load":
                load = plan.loads[slot[1]]
                pieces = load_pieces(plan, load.chunk, self.rank)
                extra = {"collective": collective}
                records += self._pieces(plan, pieces, load.destination, Load, source, extra)
            elif slot[0] == "op":
                self._op(plan, slot[1], slot[2], collective, records)
            else:
                store = plan.stores[slot[1]]
                pieces = store_pieces(plan, store.chunk, self.rank)
                extra = {"collective": collective}
                records += self._pieces(
                    plan, pieces, store.source, Store, result, extra, slot[1] == last_store
                )
        if begin:
            records.insert(0, self._begin(plan, collective, source, result))
        return records

    def _traffic_class(self, request: Collective) -> TrafficClass:
        """As packets name it: the one that stands for all, where all share a channel; but on a tree
        each flow of its switches has its own."""
        classes = self.platform.engine.classes or ("dp",)
        name = classes[0] if len(classes) == 1 and self.platform.tree is None else None
        return TrafficClass[(name or request.traffic_class).upper()]

    def _begin(self, plan: CollectivePlan, collective: int, source: int, result: int) -> int:
        """The BEGIN record of a plan whose programs have been placed."""
        request = plan.collective
        loads = (p for load in plan.loads for p in load_pieces(plan, load.chunk, self.rank))
        stores = (p for store in plan.stores for p in store_pieces(plan, store.chunk, self.rank))
        read, written = (
            request.element_bytes * max((p.memory + p.elements for p in pieces), default=0)
            for pieces in (loads, stores)
        )
        return pack(
            Begin,
            {
                "kind": RecordKind.BEGIN,
                "operation": CollectiveKind[request.operation.name],
                "traffic_class": self._traffic_class(request),
                "data_type": DataType[request.data_type.upper()],
                "operator": Operator[request.operator.upper()],
                "collective": collective,
                "source": source,
                "source_bytes": read,
                "result": result,
                "result_bytes": written,
                "program_steps": max(m.used for m in (*self._sends, *self._receives)),
            },
        )

    def _pieces(
        self,
        plan: CollectivePlan,
        pieces: Sequence[Piece],
        use: BufferUse,
        layout: type[data.Struct],
        region: int,
        extra: Mapping[str, int],
        complete: bool = False,
    ) -> list[int]:
        """LOAD or STORE records of one chunk; an empty chunk still passes its buffer on."""
        kind = RecordKind.LOAD if layout is Load else RecordKind.STORE
        size = plan.collective.element_bytes
        flit = self.platform.engine.flit_bytes
        base = self.buffers.address(use)
        pieces = [p for p in pieces if p.elements] or [Piece(memory=0, elements=0, buffer=0)]
        out = []
        for number, piece in enumerate(pieces):
            offset, shift = divmod(piece.memory * size, flit)
            flits, tail = divmod(piece.elements * size, flit)
            values = {
                "kind": kind,
                "first": int(number == 0),
                "final": int(number == len(pieces) - 1),
                "buffer": self.buffers.number(use),
                "epoch": use.epoch % 256,
                "sram_address": base + piece.buffer,
                "length": flits + bool(tail),
                "last_bytes": tail or flit,
                "memory_address": region + offset,
                "shift": shift,
                **extra,
            }
            if kind == RecordKind.STORE:
                values["complete"] = int(complete and number == len(pieces) - 1)
            out.append(pack(layout, values))
        return out

    def _op(
        self, plan: CollectivePlan, dim: int, index: int, collective: int, records: list[int]
    ) -> None:
        slot = plan.ops[dim][index]
        steps = engine_steps(plan, slot.chunk, slot.phase, self.rank)
        topology = plan.topology
        place = topology.coordinates(self.rank)[dim]
        program = port_program(steps, topology.dims[dim], place, dim)
        sends = tuple(tuple(self._send(dim, step, plan) for step in part) for part in program.sends)
        receives = tuple(tuple(self._receive(step) for step in part) for part in program.receives)
        tx = self._program(dim, sends, self._sends, False, records)
        rx = self._program(dim, receives, self._receives, True, records)
        if tx is None or rx is None:
            records.append(pack(Program, {"kind": RecordKind.FENCE}))
            for memory in (*self._sends, *self._receives):
                memory.clear()
            tx = self._program(dim, sends, self._sends, False, records)
            rx = self._program(dim, receives, self._receives, True, records)
        if tx is None or rx is None:
            raise InputError(
                f"an op on dim {dim + 1} has {program.longest} steps, and the program "
                f"memory {self.platform.engine.program_steps}: raise engine.program_steps"
            )
        counts = [len(part) for part in sends]
        received = sum(len(part) for part in receives)
        for name, count in (("send", sum(counts)), ("receive", received)):
            if count > MAX_STEPS:
                raise InputError(
                    f"an op on dim {dim + 1} must have at most {MAX_STEPS} {name} steps, "
                    f"not {count}"
                )
        request = plan.collective
        records.append(
            pack(
                Op,
                {
                    "kind": RecordKind.OP,
                    "dim": dim,
                    "traffic_class": self._traffic_class(request),
                    "data_type": DataType[request.data_type.upper()],
                    "operator": Operator[request.operator.upper()],
                    "collective": collective,
                    "tx_program": tx,
                    "tx_count": sum(counts),
                    "rx_program": rx,
                    "rx_count": received,
                    "source": self.buffers.number(slot.source),
                    "source_epoch": slot.source.epoch % 256,
                    "source_address": self.buffers.address(slot.source),
                    "destination": self.buffers.number(slot.destination),
                    "destination_epoch": slot.destination.epoch % 256,
                    "destination_address": self.buffers.address(slot.destination),
                    "port_counts": sum(count << 8 * port for port, count in enumerate(counts)),
                },
            )
        )

    def _program(
        self,
        dim: int,
        words: Words,
        memories: list[_ProgramMemory],
        receive: bool,
        records: list[int],
    ) -> int | None:
        placed = memories[dim].place(words)
        if placed is None:
            return None
        start, new = placed
        if new:
            records += [
                pack(
                    Program,
                    {
                        "kind": RecordKind.PROGRAM,
                        "dim": dim,
                        "receive": int(receive),
                        "index": start + i,
                        "step": word,
                        "port": port,
                    },
                )
                for port, part in enumerate(words)
                for i, word in enumerate(part)
            ]
        return start

    def _send(self, dim: int, step: PortSend, plan: CollectivePlan) -> int:
        configuration = 0
        if step.flow is not None:
            table, request = self.flows[dim], plan.collective
            if isinstance(table, TreeTable):
                configuration = table.index(flow_of(plan, self.rank, step.flow))
            else:
                configuration = table.index(
                    step.flow, request.data_type, request.operator, request.traffic_class
                )
        return pack(
            TxStep,
            {
                "from_destination": int(step.from_destination),
                "offset": step.offset,
                "length": step.length,
                "last_bytes": self.platform.engine.flit_bytes,
                **_wait(step.wait),
                "copied": int(step.wait is not None and step.wait.sent),
                "local": int(step.local),
                "copy": int(step.copy_offset is not None),
                "copy_offset": step.copy_offset or 0,
                "step": step.step,
                "configuration": configuration,
            },
        )

    def _receive(self, step: PortReceive) -> int:
        return pack(
            RxStep,
            {
                "reduce": int(step.reduce),
                "into_destination": int(step.into_destination),
                "offset": step.offset,
                "write_offset": step.write_offset,
                "length": step.length,
                **_wait(step.wait),
            },
        )


def _wait(wait: Wait | None) -> dict[str, int]:
    """The fields of a step that say what it waits for."""
    if wait is None:
        return {}
    return {"chase": 1, "whole": int(wait.whole), "after": wait.step, "after_port": wait.port}


def descriptor_bytes(records: Sequence[int]) -> bytes:
    """The descriptor of some records as it lies in memory, closed by ``END``."""
    end = pack(Program, {"kind": RecordKind.END})
    return b"".join(record.to_bytes(RECORD_BYTES, "little") for record in (*records, end))
