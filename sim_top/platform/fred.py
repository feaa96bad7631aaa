"""A FRED switch of a platform, and how configurations reach it."""

from __future__ import annotations

from typing import Protocol

from amaranth.hdl import Module, Signal, Value

from rtl.fred.switch import FredSwitch
from sim_top.platform.parameters import classes_of, data_types_of, operators_of
from sw_model.fred.timing import FRED_TIMING
from sw_model.platform import Platform

__all__ = ["Configured", "attach", "fred_switch"]


class Configured(Protocol):
    """What hands out configurations: while ``write`` is high, ``entry`` goes to ``index``. Two
    cycles must lie between two writes. ``errors`` has one bit per switch."""

    index: Signal
    entry: Signal
    write: Signal
    errors: Signal


def fred_switch(
    platform: Platform, dim: int, *, ports: int, middle_copies: int, configurations: int
) -> FredSwitch:
    """A switch on a FRED dim of a platform."""
    depth = platform.buffer_flits(dim)
    return FredSwitch(
        ports=ports,
        middle_copies=middle_copies,
        flit_bytes=platform.engine.flit_bytes,
        packet_bytes=platform.engine.packet_bytes,
        data_types=data_types_of(platform.engine),
        operators=operators_of(platform.engine),
        adder_depth=FRED_TIMING.adder_depth,
        configurations=configurations,
        input_depth=depth,
        output_credits=depth,
        rate=platform.links[dim].rate,
        classes=classes_of(platform),
    )


def attach(
    m: Module, switch: FredSwitch, source: Configured, place: int, *, chosen: Value | None = None
) -> None:
    """Let a switch have the configurations of ``source``, where ``chosen`` is given only while it
    is high; and set bit ``place`` of the errors for good once it refuses one or reports an error.
    """
    m.d.comb += [
        switch.configure.valid.eq(source.write if chosen is None else source.write & chosen),
        switch.configure.payload.index.eq(source.index),
        # The smaller switches of a tree have shorter entries.
        Value.cast(switch.configure.payload.entry).eq(source.entry),
    ]
    with m.If(switch.error | (switch.configured & Value.cast(switch.refusal).any())):
        m.d.sync += source.errors[place].eq(1)
