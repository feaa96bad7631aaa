"""The replay of one trace: graphs, resources, matching, and a watchdog.

A node begins when all that it depends on has ended and its resource is free: one compute node at a
time on the accelerator, one on the CPU; communication as the fabric says. Of several that could
begin, the one with the lowest number does. Collectives of a group match by the order in which its
members enter them; a collective begins when all members have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from heapq import heappop, heappush

from sw_model.astra.system import SystemConfig
from sw_model.chakra.graph import Graph, TraceNode
from sw_model.chakra.messages import NodeKind
from sw_model.chakra.workload import ChakraWorkload
from sw_model.endpoint.kinds import IDEAL, EndpointKind
from sw_model.errors import DeadlockError, InputError
from sw_model.replay.blocked import blocked
from sw_model.replay.fabric import Fabric, Request
from sw_model.replay.folding import Folding

__all__ = ["Log", "Replay"]

_CPU, _COMPUTE, _COMMUNICATION, _NONE = range(4)


@dataclass
class Log:
    """What one representative did, in ticks.

    Attributes
    ----------
    compute : (position, start, end) of compute and memory nodes on the accelerator
    host : the same of those on the CPU
    communication : (position, issue, start, end); between issue and start it waits for others
    finish : end of its last node
    """

    compute: list[tuple[int, int, int]] = field(default_factory=list)
    host: list[tuple[int, int, int]] = field(default_factory=list)
    communication: list[tuple[int, int, int, int]] = field(default_factory=list)
    finish: int = 0


@dataclass
class _Entry:
    """A collective that at least one member has entered: by colour, position and time."""

    request: Request
    entered: dict[int, tuple[int, int]] = field(default_factory=dict)


@dataclass
class _Message:
    """A message of which one end at least has been issued."""

    begun: int | None = None
    arrived: bool = False
    posted: int | None = None


class _Rank:
    """A representative: what its nodes still wait for, and what is ready, by resource."""

    def __init__(self, graph: Graph, children: list[list[int]]) -> None:
        self.nodes = graph.nodes
        self.children = children
        self.waits = [len(node.parents) for node in graph.nodes]
        self.ready: list[list[int]] = [[], [], [], []]
        self.busy = [False, False, False, False]
        self.held: list[int] = []  # collectives that wait until there is nothing to compute
        self.communicating = 0  # collectives under way that keep compute waiting
        self.left = len(graph.nodes)
        self.issued: dict[int, int] = {}  # communication under way: position to time
        self.uses: dict[int, int] = {}  # by group's colour: collectives entered
        self.log = Log()


class Replay:
    """One run.

    Parameters
    ----------
    workload, folding : which ranks there are and which of them are simulated
    fabric : carries the communication
    system : roofline and replay-only are taken from it
    endpoint : what its kind leaves to compute, and whether it computes beside collectives
    passes_from_memory : passes whose node tells no bytes are limited by memory
    progress : called with the share of nodes that have ended
    """

    def __init__(
        self,
        workload: ChakraWorkload,
        folding: Folding,
        fabric: Fabric,
        system: SystemConfig,
        progress: Callable[[float], object] | None = None,
        *,
        endpoint: EndpointKind = IDEAL,
        passes_from_memory: bool = False,
    ) -> None:
        self.workload, self.folding = workload, folding
        self.endpoint, self.passes_from_memory = endpoint, passes_from_memory
        self.fabric, self.kernel, self.system = fabric, fabric.kernel, system
        self.progress = progress
        children: dict[int, list[list[int]]] = {}
        self.ranks: list[_Rank] = []
        for rank in folding.representatives:
            graph = workload.graphs[rank]
            if id(graph) not in children:
                children[id(graph)] = _children(graph)
            self.ranks.append(_Rank(graph, children[id(graph)]))
        self.entries: dict[tuple[int, int], _Entry] = {}
        self.messages: dict[tuple[int, int], _Message] = {}  # by (colour, position) of the receive
        self.total = self.left = sum(rank.left for rank in self.ranks)

    def run(self) -> list[Log]:
        """Replay everything; a log for every representative.

        Raises
        ------
        InputError
            where the members of a group do not enter the same collective
        DeadlockError
            where nothing can happen any more: names every blocked rank and what it waits for
        """
        for colour, rank in enumerate(self.ranks):
            for position, waits in enumerate(rank.waits):
                if waits == 0:
                    self._ready(colour, position)
            self._issue(colour)
        self.kernel.run()
        if self.left:
            raise DeadlockError(blocked(self))
        return [rank.log for rank in self.ranks]

    def partly(self, share: float) -> None:
        """A share of a node that takes long to simulate is done."""
        if self.progress is not None:
            self.progress(1 - (self.left - share) / self.total)

    def held_back(self, colour: int) -> int | None:
        """The position of the communication that is next to begin once the rank's own that is under
        way has ended, in semantics that have one at a time."""
        return next(iter(self.ranks[colour].ready[_COMMUNICATION]), None)

    def _resource(self, node: TraceNode) -> int:
        if node.kind in (NodeKind.COMM_COLL, NodeKind.COMM_SEND):
            return _COMMUNICATION if self.fabric.one_at_a_time else _NONE
        if node.kind in (NodeKind.COMM_RECV, NodeKind.METADATA, NodeKind.INVALID):
            return _NONE
        return _CPU if node.on_cpu else _COMPUTE

    def _ready(self, colour: int, position: int) -> None:
        rank = self.ranks[colour]
        heappush(rank.ready[self._resource(rank.nodes[position])], position)

    def _issue(self, colour: int, _: object = None) -> None:
        """Begin what can begin."""
        rank = self.ranks[colour]
        while rank.ready[_NONE]:
            self._begin(colour, heappop(rank.ready[_NONE]))
        for resource in (_CPU, _COMPUTE, _COMMUNICATION):
            if resource == _COMPUTE and rank.communicating:
                continue
            if rank.ready[resource] and not rank.busy[resource]:
                rank.busy[resource] = True
                self._begin(colour, heappop(rank.ready[resource]))
        if rank.held and not (rank.busy[_COMPUTE] or rank.communicating):
            # What ends in this instant may give it something to compute yet.
            self.kernel.decide(self.kernel.now, self._release, colour)

    def _release(self, colour: int) -> None:
        """Let a rank that computes nothing enter the collectives it has put off."""
        rank = self.ranks[colour]
        if not rank.held or rank.busy[_COMPUTE] or rank.communicating:
            return
        held, rank.held = rank.held, []
        rank.communicating = len(held)
        for position in held:
            self._enter(colour, position, rank.nodes[position])

    def _begin(self, colour: int, position: int) -> None:
        rank, now = self.ranks[colour], self.kernel.now
        node = rank.nodes[position]
        if node.kind in (NodeKind.METADATA, NodeKind.INVALID):
            self.kernel.at(now, self._end, (colour, position))
        elif node.kind in (NodeKind.COMP, NodeKind.MEM_LOAD, NodeKind.MEM_STORE):
            duration = self._duration(node)
            if node.slowdown != 1:  # to the nearest tick; a half goes up
                duration = int(duration * node.slowdown + Fraction(1, 2))
            end = now + max(self.fabric.shortest_compute, duration)
            if end > now:
                log = rank.log.host if node.on_cpu else rank.log.compute
                log.append((position, now, end))
            self.kernel.at(end, self._end, (colour, position))
        elif self.system.replay_only:
            end = now + max(self.fabric.shortest_compute, self._ticks(node.duration_ns))
            rank.log.communication.append((position, now, now, end))
            self.kernel.at(end, self._end, (colour, position))
        else:
            rank.issued[position] = now
            if node.kind is NodeKind.COMM_COLL and not self.endpoint.overlaps:
                rank.held.append(position)
            elif node.kind is NodeKind.COMM_COLL:
                self._enter(colour, position, node)
            elif node.kind is NodeKind.COMM_SEND:
                self._send(colour, position, node)
            else:
                self._receive(colour, position)

    def _ticks(self, nanoseconds: int) -> int:
        return nanoseconds * self.fabric.ticks_per_ns

    def _duration(self, node: TraceNode) -> int:
        """Ticks of a compute or memory node: by the roofline where that is on and the node says
        what it does, else as in the trace. A memory node without a duration moves its tensor at
        the local memory's bandwidth."""
        system, kind = self.system, self.endpoint
        bandwidth = system.local_memory_bandwidth
        if node.kind is not NodeKind.COMP:
            if node.duration_ns or bandwidth is None:
                return int(self._ticks(node.duration_ns) / kind.memory_share)
            moved = node.tensor_bytes / (bandwidth * kind.memory_share)
            return int(moved * self.fabric.ticks_per_ns)
        if (
            system.roofline
            and not system.replay_only
            and not node.on_cpu
            and node.operations
            and node.tensor_bytes
        ):
            assert bandwidth is not None
            assert system.peak_performance is not None
            # 10^12 operations per second are 10^3 per ns; 10^9 bytes per second are 1 per ns.
            compute = node.operations / (system.peak_performance * kind.compute_share * 1000)
            moved = node.tensor_bytes / (bandwidth * kind.memory_share)
            return int(max(compute, moved) * self.fabric.ticks_per_ns)
        if node.on_cpu:
            return self._ticks(node.duration_ns)
        if kind is IDEAL:
            return self._ticks(node.duration_ns)
        memory = kind.memory_ns(node.tensor_bytes)
        if not node.tensor_bytes and self.passes_from_memory:
            memory = Fraction(node.duration_ns)
        return int(kind.pass_time(node.duration_ns, memory) * self.fabric.ticks_per_ns)

    def _enter(self, colour: int, position: int, node: TraceNode) -> None:
        rank = self.ranks[colour]
        group = self.folding.groups[colour][position]
        use = rank.uses.get(group.colour, 0)
        rank.uses[group.colour] = use + 1
        key = (group.colour, use)
        entry = self.entries.get(key)
        assert node.operation is not None
        if entry is None:
            request = Request(
                number=position,
                operation=node.operation,
                size=node.size,
                group=group,
                priority=node.priority,
                precedence=node.precedence,
                node=node.number,
            )
            entry = self.entries[key] = _Entry(request)
        first = entry.request
        if (first.operation, first.size) != (node.operation, node.size):
            other, (at, _) = next(iter(entry.entered.items()))
            raise InputError(
                f"{node}: rank {self.folding.representatives[colour]} must enter the "
                f"{first.operation.value} of {first.size} bytes that rank "
                f"{self.folding.representatives[other]} enters "
                f"({self.ranks[other].nodes[at]}), not the {node.operation.value} of {node.size}",
                path=self.workload.paths[self.folding.representatives[colour]],
            )
        entry.entered[colour] = (position, self.kernel.now)
        if len(entry.entered) == len(group.colours):
            self.fabric.collective(first, partial(self._collected, entry, self.kernel.now))

    def _collected(self, entry: _Entry, start: int) -> None:
        for colour, (position, issued) in entry.entered.items():
            log = self.ranks[colour].log
            log.communication.append((position, issued, start, self.kernel.now))
            self.ranks[colour].communicating -= not self.endpoint.overlaps
            self._end((colour, position))

    def _send(self, colour: int, position: int, node: TraceNode) -> None:
        rank, now = self.folding.representatives[colour], self.kernel.now
        match = self.workload.matches.get((rank, position))
        there = node.destination if match is None else match.destination
        peer = self.folding.colour[there]
        message = _Message()
        if match is not None:
            message = self.messages.setdefault((peer, match.receive), message)
        message.begun = now

        def sent() -> None:
            log = self.ranks[colour].log
            log.communication.append((position, now, now, self.kernel.now))
            self._end((colour, position))

        def arrived() -> None:
            message.arrived = True
            if message.posted is not None:
                assert match is not None
                self._received(peer, match.receive, message)

        self.fabric.message(
            (rank, colour), (there, peer), node.size, position, sent, arrived, node.precedence
        )

    def _receive(self, colour: int, position: int) -> None:
        message = self.messages.setdefault((colour, position), _Message())
        message.posted = self.kernel.now
        if message.arrived:
            self.kernel.at(self.kernel.now, lambda _: self._received(colour, position, message))

    def _received(self, colour: int, position: int, message: _Message) -> None:
        assert message.posted is not None
        assert message.begun is not None
        start = max(message.posted, message.begun)
        log = self.ranks[colour].log
        log.communication.append((position, message.posted, start, self.kernel.now))
        del self.messages[colour, position]
        self._end((colour, position))

    def _end(self, place: tuple[int, int]) -> None:
        colour, position = place
        rank = self.ranks[colour]
        node = rank.nodes[position]
        rank.busy[self._resource(node)] = False
        rank.issued.pop(position, None)
        rank.log.finish = self.kernel.now
        rank.left -= 1
        self.left -= 1
        for child in rank.children[position]:
            rank.waits[child] -= 1
            if rank.waits[child] == 0:
                self._ready(colour, child)
        if self.progress is not None and self.left % 1024 == 0:
            self.progress(1 - self.left / self.total)
        self._issue(colour)


def _children(graph: Graph) -> list[list[int]]:
    children: list[list[int]] = [[] for _ in graph.nodes]
    for position, node in enumerate(graph.nodes):
        for parent in node.parents:
            children[parent].append(position)
    return children
