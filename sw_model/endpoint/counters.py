"""The traffic that an endpoint counts: the same counters in the TLM and in the RTL.

They are what the cross-check compares, and they must be equal exactly. Stall counters are not among
them: when something waits is a matter of timing.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DimCounters", "RankCounters"]


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
    """

    memory_read_bytes: int
    memory_written_bytes: int
    descriptor_bytes: int
    dims: tuple[DimCounters, ...]
