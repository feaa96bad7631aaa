"""ASTRA-sim's semantics under a replay: a rank has one collective or send under way at a time, so
that a collective takes what it takes on an idle network.

A collective begins when its last member enters. In that program members that are early already
take part with what they have, in an order of their own, and can so block each other for good; to
wait for all members costs nothing where all enter together, and cannot deadlock where they do not.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sw_model.astra.collective import (
    AstraResult,
    DimUse,
    Phase,
    Span,
    chosen,
    cut,
    natural_algorithm,
    phases_of,
    run_collective,
    run_phases,
)
from sw_model.astra.links import Aware, Carrier, Unaware, pair_wire
from sw_model.astra.rounds import LiveCollective, congested_ns
from sw_model.astra.system import AlgorithmName, SystemConfig
from sw_model.chakra.messages import NodeKind
from sw_model.chakra.workload import ChakraWorkload, load_workload, rank_files
from sw_model.collective.plan import Operation
from sw_model.engine import EventKernel
from sw_model.errors import InputError
from sw_model.replay.engine import Replay
from sw_model.replay.fabric import DimTraffic, Done, Request
from sw_model.replay.folding import fold
from sw_model.replay.shapes import shape_of
from sw_model.topology import Dim, DimKind, Topology

__all__ = ["AstraFabric", "algorithm_ns", "custom_ns", "group_collective"]


class _Messages:
    """A fabric for the traces of custom algorithms: messages only.

    Parameters
    ----------
    ranks : of the network, by place in the group
    """

    ticks_per_ns = 1
    one_at_a_time = False
    shortest_compute = 1

    def __init__(self, carrier: Carrier, kernel: EventKernel, ranks: tuple[int, ...]) -> None:
        self.carrier, self.kernel, self.ranks = carrier, kernel, ranks

    def collective(self, request: Request, done: Done) -> None:
        raise AssertionError("checked before")

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
        def both(_: object) -> None:
            sent()
            arrived()

        ranks = self.ranks
        self.carrier.send(ranks[source[0]], ranks[destination[0]], size, both, None)

    def traffic(self) -> tuple[DimTraffic, ...]:
        return ()

    def notes(self) -> tuple[str, ...]:
        return ()


def custom_ns(
    prefix: Path,
    members: tuple[int, ...],
    topology: Topology,
    system: SystemConfig,
    *,
    aware: bool = False,
) -> int:
    """Time of one chunk by the traces of a custom algorithm: as many bytes as those say.

    Raises
    ------
    InputError
        as `load_workload`; for a collective inside an algorithm; and where the prefix is to be
        found neither from the working directory nor beside the system file.
    """
    if not rank_files(prefix) and system.path:
        prefix = Path(system.path).parent / prefix
    places = Topology((Dim(DimKind.RING, len(members), topology.dims[0].bandwidth, 0),))
    return algorithm_ns(load_workload(prefix, places), members, topology, system, aware=aware)


def algorithm_ns(
    workload: ChakraWorkload,
    members: tuple[int, ...],
    topology: Topology,
    system: SystemConfig,
    *,
    aware: bool = False,
) -> int:
    """Time of an algorithm whose ranks are the places in a group; see `custom_ns`."""
    for rank, graph in enumerate(workload.graphs):
        for node in graph.nodes:
            if node.kind is NodeKind.COMM_COLL:
                raise InputError(
                    f"{node}: an algorithm must be made of messages, not of collectives",
                    path=workload.paths[rank],
                )
    kernel = EventKernel()
    carrier = Aware(topology, kernel) if aware else Unaware(topology, kernel)
    folding = fold(workload, lambda group: group, identical=False)
    fabric = _Messages(carrier, kernel, members)
    return max(log.finish for log in Replay(workload, folding, fabric, system).run())


def group_collective(
    operation: Operation,
    size: int,
    members: tuple[int, ...],
    topology: Topology,
    system: SystemConfig,
    *,
    custom: Path | None = None,
    aware: bool = False,
) -> AstraResult:
    """A collective over some ranks of an idle network, ``custom`` by the traces of that prefix.

    A group of whole dims goes dim by dim. Any other is one dim of its own, as in ASTRA-sim: with
    the algorithm of dim 1, and every step as long as its longest message.
    """
    dims = len(topology.dims)
    shape = shape_of(topology, members)
    notes: list[str] = []
    chunk, chunks = cut(operation, size, system.splits, len(members))
    if len(members) > 1 and custom is not None:
        time = custom_ns(custom, members, topology, system, aware=aware)
        return run_phases((Phase(operation, 0, chunk, time, 0),), chunks, system, dims)
    if shape.whole:
        result = run_collective(operation, size, topology, system, dims=shape.dims)
    else:
        result = _one_dim(operation, chunk, chunks, members, topology, system, notes)
    if not aware or len(members) == 1:
        return result
    used = _congested_algorithm(topology, system, operation, members, notes)
    time = congested_ns(operation, used, chunk, chunks, members, topology, system)
    uses = tuple(DimUse(time if use.busy_ns else 0, use.bytes_per_npu) for use in result.dims)
    return AstraResult(time, uses, result.phases, chunks, tuple(notes))


def _congested_algorithm(
    topology: Topology,
    system: SystemConfig,
    operation: Operation,
    members: tuple[int, ...],
    notes: list[str],
) -> AlgorithmName:
    """What the congestion-aware back-end does; says in ``notes`` where that is not what is
    asked for."""
    asked = _algorithm(topology, system, operation, members)
    used = chosen(asked, operation, len(members), "this group", notes)
    if used is AlgorithmName.DOUBLE_BINARY_TREE:
        notes.append("astra-sim-aware has no doubleBinaryTree: ring is used instead")
        used = AlgorithmName.RING
    return used


def _algorithm(
    topology: Topology, system: SystemConfig, operation: Operation, members: tuple[int, ...]
) -> AlgorithmName:
    system.check_dims(len(topology.dims))
    wanted = system.algorithms.get(operation)
    if wanted:
        return wanted[0]
    return natural_algorithm(topology.dims[shape_of(topology, members).dims[-1]].kind)


def _one_dim(
    operation: Operation,
    chunk: int,
    chunks: int,
    members: tuple[int, ...],
    topology: Topology,
    system: SystemConfig,
    notes: list[str],
) -> AstraResult:
    asked = _algorithm(topology, system, operation, members)
    used = chosen(asked, operation, len(members), f"a group of {len(members)}", notes)
    if used is AlgorithmName.RING:
        pairs = set(zip(members, members[1:] + members[:1], strict=True))
    else:
        pairs = {(a, b) for a in members for b in members if a < b}
    dim = shape_of(topology, members).dims[-1]
    wires = {pair_wire(topology, a, b) for a, b in pairs}
    ways = [
        phases_of(operation, chunk, [Span(dim, len(members), used, wire)], system) for wire in wires
    ]
    slowest = max(ways, key=lambda phases: sum(phase.duration for phase in phases))
    return run_phases(slowest, chunks, system, len(topology.dims), tuple(notes))


class AstraFabric:
    """See the module. ``aware`` for the congestion-aware back-end, in which collectives and
    messages share the links; an algorithm of the user's own has them to itself."""

    ticks_per_ns = 1
    one_at_a_time = True
    shortest_compute = 1  # as in ASTRA-sim

    def __init__(
        self, topology: Topology, system: SystemConfig, colours: int, *, aware: bool = False
    ) -> None:
        self.kernel = EventKernel()
        self.topology, self.system, self.aware = topology, system, aware
        carrier = Aware if aware else Unaware
        self.carrier: Carrier = carrier(topology, self.kernel)
        self.known: dict[tuple[Operation, int, object, Path | None], AstraResult] = {}
        dims = len(topology.dims)
        self.busy = [[0] * dims for _ in range(colours)]
        self.sent = [[0] * dims for _ in range(colours)]
        self.told: dict[str, None] = {}
        #: Called with the share of a long collective that has been carried out.
        self.tell: Callable[[float], object] = lambda share: None

    def result(self, request: Request) -> AstraResult:
        """What the collective takes on an idle network."""
        members = request.group.members
        # Which ranks they are matters only by their shape, but for messages between any two.
        shape = shape_of(self.topology, members)
        custom = self.system.custom_algorithm(request.operation, request.node)
        where = shape if shape.whole and custom is None else members
        key = (request.operation, request.size, where, custom)
        if key not in self.known:
            self.known[key] = group_collective(
                request.operation,
                request.size,
                members,
                self.topology,
                self.system,
                custom=custom,
                aware=self.aware,
            )
            self.told.update(dict.fromkeys(self.known[key].notes))
        return self.known[key]

    def _live(self, request: Request, done: Done) -> None:
        """Message by message, over links that other collectives and messages use too."""
        members, operation = request.group.members, request.operation
        notes: list[str] = []
        used = _congested_algorithm(self.topology, self.system, operation, members, notes)
        self.told.update(dict.fromkeys(notes))
        chunk, chunks = cut(operation, request.size, self.system.splits, len(members))
        dim = shape_of(self.topology, members).dims[-1]
        begun = self.kernel.now

        def ended() -> None:
            for colour in request.group.colours:
                self.busy[colour][dim] += self.kernel.now - begun
            done()

        live = LiveCollective(
            operation,
            used,
            chunk,
            chunks,
            members,
            self.system,
            self.kernel,
            self.carrier,
            ended,
            self.tell,
        )
        for colour in request.group.colours:
            self.sent[colour][dim] += live.sent
        live.begin()

    def collective(self, request: Request, done: Done) -> None:
        """See `Fabric`."""
        members = request.group.members
        custom = self.system.custom_algorithm(request.operation, request.node)
        if self.aware and len(members) > 1 and custom is None:
            self._live(request, done)
            return
        result = self.result(request)
        for colour in request.group.colours:
            for dim, use in enumerate(result.dims):
                self.busy[colour][dim] += use.busy_ns
                self.sent[colour][dim] += use.bytes_per_npu
        self.kernel.after(result.time_ns, lambda _: done())

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
        here = self.topology.coordinates(source[0])
        there = self.topology.coordinates(destination[0])
        dim = next(d for d, (a, b) in enumerate(zip(here, there, strict=True)) if a != b)
        begun = self.kernel.now
        self.sent[source[1]][dim] += size

        def both(_: object) -> None:
            self.busy[source[1]][dim] += self.kernel.now - begun
            sent()
            arrived()

        self.carrier.send(source[0], destination[0], size, both, None)

    def traffic(self) -> tuple[DimTraffic, ...]:
        """See `Fabric`."""
        return tuple(
            DimTraffic(max(busy[d] for busy in self.busy), max(sent[d] for sent in self.sent))
            for d in range(len(self.topology.dims))
        )

    def notes(self) -> tuple[str, ...]:
        """See `Fabric`."""
        return tuple(self.told)
