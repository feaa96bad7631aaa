"""Which channel of a network waits for which: the check that a platform cannot deadlock in its
links (docs/fred.md)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from sw_model.errors import DeadlockError
from sw_model.fred.tree.case import Collective, Tree, flows_of
from sw_model.topology import DimKind, Topology

__all__ = ["ChannelGraph", "check_platform", "platform_channels", "tree_channels"]

Channel = Hashable
"""A buffer at the end of a link, for one class: any name that can be printed. All classes have the
same links and share no buffer, so the graph of one class is that of all."""


class ChannelGraph:
    """The channel-dependency graph: a packet in one channel may wait for room in another.

    Where it has no cycle, some packet can always leave its channel: the one in the channel that
    depends on none that is full. (Dally and Seitz, 1987.)
    """

    def __init__(self) -> None:
        self._edges: dict[Channel, dict[Channel, str]] = {}

    def add(self, inputs: Iterable[Channel], outputs: Iterable[Channel], by: str) -> None:
        """Packets pass from these channels to those; ``by`` says where, for messages. Without
        outputs they are taken unconditionally."""
        outputs = tuple(outputs)
        for channel in outputs:
            self._edges.setdefault(channel, {})
        for channel in inputs:
            self._edges.setdefault(channel, {}).update(dict.fromkeys(outputs, by))

    def __len__(self) -> int:
        return len(self._edges)

    def cycle(self) -> list[tuple[Channel, str]]:
        """Channels of which each waits for the next and the last for the first, each with where;
        empty where there is no cycle."""
        done: set[Channel] = set()
        for start in self._edges:
            path: list[Channel] = []
            # A stack of the channels still to visit behind each channel of the path.
            stack: list[Iterator[Channel]] = [iter((start,))]
            while stack:
                channel = next(stack[-1], None)
                if channel is None:
                    stack.pop()
                    if path:
                        done.add(path.pop())
                elif channel in path:
                    ring = path[path.index(channel) :]
                    following = [*ring[1:], ring[0]]
                    return [
                        (one, self._edges[one][after])
                        for one, after in zip(ring, following, strict=True)
                    ]
                elif channel not in done:
                    path.append(channel)
                    stack.append(iter(self._edges[channel]))
        return []

    def check(self) -> None:
        """Refuse a network whose channels wait for each other in a cycle.

        Raises
        ------
        DeadlockError
            naming the channels in the order of the cycle, and where each waits for the next.
        """
        ring = self.cycle()
        if ring:
            steps = ", ".join(f"{channel} for the next in {by}" for channel, by in ring)
            raise DeadlockError(
                f"the channels of the network must not wait for each other in a cycle: {steps}"
            )


def platform_channels(topology: Topology) -> ChannelGraph:
    """The channels of a platform of links and switches, with every dependency that any plan has;
    of each dim one group, as all are alike and joined by endpoints only.

    An endpoint takes what comes unconditionally: nothing is sent before its receiver has granted
    the op, space included (docs/ace.md), so no link depends on another through it: without a
    switch each message ends at the endpoint behind its link. Through a FRED switch every input
    may wait for every output.
    """
    graph = ChannelGraph()
    for number, dim in enumerate(topology.dims, start=1):
        ports = range(dim.size) if dim.size > 1 else ()
        if dim.tree is not None:
            _add_tree(graph, dim.tree.tree(dim.size))
        elif dim.kind is DimKind.FRED:
            up = [f"port {port} into the switch of dim {number}" for port in ports]
            down = [f"port {port} out of the switch of dim {number}" for port in ports]
            graph.add(up, down, f"the switch of dim {number}")
            graph.add(down, (), "the endpoints")
        else:
            links = [f"the links of place {port} on dim {number}" for port in ports]
            graph.add(links, (), "the endpoints")
    return graph


def _add_tree(graph: ChannelGraph, tree: Tree) -> None:
    """Every way that a packet has through a tree of switches: what has come down does not go up
    again."""
    up, down = {}, {}
    for link in range(tree.ups):
        for switch in range(tree.switches):
            up[switch, link] = f"up link {link} of L1 switch {switch}"
            down[switch, link] = f"up link {link} down to L1 switch {switch}"
    for top in range(tree.tops):
        links = [key for key in up if key[1] % tree.tops == top]
        graph.add([up[key] for key in links], [down[key] for key in links], f"L2 switch {top}")
    for switch in range(tree.switches):
        ranks = range(switch * tree.ranks, (switch + 1) * tree.ranks)
        links = [(switch, link) for link in range(tree.ups)]
        below = [f"the link from L1 switch {switch} to rank {rank}" for rank in ranks]
        above = [up[key] for key in links]
        entering = [f"the link from rank {rank} to L1 switch {switch}" for rank in ranks]
        graph.add(entering, (*below, *above), f"L1 switch {switch}")
        graph.add([down[key] for key in links], below, f"L1 switch {switch}")
        graph.add(below, (), "the endpoints")


def tree_channels(tree: Tree, program: Iterable[Collective]) -> ChannelGraph:
    """The channels of a tree of switches, with the dependencies that these collectives have."""
    graph = ChannelGraph()
    for collective in program:
        for flow in flows_of(tree, collective):
            graph.add(flow.inputs, flow.outputs, " ".join(map(str, flow.switch)))
    return graph


def check_platform(topology: Topology) -> None:
    """Check the channels of a platform before it is built.

    Raises
    ------
    DeadlockError
        see :meth:`ChannelGraph.check`.
    """
    platform_channels(topology).check()
