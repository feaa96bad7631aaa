"""Which flows FRED switches route in one configuration: 3D parallelism, and all partitions.

A strategy MP x DP x PP = P places its workers on the ports of one switch, tensor groups on
consecutive ports, then stages, then replicas (FRED, ISCA 2025, placement). Each of its phases is a
set of flows at the same time: an all-reduce in every MP group, one in every DP group, a message
from every worker to the next stage.

What must come out can be derived. A DP group takes every k-th port, k = MP x PP. Where k is odd,
the edge switches, which join ports 2i and 2i + 1, make each group share a switch with the next, all
round: an odd cycle of conflicts, which two middle copies cannot colour and three can. Where k is
even, odd and even groups go to different copies and meet the same question with k / 2. So FRED_2
fails where DP > 1 and the odd part of k is 3 or more, and FRED_3 never does. Consecutive groups and
permutations route at m = 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sim_top.reproduce.registry import Row
from sw_model.fred.configuration import Configuration, Flow
from sw_model.fred.routing import route, split
from sw_model.workload.parallel import Axis, Parallelism

__all__ = ["PARTITIONS", "PORTS", "Routability", "phases", "rows", "strategies", "study"]

PORTS = range(8, 21)
_COPIES = (2, 3, 4)
#: Partitions of P ports into groups that all-reduce at the same time: all, and those that FRED_2
#: cannot route (derived by exhaustive search).
PARTITIONS = {4: (15, 0), 5: (52, 0), 6: (203, 8), 7: (877, 32), 8: (4140, 448)}
#: Groups on 12 ports that two and three middle copies cannot route, and four can (derived).
_HARD = ((0, 2, 4), (1, 6, 8), (3, 7, 10), (5, 9, 11))


@dataclass(frozen=True)
class Routability:
    """A strategy on a switch.

    Attributes
    ----------
    strategy : MP x DP x PP
    configurations : that each phase needs, by its name; 1 where it routes at once
    """

    strategy: Parallelism
    configurations: dict[str, int]

    @property
    def at_once(self) -> bool:
        """Whether every phase routes in one configuration."""
        return all(count == 1 for count in self.configurations.values())


def strategies(ports: int) -> Iterator[Parallelism]:
    """All MP x DP x PP = ``ports``."""
    for tensor in range(1, ports + 1):
        for pipeline in range(1, ports // tensor + 1):
            if ports % (tensor * pipeline) == 0:
                data = ports // (tensor * pipeline)
                yield Parallelism(tensor=tensor, pipeline=pipeline, data=data)


def phases(strategy: Parallelism) -> dict[str, tuple[Flow, ...]]:
    """The flows of each phase; port = rank."""
    ranks = range(strategy.ranks)
    out = {}
    for name, axis, size in (
        ("MP", Axis.TENSOR, strategy.tensor),
        ("DP", Axis.DATA, strategy.data),
    ):
        if size > 1:
            groups = sorted({strategy.members(axis, rank) for rank in ranks})
            out[name] = tuple(Flow(group, group) for group in groups)
    if strategy.pipeline > 1:
        places = [strategy.place(rank) for rank in ranks]
        out["PP"] = tuple(
            Flow((rank,), (strategy.rank(tensor, stage + 1, replica),))
            for rank, (tensor, stage, replica) in enumerate(places)
            if stage + 1 < strategy.pipeline
        )
    return out


def study(ports: int, copies: int) -> list[Routability]:
    """Every strategy of ``ports`` workers on FRED_copies(ports)."""
    out = []
    for strategy in strategies(ports):
        counts = {}
        for name, flows in phases(strategy).items():
            whole = isinstance(route(ports, copies, flows), Configuration)
            counts[name] = 1 if whole else len(split(ports, copies, flows))
        out.append(Routability(strategy, counts))
    return out


def _expected(ports: int, copies: int) -> int:
    """How many strategies do not route at once; see the module."""

    def odd_part(number: int) -> int:
        return number // (number & -number)

    if copies > 2:
        return 0
    return sum(s.data > 1 and odd_part(s.tensor * s.pipeline) > 1 for s in strategies(ports))


def _partitions(ports: int) -> Iterator[list[list[int]]]:
    """All ways to divide ports into groups."""

    def extend(port: int, groups: list[list[int]]) -> Iterator[list[list[int]]]:
        if port == ports:
            yield groups
            return
        for index in range(len(groups)):
            yield from extend(
                port + 1, [[*g, port] if i == index else g for i, g in enumerate(groups)]
            )
        yield from extend(port + 1, [*groups, [port]])

    return extend(0, [])


def _flows(groups: Sequence[Sequence[int]]) -> tuple[Flow, ...]:
    return tuple(Flow(tuple(group), tuple(group)) for group in groups)


def rows(progress: Callable[[float], object]) -> list[Row]:
    """All figures."""
    out = []
    for ports in PORTS:
        for copies in _COPIES:
            found = study(ports, copies)
            failed = [entry for entry in found if not entry.at_once]
            name = f"FRED_{copies}({ports}): of {len(found)} MP x DP x PP, not in one configuration"
            note = "derived: odd cycles of conflicts"
            out.append(Row(name, len(failed), _expected(ports, copies), note, 0))
        progress((ports - PORTS.start) / len(PORTS))
    for ports, (count, unroutable) in PARTITIONS.items():
        partitions = [_flows(groups) for groups in _partitions(ports)]
        assert len(partitions) == count
        for copies, expected in ((2, unroutable), (3, 0)):
            failures = sum(
                not isinstance(route(ports, copies, flows), Configuration) for flows in partitions
            )
            name = f"FRED_{copies}({ports}): of {count} partitions, not in one configuration"
            out.append(Row(name, failures, expected, "derived by exhaustive search", 0))
    for copies in _COPIES:
        needed = len(split(12, copies, _flows(_HARD)))
        fails = copies < 4
        name = (
            f"FRED_{copies}(12), groups {{0,2,4}} {{1,6,8}} {{3,7,10}} {{5,9,11}}: configurations"
        )
        note = f"derived by exhaustive search: {'do not route' if fails else 'route'} at once"
        out.append(Row(name, needed, 2 if fails else 1, note, 0, at_least=fails))
    progress(1.0)
    return out
