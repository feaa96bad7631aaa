"""What runs on a tree of switches: collectives, the flows they become, what waits for what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

__all__ = ["CLASSES", "Collective", "Flow", "Link", "Tree", "flows_of", "keeps_trunk_order"]

CLASSES = ("mp", "pp", "dp")
"""In falling priority; a class's number is its place here."""

Link = tuple[str, int, str, int, int]
"""From a node to a node (``rank``, ``L1`` or ``L2``, each with its number); which of several."""


@dataclass(frozen=True, kw_only=True)
class Tree:
    """Ranks below L1 switches below L2 switches.

    Up link k of every L1 switch leads to L2 switch ``k % tops``.

    Parameters
    ----------
    switches : L1 switches
    ranks : below each of them
    ups : up links of each of them
    tops : L2 switches
    """

    switches: int
    ranks: int
    ups: int
    tops: int

    def switch(self, rank: int) -> int:
        """The L1 switch of a rank."""
        return rank // self.ranks


@dataclass(frozen=True, kw_only=True)
class Collective:
    """Packets that are reduced over the sources and multicast to the sinks.

    Parameters
    ----------
    number : its place in the one global order
    traffic_class : number of its class
    sources, sinks : ranks
    packets : how many each source sends
    up : up link that it takes, of every L1 switch
    after : numbers of earlier collectives; a rank that takes part in both sends nothing of this
        one before the earlier has ended there
    """

    number: int
    traffic_class: int
    sources: tuple[int, ...]
    sinks: tuple[int, ...]
    packets: int
    up: int = 0
    after: tuple[int, ...] = ()

    @property
    def members(self) -> tuple[int, ...]:
        """Sources and sinks."""
        return tuple(sorted({*self.sources, *self.sinks}))


@dataclass(frozen=True, kw_only=True)
class Flow:
    """A collective's way through one switch.

    Parameters
    ----------
    collective : whose
    switch : level (``L1`` or ``L2``) and number
    inputs, outputs : links
    """

    collective: Collective
    switch: tuple[str, int]
    inputs: tuple[Link, ...]
    outputs: tuple[Link, ...] = field(default=())


def flows_of(tree: Tree, collective: Collective) -> list[Flow]:
    """The flows of a collective: up from the L1 switches of its sources, through one L2 switch, and
    down to those of its sinks; within one L1 switch a single one."""
    below = tree.switch
    sources = _by(below, collective.sources)
    sinks = _by(below, collective.sinks)
    if len(sources | sinks) == 1:
        (number,) = sources
        return [
            Flow(
                collective=collective,
                switch=("L1", number),
                inputs=tuple(_up(rank, number) for rank in collective.sources),
                outputs=tuple(_down(rank, number) for rank in collective.sinks),
            )
        ]
    up, top = collective.up, collective.up % tree.tops
    flows = []
    for number, ranks in sources.items():
        flows.append(
            Flow(
                collective=collective,
                switch=("L1", number),
                inputs=tuple(_up(rank, number) for rank in ranks),
                outputs=(("L1", number, "L2", top, up),),
            )
        )
    flows.append(
        Flow(
            collective=collective,
            switch=("L2", top),
            inputs=tuple(("L1", number, "L2", top, up) for number in sources),
            outputs=tuple(("L2", top, "L1", number, up) for number in sinks),
        )
    )
    for number, ranks in sinks.items():
        flows.append(
            Flow(
                collective=collective,
                switch=("L1", number),
                inputs=(("L2", top, "L1", number, up),),
                outputs=tuple(_down(rank, number) for rank in ranks),
            )
        )
    return flows


def keeps_trunk_order(flow: Flow, others: Sequence[Flow]) -> bool:
    """Whether the packets of ``flow`` keep the global order on the links between switches.

    Flows that share no input may start in any order, and so come to a link that both leave by in
    any order. Where what comes behind that link joins several inputs, that order must be the
    global one: so two flows of one class that go up by one link must share an input.
    """
    trunks = {link for link in flow.outputs if link[2] == "L2"}
    return all(
        other.collective.traffic_class != flow.collective.traffic_class
        or not trunks & set(other.outputs)
        or bool(set(flow.inputs) & set(other.inputs))
        for other in others
    )


def _by(key: Callable[[int], int], ranks: Sequence[int]) -> dict[int, list[int]]:
    groups: dict[int, list[int]] = {}
    for rank in ranks:
        groups.setdefault(key(rank), []).append(rank)
    return groups


def _up(rank: int, switch: int) -> Link:
    return ("rank", rank, "L1", switch, 0)


def _down(rank: int, switch: int) -> Link:
    return ("L1", switch, "rank", rank, 0)
