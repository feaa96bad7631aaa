"""Every constant of the RTL that the TLM needs, together."""

from __future__ import annotations

from dataclasses import dataclass

from sw_model.endpoint.link import LINK_TIMING, LinkTiming
from sw_model.endpoint.timing import ACE_TIMING, AceTiming
from sw_model.fred.timing import FRED_TIMING, FredTiming

__all__ = ["FabricConstants"]


@dataclass(frozen=True)
class FabricConstants:
    """Timing of the engines, the switches, the ends of links, and the platform around them.

    Attributes
    ----------
    ace, fred, link : see there
    doorbell : the host's write to the doorbell taken by the engine
    completion : completion offered by the engine to the host's knowledge of it
    """

    ace: AceTiming = ACE_TIMING
    fred: FredTiming = FRED_TIMING
    link: LinkTiming = LINK_TIMING
    doorbell: int = 1
    completion: int = 1
