"""Engines by name: `sim` simulates quickly, `paper` has the capacities of ACE (ISCA 2021)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rtl.ace.parameters import AceParameters, DimParameters

__all__ = ["PRESETS", "preset"]

_SIM: dict[str, Any] = {
    "flit_bytes": 16,
    "sram_flits": 5120,
    "buffers": 32,
    "sram_banks": 32,
    "contexts": 4,
    "packet_bytes": 4096,
    "program_steps": 256,
    "queue_depth": 8,
    "doorbells": 16,
    "burst_beats": 16,
    "read_beats": 128,
    "write_beats": 128,
    "collectives": 4,
    "regions": 4,
}

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "sim": _SIM,
    "paper": {
        **_SIM,
        "flit_bytes": 128,
        "sram_flits": 4 * 2**20 // 128,
        "buffers": 6 * 23,
        "contexts": 16,
    },
}
"""All parameters but the dims. What differs from the paper, and why: docs/ace.md, *Presets*."""


def preset(name: str, dims: tuple[DimParameters, ...]) -> AceParameters:
    """The engine of a preset, with these dims.

    Raises
    ------
    ValueError
        for an unknown name.
    """
    if name not in PRESETS:
        raise ValueError(f"the preset must be {' or '.join(PRESETS)}, not {name!r}")
    return AceParameters(dims=dims, **PRESETS[name])
