"""Our own semantics under a replay: any number of collectives and messages at once.

An op holds its dim for its bytes, and its chunk goes on a latency later (docs/semantics.md). Every
NPU has a lane in and a lane out of each dim. A collective's op takes both lanes of all its members,
a message the sender's way out and the receiver's way in. Lanes are given in order; whoever waits
for a lane keeps it from those behind, so that nothing starves, and nothing is held while it waits,
so that nothing deadlocks.

The order over collectives is the system's policy (first in first out by default), within one the
schedule's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from math import lcm
from pathlib import Path

from sw_model.astra.system import AlgorithmName, CollectivePolicy, SystemConfig
from sw_model.collective.cost import algorithm_of
from sw_model.collective.memory_traffic import NO_TRAFFIC, MemoryTraffic
from sw_model.collective.plan import Algorithm, Collective, Operation
from sw_model.engine import EventKernel
from sw_model.errors import InputError
from sw_model.replay.astra_fabric import custom_ns
from sw_model.replay.fabric import DimTraffic, Done, Request
from sw_model.replay.folding import Folding
from sw_model.replay.shapes import route_of, shape_of
from sw_model.schedule.execution import Intra
from sw_model.schedule.outcome import choose
from sw_model.schedule.single import Candidate, Instance
from sw_model.topology import Topology

__all__ = [
    "Going",
    "OverlappedFabric",
    "Planned",
    "Schedule",
    "TimedOp",
    "Waiting",
    "own_algorithms",
]

Lanes = tuple[tuple[int, int, bool], ...]  # (dim, colour, outwards)
Order = tuple[int, int, int, int]  # precedence, priority, time of entry, node
_SECOND = 10**9  # ns

_OWN = {
    AlgorithmName.RING: Algorithm.RING,
    AlgorithmName.ONE_RING: Algorithm.RING,
    AlgorithmName.DIRECT: Algorithm.DIRECT,
    AlgorithmName.ONE_DIRECT: Algorithm.DIRECT,
    AlgorithmName.HALVING_DOUBLING: Algorithm.HALVING_DOUBLING,
    AlgorithmName.ONE_HALVING_DOUBLING: Algorithm.HALVING_DOUBLING,
}


def own_algorithms(
    system: SystemConfig, operation: Operation, topology: Topology
) -> tuple[tuple[Algorithm, ...], tuple[str, ...]]:
    """By dim the algorithm that the system asks for, or the best of the dim's kind where it asks
    for none or for one that cannot be, and notes on the latter."""
    names = system.algorithms.get(operation)
    algorithms, notes = [], []
    for index, dim in enumerate(topology.dims):
        wanted = _OWN.get(names[index]) if names and dim.size > 1 else None
        try:
            if names and dim.size > 1 and wanted is None:
                raise InputError(f"{names[index].value} is not known in this semantics")
            algorithm = algorithm_of(dim, operation, wanted)
        except InputError as error:
            algorithm = algorithm_of(dim, operation)
            notes.append(f"dim {index + 1}: {error}; {algorithm.value} is used instead")
        algorithms.append(algorithm)
    return tuple(algorithms), tuple(notes)


@dataclass(frozen=True)
class Schedule:
    """How collectives are scheduled; see `sw_model.schedule.outcome.choose`."""

    scheduler: str = "baseline"
    intra: str = "fifo"
    chunks: int = 64
    serial_latency: bool = False


@dataclass(frozen=True)
class TimedOp:
    """One op in ticks. ``memory`` is the time in which the endpoint's memory alone could move its
    bytes, where that is limited."""

    dim: int
    busy: int
    latency: int
    key: int
    memory: int = 0


@dataclass(frozen=True)
class Planned:
    """A collective's chunks, each with its ops, the bytes an NPU sends on each dim, and what its
    main memory carries where that is counted."""

    chunks: tuple[tuple[TimedOp, ...], ...]
    sent: tuple[int, ...] = ()
    memory: MemoryTraffic = NO_TRAFFIC


@dataclass
class Going:
    """A collective or message under way."""

    order: Order
    colours_out: tuple[int, ...]
    colours_in: tuple[int, ...]
    left: int
    done: Done
    lanes: dict[int, Lanes]


@dataclass
class Waiting:
    """An op in the queue of its lanes. ``sent`` is called when it leaves them."""

    going: Going
    lanes: Lanes
    chunk: tuple[TimedOp, ...]
    position: int
    sent: Done | None = None


class OverlappedFabric:
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

    def __init__(
        self,
        topology: Topology,
        folding: Folding,
        system: SystemConfig,
        schedule: Schedule,
        pairs: set[tuple[int, int]],
    ) -> None:
        system.check_dims(len(topology.dims))
        self.kernel = EventKernel()
        self.topology, self.system, self.schedule = topology, system, schedule
        self.told: dict[str, None] = {}
        groups = {use.members for table in folding.groups for use in table.values()}
        units = {self._instance(Operation.ALL_REDUCE, 0, group).unit for group in groups}
        routes = {route_of(topology, *pair) for pair in pairs}
        units |= {(1 / route.bandwidth).denominator for route in routes}
        self.unit = lcm(1000 * _SECOND, *units)  # ticks in a second; a picosecond is whole
        self.ticks_per_ns = self.unit // _SECOND
        self.planned: dict[tuple[Operation, int, object, Path | None], Planned] = {}
        self.queues: list[dict[Lanes, list[tuple[Order, int, int, Waiting]]]] = [
            {} for _ in topology.dims
        ]
        self.taken: set[tuple[int, int, bool]] = set()
        self.arrivals = 0
        self.asked_at = -1
        self.busy: dict[tuple[int, int, bool], int] = {}
        self.sent: dict[tuple[int, int], int] = {}
        self.memory: dict[int, MemoryTraffic] = {}

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
        where = shape_of(self.topology, members) if custom is None else members
        key = (request.operation, request.size, where, custom)
        planned = self.planned.get(key)
        if planned is None:
            planned = self.planned[key] = self._plan(request, custom)
        colours = request.group.colours
        order = self._policy(request.number, request.priority, request.precedence)
        going = Going(order, colours, colours, len(planned.chunks), done, {})
        self._count(colours, enumerate(planned.sent))
        self._count_memory(colours, planned.memory)
        if not planned.chunks:
            self.kernel.after(0, lambda _: done())
        for chunk in planned.chunks:
            self._arrive(going, chunk, 0)

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
        lanes = tuple((d, source[1], True) for d in route.dims)
        lanes += tuple((d, destination[1], False) for d in route.dims)
        op = self._message(
            TimedOp(route.dims[-1], busy, latency, busy if self.schedule.intra == "scf" else 0),
            size,
            (source[1], destination[1]),
        )
        order = self._policy(number, 0, precedence)
        going = Going(order, (source[1],), (destination[1],), 1, arrived, {op.dim: lanes})
        self._count((source[1],), ((d, size) for d in route.dims))
        self._arrive(going, (op,), 0, sent)

    def _message(self, op: TimedOp, size: int, ends: tuple[int, int]) -> TimedOp:
        """A message's op with what endpoints that are not ideal add; ``ends`` are colours."""
        return op

    def _able(self, waiting: Waiting) -> bool:
        """Whether the endpoints let an op begin whose lanes are free."""
        return True

    def _count(self, colours: tuple[int, ...], moved: Iterable[tuple[int, int]]) -> None:
        for dim, size in moved:
            for colour in colours:
                self.sent[dim, colour] = self.sent.get((dim, colour), 0) + size

    def _count_memory(self, colours: tuple[int, ...], moved: MemoryTraffic) -> None:
        if moved != NO_TRAFFIC:
            for colour in colours:
                self.memory[colour] = self.memory.get(colour, NO_TRAFFIC) + moved

    def _arrive(
        self, going: Going, chunk: tuple[TimedOp, ...], position: int, sent: Done | None = None
    ) -> None:
        op = chunk[position]
        lanes = going.lanes.get(op.dim)
        if lanes is None:
            lanes = tuple((op.dim, colour, True) for colour in going.colours_out)
            lanes += tuple((op.dim, colour, False) for colour in going.colours_in)
            going.lanes[op.dim] = lanes
        self.arrivals += 1
        waiting = Waiting(going, lanes, chunk, position, sent)
        queue = self.queues[op.dim].setdefault(lanes, [])
        heappush(queue, (going.order, op.key, self.arrivals, waiting))
        self._ask()

    def _ask(self) -> None:
        """Have what can start started, once everything of this instant has happened."""
        if self.asked_at != self.kernel.now:
            self.asked_at = self.kernel.now
            self.kernel.decide(self.kernel.now, self._start)

    def _start(self, _: object) -> None:
        self.asked_at = -1
        kept: set[tuple[int, int, bool]] = set()
        able: list[tuple[int, Lanes]] = []
        heads = sorted(
            (queue[0][:3], dim, lanes)
            for dim, queues in enumerate(self.queues)
            for lanes, queue in queues.items()
        )
        for _, dim, lanes in heads:
            free = self.taken.isdisjoint(lanes) and kept.isdisjoint(lanes)
            if free and self._able(self.queues[dim][lanes][0][3]):
                able.append((dim, lanes))
            kept.update(lanes)
        # No two of them share a lane; the inner dims start first.
        for dim, lanes in sorted(able, key=lambda start: start[0]):
            queue = self.queues[dim][lanes]
            waiting = heappop(queue)[3]
            if not queue:
                del self.queues[dim][lanes]
            self._begin(waiting)

    def _begin(self, waiting: Waiting) -> None:
        op = waiting.chunk[waiting.position]
        self.taken.update(waiting.lanes)
        for lane in waiting.lanes:
            self.busy[lane] = self.busy.get(lane, 0) + op.busy
        self.kernel.after(op.busy, self._free, waiting)
        if op.latency:
            self.kernel.after(op.busy + op.latency, self._complete, waiting)

    def _free(self, waiting: Waiting) -> None:
        self.taken.difference_update(waiting.lanes)
        if waiting.sent is not None:
            waiting.sent()
        if not waiting.chunk[waiting.position].latency:
            self._complete(waiting)
        self._ask()

    def _complete(self, waiting: Waiting) -> None:
        following = waiting.position + 1
        if following < len(waiting.chunk):
            self._arrive(waiting.going, waiting.chunk, following)
            return
        waiting.going.left -= 1
        if waiting.going.left == 0:
            waiting.going.done()

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
