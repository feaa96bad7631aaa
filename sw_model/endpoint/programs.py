"""A rank's part of a plan in the form in which the endpoint model executes it.

Lengths become flits on the link (payload and headers), steps become tuples, and what many ops
share is made once. The record stream is that of the engine's descriptor: the same records in the
same order.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from sw_model.collective.plan import BufferUse, CollectivePlan, RankSteps
from sw_model.collective.steps import geometry_of, load_pieces, rank_steps, store_pieces
from sw_model.endpoint.counters import DimCounters, RankCounters
from sw_model.errors import InputError
from sw_model.platform import EngineParameters

__all__ = ["RECORD_BYTES", "OpProgram", "ProgramCompiler", "Record", "Send", "Unit", "link_flits"]


RECORD_BYTES = 32
"""Bytes of a record of a descriptor."""


def link_flits(payload: int, packet_payload: int) -> int:
    """Flits of a message on a link: its payload and one header per packet."""
    return payload - (-payload // packet_payload)


class Send(NamedTuple):
    """A send step: ``flits`` on the link, the receive step it follows (-1: none), the receive
    step at the receiver, and the flow (None on a ring)."""

    flits: int
    after: int
    step: int
    flow: tuple[tuple[int, ...], tuple[int, ...]] | None


@dataclass(frozen=True, slots=True)
class OpProgram:
    """All steps of one op at one rank, and what they count.

    Attributes
    ----------
    sends : send steps
    receives : number of receive steps
    sent, received : flits on the link, headers included
    payload_sent : flits without headers
    reductions : flits combined with a local operand
    """

    sends: tuple[Send, ...]
    receives: int
    sent: int
    received: int
    payload_sent: int
    reductions: int


class Unit(IntEnum):
    """Where a record goes: dim d's records go to ``DIM + d``."""

    NONE = 0
    FENCE = 1
    LOAD = 2
    STORE = 3
    DIM = 4


class Record(NamedTuple):
    """One record of a descriptor, with what its unit needs to know.

    ``flits``, ``elements`` : of a load or store; ``program`` : of an op.
    ``buffer``, ``epoch`` : destination of a load, source of a store or an op;
    ``target``, ``target_epoch`` : destination of an op.
    """

    unit: int
    chunk: int = 0
    phase: int = 0
    first: bool = True
    final: bool = True
    complete: bool = False
    flits: int = 0
    elements: int = 0
    program: OpProgram | None = None
    buffer: int = 0
    epoch: int = 0
    target: int = 0
    target_epoch: int = 0


_PROGRAM = Record(Unit.NONE)


class _ProgramMemory:
    """Which step programs the engine holds in one memory; mirrors the compiler of records."""

    __slots__ = ("held", "size", "used")

    def __init__(self, size: int) -> None:
        self.size = size
        self.used = 0
        self.held: set[tuple] = set()

    def place(self, program: tuple, steps: int) -> int | None:
        """Steps to be written for a program of ``steps``; None where it has no room."""
        if program in self.held:
            return 0
        if self.used + steps > self.size:
            return None
        self.used += steps
        self.held.add(program)
        return steps

    def clear(self) -> None:
        self.used = 0
        self.held.clear()


class ProgramCompiler:
    """Turns the plans of one rank, one after another, into records.

    Parameters
    ----------
    engine : the engine's capacity
    dims : number of dims of the topology
    rank : whose records
    programs : op programs by steps, shared between ranks
    """

    def __init__(
        self,
        engine: EngineParameters,
        dims: int,
        rank: int,
        programs: dict[tuple, OpProgram] | None = None,
    ) -> None:
        self.engine = engine
        self.rank = rank
        self._programs = {} if programs is None else programs
        self._memories = [
            (_ProgramMemory(engine.program_steps), _ProgramMemory(engine.program_steps))
            for _ in range(dims)
        ]
        self._bases = [0]
        for partition in engine.partitions:
            self._bases.append(self._bases[-1] + partition.buffers)

    def compile(self, plan: CollectivePlan) -> tuple[list[Record], RankCounters]:
        """Records of one collective, without the closing ``END``, and what they will count.

        Raises
        ------
        InputError
            where a step program is longer than the program memory.
        """
        size = plan.collective.element_bytes
        flit = self.engine.flit_bytes
        ops: dict[tuple, OpProgram] = {}
        records: list[Record] = []
        last_store = len(plan.stores) - 1
        for slot in plan.sequence:
            if slot[0] == "op":
                self._op(plan, slot[1], slot[2], size, ops, records)
                continue
            if slot[0] == "load":
                move = plan.loads[slot[1]]
                pieces = load_pieces(plan, move.chunk, self.rank)
                unit, use = Unit.LOAD, move.destination
            else:
                move = plan.stores[slot[1]]
                pieces = store_pieces(plan, move.chunk, self.rank)
                unit, use = Unit.STORE, move.source
            lengths = [piece.elements for piece in pieces if piece.elements] or [0]
            final = len(lengths) - 1
            for number, elements in enumerate(lengths):
                records.append(
                    Record(
                        unit,
                        chunk=move.chunk,
                        first=number == 0,
                        final=number == final,
                        complete=(number == final and unit == Unit.STORE and slot[1] == last_store),
                        flits=-(-elements * size // flit),
                        elements=elements,
                        buffer=self._buffer(use),
                        epoch=use.epoch,
                    )
                )
        return records, self._counters(records, size)

    def _counters(self, records: list[Record], size: int) -> RankCounters:
        elements = [0, 0]  # loaded, stored
        runs: list[dict[int, list[Any]]] = [{} for _ in self._memories]
        for record in records:
            if record.unit >= Unit.DIM:
                run = runs[record.unit - Unit.DIM].setdefault(id(record.program), [record, 0])
                run[1] += 1
            elif record.unit >= Unit.LOAD:
                elements[record.unit - Unit.LOAD] += record.elements
        dims = []
        for by_program in runs:
            counts = [0, 0, 0, 0]
            for record, times in by_program.values():
                program = record.program
                counts[0] += times * program.sent
                counts[1] += times * program.received
                counts[2] += times * (program.sent - program.payload_sent)
                counts[3] += times * program.reductions
            dims.append(DimCounters(*counts))
        return RankCounters(
            memory_read_bytes=elements[0] * size,
            memory_written_bytes=elements[1] * size,
            descriptor_bytes=(len(records) + 1) * RECORD_BYTES,
            dims=tuple(dims),
        )

    def op_program(self, plan: CollectivePlan, steps: RankSteps, size: int) -> OpProgram:
        """The program of ``steps``, with data elements of ``size`` bytes."""
        quantum = plan.quantum * size
        key = (steps.sends, steps.receives, quantum)
        found = self._programs.get(key)
        if found is None:
            flit, packet = (
                self.engine.flit_bytes,
                self.engine.packet_bytes // self.engine.flit_bytes,
            )
            payloads = [-(-s.length * quantum // flit) for s in steps.sends]
            arriving = [-(-r.length * quantum // flit) for r in steps.receives]
            sends = tuple(
                Send(
                    link_flits(payload, packet),
                    -1 if step.after is None else step.after,
                    step.step,
                    step.flow,
                )
                for payload, step in zip(payloads, steps.sends, strict=True)
            )
            found = self._programs[key] = OpProgram(
                sends=sends,
                receives=len(arriving),
                sent=sum(send.flits for send in sends),
                received=sum(link_flits(payload, packet) for payload in arriving),
                payload_sent=sum(payloads),
                reductions=sum(
                    n for n, r in zip(arriving, steps.receives, strict=True) if r.reduce
                ),
            )
        return found

    def _buffer(self, use: BufferUse) -> int:
        return self._bases[use.partition] + use.buffer

    def _op(
        self,
        plan: CollectivePlan,
        dim: int,
        index: int,
        size: int,
        ops: dict[tuple, OpProgram],
        records: list[Record],
    ) -> None:
        slot = plan.ops[dim][index]
        key = (id(geometry_of(plan, slot.chunk)), slot.phase)
        program = ops.get(key)
        if program is None:
            steps = rank_steps(plan, slot.chunk, slot.phase, self.rank)
            if not self._write(plan, dim, steps, records):
                records.append(Record(Unit.FENCE))
                for memory in self._memories:
                    memory[0].clear()
                    memory[1].clear()
                ops.clear()
                if not self._write(plan, dim, steps, records):
                    raise InputError(
                        f"an op on dim {dim + 1} has "
                        f"{max(len(steps.sends), len(steps.receives))} steps, and the program "
                        f"memory {self.engine.program_steps}: raise engine.program_steps"
                    )
            program = ops[key] = self.op_program(plan, steps, size)
        source, destination = slot.source, slot.destination
        records.append(
            Record(
                Unit.DIM + dim,
                chunk=slot.chunk,
                phase=slot.phase,
                program=program,
                buffer=self._buffer(source),
                epoch=source.epoch,
                target=self._buffer(destination),
                target_epoch=destination.epoch,
            )
        )

    def _write(self, plan: CollectivePlan, dim: int, steps: RankSteps, records: list) -> bool:
        """Records that write the step programs of an op; False where one of them has no room."""
        request = plan.collective
        # The configuration that a flow's messages name depends on what is reduced, and how.
        kind = (request.data_type, request.operator) if steps.sends and steps.sends[0].flow else ()
        sends, receives = self._memories[dim]
        fits = True
        for memory, program, key in (
            (sends, steps.sends, (steps.sends, kind)),
            (receives, steps.receives, steps.receives),
        ):
            new = memory.place(key, len(program))
            if new is None:
                fits = False
            else:
                records.extend([_PROGRAM] * new)
        return fits
