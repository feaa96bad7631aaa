"""A platform whose links hold back what is on them at random, for test benches."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from rtl.ace.status import DimStatus, WaitCause
from rtl.link.delay import LinkDelay
from rtl.link.wire import LinkWire
from sim_top.platform.component import PlatformComponent
from sw_model.platform import Platform

__all__ = ["COUNTED", "SOURCE", "StalledPlatform"]

SOURCE = Path(__file__).read_text()
"""Of this module: part of what a model of it depends on."""

COUNTED = (WaitCause.DESTINATION, WaitCause.CONTEXT)
"""What an op that is next to start waits for, in the order of ``waited``."""

_COUNT_BITS = 24


class StallingWire(wiring.Component):
    """Holds flits, credits and grants back, each in ``stalls`` of 256 cycles at random.

    Order stays as it is, and nothing is lost: no more flits are on their way than there are
    credits.

    Parameters
    ----------
    flit_bytes : bytes of a flit
    credits : of the transmitter
    number : the random numbers are others for every number

    Members
    -------
    i, o : wires from the transmitter and to the receiver
    stalls : In(8)
    """

    def __init__(self, *, flit_bytes: int, credits: int, number: int):
        self._credits = credits
        self._number = number
        wire = LinkWire(flit_bytes)
        super().__init__({"i": In(wire), "o": Out(wire), "stalls": In(8)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        random = Signal(32, init=0x9E3779B9 * (self._number + 1) % (1 << 32) | 1)
        mixed: Value = random  # xorshift (Marsaglia 2003)
        for left, right in ((13, 0), (0, 17), (5, 0)):
            step = Signal(32)
            m.d.comb += step.eq(mixed ^ (mixed << left if left else mixed >> right))
            mixed = step
        m.d.sync += random.eq(mixed)
        passes = [random.word_select(part, 8) >= self.stalls for part in range(3)]

        flit = Value.cast(self.i.flit)
        m.submodules.flits = flits = SyncFIFOBuffered(width=len(flit), depth=self._credits)
        m.d.comb += [
            flits.w_data.eq(flit),
            flits.w_en.eq(self.i.valid),
            self.o.valid.eq(flits.r_rdy & passes[0]),
            flits.r_en.eq(self.o.valid),
            Value.cast(self.o.flit).eq(flits.r_data),
        ]
        for part, name in ((1, "credit"), (2, "grant")):
            held = Signal(16, name=f"held_{name}")
            coming, going = getattr(self.o, name), getattr(self.i, name)
            m.d.comb += going.eq((held != 0) & passes[part])
            m.d.sync += held.eq(held + coming - going)
        return m


class _Platform(PlatformComponent):
    """With a stalling wire in front of every receiver."""

    def __init__(self, platform: Platform):
        super().__init__(platform)
        self.link_stalls = Signal(8)
        dims = data.ArrayLayout(DimStatus, len(platform.topology.dims))
        self.dims = [Signal(dims, name=f"dims_{r}") for r in range(platform.topology.npus)]
        self._wires = 0

    def _wire(self, m: Module, dim: int, name: str, source: Any, sink: Any) -> None:
        flit_bytes = self.platform.engine.flit_bytes
        delay = LinkDelay(flit_bytes=flit_bytes, latency=self.platform.links[dim].latency)
        stalling = StallingWire(
            flit_bytes=flit_bytes, credits=self.platform.buffer_flits(dim), number=self._wires
        )
        self._wires += 1
        m.submodules[name] = delay
        m.submodules[f"stalling_{name}"] = stalling
        wiring.connect(m, source, delay.i)
        wiring.connect(m, delay.o, stalling.i)
        wiring.connect(m, stalling.o, sink)
        m.d.comb += stalling.stalls.eq(self.link_stalls)

    def elaborate(self, platform: Any) -> Module:
        m = super().elaborate(platform)
        for rank, status in enumerate(self.dims):
            m.d.comb += status.eq(getattr(m.submodules, f"endpoint_{rank}").status)
        return m


class StalledPlatform(wiring.Component):
    """A platform of one class, whose links stall.

    Parameters
    ----------
    platform : what to build

    Members
    -------
    All of :class:`~sim_top.platform.component.PlatformComponent`, and:

    link_stalls : In(8)
        Of 256 cycles, in how many each link holds back flits; likewise credits, and grants.
    waited : Out(array of 24 bits × NPUs × dims × causes)
        Cycles in which an op that was next to start waited for each of ``COUNTED``.
    """

    def __init__(self, platform: Platform):
        assert platform.engine.lanes == 1
        self.platform = platform
        self._inner = _Platform(platform)
        places = platform.topology.npus * len(platform.topology.dims) * len(COUNTED)
        super().__init__(
            {
                **dict(self._inner.signature.members.items()),
                "link_stalls": In(8),
                "waited": Out(data.ArrayLayout(_COUNT_BITS, places)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.platform = inner = self._inner
        m.d.comb += inner.link_stalls.eq(self.link_stalls)
        for (_, member, outside), (_, _, inside) in zip(
            inner.signature.flatten(self), inner.signature.flatten(inner), strict=True
        ):
            left, right = Value.cast(inside), Value.cast(outside)
            m.d.comb += left.eq(right) if member.flow is In else right.eq(left)
        dims = range(len(self.platform.topology.dims))
        waits = [
            status.queued & (status.start_cause == cause)
            for rank in inner.dims
            for status, cause in product((rank[dim] for dim in dims), COUNTED)
        ]
        for place, waiting in enumerate(waits):
            m.d.sync += self.waited[place].eq(self.waited[place] + waiting)
        return m
