"""The FRED switches of one dim."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.fred.switch import FredSwitch
from rtl.link.wire import LinkWire
from sim_top.platform.parameters import classes_of, data_types_of, flow_table, operators_of
from sw_model.fred.table import entry_bits
from sw_model.fred.timing import FRED_TIMING
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
        While ``write`` is high, ``entry`` goes to ``index`` of every configuration memory. Two
        cycles must lie between two writes.
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
        depth = platform.buffer_flits(dim)
        entries = len(flow_table(description, platform.engine).entries)
        wire = LinkWire(flit_bytes, platform.engine.lanes)
        self._switches = [
            FredSwitch(
                ports=self.ports,
                middle_copies=self.middle_copies,
                flit_bytes=flit_bytes,
                packet_bytes=platform.engine.packet_bytes,
                data_types=data_types_of(platform.engine),
                operators=operators_of(platform.engine),
                adder_depth=FRED_TIMING.adder_depth,
                configurations=entries,
                input_depth=depth,
                output_credits=depth,
                rate=platform.links[dim].rate,
                classes=classes_of(platform),
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
            m.d.comb += [
                switch.configure.valid.eq(self.write),
                switch.configure.payload.index.eq(self.index),
                switch.configure.payload.entry.eq(self.entry),
            ]
            with m.If(switch.error | (switch.configured & Value.cast(switch.refusal).any())):
                m.d.sync += self.errors[number].eq(1)
        return m
