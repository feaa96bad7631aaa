"""Engines by name, for experiment files: the capacities of ``rtl.ace.presets``, by partition."""

from __future__ import annotations

from collections.abc import Mapping

from sw_model.platform import EngineParameters, Partition

__all__ = ["ENGINE_PRESETS"]

# An all-reduce on 4 x V x H leaves, between its six positions, a whole chunk, a quarter, and of
# that what one more ring of two or more leaves: decided here, for 23 chunks of 64 KiB at each.
_CHUNK = 64 * 2**10 // 128
_PAPER = (_CHUNK, _CHUNK // 4, _CHUNK // 8, _CHUNK // 8, _CHUNK // 4, _CHUNK)

ENGINE_PRESETS: Mapping[str, EngineParameters] = {
    "sim": EngineParameters(),
    "paper": EngineParameters(
        flit_bytes=128, contexts=16, partitions=tuple(Partition(23, flits) for flits in _PAPER)
    ),
}
"""``sim`` is what an engine is where nothing is said."""
