"""A report as one HTML file, whole by itself: it names no other file and reaches no network (its
content security policy forbids both), and all of it can be read with scripts switched off. The
script adds only zooming into the timeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from sw_model.report.html_assets import SCRIPT, STYLE
from sw_model.report.page import KINDS, Bar, JobTime, Lane, LayerTime, Page
from sw_model.units import format_size, format_time_ns

__all__ = ["html_report"]

_WIDTH = 50000  # units of the timeline's drawing; shorter bars that are closer than one are joined
_BARS = 30000  # in a report: with more, neighbours are joined until they are fewer
_TICKS = 8
_SHOWN = 25  # layers in the chart; the table has all
_LAYER_HEAD = (
    "<th>layer</th><th>compute us</th><th>communication us</th><th>exposed us</th><th>payload</th>"
)


def html_report(page: Page) -> str:
    """The text of the file; the same page gives the same bytes."""
    return "\n".join(
        (
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
            "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">",
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<link rel="icon" href="data:,">',
            f"<title>{escape(page.title)}</title>",
            f"<style>{STYLE}</style></head><body>",
            f"<h1>{escape(page.title)}</h1>",
            _facts(page),
            _parts(page),
            _timeline(page),
            _dims(page),
            _layers(page),
            _jobs(page),
            f"<script>{SCRIPT}</script></body></html>",
            "",
        )
    )


def _facts(page: Page) -> str:
    facts = (("total time", format_time_ns(page.total)), *page.facts)
    rows = "".join(f"<dt>{escape(n)}</dt><dd>{escape(v)}</dd>" for n, v in facts)
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in page.notes)
    return f'<dl id="facts">{rows}</dl>{notes}'


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _parts(page: Page) -> str:
    """Where the time of the latest rank went: a bar and a table."""
    rows = []
    for kind, name, ns in page.parts:
        share = 100 * _share(ns, page.total)
        rows.append(
            f'<tr><td><i class="key {kind}"></i>{escape(name)}</td>'
            f"<td>{ns / 1000:,.3f}</td><td>{share:.2f}</td></tr>"
        )
    return (
        "<h2>Where the time of the latest rank went</h2>"
        '<svg id="parts" class="wide" viewBox="0 0 100 1" preserveAspectRatio="none" role="img" '
        f'aria-label="shares of the time">{_stacked(page.parts, page.total)}</svg>'
        f"<table><thead><tr><th></th><th>us</th><th>%</th></tr></thead><tbody>{''.join(rows)}"
        "</tbody></table>"
    )


def _stacked(parts: Iterable[tuple[str, str, float]], whole: float) -> str:
    """Bars beside each other on a scale from 0 to ``whole``."""
    at = 0.0
    bars = []
    for kind, name, ns in parts:
        share = 100 * _share(ns, whole)
        bars.append(
            f'<rect class="{kind}" x="{at:.3f}" y="0" width="{share:.3f}" height="1">'
            f"<title>{escape(name)}: {format_time_ns(ns)}, {share:.1f} %</title></rect>"
        )
        at += share
    return "".join(bars)


def _joined(bars: Iterable[Bar], gap: float) -> list[Bar]:
    """Neighbours of one kind at most ``gap`` ns apart as one bar of at most two gaps, so that what
    can be told apart on a screen still can."""
    out: list[Bar] = []
    for group in _runs(sorted(bars, key=lambda bar: (bar.start, bar.end)), gap):
        label = group[0].label
        if any(bar.label != label for bar in group):
            label = f"{len(group)} in a row"
        end = max(bar.end for bar in group)
        out.append(Bar(group[0].start, end, group[0].kind, label))
    return out


def _runs(bars: Sequence[Bar], gap: float) -> Iterator[list[Bar]]:
    """Neighbours that `_joined` makes one."""
    run: list[Bar] = []
    reached = 0.0
    for bar in bars:
        if (
            run
            and bar.kind == run[0].kind
            and bar.start - reached <= gap
            and bar.end - run[0].start <= 2 * gap
        ):
            run.append(bar)
            reached = max(reached, bar.end)
            continue
        if run:
            yield run
        run, reached = [bar], bar.end
    if run:
        yield run


def _drawn(page: Page) -> list[tuple[Lane, list[Bar]]]:
    """Lanes with as many bars as can be told apart, and no more than a report should have."""
    gap = page.total / _WIDTH
    while True:
        lanes = [(lane, _joined(lane.bars, gap)) for lane in page.lanes]
        if sum(len(bars) for _, bars in lanes) <= _BARS or gap > page.total:
            return lanes
        gap *= 2


def _timeline(page: Page) -> str:
    drawn = _drawn(page)
    scale = _WIDTH / page.total if page.total else 0.0
    y = 0
    rows, labels = [], []
    used: set[str] = set()
    for lane, bars in drawn:
        height = 5 if lane.thin else 18
        step = height + (1 if lane.thin else 6)
        if lane.name:
            labels.append(f'<span style="top:{y}px">{escape(lane.name)}</span>')
        for bar in bars:
            used.add(bar.kind)
            width = max((bar.end - bar.start) * scale, 0.5)
            time = f"{bar.start / 1000:,.3f} to {bar.end / 1000:,.3f} us"
            rows.append(
                f'<rect class="{bar.kind}" x="{bar.start * scale:.1f}" y="{y}" '
                f'width="{width:.1f}" height="{height}">'
                f"<title>{escape(bar.label)}: {KINDS[bar.kind]}, {time}</title></rect>"
            )
        y += step
    ticks = "".join(
        f'<span style="left:{100 * tick / _TICKS:.2f}%">'
        f"{page.total * tick / _TICKS / 1000:,.1f}</span>"
        for tick in range(_TICKS + 1)
    )
    keys = "".join(
        f'<span><i class="key {kind}"></i>{words}</span>'
        for kind, words in KINDS.items()
        if kind in used
    )
    return (
        f'<h2>Timeline of the latest rank</h2><p class="keys">{keys}</p>'
        '<p id="tools" hidden>Wheel: zoom. Drag: move. <button id="whole">whole</button></p>'
        f'<div id="timeline" data-total-ns="{page.total}"><div class="labels">{"".join(labels)}'
        f'</div><div class="plot"><svg id="bars" viewBox="0 0 {_WIDTH} {max(y, 1)}" '
        f'style="height:{max(y, 1)}px" preserveAspectRatio="none" role="img" '
        f'aria-label="timeline">{"".join(rows)}</svg>'
        f'<div id="ticks">{ticks}</div></div></div><p class="unit">us</p>'
    )


def _dims(page: Page) -> str:
    rows = "".join(
        f"<tr><td>{escape(dim.name)}</td><td>{dim.gb_per_s:,.2f}</td>"
        f"<td>{dim.bytes_per_npu:,}</td><td>{100 * dim.busy:.1f}</td>"
        f'<td>{100 * dim.utilisation:.1f}</td><td class="chart">'
        f"{_bar(((dim.busy, 'faint'), (dim.utilisation, 'dim')))}</td></tr>"
        for dim in page.dims
    )
    return (
        '<h2>Utilisation by dim</h2><table id="dims"><thead><tr><th>dim</th><th>GB/s per NPU</th>'
        "<th>bytes sent per NPU</th><th>busy %</th><th>utilisation %</th>"
        '<th class="chart">utilisation, in front of busy</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def _bar(shares: Iterable[tuple[float, str]]) -> str:
    """Bars over each other on a scale from 0 to 1."""
    rects = "".join(
        f'<rect class="{kind}" x="0" y="0" width="{100 * min(share, 1):.2f}" height="1"/>'
        for share, kind in shares
    )
    return f'<svg viewBox="0 0 100 1" preserveAspectRatio="none">{rects}</svg>'


def _layers(page: Page) -> str:
    most = sorted(page.layers, key=lambda layer: -layer.exposed)[:_SHOWN]
    most = [layer for layer in most if layer.exposed > 0]
    largest = max((layer.exposed for layer in most), default=0.0)
    rows = "".join(
        f'{_layer_row(layer)}<td class="chart">'
        f"{_bar(((_share(layer.exposed, largest), 'exposed'),))}</td></tr>"
        for layer in most
    )
    none = "" if most else '<p class="note">No communication is exposed.</p>'
    return (
        f'<h2>Exposed communication by layer</h2>{none}<table id="exposed"><thead><tr>{_LAYER_HEAD}'
        f'<th class="chart">exposed</th></tr></thead><tbody>{rows}</tbody></table>'
        f"<details><summary>all {len(page.layers):,} layers, in order</summary>"
        f'<table id="layers">{_all_layers(page.layers)}</table></details>'
    )


def _all_layers(layers: Iterable[LayerTime]) -> str:
    rows = "".join(f"{_layer_row(layer)}</tr>" for layer in layers)
    return f"<thead><tr>{_LAYER_HEAD}</tr></thead><tbody>{rows}</tbody>"


def _layer_row(layer: LayerTime) -> str:
    times = (layer.compute, layer.communication, layer.exposed)
    cells = "".join(f"<td>{ns / 1000:,.3f}</td>" for ns in times)
    return f"<tr><td>{escape(layer.name)}</td>{cells}<td>{format_size(layer.bytes)}</td>"


def _jobs(page: Page) -> str:
    """Where several share the network: a row for each, on one scale of time, and its layers."""
    if not page.jobs:
        return ""
    longest = max(job.total for job in page.jobs)
    names = [name for _, name, _ in page.jobs[0].parts]
    head = "".join(f"<th>{escape(name)} us</th>" for name in ("total", *names))
    rows = "".join(_job_row(job, longest) for job in page.jobs)
    layers = "".join(
        f"<details><summary>{escape(job.name)}: all {len(job.layers):,} layers, in order</summary>"
        f'<table class="job">{_all_layers(job.layers)}</table></details>'
        for job in page.jobs
    )
    return (
        "<h2>Jobs, each by itself: its rank that finishes last</h2>"
        '<table id="jobs"><thead><tr><th>job</th><th>NPUs</th><th>iterations</th>'
        f'{head}<th class="chart">of the longest</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>{layers}"
    )


def _job_row(job: JobTime, longest: float) -> str:
    times = (job.total, *(ns for _, _, ns in job.parts))
    cells = "".join(f"<td>{ns / 1000:,.3f}</td>" for ns in times)
    chart = _stacked(job.parts, longest)
    return (
        f"<tr><td>{escape(job.name)}</td><td>{job.npus:,}</td><td>{len(job.iterations):,}</td>"
        f'{cells}<td class="chart"><svg viewBox="0 0 100 1" preserveAspectRatio="none">'
        f"{chart}</svg></td></tr>"
    )
