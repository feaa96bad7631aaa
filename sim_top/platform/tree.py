"""A tree of FRED switches: the fabric of a wafer, one chiplet slice wide (docs/fred.md)."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.link.delay import LinkDelay
from rtl.link.wire import LinkWire
from sim_top.platform.fred import attach, fred_switch
from sw_model.fred.table import entry_bits
from sw_model.fred.tree.placement import CONFIGURATIONS
from sw_model.platform import Platform

__all__ = ["SwitchTree"]


class SwitchTree(wiring.Component):
    """L1 switches over the NPUs, and L2 switches over those.

    Up links are like the links of the NPUs: rate, latency and buffers are the same. A packet
    passes at most three switches and names one configuration for all of them.

    Parameters
    ----------
    platform : whose only dim is a tree

    Members
    -------
    receive, send : wires, one for each NPU
    switch, index, entry, write : In
        For the configuration memory of switch ``switch``, L1 switches in order, then L2 switches
        (:class:`~sim_top.platform.fred.Configured`).
    errors : Out
        One bit per switch, in the same order: it refused an entry or a packet, or its links are
        overrun.
    """

    def __init__(self, platform: Platform) -> None:
        ports = platform.tree
        assert ports is not None, "the platform has a tree"
        self.ports = ports
        self.switches = len(ports.switches)
        self.flit_bytes = platform.engine.flit_bytes
        self.channels = platform.engine.lanes
        self.link = platform.links[0]
        sizes = {level: ports.ports(level) for level in ("L1", "L2")}
        self.entry_bits = max(entry_bits(size, ports.middle_copies) for size in sizes.values())
        self._switches = {
            (level, number): fred_switch(
                platform,
                0,
                ports=sizes[level],
                middle_copies=ports.middle_copies,
                configurations=CONFIGURATIONS,
            )
            for level, number in ports.switches
        }
        npus = ports.tree.switches * ports.tree.ranks
        wire = LinkWire(self.flit_bytes, self.channels)
        super().__init__(
            {
                "receive": In(wire).array(npus),
                "send": Out(wire).array(npus),
                "switch": In(8),
                "index": In(12),
                "entry": In(self.entry_bits),
                "write": In(1),
                "errors": Out(self.switches),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for place, ((level, number), switch) in enumerate(self._switches.items()):
            m.submodules[f"{level.lower()}_{number}"] = switch
            attach(m, switch, self, place, chosen=self.switch == place)
        tree = self.ports.tree
        for rank in range(tree.switches * tree.ranks):
            number, port = self.ports.down(rank)
            switch = self._switches["L1", number]
            wiring.connect(m, wiring.flipped(self.receive[rank]), switch.i[port])
            wiring.connect(m, switch.o[port], wiring.flipped(self.send[rank]))
        for number in range(tree.switches):
            for link in range(tree.ups):
                self._join(m, number, link)
        return m

    def _join(self, m: Module, number: int, link: int) -> None:
        """Both directions of an up link."""
        top, place = self.ports.top(number, link)
        below, above = self._switches["L1", number], self._switches["L2", top]
        port = self.ports.up(link)
        for name, source, sink in (
            ("up", below.o[port], above.i[place]),
            ("down", above.o[place], below.i[port]),
        ):
            delay = LinkDelay(
                flit_bytes=self.flit_bytes, latency=self.link.latency, channels=self.channels
            )
            m.submodules[f"{name}_{number}_{link}"] = delay
            wiring.connect(m, source, delay.i)
            wiring.connect(m, delay.o, sink)
