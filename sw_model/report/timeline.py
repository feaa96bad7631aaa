"""The timeline of training runs as a picture: compute, waiting, dims and collectives by layer."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sw_model.errors import InputError
from sw_model.results import RunResult
from sw_model.workload.layers import Pass

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_timeline"]

_COMPUTE = {
    Pass.FORWARD: ("forward", "#4c78a8"),
    Pass.INPUT_GRADIENT: ("input gradient", "#72b7b2"),
    Pass.WEIGHT_GRADIENT: ("weight gradient", "#54a24b"),
}
_EXPOSED = ("exposed communication", "#e45756")
_UPDATE = ("update", "#b279a2")
_DIMS = ("#f58518", "#eeca3b", "#9d755d", "#bab0ac", "#ff9da6")
_COLLECTIVE = "#f58518"
#: Two bars closer than this share of the width are drawn as one: the picture cannot tell them.
_RESOLUTION = 1 / 4000


def draw_timeline(runs: Sequence[RunResult], path: Path, *, rank: int | None = None) -> None:
    """Draw ``runs`` one above the other, on one time axis.

    Each has a lane for what the rank does, one for each dim, and below them a bar for each
    collective, from its issue to its end, with the layer as its height.

    Parameters
    ----------
    runs : at least one
    path : ends in ``.svg`` or ``.png``; the same runs give the same bytes
    rank : whose time is drawn; the latest of each run by default

    Raises
    ------
    InputError
        where the file cannot be written.
    """
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "antiphon"
    from matplotlib import pyplot
    from matplotlib.patches import Patch

    heights = [ratio for run in runs for ratio in (2 + len(run.dims) * bool(run.activity), 4)]
    figure, axes = pyplot.subplots(
        len(heights),
        1,
        sharex=True,
        squeeze=False,
        figsize=(12, 0.45 * sum(heights) + 1),
        height_ratios=heights,
        layout="constrained",
    )
    for index, run in enumerate(runs):
        chosen = run.training.latest.rank if rank is None else rank
        _draw_lanes(axes[2 * index, 0], run, chosen)
        _draw_collectives(axes[2 * index + 1, 0], run, chosen)
    axes[-1, 0].set_xlabel("time (us)")
    axes[-1, 0].set_xlim(left=0)
    legend = [Patch(color=colour, label=name) for name, colour in _COMPUTE.values()]
    legend += [Patch(color=colour, label=name) for name, colour in (_EXPOSED, _UPDATE)]
    figure.legend(handles=legend, loc="outside upper right", ncols=len(legend), fontsize=8)
    try:
        metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
        picture = io.BytesIO()
        figure.savefig(picture, format=path.suffix[1:], metadata=metadata, dpi=120)
    finally:
        pyplot.close(figure)
    try:
        path.write_bytes(picture.getvalue())
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path=path) from None


def _draw_lanes(axis: Axes, run: RunResult, rank: int) -> None:
    bars: dict[str, list[tuple[int, int]]] = {}
    for interval in run.training.intervals:
        if interval.rank != rank:
            continue
        if interval.kind == "compute":
            assert isinstance(interval.part, Pass)
            colour = _COMPUTE[interval.part][1]
        elif interval.kind in ("exposed", "update"):
            colour = (_EXPOSED if interval.kind == "exposed" else _UPDATE)[1]
        else:
            continue
        bars.setdefault(colour, []).append((interval.start, interval.end))
    for colour, intervals in bars.items():
        axis.broken_barh(_spans(intervals, run, gap=0), (-0.4, 0.8), color=colour)
    labels = [f"rank {rank}"]
    for number, dim in enumerate(run.dims if run.activity else ()):  # the RTL does not trace it
        intervals = [(bar.start, bar.end) for bar in run.activity if bar.dim == number]
        colour = _DIMS[number % len(_DIMS)]
        spans = _spans(intervals, run, gap=run.training.total * _RESOLUTION)
        axis.broken_barh(spans, (number + 0.6, 0.8), color=colour)
        share = dim.utilisation(run.training.total, run.clock_hz)
        labels.append(f"{dim.name}, {dim.kind} {dim.size}: {share:.0%}")
    axis.set_yticks(range(len(labels)), labels, fontsize=8)
    axis.invert_yaxis()
    total = run.training.total / run.clock_hz * 1e6
    axis.set_title(f"{run.label}: {total:,.0f} us", loc="left", fontsize=10)


def _draw_collectives(axis: Axes, run: RunResult, rank: int) -> None:
    for interval in run.training.intervals:
        if interval.rank == rank and interval.kind == "communication":
            axis.broken_barh(
                [_span(interval.start, interval.end, run)],
                (interval.layer - 0.4, 0.8),
                color=_COLLECTIVE,
            )
    axis.set_ylim(-1, len(run.training.layers))
    axis.set_ylabel("layer", fontsize=8)
    axis.tick_params(labelsize=8)


def _spans(
    intervals: Iterable[tuple[int, int]], run: RunResult, *, gap: float
) -> list[tuple[float, float]]:
    """(start, length) in microseconds, bars that are at most ``gap`` cycles apart joined."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if joined and start - joined[-1][1] <= gap:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return [_span(start, end, run) for start, end in joined]


def _span(start: int, end: int, run: RunResult) -> tuple[float, float]:
    scale = 1e6 / run.clock_hz
    return start * scale, (end - start) * scale
