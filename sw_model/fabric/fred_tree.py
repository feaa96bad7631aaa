"""A tree of FRED switches with its links, packet by packet (docs/fred.md).

What leaves one switch arrives at the next. When a packet starts, the cycles of all its flits follow
from those on its inputs, which have started before it; so each packet is decided upon once, and its
flits are whole arrays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sw_model.endpoint.dim_engine import DimEngine
from sw_model.engine import EventKernel
from sw_model.fabric.constants import FabricConstants
from sw_model.fabric.fred_entrance import Packet
from sw_model.fabric.tree_port import NpuLink
from sw_model.fabric.tree_switch import TreeSwitch
from sw_model.fred.configuration import Flow
from sw_model.fred.tree.table import TreeTable
from sw_model.platform import LinkParameters

__all__ = ["TreeFabric"]

Cycles = NDArray[np.int64]


class TreeFabric:
    """All switches of a tree, and the links of its NPUs.

    Parameters
    ----------
    kernel : event kernel
    table : configurations
    engines : dim engines of every rank, one for each lane
    link : of every port, in both directions
    buffer_flits : that every receiver holds for each lane
    packet_flits : payload flits of a full packet
    constants : pipeline constants
    """

    def __init__(
        self,
        kernel: EventKernel,
        table: TreeTable,
        engines: Sequence[Sequence[DimEngine]],
        link: LinkParameters,
        buffer_flits: int,
        packet_flits: int,
        constants: FabricConstants,
    ) -> None:
        ports = table.ports
        self.switches = {
            (level, number): TreeSwitch(
                kernel,
                ports.ports(level),
                _flows(table, (level, number)),
                len(engines[0]),
                link,
                buffer_flits,
                constants,
            )
            for level, number in ports.switches
        }
        self.links: list[NpuLink] = []
        for rank, lanes in enumerate(engines):
            number, place = ports.down(rank)
            below = self.switches["L1", number]
            self.links.append(
                NpuLink(kernel, lanes, below, place, link, buffer_flits, packet_flits, constants)
            )
        for number in range(ports.tree.switches):
            for up in range(ports.tree.ups):
                top, place = ports.top(number, up)
                below, above = self.switches["L1", number], self.switches["L2", top]
                _join(below, ports.up(up), above, place)
                _join(above, place, below, ports.up(up))

    def interrupted(self) -> Counter[tuple[int, int]]:
        """By lane and higher lane, packets of the one between whose flits the other's left on the
        link of an NPU."""
        return sum((link.interrupted_packets for link in self.links), Counter())

    def overtaken(self) -> Counter[tuple[int, int]]:
        """By lane and higher lane, packets of the one that were ready at the link of an NPU or at a
        switch and let one of the other go first; counted once at each of these places."""
        turns = [link.turns for link in self.links]
        turns += [switch.turns for switch in self.switches.values()]
        return sum((one.overtaken for one in turns), Counter())


def _flows(table: TreeTable, switch: tuple[str, int]) -> list[dict[int, Flow]]:
    """By configuration, the flow of every input of a switch."""
    return [
        {port: flow for flow in entry[switch].flows for port in flow.inputs}
        if switch in entry
        else {}
        for entry in table.entries
    ]


def _join(switch: TreeSwitch, port: int, other: TreeSwitch, place: int) -> None:
    """What leaves a switch by ``port`` enters ``other`` at ``place``."""
    switch.outputs[port] = _Trunk(other, place)
    other.sources[place] = _TrunkCredits(switch, port)


class _Trunk:
    """An output that leads to another switch."""

    def __init__(self, switch: TreeSwitch, port: int) -> None:
        self.switch = switch
        self.port = port

    def carry(self, packet: Packet, wire: Cycles) -> None:
        """A packet is on its way; its flits are there in these cycles."""
        self.switch.offer(self.port, packet.moved(wire))

    def interrupted(self, lane: int, cycle: int, flits: int) -> None:
        """The last packet of a lane makes room for so many flits of others."""
        self.switch.interrupted(self.port, lane, cycle, flits)


class _TrunkCredits:
    """Where the credits of an input behind another switch go."""

    def __init__(self, switch: TreeSwitch, port: int) -> None:
        self.switch = switch
        self.port = port

    def credited(self, lane: int, cycles: Cycles) -> None:
        """Credits that will be there from these cycles on."""
        self.switch.credited(self.port, lane, cycles)
