"""How an engine reads memory: bursts, and how far it asks ahead."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FETCH", "FetchParameters"]


@dataclass(frozen=True)
class FetchParameters:
    """Capacities of descriptor fetch and TX DMA, as the RTL has them by default.

    Parameters
    ----------
    descriptor_burst, descriptor_window : records requested at a time, and ahead at most
    burst_beats, read_beats : payload flits requested at a time, and under way at most
    write_beats : payload flits written and not yet acknowledged
    """

    descriptor_burst: int = 4
    descriptor_window: int = 16
    burst_beats: int = 16
    read_beats: int = 128
    write_beats: int = 128


FETCH = FetchParameters()
"""What the RTL has by default."""
