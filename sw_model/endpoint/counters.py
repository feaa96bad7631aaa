"""The traffic that an endpoint counts: the same counters in the TLM and in the RTL.

They are what the cross-check compares, and they must be equal exactly. Stall counters are not among
them: when something waits is a matter of timing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

__all__ = ["DimCounters", "RankCounters", "difference", "together"]


@dataclass(frozen=True)
class DimCounters:
    """Traffic of one dim at one rank since reset, in flits.

    Attributes
    ----------
    flits_sent, flits_received : on the link, headers included
    headers_sent : those of the flits sent that are packet headers
    reductions : received flits that were combined with a local one
    """

    flits_sent: int
    flits_received: int
    headers_sent: int
    reductions: int


@dataclass(frozen=True)
class RankCounters:
    """Traffic of one rank since reset.

    Attributes
    ----------
    memory_read_bytes, memory_written_bytes : payload
    descriptor_bytes : records executed, END included
    dims : innermost first
    by_class : the same of each class that is counted apart, highest first
    """

    memory_read_bytes: int
    memory_written_bytes: int
    descriptor_bytes: int
    dims: tuple[DimCounters, ...]
    by_class: tuple[tuple[DimCounters, ...], ...] = ()


def together(counters: Iterable[DimCounters]) -> DimCounters:
    """The sum of the counters of several classes, or collectives, on one dim."""
    counters = list(counters)
    return DimCounters(
        *(sum(getattr(one, f.name) for one in counters) for f in fields(DimCounters))
    )


def difference(
    after: Sequence[RankCounters], before: Sequence[RankCounters] | None
) -> list[RankCounters]:
    """By rank, what was counted between two readings; None: from reset on."""
    if before is None:
        return list(after)
    return [
        RankCounters(
            memory_read_bytes=a.memory_read_bytes - b.memory_read_bytes,
            memory_written_bytes=a.memory_written_bytes - b.memory_written_bytes,
            descriptor_bytes=a.descriptor_bytes - b.descriptor_bytes,
            dims=tuple(
                DimCounters(
                    flits_sent=x.flits_sent - y.flits_sent,
                    flits_received=x.flits_received - y.flits_received,
                    headers_sent=x.headers_sent - y.headers_sent,
                    reductions=x.reductions - y.reductions,
                )
                for x, y in zip(a.dims, b.dims, strict=True)
            ),
        )
        for a, b in zip(after, before, strict=True)
    ]
