"""Every constant of the RTL that the TLM needs, together."""

from __future__ import annotations

from dataclasses import dataclass

from sw_model.endpoint.link import LINK_TIMING, LinkTiming
from sw_model.endpoint.timing import ACE_TIMING, AceTiming
from sw_model.fred.timing import FRED_TIMING, FredTiming

__all__ = ["FabricConstants"]


@dataclass(frozen=True)
class FabricConstants:
    """Timing of the engines, the switches and the ends of links."""

    ace: AceTiming = ACE_TIMING
    fred: FredTiming = FRED_TIMING
    link: LinkTiming = LINK_TIMING
