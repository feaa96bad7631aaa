"""A whole workload of Chakra traces: one file for each rank, ``PREFIX.RANK.et``.

Files with the same bytes are parsed once and share their graph.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path

from sw_model.chakra.files import parse_trace, read_bytes
from sw_model.chakra.graph import Graph, TraceNode, build_graph
from sw_model.chakra.messages import NodeKind
from sw_model.errors import InputError, nearest
from sw_model.topology import Topology

__all__ = ["ChakraWorkload", "Match", "assemble", "is_chakra", "load_workload", "rank_files"]


def rank_files(prefix: str | PathLike[str]) -> dict[int, Path]:
    """The trace files of a prefix, by rank, ascending.

    Raises
    ------
    InputError
        where two files are the trace of one rank, plain and compressed, say.
    """
    start = Path(prefix)
    found: dict[int, Path] = {}
    if not start.parent.is_dir():
        return found
    name = re.compile(re.escape(start.name) + r"\.(\d+)\.et(\.gz)?")
    for path in sorted(start.parent.iterdir()):
        match = name.fullmatch(path.name)
        if match:
            other = found.setdefault(int(match[1]), path)
            if other != path:
                raise InputError(
                    f"is a trace of rank {int(match[1])}, as {other.name} is: remove one of them",
                    path=path,
                )
    return dict(sorted(found.items()))


def is_chakra(prefix: str | PathLike[str]) -> bool:
    """Whether ``prefix`` names Chakra traces: no file itself, but the start of some."""
    return not Path(prefix).is_file() and bool(rank_files(prefix))


@dataclass(frozen=True)
class Match:
    """The two ends of a message: ranks, and positions in their graphs."""

    source: int
    send: int
    destination: int
    receive: int


@dataclass(frozen=True)
class ChakraWorkload:
    """Graphs of all ranks, checked against the network and against each other.

    Attributes
    ----------
    prefix : of the files
    topology : whose NPUs the ranks are
    graphs : by rank; equal files share one
    paths : by rank, for messages
    groups : communicators, by name
    matches : messages, by rank and position of either end
    unmatched : sends that nobody receives, for a warning
    """

    prefix: str
    graphs: tuple[Graph, ...]
    paths: tuple[str, ...]
    groups: Mapping[str, tuple[int, ...]]
    topology: Topology
    matches: Mapping[tuple[int, int], Match]
    unmatched: tuple[tuple[int, int], ...]

    def node(self, rank: int, position: int) -> TraceNode:
        """A node of a rank."""
        return self.graphs[rank].nodes[position]

    @property
    def nodes(self) -> int:
        """Of all ranks together."""
        return sum(len(graph.nodes) for graph in self.graphs)

    def members(self, rank: int, node: TraceNode) -> tuple[int, ...]:
        """The ranks of the group of a collective of ``rank``, ascending."""
        return members_of(self.topology, self.groups, rank, node)


def members_of(
    topology: Topology, groups: Mapping[str, tuple[int, ...]], rank: int, node: TraceNode
) -> tuple[int, ...]:
    """The ranks of the group of a collective: all of them, those of its communicator, or those that
    differ from ``rank`` only on the dims that it involves."""
    if node.group in groups:
        return tuple(sorted(groups[node.group]))
    ranks = range(topology.npus)
    if node.dims is None or all(node.dims[: len(topology.dims)]):
        return tuple(ranks)
    own = topology.coordinates(rank)
    spans = [0]
    stride = 1
    for index, dim in enumerate(topology.dims):
        free = index < len(node.dims) and node.dims[index]
        places = range(dim.size) if free else (own[index],)
        spans = [base + place * stride for place in places for base in spans]
        stride *= dim.size
    return tuple(sorted(spans))


def load_workload(
    prefix: str | PathLike[str],
    topology: Topology,
    groups: Mapping[str, tuple[int, ...]] | None = None,
    *,
    progress: Callable[[float], object] | None = None,
) -> ChakraWorkload:
    """Read and check the traces of all NPUs of ``topology``.

    Parameters
    ----------
    groups : communicators by name; those that a trace defines itself come beside them
    progress : called with the share of the files that is read

    Raises
    ------
    InputError
        with file, node and rank: a missing trace, a trace for no NPU, whatever is wrong inside one
        (`parse_trace`, `build_graph`), a group that is not defined, a rank outside the group that
        it calls, a message to itself or to no rank, a receive of another size than its send.
    """
    files = rank_files(prefix)
    npus = topology.npus
    for rank in range(npus):
        if rank not in files:
            raise InputError(
                f"is missing: the network has {npus} NPUs, each of which needs its trace",
                path=f"{fspath(prefix)}.{rank}.et",
            )
    extra = [rank for rank in files if rank >= npus]
    if extra:
        raise InputError(
            f"must be the trace of one of the network's {npus} NPUs, 0..{npus - 1}, "
            f"not of rank {extra[0]}",
            path=files[extra[0]],
        )
    parsed: dict[bytes, Graph] = {}
    graphs = []
    for path in files.values():
        data = read_bytes(path)
        digest = hashlib.sha256(data).digest()
        if digest not in parsed:
            parsed[digest] = build_graph(parse_trace(data, path))
        graphs.append(parsed[digest])
        if progress is not None:
            progress(len(graphs) / npus)
    return assemble(prefix, graphs, topology, groups, [str(path) for path in files.values()])


def assemble(
    prefix: str | PathLike[str],
    graphs: Sequence[Graph],
    topology: Topology,
    groups: Mapping[str, tuple[int, ...]] | None = None,
    paths: Sequence[str] | None = None,
) -> ChakraWorkload:
    """A workload of graphs that need not come from files; checked as `load_workload` says."""
    if len(graphs) != topology.npus:
        raise ValueError(f"graphs must be one for each of {topology.npus} NPUs, not {len(graphs)}")
    known = dict(groups or {})
    for graph in {id(graph): graph for graph in graphs}.values():
        known = graph.groups | known
    graphs = tuple(graphs)
    paths = tuple(paths or (f"{fspath(prefix)}.{rank}" for rank in range(len(graphs))))
    _check_groups(graphs, paths, topology, known)
    matches, unmatched = _match(graphs, paths)
    return ChakraWorkload(fspath(prefix), graphs, paths, known, topology, matches, unmatched)


def _check_groups(
    graphs: tuple[Graph, ...],
    paths: tuple[str, ...],
    topology: Topology,
    groups: Mapping[str, tuple[int, ...]],
) -> None:
    for rank, graph in enumerate(graphs):
        for positions in graph.collectives.values():
            node = graph.nodes[positions[0]]
            # As in ASTRA-sim, group 0 is all ranks unless it is defined.
            if node.group in ("", "0") and node.group not in groups:
                if node.dims is not None and len(node.dims) < len(topology.dims):
                    raise InputError(
                        f"{node}: involved_dim must have {len(topology.dims)} entries, one for "
                        f"each dim of the network, not {len(node.dims)}",
                        path=paths[rank],
                    )
                continue
            members = groups.get(node.group)
            if members is None:
                hint = nearest(node.group, groups) or " (no groups are given: see --comm-group)"
                raise InputError(
                    f"{node}: its group must be defined, not {node.group!r}{hint}",
                    path=paths[rank],
                )
            if max(members) >= topology.npus:
                raise InputError(
                    f"{node}: the ranks of group {node.group!r} must be in "
                    f"0..{topology.npus - 1}, not {max(members)}",
                    path=paths[rank],
                )
            if rank not in members:
                raise InputError(
                    f"{node}: rank {rank} must be in group {node.group!r}, which has only the "
                    f"ranks {_some(members)}",
                    path=paths[rank],
                )


def _some(ranks: tuple[int, ...]) -> str:
    shown = ", ".join(str(rank) for rank in ranks[:16])
    return shown + (f", ... ({len(ranks)} in all)" if len(ranks) > 16 else "")


def _match(
    graphs: tuple[Graph, ...], paths: tuple[str, ...]
) -> tuple[dict[tuple[int, int], Match], tuple[tuple[int, int], ...]]:
    """Sends and receives by (source, destination, tag); of several, the first send with the first
    receive, by the numbers of the nodes."""
    sends: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
    receives: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
    for rank, graph in enumerate(graphs):
        for position in graph.messages:
            node = graph.nodes[position]
            sending = node.kind is NodeKind.COMM_SEND
            own, peer = node.source, node.destination
            if not sending:
                own, peer = peer, own
            if own not in (-1, rank):
                what = "comm_src of a send" if sending else "comm_dst of a receive"
                raise InputError(
                    f"{node}: {what} must be its own rank {rank}, not {own}", path=paths[rank]
                )
            if peer == rank or peer >= len(graphs):
                what = "comm_dst" if sending else "comm_src"
                raise InputError(
                    f"{node}: {what} must be another rank in 0..{len(graphs) - 1}, not {peer}",
                    path=paths[rank],
                )
            table = sends if sending else receives
            key = (rank, peer, node.tag) if sending else (peer, rank, node.tag)
            table.setdefault(key, []).append((rank, position))
    matches: dict[tuple[int, int], Match] = {}
    unmatched: list[tuple[int, int]] = []
    for key, starts in sends.items():
        ends = receives.get(key, [])
        unmatched += starts[len(ends) :]
        for start, end in zip(starts, ends, strict=False):
            send = graphs[start[0]].nodes[start[1]]
            receive = graphs[end[0]].nodes[end[1]]
            if send.size != receive.size:
                raise InputError(
                    f"{receive}: rank {end[0]} must receive the {send.size} bytes that rank "
                    f"{start[0]} sends with tag {send.tag} ({send}, {paths[start[0]]}), "
                    f"not {receive.size}",
                    path=paths[end[0]],
                )
            matches[start] = matches[end] = Match(*start, *end)
    return matches, tuple(unmatched)
