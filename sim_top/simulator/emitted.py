"""Emission that is not repeated: elaborating a whole platform takes longer than starting it."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

from amaranth.lib import wiring

from sim_top.emission import emit_systemverilog
from sim_top.emission.identity import inner_components
from sim_top.simulator.cache import cached, content_key, source_digest

__all__ = ["emit_cached"]


def emit_cached(component: wiring.Component, *, name: str, key: str | None) -> str:
    """SystemVerilog of ``component``, from the cache where ``key`` and all sources are unchanged.

    Parameters
    ----------
    component : the design
    name : name of the top module
    key : text that determines the component together with the sources of ``rtl``, ``sw_model`` and
        ``sim_top``; None to emit in any case
    """
    if key is None:
        return emit_systemverilog(component, name=name)

    def fill(directory: Path) -> None:
        (directory / f"{name}.sv").write_text(emit_systemverilog(component, name=name))

    for part in inner_components(component):
        part._MustUse__used = True  # what comes from the cache is not elaborated, and need not be
    sources = source_digest(("rtl", "sim_top", "sw_model"))
    version = importlib.metadata.version("amaranth")
    return (
        cached("emission", content_key(sources, version, name, key), fill) / f"{name}.sv"
    ).read_text()
