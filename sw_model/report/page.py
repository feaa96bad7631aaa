"""What the HTML report of a run shows, whichever way the run was made: plain data in nanoseconds.

`page_of_run` makes it of a run on the platform's engines, `page_of_trace` of a replayed trace;
`sw_model.report.html` draws it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

from sw_model.results import RunResult, to_ns
from sw_model.schedule.joint_bound import JointBound
from sw_model.units import format_time_ns
from sw_model.workload.layers import Pass

if TYPE_CHECKING:
    from sw_model.replay.accounting import NodeTimes, RankTimes
    from sw_model.replay.run import TraceResult

__all__ = [
    "KINDS",
    "Bar",
    "DimUse",
    "JobTime",
    "Lane",
    "LayerTime",
    "Page",
    "page_of_run",
    "page_of_trace",
]

#: What a bar of the timeline can be, with its words in the legend.
KINDS = {
    "forward": "compute, forward",
    "input": "compute, input gradient",
    "weight": "compute, weight gradient",
    "compute": "compute",
    "host": "host",
    "exposed": "exposed communication",
    "update": "waiting for an update",
    "communication": "communication",
    "dim": "dim busy",
}
_PASSES = {
    Pass.FORWARD: "forward",
    Pass.INPUT_GRADIENT: "input",
    Pass.WEIGHT_GRADIENT: "weight",
}
_LANES = 64  # of communication; what runs beside so many is left out of the drawing, and said so


@dataclass(frozen=True)
class Bar:
    """[start, end) in ns; ``kind`` is a key of `KINDS`."""

    start: float
    end: float
    kind: str
    label: str


@dataclass(frozen=True)
class Lane:
    """A row of the timeline. A ``thin`` one is one of many of its sort."""

    name: str
    bars: tuple[Bar, ...]
    thin: bool = False


@dataclass(frozen=True)
class DimUse:
    """A dim: shares of the whole time in 0..1."""

    name: str
    utilisation: float
    busy: float
    gb_per_s: float
    bytes_per_npu: int


@dataclass(frozen=True)
class LayerTime:
    """A layer on the rank that finishes last, in ns; ``bytes`` its payload in one iteration."""

    name: str
    compute: float
    communication: float
    exposed: float
    bytes: int


@dataclass(frozen=True)
class JobTime:
    """One of several jobs, on its rank that finishes last, in ns; ``parts`` and ``layers`` as those
    of a `Page`, of this job's nodes alone. The parts add up to ``total``."""

    name: str
    npus: int
    total: float
    iterations: tuple[float, ...]
    parts: tuple[tuple[str, str, float], ...]
    layers: tuple[LayerTime, ...]


@dataclass(frozen=True)
class Page:
    """A report.

    Attributes
    ----------
    title : of the page
    facts : what ran, as names with values
    total : ns, of the rank that finishes last
    parts : what that time is made of: kind of bar, name, ns; adds up to ``total``
    lanes : of the timeline
    dims, layers : innermost first; in the order of the workload
    notes : what a reader should know
    jobs : each by itself, where several share the network
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    total: float
    parts: tuple[tuple[str, str, float], ...]
    lanes: tuple[Lane, ...]
    dims: tuple[DimUse, ...]
    layers: tuple[LayerTime, ...]
    notes: tuple[str, ...] = ()
    jobs: tuple[JobTime, ...] = ()


def _bound(bound: JointBound) -> tuple[tuple[str, str], ...]:
    """As a fact, where there is a collective."""
    if not bound.dims:
        return ()
    told = f"{format_time_ns(bound.ns)} ({', '.join(bound.named)})"
    return (("collectives take at least", told),)


def page_of_run(run: RunResult, *, title: str) -> Page:
    """Of a run on the platform's engines."""
    training, latest = run.training, run.training.latest

    def ns(cycles: int) -> float:
        return to_ns(cycles, run.clock_hz)

    own: list[Bar] = []
    moving: list[Bar] = []
    for interval in training.intervals:
        if interval.rank != latest.rank:
            continue
        part = interval.part
        kind = interval.kind
        if kind == "compute":
            assert isinstance(part, Pass)
            kind = _PASSES[part]
        label = (
            f"{training.layers[interval.layer].name} {part.value}, "
            f"iteration {interval.iteration + 1}"
        )
        bar = Bar(ns(interval.start), ns(interval.end), kind, label)
        (moving if interval.kind == "communication" else own).append(bar)
    lanes = [Lane(f"rank {latest.rank}", tuple(own))]
    for number, dim in enumerate(run.dims if run.activity else ()):
        bars = (Bar(ns(b.start), ns(b.end), "dim", "op") for b in run.activity if b.dim == number)
        lanes.append(Lane(f"{dim.name}, {dim.kind} {dim.size}", tuple(bars)))
    packed, notes = _packed(moving)
    total = training.total
    return Page(
        title=title,
        facts=(
            ("NPUs", f"{run.npus}, {len(training.ranks)} of them simulated"),
            ("iterations", str(len(training.iterations))),
            ("schedule", run.label),
            *_bound(run.bound),
        ),
        total=ns(total),
        parts=(
            ("compute", "compute", ns(latest.compute)),
            ("exposed", "exposed communication", ns(latest.exposed)),
            ("update", "waiting for updates", ns(latest.update)),
        ),
        lanes=(*lanes, *packed),
        dims=tuple(
            DimUse(
                f"{dim.name}, {dim.kind} {dim.size}",
                dim.utilisation(total, run.clock_hz),
                dim.busy / total if total else 0.0,
                float(dim.bandwidth / 10**9),
                dim.bytes_per_npu,
            )
            for dim in run.dims
        ),
        layers=tuple(
            LayerTime(
                layer.name,
                ns(layer.compute),
                ns(layer.communication),
                ns(layer.exposed),
                layer.bytes,
            )
            for layer in training.layers
        ),
        notes=notes,
    )


def page_of_trace(result: TraceResult) -> Page:
    """Of a replayed trace."""
    latest, ns = result.latest, result.ns
    index = next(i for i, rank in enumerate(result.ranks) if rank.rank == latest.rank)
    log = result.logs[index]
    graph = result.workload.graphs[latest.rank]
    names = [graph.layer(position) for position in range(len(graph.nodes))]
    compute = [(start, end) for _, start, end in log.compute]
    exposed = _outside([(start, end) for _, _, start, end in log.communication], compute)
    own = [Bar(ns(a), ns(b), "compute", names[position]) for position, a, b in log.compute]
    own += [Bar(ns(a), ns(b), "exposed", "no compute meanwhile") for a, b in exposed]
    host = tuple(Bar(ns(a), ns(b), "host", names[position]) for position, a, b in log.host)
    lanes = [Lane(f"rank {latest.rank}", tuple(own))]
    if host:
        lanes.append(Lane("host", host))
    moving = [Bar(ns(a), ns(b), "communication", names[p]) for p, _, a, b in log.communication]
    packed, notes = _packed(moving)
    total = latest.finish
    dims = result.workload.topology.dims
    return Page(
        title=result.workload.prefix,
        facts=(
            ("NPUs", f"{result.workload.topology.npus}, {len(result.ranks)} of them simulated"),
            ("nodes", f"{result.workload.nodes:,}"),
            ("iterations", str(len(result.iterations))),
            ("semantics", result.semantics.value),
            ("endpoints", result.endpoint),
            *_bound(result.bounds.whole),
        ),
        total=ns(total),
        parts=_trace_parts(result, latest),
        lanes=(*lanes, *packed),
        dims=tuple(
            DimUse(
                f"dim {number + 1}, {dim.kind.value} {dim.size}",
                result.utilisation(number),
                result.dims[number].busy / total if total else 0.0,
                float(dim.bandwidth / 10**9),
                result.dims[number].bytes_per_npu,
            )
            for number, dim in enumerate(dims)
        ),
        layers=_trace_layers(result, result.nodes, len(result.iterations)),
        notes=(*result.notes, *notes),
        jobs=tuple(
            JobTime(
                job.name,
                sum(job.sizes),
                ns(job.latest.finish),
                tuple(ns(ticks) for ticks in job.iterations),
                _trace_parts(result, job.latest),
                _trace_layers(result, job.nodes, len(job.iterations)),
            )
            for job in result.jobs
        ),
    )


def _trace_parts(result: TraceResult, rank: RankTimes) -> tuple[tuple[str, str, float], ...]:
    return (
        ("compute", "compute", result.ns(rank.compute)),
        ("exposed", "exposed communication", result.ns(rank.exposed)),
        ("host", "host", result.ns(rank.host)),
        ("bubble", "bubble: waiting for other ranks", result.ns(rank.bubble)),
    )


def _trace_layers(
    result: TraceResult, nodes: Iterable[NodeTimes], iterations: int
) -> tuple[LayerTime, ...]:
    return tuple(
        LayerTime(
            node.name,
            result.ns(node.compute),
            result.ns(node.communication),
            result.ns(node.exposed),
            node.bytes // iterations,
        )
        for node in nodes
    )


def _packed(bars: Iterable[Bar]) -> tuple[list[Lane], tuple[str, ...]]:
    """Lanes in which no bars overlap, and a note where there are too many."""
    lanes: list[list[Bar]] = []
    left_out = 0
    for bar in sorted(bars, key=lambda bar: (bar.start, bar.end)):
        row = next((r for r, lane in enumerate(lanes) if lane[-1].end <= bar.start), len(lanes))
        if row == _LANES:
            left_out += 1
            continue
        if row == len(lanes):
            lanes.append([])
        lanes[row].append(bar)
    notes = (
        (f"{left_out} communications that run beside {_LANES} others are not drawn",)
        if left_out
        else ()
    )
    named = [
        Lane("communication" if row == 0 else "", tuple(lane), thin=True)
        for row, lane in enumerate(lanes)
    ]
    return named, notes


def _outside(spans: list[tuple[int, int]], covered: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The parts of ``spans`` that lie in none of ``covered``, disjoint, ascending."""
    edges = [(at, 0, step) for a, b in spans if a < b for at, step in ((a, 1), (b, -1))]
    edges += [(at, 1, step) for a, b in covered if a < b for at, step in ((a, 1), (b, -1))]
    depth = [0, 0]
    out: list[tuple[int, int]] = []
    begun: int | None = None
    for at, which, step in sorted(edges, key=itemgetter(0)):
        depth[which] += step
        bare = depth[0] > 0 and depth[1] == 0
        if bare and begun is None:
            begun = at
        elif not bare and begun is not None:
            if at > begun:
                if out and out[-1][1] == begun:
                    begun = out.pop()[0]
                out.append((begun, at))
            begun = None
    return out
