"""Our own semantics under a replay: any number of collectives and messages at once.

An op holds its dim for its bytes, and its chunk goes on a latency later (docs/semantics.md). A
collective's op takes both lanes (`sw_model.replay.lanes`) of all its members, a message the
sender's way out and the receiver's way in.

The order over collectives is the system's policy (first in first out by default), within one the
schedule's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from math import lcm
from pathlib import Path

from sw_model.astra.system import CollectivePolicy, SystemConfig
from sw_model.collective.memory_traffic import NO_TRAFFIC, MemoryTraffic
from sw_model.collective.plan import Collective, Operation
from sw_model.replay.alone import Progress, alone
from sw_model.replay.astra_fabric import custom_ns
from sw_model.replay.fabric import DimTraffic, Done, Request
from sw_model.replay.folding import Folding, GroupUse
from sw_model.replay.lanes import Going, Lane, LaneQueues, Lanes, Order, Waiting
from sw_model.replay.plans import Planned, Schedule, TimedOp, own_algorithms
from sw_model.replay.shapes import (
    GroupShape,
    crossed_by_group,
    crossed_by_message,
    route_of,
    shape_of,
)
from sw_model.schedule.execution import Intra
from sw_model.schedule.outcome import choose
from sw_model.schedule.single import Candidate, Instance
from sw_model.topology import Topology

__all__ = ["OverlappedFabric"]

_SECOND = 10**9  # ns


@dataclass(eq=False)
class _Alone:
    """A collective under way that has its lanes to itself, and those that wait behind it for the
    same lanes: all but the last without gaps, so that they follow each other."""

    going: Going
    planned: Planned
    begun: int
    behind: deque[tuple[Going, Planned]]
    joined: bool = False


class OverlappedFabric(LaneQueues):
    """See the module.

    Parameters
    ----------
    topology : where
    folding : whose groups and colours there are
    system : algorithms, policy, custom algorithms
    schedule : of every collective
    pairs : (source, destination) of all messages
    """

    one_at_a_time = False
    shortest_compute = 0
    shortcut = True  # what has its lanes to itself is not simulated op by op

    def __init__(
        self,
        topology: Topology,
        folding: Folding,
        system: SystemConfig,
        schedule: Schedule,
        pairs: set[tuple[int, int]],
    ) -> None:
        system.check_dims(len(topology.dims))
        super().__init__(len(topology.dims))
        self.topology, self.system, self.schedule = topology, system, schedule
        self.colour = folding.colour
        self.shapes: dict[tuple[int, ...], int] = {}
        self.numbers: dict[GroupShape, int] = {}
        self.known_lanes: dict[tuple[int, int], tuple[tuple[int, ...], Lanes]] = {}
        self.told: dict[str, None] = {}
        groups = {use.members for table in folding.groups for use in table.values()}
        units = {self._instance(Operation.ALL_REDUCE, 0, group).unit for group in groups}
        routes = {route_of(topology, *pair) for pair in pairs}
        units |= {(1 / route.bandwidth).denominator for route in routes}
        self.unit = lcm(1000 * _SECOND, *units)  # ticks in a second; a picosecond is whole
        self.ticks_per_ns = self.unit // _SECOND
        self.planned: dict[tuple[Operation, int, object, Path | None], Planned] = {}
        self.sent: dict[tuple[int, int], int] = {}
        self.memory: dict[int, MemoryTraffic] = {}
        self.by_themselves: dict[Lane, _Alone] = {}

    def _instance(self, operation: Operation, size: int, members: tuple[int, ...]) -> Instance:
        shape = shape_of(self.topology, members)
        algorithms, notes = own_algorithms(self.system, operation, shape.topology)
        self.told |= dict.fromkeys(notes)
        # Traces count bytes; two of them are an element, so that shards are whole elements.
        collective = Collective(
            operation, -(-size // 2), "fp16", dims=tuple(range(len(self.topology.dims)))
        )
        return Instance(
            collective,
            shape.topology,
            algorithms,
            serial_latency=self.schedule.serial_latency,
        )

    def _plan(self, request: Request, custom: Path | None) -> Planned:
        operation, size, members = request.operation, request.size, request.group.members
        shape = shape_of(self.topology, members)
        if custom is not None and len(members) > 1:
            time = custom_ns(custom, members, self.topology, self.system)
            op = TimedOp(shape.dims[-1], time * self.ticks_per_ns, 0, 0)
            return Planned(((op,),) * self.system.splits)
        instance = self._instance(operation, size, members)
        if len(members) == 1 or size == 0:
            return Planned(())
        candidate = choose(
            instance,
            scheduler=self.schedule.scheduler,
            intra=self.schedule.intra,
            chunks=self._most_chunks(instance),
        )
        return self._planned(instance, candidate)

    def _most_chunks(self, instance: Instance) -> int:
        """Of a collective; an endpoint may need more than were asked for."""
        return self.schedule.chunks

    def _planned(self, instance: Instance, candidate: Candidate) -> Planned:
        """A schedule as ops; endpoints that are not ideal add what they are limited by."""
        scale = self.unit // instance.unit
        smallest_first = candidate.intra is Intra.SCF
        chunks = []
        for number, (extent, phases) in enumerate(
            zip(candidate.extents, candidate.phases, strict=True)
        ):
            ops = []
            for position, (dim, busy, latency) in enumerate(instance.ops(extent, phases)):
                key = busy * scale if smallest_first else 0
                if candidate.ranks is not None:
                    key = candidate.ranks[number][position]
                ops.append(TimedOp(dim, busy * scale, latency * scale, key))
            chunks.append(tuple(ops))
        return Planned(tuple(chunks), tuple(moved.sent for moved in instance.traffic(candidate)))

    def _policy(self, number: int, priority: int, precedence: int) -> Order:
        """Where a collective or message that begins now stands. It is made of what all ranks agree
        on, so that groups that do the same at the same time are treated alike."""
        policy, now = self.system.policy, self.kernel.now
        if policy is CollectivePolicy.LIFO:
            return precedence, 0, -now, -number
        explicit = policy is CollectivePolicy.EXPLICIT
        return precedence, -priority if explicit else 0, now, number

    def collective(self, request: Request, done: Done) -> None:
        """See `Fabric`."""
        members = request.group.members
        custom = self.system.custom_algorithm(request.operation, request.node)
        where = self._shape_number(members) if custom is None else members
        key = (request.operation, request.size, where, custom)
        planned = self.planned.get(key)
        if planned is None:
            planned = self.planned[key] = self._plan(request, custom)
        colours = request.group.colours
        order = self._policy(request.number, request.priority, request.precedence)
        lanes = self._lanes(request.group, planned.dims)
        going = Going(order, colours, colours, len(planned.chunks), done, lanes)
        self._count(colours, enumerate(planned.sent))
        self._count_memory(colours, planned.memory)
        if not planned.chunks:
            self.kernel.after(0, lambda _: done())
            return
        pile = self._pile(going)
        if pile is not None:
            pile.behind.append((going, planned))
            for lane in chain.from_iterable(lanes.values()):
                self.users[lane] += 1
            return
        free = self._use(going)
        if free and self.shortcut and len(planned.chunks) > 1:
            self._by_itself(going, planned, deque())
            return
        for chunk in planned.chunks:
            self._arrive(going, chunk, 0)

    def _shape_number(self, members: tuple[int, ...]) -> int:
        """A number for the shape of a group: quick to look up by."""
        number = self.shapes.get(members)
        if number is None:
            shape = shape_of(self.topology, members)
            number = self.shapes[members] = self.numbers.setdefault(shape, len(self.numbers))
        return number

    def _lanes(self, group: GroupUse, dims: tuple[int, ...]) -> dict[int, Lanes]:
        """By dim the lanes of a group: of its members, and of NPUs between them on a ring."""
        lanes = {}
        for dim in dims:
            key = (group.colour, dim)
            known = self.known_lanes.get(key)
            if known is None or known[0] != group.members:
                crossed = crossed_by_group(self.topology, group.members).get(dim, ())
                colours = (*group.colours, *(self.colour[rank] for rank in crossed))
                made = tuple((dim, c, True) for c in colours)
                known = (group.members, made + tuple((dim, c, False) for c in colours))
                self.known_lanes[key] = known
            lanes[dim] = known[1]
        return lanes

    def _use(self, going: Going) -> bool:
        """Count a newcomer on its lanes. Whether they are free; who has them to itself has not any
        more."""
        free = True
        for lane in chain.from_iterable(going.lanes.values()):
            count = self.users.get(lane, 0)
            self.users[lane] = count + 1
            if count:
                free = False
                one = self.by_themselves.get(lane)
                if one is not None:
                    self._join(one)
        return free

    def _pile(self, going: Going) -> _Alone | None:
        """What a newcomer can be put behind: it has the same lanes to itself, and before what is
        last there leaves them none behind it can begin."""
        one = self.by_themselves.get(next(chain.from_iterable(going.lanes.values())))
        if one is None or one.going.lanes != going.lanes:
            return None
        last, planned = one.behind[-1] if one.behind else (one.going, one.planned)
        return one if planned.gapless and last.order < going.order else None

    def _by_itself(
        self, going: Going, planned: Planned, behind: deque[tuple[Going, Planned]]
    ) -> None:
        one = _Alone(going, planned, self.kernel.now, behind)
        self.by_themselves |= dict.fromkeys(chain.from_iterable(going.lanes.values()), one)
        leaves = planned.alone.freed if planned.gapless else planned.alone.end
        self.kernel.after(leaves, self._leaves, one)

    def _leaves(self, one: _Alone) -> None:
        """A collective by itself needs its lanes no longer; its last latency may be to come."""
        if one.joined:
            return
        progress = one.planned.alone
        self._part(one, progress)
        self._leave(one.going)
        if one.behind:
            self._by_itself(*one.behind.popleft(), one.behind)
        rest = one.begun + progress.end - self.kernel.now
        if rest:
            self.kernel.after(rest, lambda _: one.going.done())
        else:
            one.going.done()

    def _part(self, one: _Alone, progress: Progress) -> None:
        """What a collective has done by itself is counted, and its lanes are everybody's."""
        for dim, lanes in one.going.lanes.items():
            for lane in lanes:
                self.busy[lane] = self.busy.get(lane, 0) + progress.busy.get(dim, 0)
                del self.by_themselves[lane]

    def _join(self, one: _Alone) -> None:
        """Go on in the queues from where a collective has come by itself."""
        one.joined = True
        going, chunks = one.going, one.planned.chunks
        progress = alone(chunks, self.kernel.now - one.begun)
        self._part(one, progress)
        going.left = progress.left
        for tick, frees, (chunk, position) in progress.coming:
            lanes = going.lanes[chunks[chunk][position].dim]
            waiting = Waiting(going, lanes, chunks[chunk], position)
            if frees:
                self.taken.update(lanes)
            self.kernel.at(one.begun + tick, self._free if frees else self._complete, waiting)
        for chunk, position in progress.waiting:
            self._arrive(going, chunks[chunk], position)
        for later, planned in one.behind:
            for ops in planned.chunks:
                self._arrive(later, ops, 0)

    def message(
        self,
        source: tuple[int, int],
        destination: tuple[int, int],
        size: int,
        number: int,
        sent: Done,
        arrived: Done,
        precedence: int = 0,
    ) -> None:
        """See `Fabric`."""
        route = route_of(self.topology, source[0], destination[0])
        busy = int(size / route.bandwidth * self.unit)
        latency = route.latency_ps * self.ticks_per_ns // 1000
        lanes: Lanes = tuple((d, source[1], True) for d in route.dims)
        lanes += tuple((d, destination[1], False) for d in route.dims)
        for d, rank in crossed_by_message(self.topology, source[0], destination[0]):
            lanes += ((d, self.colour[rank], True), (d, self.colour[rank], False))
        op = self._message(
            TimedOp(route.dims[-1], busy, latency, busy if self.schedule.intra == "scf" else 0),
            size,
            (source[1], destination[1]),
        )
        order = self._policy(number, 0, precedence)
        going = Going(order, (source[1],), (destination[1],), 1, arrived, {op.dim: lanes})
        self._count((source[1],), ((d, size) for d in route.dims))
        self._use(going)
        self._arrive(going, (op,), 0, sent)

    def _message(self, op: TimedOp, size: int, ends: tuple[int, int]) -> TimedOp:
        """A message's op with what endpoints that are not ideal add; ``ends`` are colours."""
        return op

    def _count(self, colours: tuple[int, ...], moved: Iterable[tuple[int, int]]) -> None:
        for dim, size in moved:
            for colour in colours:
                self.sent[dim, colour] = self.sent.get((dim, colour), 0) + size

    def _count_memory(self, colours: tuple[int, ...], moved: MemoryTraffic) -> None:
        if moved != NO_TRAFFIC:
            for colour in colours:
                self.memory[colour] = self.memory.get(colour, NO_TRAFFIC) + moved

    def traffic(self) -> tuple[DimTraffic, ...]:
        """See `Fabric`."""
        return tuple(
            DimTraffic(
                max((busy for lane, busy in self.busy.items() if lane[0] == dim), default=0),
                max((sent for place, sent in self.sent.items() if place[0] == dim), default=0),
            )
            for dim in range(len(self.topology.dims))
        )

    def memory_traffic(self) -> MemoryTraffic | None:
        """What communication moved in main memory, of the NPU that moved most; None where an ideal
        endpoint counts nothing."""
        return max(self.memory.values(), key=lambda m: m.reads + m.writes, default=None)

    def notes(self) -> tuple[str, ...]:
        """See `Fabric`."""
        return tuple(self.told)
