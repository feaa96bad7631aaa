"""The fabric of a replay with endpoints that are not ideal (`sw_model.endpoint.kinds`).

*From memory.* Cores carry out collectives: every op reads and writes main memory
(`sw_model.collective.memory_traffic`). The ops under way at an NPU, at most one a dim, share the
bandwidth that the kind leaves to communication max-min fairly, as in `sw_model.schedule.shared`; an
op goes at the pace of its slowest member.

*Engine.* Chunks, of at most 64 KiB and not much less than a message of 8 KiB, are read once, at the
bandwidth of the kind, when the SRAM has room for them, and written once when they are done. An op
keeps a state machine of its dim until its chunk has arrived; a dim has as many of them as
`sw_model.endpoint.state_machines` gives it. The SRAM is one pool here (decided
here: its partitions belong to the planner of a single collective, `sw_model.schedule.planner`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sw_model.collective.memory_traffic import NO_TRAFFIC, MemoryTraffic, engine_traffic
from sw_model.collective.plan import Operation
from sw_model.endpoint.kinds import EndpointKind
from sw_model.endpoint.state_machines import divide_machines
from sw_model.errors import InputError
from sw_model.replay.lanes import Waiting
from sw_model.replay.overlapped import OverlappedFabric
from sw_model.replay.plans import Planned, TimedOp
from sw_model.schedule.endpoints import (
    CHUNK_BYTES,
    MACHINES,
    MESSAGE_BYTES,
    SRAM_BYTES,
    phase_memory,
)
from sw_model.schedule.phases import Turn
from sw_model.schedule.shared import fair_paces
from sw_model.schedule.single import Candidate, Instance

__all__ = ["EngineFabric", "MemoryFabric", "fabric_of"]

_ONE = 1 << 30


def fabric_of(kind: EndpointKind, *arguments: Any) -> OverlappedFabric:
    """The fabric with endpoints of that kind; the arguments are those of `OverlappedFabric`.

    Raises
    ------
    InputError
        where an endpoint that is not ideal meets a collective that the system file writes out.
    """
    if kind.memory_bandwidth is None:
        return OverlappedFabric(*arguments)
    made = (EngineFabric if kind.engine else MemoryFabric)(kind, *arguments)
    if made.system.custom or made.system.custom_of_node:
        raise InputError(
            "an endpoint other than ideal must have the dims' own algorithms: "
            "leave out the system file's implementation-custom keys"
        )
    return made


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)


@dataclass(eq=False)
class _Active:
    """An op under way."""

    waiting: Waiting
    colours: frozenset[int]
    begun: int
    since: int
    left: int  # of its port time, in 2^-30 ticks
    need: Fraction  # of the memory, at full pace
    pace: int = 0
    turn: int = 0  # how often its pace was set


class MemoryFabric(OverlappedFabric):
    """See the module."""

    shortcut = False

    def __init__(self, kind: EndpointKind, *arguments: Any) -> None:
        super().__init__(*arguments)
        assert kind.memory_bandwidth is not None
        self.ticks_per_byte = self.unit / kind.memory_bandwidth
        self.under_way: dict[int, dict[int, _Active]] = {}  # by colour, by start
        self.begun = 0
        self.changed: set[int] = set()

    def _ticks(self, moved: MemoryTraffic) -> int:
        return _ceil(max(moved.reads, moved.writes) * self.ticks_per_byte)

    def _planned(self, instance: Instance, candidate: Candidate) -> Planned:
        planned = super()._planned(instance, candidate)
        known: dict[Any, tuple[MemoryTraffic, ...]] = {}
        chunks, total = [], NO_TRAFFIC
        for key, ops in zip(
            zip(candidate.extents, candidate.phases, strict=True), planned.chunks, strict=True
        ):
            moved = known.get(key)
            if moved is None:
                moved = known[key] = tuple(phase_memory(instance, *key))
            chunks.append(
                tuple(replace(o, memory=self._ticks(m)) for o, m in zip(ops, moved, strict=True))
            )
            total = sum(moved, total)
        return replace(planned, chunks=tuple(chunks), memory=total)

    def _message(self, op: TimedOp, size: int, ends: tuple[int, int]) -> TimedOp:
        nothing = Fraction(0)
        self._count_memory(ends[:1], MemoryTraffic(Fraction(size), nothing))
        self._count_memory(ends[1:], MemoryTraffic(nothing, Fraction(size)))
        return replace(op, memory=_ceil(size * self.ticks_per_byte))

    def _begin(self, waiting: Waiting) -> None:
        op = waiting.chunk[waiting.position]
        self.taken.update(waiting.lanes)
        time = max(op.busy, 1) if op.memory else op.busy
        need = Fraction(op.memory, time) if time else Fraction(0)
        colours = frozenset(colour for _, colour, _ in waiting.lanes)
        now = self.kernel.now
        active = _Active(waiting, colours, now, now, time * _ONE, need)
        self.begun += 1
        for colour in colours:
            self.under_way.setdefault(colour, {})[self.begun] = active
        self._change(colours)

    def _change(self, colours: frozenset[int]) -> None:
        if not self.changed:
            self.kernel.decide(self.kernel.now, self._pace)
        self.changed |= colours

    def _pace(self, _: object) -> None:
        """Set the paces anew at the NPUs where ops have begun or ended."""
        changed, self.changed = self.changed, set()
        here = {n: op for c in changed for n, op in self.under_way.get(c, {}).items()}
        shares: dict[int, dict[int, int]] = {}
        for colour in {colour for op in here.values() for colour in op.colours}:
            needs = {n: op.need for n, op in self.under_way[colour].items()}
            if sum(needs.values()) <= 1:
                shares[colour] = dict.fromkeys(needs, _ONE)
            else:
                paces = fair_paces(needs)
                shares[colour] = {n: max(1, int(p * _ONE)) for n, p in paces.items()}
        now = self.kernel.now
        for number, op in sorted(here.items()):
            pace = min(shares[colour][number] for colour in op.colours)
            if pace == op.pace:
                continue
            op.left -= op.pace * (now - op.since)
            op.since, op.pace, op.turn = now, pace, op.turn + 1
            self.kernel.after(-(-op.left // pace), self._ended, (number, op, op.turn))

    def _ended(self, what: tuple[int, _Active, int]) -> None:
        number, op, turn = what
        if turn != op.turn:
            return  # its pace has changed since
        for colour in op.colours:
            del self.under_way[colour][number]
        self._change(op.colours)
        held = self.kernel.now - op.begun
        for lane in op.waiting.lanes:
            self.busy[lane] = self.busy.get(lane, 0) + held
        latency = op.waiting.chunk[op.waiting.position].latency
        if latency:
            self.kernel.after(latency, self._complete, op.waiting)
        self._free(op.waiting)


class EngineFabric(OverlappedFabric):
    """See the module. Reading and writing memory are two dims more, behind the network's."""

    shortcut = False

    def __init__(self, kind: EndpointKind, *arguments: Any) -> None:
        super().__init__(*arguments)
        assert kind.memory_bandwidth is not None
        self.ticks_per_byte = self.unit / kind.memory_bandwidth
        self.reading = len(self.topology.dims)
        self.writing = self.reading + 1
        self.queues += [{}, {}]
        self.machines = divide_machines(self.topology.dims, MACHINES, CHUNK_BYTES)
        self.room = SRAM_BYTES // CHUNK_BYTES
        self.working: dict[tuple[int, int], int] = {}  # by dim and colour
        self.resident: dict[int, int] = {}  # chunks, by colour

    def _instance(self, operation: Operation, size: int, members: tuple[int, ...]) -> Instance:
        return replace(super()._instance(operation, size, members), turn=Turn.MERGED)

    def _most_chunks(self, instance: Instance) -> int:
        most = -(-instance.largest_bytes // MESSAGE_BYTES)
        return max(min(self.schedule.chunks, most), -(-instance.largest_bytes // CHUNK_BYTES))

    def _planned(self, instance: Instance, candidate: Candidate) -> Planned:
        planned = super()._planned(instance, candidate)
        group = instance.payload.group
        chunks = []
        cut = (Operation.REDUCE_SCATTER, Operation.ALL_TO_ALL)  # whose chunks count a rank's share
        own = group if instance.operation in cut else 1
        whole = NO_TRAFFIC
        for number, (extent, ops) in enumerate(zip(candidate.extents, planned.chunks, strict=True)):
            moved = engine_traffic(instance.operation, group, extent * own * instance.quantum_bytes)
            whole += moved
            read, write = (_ceil(b * self.ticks_per_byte) for b in (moved.reads, moved.writes))
            key = number if candidate.ranks is not None else 0
            chunks.append(
                (
                    TimedOp(self.reading, read, 0, key),
                    *ops,
                    TimedOp(self.writing, write, 0, key),
                )
            )
        return replace(planned, chunks=tuple(chunks), memory=whole)

    def _message(self, op: TimedOp, size: int, ends: tuple[int, int]) -> TimedOp:
        nothing = Fraction(0)
        self._count_memory(ends[:1], MemoryTraffic(Fraction(size), nothing))
        self._count_memory(ends[1:], MemoryTraffic(nothing, Fraction(size)))
        return replace(op, busy=max(op.busy, _ceil(size * self.ticks_per_byte)))

    @staticmethod
    def _colours(waiting: Waiting) -> tuple[int, ...]:
        return waiting.going.colours_out

    def _streams(self, waiting: Waiting) -> bool:
        """A message passes without a place in the SRAM."""
        return len(waiting.chunk) == 1

    def _able(self, waiting: Waiting) -> bool:
        if self._streams(waiting):
            return True
        dim, colours = waiting.chunk[waiting.position].dim, self._colours(waiting)
        if dim == self.reading:
            return all(self.resident.get(colour, 0) < self.room for colour in colours)
        if dim == self.writing:
            return True
        most = self.machines[dim]
        return all(self.working.get((dim, colour), 0) < most for colour in colours)

    def _begin(self, waiting: Waiting) -> None:
        self._take(waiting, 1)
        super()._begin(waiting)

    def _complete(self, waiting: Waiting) -> None:
        self._take(waiting, -1)
        super()._complete(waiting)
        self._ask()

    def _take(self, waiting: Waiting, sign: int) -> None:
        """Take, or give back, what an op needs beside its lanes."""
        if self._streams(waiting):
            return
        dim = waiting.chunk[waiting.position].dim
        for colour in self._colours(waiting):
            if dim < self.reading:
                place = (dim, colour)
                self.working[place] = self.working.get(place, 0) + sign
            elif (dim == self.reading) == (sign > 0):  # read at its beginning, written at its end
                self.resident[colour] = self.resident.get(colour, 0) + sign
