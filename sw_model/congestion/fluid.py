"""Streams that wait for each other and share links max-min fairly.

A collective on a real network is a graph of streams: the reduce-scatter of a chunk along the rows,
then along the columns, and so on, with other chunks beside it. All streams whose predecessors have
ended run at once; their paces follow :func:`sw_model.congestion.fair.max_min` and change whenever
one ends. Times are exact, until many endings of unlike streams have made fractions of them that no
number of a report needs: what is left of a stream is then kept in parts of 2^-64 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sw_model.congestion.fair import Shares

__all__ = ["Stream", "run_streams"]


_PARTS = 2**64
_LONGEST = 128  # bits


@dataclass(frozen=True, kw_only=True)
class Stream:
    """What moves at one pace.

    Parameters
    ----------
    uses : how many times each link, whatever stands for it, carries it
    amount : bytes of one use
    after : numbers of the streams that must have ended before; all smaller than its own number
    """

    uses: Mapping[Any, int]
    amount: Fraction
    after: tuple[int, ...] = ()


def run_streams(streams: Sequence[Stream], capacity: Mapping[Any, Fraction]) -> list[Fraction]:
    """When each stream ends, in seconds from a common start.

    Parameters
    ----------
    streams : in an order in which none waits for a later one
    capacity : of every link, in bytes per second

    Raises
    ------
    ValueError
        where a stream waits for itself or a later one, uses a link that is not there, or moves
        bytes over no link at all.
    """
    for number, stream in enumerate(streams):
        if any(not 0 <= before < number for before in stream.after):
            raise ValueError(
                f"stream {number} must wait for earlier ones only, not {list(stream.after)!r}"
            )
        missing = [link for link in stream.uses if link not in capacity]
        if missing:
            raise ValueError(f"stream {number} must use links that exist, not {missing[0]!r}")
        if stream.amount < 0 or (stream.amount and not stream.uses):
            raise ValueError(
                f"stream {number} must move bytes over links, not {stream.amount} bytes over "
                f"{len(stream.uses)} links"
            )
    shares = Shares([stream.uses for stream in streams], capacity)
    ends: list[Fraction | None] = [None] * len(streams)
    left = [stream.amount for stream in streams]
    waiting = set(range(len(streams)))
    now = Fraction(0)
    running: list[int] = []
    while waiting or running:
        running += _started(streams, waiting, ends, now, left)
        running = [number for number in running if ends[number] is None]
        if not running:
            continue
        paces = shares.paces(running)
        pairs = [(n, pace) for n, pace in zip(running, paces, strict=True) if pace]
        step = min(left[number] / pace for number, pace in pairs)
        now = _short(now + step)
        for number, pace in pairs:
            left[number] = _short(left[number] - pace * step)
            if left[number] <= 0:
                ends[number] = now
        running = [number for number in running if ends[number] is None]
    return [end for end in ends if end is not None]


def _short(value: Fraction) -> Fraction:
    """``value`` as it is; to the nearest 2^-64 where its denominator has twice as many bits."""
    if value.denominator.bit_length() <= _LONGEST:
        return value
    return Fraction(round(value * _PARTS), _PARTS)


def _started(
    streams: Sequence[Stream],
    waiting: set[int],
    ends: list[Fraction | None],
    now: Fraction,
    left: list[Fraction],
) -> list[int]:
    """Those that may start now; one without bytes ends at once."""
    out = []
    for number in sorted(waiting):
        if any(ends[before] is None for before in streams[number].after):
            continue
        waiting.discard(number)
        if left[number]:
            out.append(number)
        else:
            ends[number] = now
    return out
