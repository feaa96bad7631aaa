"""The FRED switches of one dim."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.link.wire import LinkWire
from sim_top.platform.fred import attach, fred_switch
from sim_top.platform.parameters import flow_table
from sw_model.fred.table import entry_bits
from sw_model.platform import Platform

__all__ = ["SwitchBank"]


class SwitchBank(wiring.Component):
    """A FRED_m(P) switch for each group of a dim; all hold the same configurations.

    Parameters
    ----------
    platform : the whole
    dim : index of a FRED dim

    Members
    -------
    receive, send : wires, P for each switch, switch after switch
    index, entry, write : In
        For every configuration memory (:class:`~sim_top.platform.fred.Configured`).
    errors : Out
        One bit per switch: it refused an entry or a packet, or its links are overrun.
    """

    def __init__(self, platform: Platform, dim: int) -> None:
        description = platform.topology.dims[dim]
        self.ports = description.size
        self.middle_copies = description.middle_copies
        self.switches = platform.topology.npus // self.ports
        self.entry_bits = entry_bits(self.ports, self.middle_copies)
        flit_bytes = platform.engine.flit_bytes
        entries = len(flow_table(description, platform.engine).entries)
        wire = LinkWire(flit_bytes, platform.engine.lanes)
        self._switches = [
            fred_switch(
                platform,
                dim,
                ports=self.ports,
                middle_copies=self.middle_copies,
                configurations=entries,
            )
            for _ in range(self.switches)
        ]
        places = self.ports * self.switches
        super().__init__(
            {
                "receive": In(wire).array(places),
                "send": Out(wire).array(places),
                "index": In(12),
                "entry": In(self.entry_bits),
                "write": In(1),
                "errors": Out(self.switches),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for number, switch in enumerate(self._switches):
            m.submodules[f"switch_{number}"] = switch
            for port in range(self.ports):
                place = number * self.ports + port
                wiring.connect(m, wiring.flipped(self.receive[place]), switch.i[port])
                wiring.connect(m, switch.o[port], wiring.flipped(self.send[place]))
            attach(m, switch, self, number)
        return m
