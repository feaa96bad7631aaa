"""The graph of one rank: nodes with what the replay needs to know, checked.

Integer attributes are accepted in every kind of protobuf integer, and in a double that is whole. A
node waits for its data and its control dependencies alike.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

from sw_model.chakra.files import Trace
from sw_model.chakra.messages import CollectiveKind, NodeKind
from sw_model.collective.plan import Operation
from sw_model.errors import InputError
from sw_model.units import LARGEST_SIZE, LARGEST_TIME_NS
from sw_model.workload.traffic import TrafficClass

__all__ = ["NANOSECONDS", "TRAFFIC", "Graph", "TraceNode", "build_graph", "shortest_cycle"]

#: An attribute of our own: the duration in ns, where it is no whole number of microseconds.
NANOSECONDS = "antiphon_duration_nanos"
#: An attribute of our own: what communication is for, one of `TrafficClass`.
TRAFFIC = "antiphon_traffic_class"

#: A broadcast is a scatter and an all-gather, which move what an all-reduce moves (decided here).
_OPERATIONS = {
    CollectiveKind.ALL_REDUCE: Operation.ALL_REDUCE,
    CollectiveKind.ALL_GATHER: Operation.ALL_GATHER,
    CollectiveKind.ALL_TO_ALL: Operation.ALL_TO_ALL,
    CollectiveKind.REDUCE_SCATTER: Operation.REDUCE_SCATTER,
    CollectiveKind.REDUCE_SCATTER_BLOCK: Operation.REDUCE_SCATTER,
    CollectiveKind.BROADCAST: Operation.ALL_REDUCE,
    CollectiveKind.BARRIER: Operation.ALL_REDUCE,
}


_ONE = Fraction(1)
_CLASSES = {one.value: one for one in TrafficClass}


@dataclass(slots=True)
class TraceNode:
    """A node.

    Attributes
    ----------
    number : its id in the trace
    parents : positions in the graph of the nodes that it waits for
    duration_ns : of a compute or memory node, as in the trace
    on_cpu : runs beside the nodes that do not
    operation : of a collective
    size : bytes: a rank's buffer of a collective (its shard of an all-gather), or of a message
    group : of a collective, empty for all ranks
    dims : whether a collective spans each dim, or None for all
    source, destination, tag : of a message; a rank that is not there is the node's own, -1
    priority : of a collective
    operations, tensor_bytes : of a compute node, for the roofline
    traffic : what communication is for, where the trace says it
    precedence : what has less goes first over the links, whatever the policy
    slowdown : factor on the duration of a compute or memory node
    """

    number: int
    name: str
    kind: NodeKind
    parents: tuple[int, ...] = ()
    duration_ns: int = 0
    on_cpu: bool = False
    operation: Operation | None = None
    size: int = 0
    group: str = ""
    dims: tuple[bool, ...] | None = None
    source: int = -1
    destination: int = -1
    tag: int = 0
    priority: int = 0
    operations: int = 0
    tensor_bytes: int = 0
    traffic: TrafficClass | None = None
    precedence: int = 0
    slowdown: Fraction = _ONE

    def __str__(self) -> str:
        return f"node {self.number} {self.name!r}"


@dataclass(frozen=True)
class Graph:
    """The nodes of one rank in the order of their numbers.

    Attributes
    ----------
    nodes : see `TraceNode`
    groups : communicators that the trace itself defines, by name
    layers : names of the layers that the nodes belong to; empty where each is one of its own
    starts : positions whose compute begins an iteration
    """

    nodes: tuple[TraceNode, ...]
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    layers: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()

    @cached_property
    def collectives(self) -> dict[tuple[str, tuple[bool, ...] | None], tuple[int, ...]]:
        """Positions of the collectives, by what names their group."""
        found: dict[tuple[str, tuple[bool, ...] | None], list[int]] = {}
        for position, node in enumerate(self.nodes):
            if node.kind is NodeKind.COMM_COLL:
                found.setdefault((node.group, node.dims), []).append(position)
        return {key: tuple(positions) for key, positions in found.items()}

    @cached_property
    def messages(self) -> tuple[int, ...]:
        """Positions of the sends and receives."""
        ends = (NodeKind.COMM_SEND, NodeKind.COMM_RECV)
        return tuple(p for p, node in enumerate(self.nodes) if node.kind in ends)

    def layer(self, position: int) -> str:
        """Name of the layer of a node."""
        return self.layers[position] if self.layers else self.nodes[position].name


class _Attributes:
    """The attributes of one node, by name."""

    def __init__(self, node: Any, path: str) -> None:
        self.node, self.path = node, path
        self.values = {attribute.name: attribute for attribute in node.attr}

    def error(self, message: str) -> InputError:
        return InputError(f"node {self.node.id} {self.node.name!r}: {message}", path=self.path)

    def _value(self, name: str) -> Any:
        attribute = self.values.get(name)
        kind = None if attribute is None else attribute.WhichOneof("value")
        return None if kind is None else getattr(attribute, kind)

    def whole(self, name: str, default: int | None = 0, largest: int = 2**64) -> int:
        value = self._value(name)
        if value is None:
            if default is None:
                raise self.error(f"must have the attribute {name!r}")
            return default
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or value < 0:
            shown = repr(value) if isinstance(value, int | float | str | bytes) else "a list"
            raise self.error(f"{name} must be a whole number of at least 0, not {shown}")
        if value > largest:
            raise self.error(f"{name} must be at most {largest}, not {value:g}")
        return int(value)

    def text(self, name: str) -> str:
        value = self._value(name)
        if value is None:
            return ""
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        if not isinstance(value, str | int):
            raise self.error(f"{name} must be text, not {value!r}")
        return str(int(value)) if isinstance(value, int) else value

    def truths(self, name: str) -> tuple[bool, ...] | None:
        value = self._value(name)
        if value is None:
            return None
        values = getattr(value, "values", None)
        if values is None or not all(isinstance(v, int) and v in (0, 1) for v in values):
            raise self.error(f"{name} must be a list of truth values, one for each dim")
        return tuple(bool(v) for v in values)


def _traffic(attributes: _Attributes) -> TrafficClass | None:
    name = attributes.text(TRAFFIC)
    if name and name not in _CLASSES:
        raise attributes.error(f"{TRAFFIC} must be one of {', '.join(_CLASSES)}, not {name!r}")
    return _CLASSES[name] if name else None


def _convert(node: Any, path: str) -> TraceNode:
    attributes = _Attributes(node, path)
    try:
        kind = NodeKind(node.type)
    except ValueError:
        names = ", ".join(k.name for k in NodeKind if k is not NodeKind.INVALID)
        raise attributes.error(f"its type must be one of {names}, not {node.type}") from None
    nanoseconds = -1
    if NANOSECONDS in attributes.values:
        nanoseconds = attributes.whole(NANOSECONDS, -1, LARGEST_TIME_NS)
    elif node.duration_micros * 1000 > LARGEST_TIME_NS:
        raise attributes.error(
            f"duration_micros must be at most {LARGEST_TIME_NS // 1000}, not {node.duration_micros}"
        )
    result = TraceNode(
        number=node.id,
        name=node.name,
        kind=kind,
        duration_ns=node.duration_micros * 1000 if nanoseconds < 0 else nanoseconds,
        on_cpu=bool(attributes.whole("is_cpu_op")),
    )
    if kind is NodeKind.COMM_COLL:
        number = attributes.whole("comm_type", None)
        known = number in CollectiveKind.__members__.values()
        operation = _OPERATIONS.get(CollectiveKind(number)) if known else None
        if operation is None:
            names = ", ".join(kind.name for kind in _OPERATIONS)
            got = CollectiveKind(number).name if known else number
            raise attributes.error(f"comm_type must be one of {names}, not {got}")
        result.operation = operation
        barrier = number == CollectiveKind.BARRIER
        result.size = attributes.whole("comm_size", 0 if barrier else None, LARGEST_SIZE)
        result.group = attributes.text("pg_name")
        result.dims = attributes.truths("involved_dim")
        result.priority = attributes.whole("comm_priority")
        result.traffic = _traffic(attributes)
    elif kind in (NodeKind.COMM_SEND, NodeKind.COMM_RECV):
        sends = kind is NodeKind.COMM_SEND
        result.source = attributes.whole("comm_src", -1 if sends else None)
        result.destination = attributes.whole("comm_dst", None if sends else -1)
        result.size = attributes.whole("comm_size", None, LARGEST_SIZE)
        result.tag = attributes.whole("comm_tag")
        result.traffic = _traffic(attributes)
    else:
        result.operations = attributes.whole("num_ops", largest=LARGEST_SIZE)
        result.tensor_bytes = attributes.whole("tensor_size", largest=LARGEST_SIZE)
    return result


def build_graph(trace: Trace) -> Graph:
    """The checked graph of a rank.

    Raises
    ------
    InputError
        with file and node: an attribute that is missing or wrong, two nodes of one number, a
        dependency on a node that does not exist, a cycle (the shortest one is named).
    """
    path = trace.path
    messages = sorted(trace.nodes, key=lambda node: node.id)
    place = {node.id: index for index, node in enumerate(messages)}
    if len(place) < len(messages):
        twice = next(a for a, b in pairwise(messages) if a.id == b.id)
        raise InputError(f"node numbers must be unique; {twice.id} stands twice", path=path)
    nodes = []
    groups: dict[str, tuple[int, ...]] = {}
    for node in messages:
        converted = _convert(node, path)
        parents = []
        for what, numbers in (("data", node.data_deps), ("control", node.ctrl_deps)):
            for number in numbers:
                if number not in place:
                    raise InputError(
                        f"node {node.id} {node.name!r}: its {what} dependency must be a node of "
                        f"this rank, not {number}, which does not exist",
                        path=path,
                    )
                parents.append(place[number])
        converted.parents = tuple(dict.fromkeys(parents))
        nodes.append(converted)
        if converted.kind is NodeKind.METADATA and node.inputs.values:
            groups |= _groups_of(node.inputs.values)
    cycle = shortest_cycle([node.parents for node in nodes])
    if cycle:
        names = " -> ".join(str(nodes[index]) for index in (*cycle, cycle[0]))
        raise InputError(
            f"dependencies must not form a cycle; the shortest: {names}, where each waits for the "
            "next",
            path=path,
        )
    return Graph(tuple(nodes), groups)


def _groups_of(text: str) -> dict[str, tuple[int, ...]]:
    """Process groups as PyTorch's traces define them in a metadata node: a JSON list of ``pg_name``
    and ``ranks`` inside a Python list of one string. A group without ranks is all of them, which
    needs no definition. Other metadata gives none."""
    import json

    try:
        entries = json.loads(text[2:-2])
        return {
            str(entry["pg_name"]): tuple(int(rank) for rank in entry["ranks"])
            for entry in entries
            if entry["ranks"]
        }
    except (ValueError, TypeError, KeyError):
        return {}


def _trim(parents: Sequence[Iterable[int]], alive: set[int]) -> None:
    """Remove from ``alive`` what is on no cycle, as far as dependencies alone show it."""
    children: dict[int, list[int]] = {index: [] for index in alive}
    waits = dict.fromkeys(alive, 0)
    for index in alive:
        for parent in parents[index]:
            if parent in alive:
                children[parent].append(index)
                waits[index] += 1
    free = [index for index, count in waits.items() if count == 0]
    while free:
        index = free.pop()
        alive.discard(index)
        for child in children[index]:
            waits[child] -= 1
            if waits[child] == 0:
                free.append(child)


def shortest_cycle(parents: Sequence[Sequence[int]], *, tries: int = 1000) -> list[int]:
    """The positions on a shortest cycle, each before one that it waits for; empty where there is
    none. After ``tries`` nodes the shortest cycle found so far stands for it."""
    alive = set(range(len(parents)))
    _trim(parents, alive)
    best: list[int] = []
    while alive and tries:
        tries -= 1
        start = min(alive)
        found = _cycle_through(start, parents, alive)
        if found and (not best or len(found) < len(best)):
            best = found
        if len(best) == 1:
            break
        alive.discard(start)
        _trim(parents, alive)
    return best


def _cycle_through(start: int, parents: Sequence[Sequence[int]], alive: set[int]) -> list[int]:
    """A shortest way from ``start`` over what it waits for back to it, empty for none."""
    came: dict[int, int] = {}
    queue = deque([start])
    while queue:
        index = queue.popleft()
        for parent in parents[index]:
            if parent == start:
                way = [index]
                while way[-1] != start:
                    way.append(came[way[-1]])
                return way[::-1]
            if parent in alive and parent not in came:
                came[parent] = index
                queue.append(parent)
    return []
