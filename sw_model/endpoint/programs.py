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
from sw_model.collective.steps import geometry_of, load_pieces, store_pieces
from sw_model.endpoint.counters import DimCounters, RankCounters
from sw_model.endpoint.port_steps import PortProgram, Wait, port_program
from sw_model.endpoint.switched_steps import engine_steps
from sw_model.errors import InputError
from sw_model.fred.tree.placement import flow_of
from sw_model.fred.tree.table import TreeTable
from sw_model.platform import EngineParameters

__all__ = ["RECORD_BYTES", "OpProgram", "ProgramCompiler", "Record", "Send", "Unit", "link_flits"]


RECORD_BYTES = 32
"""Bytes of a record of a descriptor."""


def link_flits(payload: int, packet_payload: int) -> int:
    """Flits of a message on a link: its payload and one header per packet."""
    return payload - (-payload // packet_payload)


class Send(NamedTuple):
    """A send step of a port.

    ``flits`` : that it takes, on the link or within the SRAM
    ``after`` : the receive step that it follows (-1: none), or with ``copied`` the send step whose
        copy it needs
    ``step`` : the receive step at the receiver
    ``flow`` : None where links lead from endpoint to endpoint
    ``configuration`` : in a tree of switches
    ``after_port``, ``whole``, ``local`` : see `sw_model.endpoint.port_steps`
    """

    flits: int
    after: int
    step: int
    flow: tuple[tuple[int, ...], tuple[int, ...]] | None
    configuration: int = 0
    after_port: int = 0
    whole: bool = False
    copied: bool = False
    local: bool = False


@dataclass(frozen=True, slots=True)
class OpProgram:
    """All steps of one op at one rank, and what they count.

    Attributes
    ----------
    sends : send steps, by port
    waits : of every receive step what it waits for, by port
    steps, receives : number of send and of receive steps
    ordered : a receive step waits for another
    sent, received : flits on the link, headers included
    payload_sent : flits without headers
    reductions : flits combined with a local operand
    """

    sends: tuple[tuple[Send, ...], ...]
    waits: tuple[tuple[Wait | None, ...], ...]
    steps: int
    receives: int
    ordered: bool
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

    ``flits`` of memory, ``elements`` : of a load or store; ``late`` : of a load whose last flit is
    put together of what is left of the last beat, in a cycle of its own; ``program`` : of an op.
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
    late: bool = False
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
    flows : on a tree of FRED switches, what their configuration memories hold
    """

    def __init__(
        self,
        engine: EngineParameters,
        dims: int,
        rank: int,
        programs: dict[tuple, OpProgram] | None = None,
        flows: TreeTable | None = None,
    ) -> None:
        self.engine = engine
        self.rank = rank
        self.flows = flows
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
            parts = [(p.memory, p.elements) for p in pieces if p.elements] or [(0, 0)]
            final = len(parts) - 1
            for number, (memory, elements) in enumerate(parts):
                shift, length = memory * size % flit, elements * size
                flits = -(-(shift + length) // flit)
                records.append(
                    Record(
                        unit,
                        chunk=move.chunk,
                        first=number == 0,
                        final=number == final,
                        complete=(number == final and unit == Unit.STORE and slot[1] == last_store),
                        flits=flits,
                        elements=elements,
                        late=bool(shift) and unit == Unit.LOAD and flits == -(-length // flit),
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

    def op_program(self, plan: CollectivePlan, dim: int, steps: RankSteps, size: int) -> OpProgram:
        """The program of ``steps`` on a dim, with data elements of ``size`` bytes."""
        quantum = plan.quantum * size
        configurations = self._configurations(plan, steps)
        place = plan.topology.coordinates(self.rank)[dim] if steps.sends or steps.receives else 0
        key = (steps.sends, steps.receives, quantum, configurations, dim, place)
        found = self._programs.get(key)
        if found is None:
            ports = self._ports(plan, dim, steps)
            found = self._programs[key] = self._op_program(ports, quantum, configurations)
        return found

    def _ports(self, plan: CollectivePlan, dim: int, steps: RankSteps) -> PortProgram:
        place = plan.topology.coordinates(self.rank)[dim]
        return port_program(steps, plan.topology.dims[dim], place, dim)

    def _op_program(
        self, ports: PortProgram, quantum: int, configurations: tuple[int, ...]
    ) -> OpProgram:
        flit = self.engine.flit_bytes
        packet = self.engine.packet_bytes // flit
        named = iter(configurations)

        def flits(length: int) -> int:
            return -(-length * quantum // flit)

        sends = tuple(
            tuple(
                Send(
                    link_flits(flits(step.length), packet),
                    -1 if step.wait is None else step.wait.step,
                    step.step,
                    step.flow,
                    0 if step.local else next(named, 0),
                    0 if step.wait is None else step.wait.port,
                    step.wait is not None and step.wait.whole,
                    step.wait is not None and step.wait.sent,
                    step.local,
                )
                for step in part
            )
            for part in ports.sends
        )
        received = [step for part in ports.receives for step in part]
        on_links = [step for part in ports.sends for step in part if not step.local]
        return OpProgram(
            sends=sends,
            waits=tuple(tuple(step.wait for step in part) for part in ports.receives),
            steps=sum(len(part) for part in sends),
            receives=len(received),
            ordered=any(step.wait is not None for step in received),
            sent=sum(send.flits for part in sends for send in part if not send.local),
            received=sum(link_flits(flits(step.length), packet) for step in received),
            payload_sent=sum(flits(step.length) for step in on_links),
            reductions=sum(flits(step.length) for step in received if step.reduce),
        )

    def _configurations(self, plan: CollectivePlan, steps: RankSteps) -> tuple[int, ...]:
        """The configuration that each message names, in a tree of switches."""
        if self.flows is None:
            return (0,) * len(steps.sends)
        return tuple(
            self.flows.index(flow_of(plan, self.rank, step.flow))
            for step in steps.sends
            if step.flow is not None
        )

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
            steps = engine_steps(plan, slot.chunk, slot.phase, self.rank)
            if not self._write(plan, dim, steps, records):
                records.append(Record(Unit.FENCE))
                for memory in self._memories:
                    memory[0].clear()
                    memory[1].clear()
                ops.clear()
                if not self._write(plan, dim, steps, records):
                    longest = self._ports(plan, dim, steps).longest
                    raise InputError(
                        f"an op on dim {dim + 1} has {longest} steps, and the program "
                        f"memory {self.engine.program_steps}: raise engine.program_steps"
                    )
            program = ops[key] = self.op_program(plan, dim, steps, size)
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
        kind: tuple = ()
        if self.flows is not None:
            kind = self._configurations(plan, steps)
        elif any(send.flow for send in steps.sends):
            kind = (request.data_type, request.operator)
        ports = self._ports(plan, dim, steps)
        fits = True
        for memory, programs, key in zip(
            self._memories[dim],
            (ports.sends, ports.receives),
            ((ports.sends, kind), ports.receives),
            strict=True,
        ):
            new = memory.place(key, max(len(part) for part in programs))
            if new is None:
                fits = False
            elif new:
                records.extend([_PROGRAM] * sum(len(part) for part in programs))
        return fits
