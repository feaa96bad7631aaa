"""Exact routing of flows through FRED_m(P), outside in (FRED, ISCA 2025, routing).

At every level the flows that share an input or an output edge switch take different middle
copies: the conflict graph is coloured with m colours, and every copy then routes its flows with
the ports halved. An outer colouring is revisited when a copy fails, so a route is found whenever
there is one. The answer is deterministic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sw_model.fred.colouring import Colouring, colour, shrink
from sw_model.fred.configuration import Configuration, Flow, check_flows
from sw_model.fred.construction import check_size, construct, stages
from sw_model.fred.modes import CentreMode, Kind, Mode

__all__ = ["Conflict", "route", "split"]

_Masks = tuple[int, int]
"""A flow inside the recursion: bit masks of its inputs and outputs."""

_Way = tuple[int, ...]
"""Middle copies of a flow, outermost first."""

_REMEMBERED = 200_000


@dataclass(frozen=True)
class Conflict:
    """Why flows do not route together.

    Attributes
    ----------
    flows : a smallest set that does not route: without any one of them the others do
    stage : stage of the input edge switches (or centre) at which they get in each other's way;
        the mirrored output stage is ``stages(P) - 1 - stage``
    reason : in words
    """

    flows: tuple[Flow, ...]
    stage: int
    reason: str

    def __str__(self) -> str:
        return self.reason


class _Router:
    """Routes masks through FRED_m of any size, remembering what it has found."""

    def __init__(self, copies: int):
        self.copies = copies
        self._known: dict[tuple[int, tuple[_Masks, ...]], tuple[_Way, ...] | None] = {}

    def ways(self, ports: int, flows: Sequence[_Masks]) -> tuple[_Way, ...] | None:
        """For every flow the copies it takes, or None if there is no route."""
        if ports == 2:
            return ((),) * len(flows)
        key = (ports, tuple(flows))
        if key not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = self._search(ports, flows)
        return self._known[key]

    def colouring(self, ports: int, flows: Sequence[_Masks]) -> Colouring:
        """Assignment of the flows to the copies of FRED_m(ports)."""
        inner = [_halve(flow) for flow in flows]
        size = (ports + 1) // 2
        return colour(
            conflicts(inner),
            self.copies,
            lambda group: self.ways(size, [inner[i] for i in group]) is not None,
        )

    def _search(self, ports: int, flows: Sequence[_Masks]) -> tuple[_Way, ...] | None:
        colours = self.colouring(ports, flows).colours
        if colours is None:
            return None
        ways: list[_Way] = [()] * len(flows)
        for copy in set(colours):
            members = [i for i, own in enumerate(colours) if own == copy]
            inside = self.ways((ports + 1) // 2, [_halve(flows[i]) for i in members])
            assert inside is not None
            for i, way in zip(members, inside, strict=True):
                ways[i] = (copy, *way)
        return tuple(ways)


@lru_cache(maxsize=16)
def _router(copies: int) -> _Router:
    return _Router(copies)


def _halve_mask(mask: int) -> int:
    half = bit = 0
    while mask:
        half |= bool(mask & 3) << bit
        mask >>= 2
        bit += 1
    return half


@lru_cache(maxsize=1 << 16)
def _halve(flow: _Masks) -> _Masks:
    """The edge switches that a flow touches: its ports one level further in."""
    return _halve_mask(flow[0]), _halve_mask(flow[1])


def conflicts(flows: Sequence[_Masks]) -> list[set[int]]:
    """For each flow, those that share a port with it."""
    return [
        {j for j, b in enumerate(flows) if j != i and (a[0] & b[0] or a[1] & b[1])}
        for i, a in enumerate(flows)
    ]


def _masks(flow: Flow) -> _Masks:
    return sum(1 << p for p in flow.inputs), sum(1 << p for p in flow.outputs)


def route(ports: int, middle_copies: int, flows: Iterable[Flow]) -> Configuration | Conflict:
    """Find the modes with which all ``flows`` run at the same time through FRED_m(P).

    Raises
    ------
    ValueError
        where the size is no FRED switch, a port is out of range or two flows share a port.
    """
    check_size(ports, middle_copies)
    flows = check_flows(ports, flows)
    masks = [_masks(flow) for flow in flows]
    ways = _router(middle_copies).ways(ports, masks)
    if ways is None:
        return _explain(ports, middle_copies, flows, masks)
    return Configuration(ports, middle_copies, flows, _modes(ports, middle_copies, masks, ways))


def split(ports: int, middle_copies: int, flows: Iterable[Flow]) -> tuple[Configuration, ...]:
    """The fewest configurations that carry every one of ``flows`` once.

    Flows that share a port get different configurations. A flow alone always routes.

    Raises
    ------
    ValueError
        where the size is no FRED switch or a port is out of range.
    """
    check_size(ports, middle_copies)
    flows = check_flows(ports, flows, disjoint=False)
    masks = [_masks(flow) for flow in flows]
    router = _router(middle_copies)
    overlaps = conflicts(masks)
    if not flows:
        return ()
    for count in range(_clique(overlaps), len(flows) + 1):
        colours = colour(
            overlaps,
            count,
            lambda group: router.ways(ports, [masks[i] for i in group]) is not None,
        ).colours
        if colours is not None:
            break
    assert colours is not None, "every flow routes alone"
    configurations = []
    for own in range(max(colours) + 1):
        chosen = [flow for flow, c in zip(flows, colours, strict=True) if c == own]
        configuration = route(ports, middle_copies, chosen)
        assert isinstance(configuration, Configuration)
        configurations.append(configuration)
    return tuple(configurations)


def _clique(graph: Sequence[set[int]]) -> int:
    """Size of a set of items that all exclude each other, found greedily."""
    best = 1 if graph else 0
    for start, neighbours in enumerate(graph):
        clique, candidates = {start}, set(neighbours)
        while candidates:
            item = max(candidates, key=lambda i: (len(graph[i] & candidates), -i))
            clique.add(item)
            candidates &= graph[item]
        best = max(best, len(clique))
    return best


def _modes(
    ports: int, copies: int, flows: Sequence[_Masks], ways: Sequence[_Way]
) -> tuple[Mode, ...]:
    """The mode of every micro-switch in construction order, from the ways of the flows."""
    modes: list[Mode] = []
    for switch in construct(ports, copies).switches:
        level = len(switch.path)
        here = [i for i, way in enumerate(ways) if way[:level] == switch.path]
        inside = []
        for i in here:
            flow = flows[i]
            for _ in range(level):
                flow = _halve(flow)
            inside.append((i, flow))
        if switch.kind is Kind.REDUCE_DISTRIBUTE:
            modes.append(_centre_mode([flow for _, flow in inside]))
            continue
        end = 0 if switch.kind in (Kind.REDUCE, Kind.DEMULTIPLEX) else 1
        sides: list[int | None] = []
        for port in range(2 * switch.position, 2 * switch.position + switch.kind.sides):
            owner = [i for i, flow in inside if flow[end] >> port & 1]
            sides.append(ways[owner[0]][level] if owner else None)
        modes.append(tuple(sides))
    return tuple(modes)


def _centre_mode(flows: Sequence[_Masks]) -> CentreMode:
    sources: list[tuple[int, ...]] = [(), ()]
    for inputs, outputs in flows:
        for output in range(2):
            if outputs >> output & 1:
                sources[output] = tuple(i for i in range(2) if inputs >> i & 1)
    return CentreMode.from_sources(sources[0], sources[1])


def _explain(ports: int, copies: int, flows: Sequence[Flow], masks: Sequence[_Masks]) -> Conflict:
    """The smallest set of flows that does not route, and why."""
    router = _router(copies)
    core = shrink(
        range(len(flows)), lambda group: router.ways(ports, [masks[i] for i in group]) is not None
    )
    chosen = tuple(flows[i] for i in core)
    stage, why = _why(router, ports, 0, [str(flow) for flow in chosen], [masks[i] for i in core])
    names = _join([f"[{flow}]" for flow in chosen])
    last = stages(ports) - 1
    return Conflict(
        chosen,
        stage,
        f"flows {names} do not route together through FRED_{copies}({ports}): {why} "
        f"(stages {stage} and {last - stage} of 0..{last})",
    )


def _why(
    router: _Router, ports: int, stage: int, names: Sequence[str], flows: Sequence[_Masks]
) -> tuple[int, str]:
    forbidden = router.colouring(ports, flows).forbidden
    level = f"FRED_{router.copies}({ports})"
    if not forbidden:
        return stage, (
            f"at the edge of {level} flows that share an edge switch need different middle "
            f"copies, and {router.copies} copies are too few"
        )
    groups = sorted(set(forbidden), key=lambda group: (len(group), group))
    parts = [
        _join([f"[{names[i]}]" for i in group]) + " cannot share a middle copy"
        for group in groups[:3]
    ]
    if len(groups) > 3:
        parts.append(f"nor can {len(groups) - 3} other sets")
    return stage, (
        f"at the edge of {level} {router.copies} middle copies are too few, since inside "
        f"FRED_{router.copies}({(ports + 1) // 2}) {'; '.join(parts)}"
    )


def _join(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
