"""The functional points: what must happen in some bench, declared once.

A point is a condition on the nets of one module, counted at its clock. What the module is called
and how its nets are called is what :mod:`sim_top.emission` makes of the RTL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from rtl.ace.layouts import CollectiveKind
from rtl.ace.status import CompletionStatus
from rtl.common.packet import PacketHeader
from rtl.fred.configuration import Refusal
from rtl.fred.errors import ERROR_COUNTER_BITS, error_layout
from rtl.fred.modes import CentreMode

__all__ = ["GROUPS", "POINTS", "Point", "conditions"]

#: Middle copies of the switches whose modes are counted (those of the default platform).
COPIES = 3

#: Classes of the switches and links whose priorities are counted, by channel.
CLASSES = ("MP", "PP", "DP")

GROUPS = {
    "mode": "modes of the micro-switches, a side idle included, each with flits that obey it",
    "phase": "what a switch does with a packet, what an engine is asked for under protection",
    "priority": "classes that pass each other, and turns of those that waited long enough",
    "error": "error kinds and refusals of a switch, completion statuses of an engine",
}
"""Kinds of points, and what they are."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """Something that must happen.

    Parameters
    ----------
    group : of :data:`GROUPS`
    name : unique, for people
    module : name of the module in whose text it stands, without the number of a variant
    """

    group: str
    name: str
    module: str

    @property
    def label(self) -> str:
        """An identifier of Verilog."""
        return "point_" + re.sub(r"\W+", "_", f"{self.group}_{self.name}").strip("_")


@dataclass(frozen=True, kw_only=True)
class _Counted:
    """A point and its condition in terms of the nets of its module, or None where this module is
    not one in which it is counted."""

    point: Point
    condition: str | None


def conditions(module: str, text: str) -> Iterator[tuple[Point, str]]:
    """The points of a module and their conditions.

    Parameters
    ----------
    module : its name; the number of a variant is left aside
    text : from ``module`` to ``endmodule``
    """
    kind = re.sub(r"_\d+$", "", module)
    for counted in _all(text):
        if counted.point.module == kind and counted.condition is not None:
            yield counted.point, counted.condition


def _all(text: str) -> Iterator[_Counted]:
    yield from _modes(text)
    yield from _flows(text)
    yield from _kinds()
    yield from _priorities(text)
    yield from _errors()


def _width(text: str, net: str) -> int:
    """Bits of a net; 0 where there is none of that name."""
    found = re.search(
        rf"^\s*(?:wire|reg) (?:\[(\d+):0\] )?{re.escape(net)}(?: = [^;]*)?;", text, re.M
    )
    return 0 if found is None else int(found[1] or 0) + 1


def _count(text: str, port: str) -> int:
    """How many ports ``<port>__0``, ``<port>__1``, ... there are."""
    return len(set(re.findall(rf"^\s*(?:input|output) [^;]*\b{port}__(\d+);", text, re.M)))


def _modes(text: str) -> Iterator[_Counted]:
    def point(kind: str, name: str, module: str, condition: str, ways: int) -> _Counted:
        return _Counted(
            point=Point(group="mode", name=f"{kind} {name}", module=module),
            condition=condition if ways == COPIES else None,
        )

    bits = COPIES.bit_length()
    ways_out, ways_in = _count(text, "o"), _count(text, "i")
    for a, b in product(range(COPIES + 1), repeat=2):
        mode = f"mode == {2 * bits}'d{a | b << bits}"
        name = " ".join(f"side {side} {_way(way)}" for side, way in enumerate((a, b)))
        sides = [f"i__{side}[0]" for side, way in enumerate((a, b)) if way]
        yield point("R", name, "reduce_switch", " && ".join([mode, *sides]), ways_out)
        heard = [f"i__{way - 1}[0]" for way in (a, b) if way]
        yield point("D", name, "distribute_switch", " && ".join([mode, *heard]), ways_in)
    for way in range(COPIES + 1):
        mode = f"mode == {bits}'d{way}"
        there = " && i[0]" if way else ""
        yield point("demultiplexer", _way(way), "demultiplexer", mode + there, ways_out)
        there = f" && i__{way - 1}[0]" if way else ""
        yield point("multiplexer", _way(way), "multiplexer", mode + there, ways_in)
    for centre in CentreMode:
        which = re.match(r"(?:BROADCAST|ONLY)_(\d)", centre.name)
        used = [] if centre is CentreMode.IDLE else [which[1]] if which else ["0", "1"]
        needs = "".join(f" && i__{side}[0]" for side in used)
        yield point(
            "RD",
            centre.name,
            "reduce_distribute_switch",
            f"mode == 4'd{centre.value}{needs}",
            COPIES,
        )


def _way(way: int) -> str:
    return f"way {way - 1}" if way else "idle"


def _flows(text: str) -> Iterator[_Counted]:
    """Kinds of flows at the heads of the inputs of a switch, as their packets start."""
    ports = _count(text, "packet")
    header = PacketHeader.as_shape().size
    # Of a packet: header, flits, inputs, outputs, discard.
    first = _width(text, "packet__0") - 1 - 2 * ports
    kinds = {
        "reduce-scatter or reduce: several inputs, one output": ("> 1", "== 1"),
        "all-gather or multicast: one input, several outputs": ("== 1", "> 1"),
        "all-reduce: several inputs, several outputs": ("> 1", "> 1"),
        "all-to-all or point to point: one input, one output": ("== 1", "== 1"),
    }
    for name, (inputs, outputs) in kinds.items():
        terms = [
            f"(take[{p}] && !drop[{p}] && $countones(packet__{p}[{first} +: {ports}]) {inputs} && "
            f"$countones(packet__{p}[{first + ports} +: {ports}]) {outputs})"
            for p in range(ports)
        ]
        yield _Counted(
            point=Point(group="phase", name=f"switch, {name}", module="flow_matcher"),
            condition=" || ".join(terms) if ports and first > header // 2 else None,
        )


def _kinds() -> Iterator[_Counted]:
    """What engines are asked for under protection, by a BEGIN record."""
    place = 4  # the code of the operation stands behind that of the record
    for kind in CollectiveKind:
        yield _Counted(
            point=Point(group="phase", name=f"engine, {kind.name}", module="record_guard"),
            condition=(
                f"begin__valid && begin__ready && status == {CompletionStatus.OK.value} && "
                f"i__payload[{place} +: 4] == 4'd{kind.value}"
            ),
        )


def _priorities(text: str) -> Iterator[_Counted]:
    three = _width(text, "behind") == len(CLASSES)
    ports = _width(text, "start") // len(CLASSES)
    for place, name in enumerate(CLASSES):

        def some(net: str, of: int) -> str:
            return f"(|{net}[{of * ports} +: {max(ports, 1)}])"

        for low in range(place + 1, len(CLASSES)):
            passes = f"{name} passes {CLASSES[low]} that waits"
            yield _Counted(
                point=Point(group="priority", name=f"switch, {passes}", module="flow_scheduler"),
                condition=(
                    f"turn[{place}] && {some('start', place)} && {some('ready', low)} && "
                    f"!urgent[{low}]"
                    if three and ports
                    else None
                ),
            )
            yield _Counted(
                point=Point(group="priority", name=f"link, {passes}", module="link_transmitter"),
                condition=(f"begins[{place}] && {_able(low)} && !urgent[{low}]" if three else None),
            )
        if place:
            turn = f"{name} has its turn before a higher class"
            higher = " || ".join(some("ready", c) for c in range(place))
            yield _Counted(
                point=Point(group="priority", name=f"switch, {turn}", module="flow_scheduler"),
                condition=(
                    f"turn[{place}] && {some('start', place)} && urgent[{place}] && ({higher})"
                    if three and ports
                    else None
                ),
            )
            yield _Counted(
                point=Point(group="priority", name=f"link, {turn}", module="link_transmitter"),
                condition=(
                    f"begins[{place}] && urgent[{place}] && "
                    f"({' || '.join(_able(c) for c in range(place))})"
                    if three
                    else None
                ),
            )
    claims = "switch, control takes its turn from data"
    yield _Counted(
        point=Point(group="priority", name=claims, module="control_crossbar"), condition="|claim"
    )


def _able(channel: int) -> str:
    """A channel of a link has a flit and a credit for it."""
    return f"(i__{channel}__valid && funded[{channel}])"


def _errors() -> Iterator[_Counted]:
    for place, name in enumerate(error_layout(2).members):
        bits = ERROR_COUNTER_BITS
        yield _Counted(
            point=Point(group="error", name=f"switch, {name}", module="error_keeper"),
            condition=f"|count[{place * bits} +: {bits}]",
        )
    for refusal in Refusal:
        yield _Counted(
            point=Point(
                group="error", name=f"switch, entry {refusal.name}", module="configuration_memory"
            ),
            condition=f"done && refusal == 3'd{refusal.value}",
        )
    place = 16  # behind the id of the collective
    for status in CompletionStatus:
        yield _Counted(
            point=Point(group="error", name=f"engine, {status.name}", module="ace_axi"),
            condition=(
                "completions_i__valid && completions_i__ready && "
                f"completions_i__payload[{place} +: 4] == 4'd{status.value}"
            ),
        )


POINTS = tuple(counted.point for counted in _all(""))
"""All of them."""
