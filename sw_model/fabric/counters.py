"""What both executors count: traffic, exactly.

The TLM's counts follow from the plan alone; the RTL's come out of its registers. The cross-check
asks them to be equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["DimCounters", "RankCounters", "total"]


@dataclass(frozen=True)
class DimCounters:
    """Flits of one endpoint on one dim.

    Attributes
    ----------
    flits_sent, flits_received : on the link, headers included
    headers_sent : packets sent
    reductions : flits combined with a local operand
    """

    flits_sent: int = 0
    flits_received: int = 0
    headers_sent: int = 0
    reductions: int = 0

    @property
    def goodput(self) -> float:
        """Share of the flits sent that carry payload."""
        return 1 - self.headers_sent / self.flits_sent if self.flits_sent else 1.0

    def __add__(self, other: DimCounters) -> DimCounters:
        return DimCounters(
            self.flits_sent + other.flits_sent,
            self.flits_received + other.flits_received,
            self.headers_sent + other.headers_sent,
            self.reductions + other.reductions,
        )


@dataclass(frozen=True)
class RankCounters:
    """Counters of one endpoint.

    Attributes
    ----------
    memory_read_bytes, memory_written_bytes : payload
    descriptor_bytes : records executed, END included
    dims : by dim
    """

    memory_read_bytes: int = 0
    memory_written_bytes: int = 0
    descriptor_bytes: int = 0
    dims: tuple[DimCounters, ...] = ()

    def __add__(self, other: RankCounters) -> RankCounters:
        if len(self.dims) != len(other.dims):
            raise ValueError(f"dims must be {len(self.dims)} dims, not {len(other.dims)!r}")
        return RankCounters(
            self.memory_read_bytes + other.memory_read_bytes,
            self.memory_written_bytes + other.memory_written_bytes,
            self.descriptor_bytes + other.descriptor_bytes,
            tuple(a + b for a, b in zip(self.dims, other.dims, strict=True)),
        )


def total(counters: Sequence[RankCounters], dims: int) -> RankCounters:
    """Sum over ranks, or over collectives."""
    return sum(counters, RankCounters(dims=(DimCounters(),) * dims))
