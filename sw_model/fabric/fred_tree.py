"""A tree of FRED switches with its links, packet by packet (docs/fred.md).

Each switch is :class:`sw_model.fabric.fred_packets.PacketSwitch`, with one channel, driven by the
kernel: what leaves one arrives at the next. When a packet starts, the cycles of all its flits
follow from those on its inputs, which have started before it; so each packet is decided upon once,
and its flits are whole arrays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sw_model.endpoint.dim_engine import NEVER, DimEngine, Op
from sw_model.endpoint.link import RateGate
from sw_model.endpoint.programs import Send
from sw_model.engine import EventKernel
from sw_model.fabric.constants import FabricConstants
from sw_model.fabric.fred_entrance import Entrance, Packet, one_by_one
from sw_model.fabric.fred_packets import PacketCredits, paced
from sw_model.fred.configuration import Flow
from sw_model.fred.table import CLASS_CODES
from sw_model.fred.tree.table import TreeTable
from sw_model.platform import LinkParameters

__all__ = ["TreeFabric"]

Cycles = NDArray[np.int64]


class TreeFabric:
    """All switches of a tree, and the ports of its NPUs.

    Parameters
    ----------
    kernel : event kernel
    table : configurations
    engines : dim engine by rank
    link : of every port, in both directions
    buffer_flits : that every receiver holds
    packet_flits : payload flits of a full packet
    constants : pipeline constants
    """

    def __init__(
        self,
        kernel: EventKernel,
        table: TreeTable,
        engines: Sequence[DimEngine],
        link: LinkParameters,
        buffer_flits: int,
        packet_flits: int,
        constants: FabricConstants,
    ) -> None:
        self.kernel = kernel
        self.link = link
        self.buffer_flits = buffer_flits
        self.packet_flits = packet_flits
        self.constants = constants
        ports = table.ports
        self.switches = {
            (level, number): _Switch(self, ports.ports(level), _flows(table, (level, number)))
            for level, number in ports.switches
        }
        self.ports = []
        for rank, engine in enumerate(engines):
            number, place = ports.down(rank)
            self.ports.append(_NpuPort(self, engine, self.switches["L1", number], place))
        for number in range(ports.tree.switches):
            for up in range(ports.tree.ups):
                top, place = ports.top(number, up)
                below, above = self.switches["L1", number], self.switches["L2", top]
                below.join(ports.up(up), above, place)
                above.join(place, below, ports.up(up))


def _flows(table: TreeTable, switch: tuple[str, int]) -> list[dict[int, Flow]]:
    """By configuration, the flow of every input of a switch."""
    return [
        {port: flow for flow in entry[switch].flows for port in flow.inputs}
        if switch in entry
        else {}
        for entry in table.entries
    ]


class _Switch:
    """One switch.

    Parameters
    ----------
    fabric : the whole
    ports : P
    flows : by configuration, the flow of every input
    """

    def __init__(self, fabric: TreeFabric, ports: int, flows: Sequence[Mapping[int, Flow]]) -> None:
        self.fabric = fabric
        self.kernel = fabric.kernel
        self.timing = fabric.constants.fred
        self.interconnect = self.timing.interconnect(ports)
        self.inputs = [Entrance(self.timing) for _ in range(ports)]
        self.credits = [PacketCredits(fabric.buffer_flits) for _ in range(ports)]
        self.outputs: list[Any] = [None] * ports
        self.sources: list[Any] = [None] * ports
        self._flows = flows
        self._gates = [RateGate(fabric.link.rate) for _ in range(ports)]
        self._ends = [0] * ports
        self._active: int | None = None
        self._due: set[int] = set()

    def join(self, port: int, other: _Switch, place: int) -> None:
        """What leaves by ``port`` enters ``other`` at ``place``."""
        self.outputs[port] = _Trunk(other, place)
        other.sources[place] = _TrunkCredits(self, port)

    def offer(self, port: int, packet: Packet) -> None:
        """A packet comes, behind those that have been offered."""
        self.inputs[port].offer(packet)
        self._advance(port)

    def _advance(self, port: int) -> None:
        entrance = self.inputs[port]
        entered = entrance.advance()
        if entrance.head != NEVER:
            self.look(entrance.head + self.timing.match)
        if len(entered):
            link = self.fabric.constants.link
            self.sources[port].credited(entered + link.credit_return + self.fabric.link.latency + 1)

    def look(self, cycle: int) -> None:
        """Arbitrate in ``cycle``."""
        cycle = max(cycle, self.kernel.now)
        if cycle not in self._due:
            self._due.add(cycle)
            self.kernel.decide(cycle, self._arbitrate, cycle)

    def _ready(self, cycle: int) -> list[Flow]:
        """Flows that may start in ``cycle``, by what was there in the cycle before."""
        seen = cycle - self.timing.match
        found = []
        for port, entrance in enumerate(self.inputs):
            if entrance.head > seen:
                continue
            packet = entrance.packet
            flow = self._flows[packet.configuration][port]
            if flow.inputs[0] != port or any(
                self.inputs[other].head > seen
                or self.inputs[other].packet.configuration != packet.configuration
                for other in flow.inputs
            ):
                continue
            credits = [self.credits[output] for output in flow.outputs]
            if all(credit.count(seen) >= packet.flits for credit in credits):
                found.append(flow)
                continue
            there = max(credit.when(packet.flits, seen) for credit in credits)
            if there != NEVER:
                self.look(max(there, cycle) + self.timing.match)
        return found

    def _order(self, flow: Flow) -> tuple[int, ...]:
        packet = self.inputs[flow.inputs[0]].packet
        return (CLASS_CODES[flow.traffic_class], *packet.order)

    def _arbitrate(self, cycle: int) -> None:
        """Choose a configuration and start what can start in it."""
        self._due.discard(cycle)
        ready = self._ready(cycle)
        if not ready:
            return
        first = min(ready, key=self._order)
        index = self.inputs[first.inputs[0]].packet.configuration
        if index != self._active and max(self._ends) > cycle:
            self.look(max(self._ends))
            return
        started = [
            flow
            for flow in ready
            if self.inputs[flow.inputs[0]].packet.configuration == index
            and all(self._ends[port] <= cycle for port in flow.inputs)
        ]
        for flow in started:
            self._start(flow, cycle)
        if started:
            self._active = index
            # Credits reserved now are seen to be gone one cycle late.
            self.look(cycle + 1)
            self.look(cycle + 2)

    def _start(self, flow: Flow, cycle: int) -> None:
        """Work out when the flits of the flow's next packet leave, and what follows from it."""
        timing = self.timing
        inputs = [self.inputs[port] for port in flow.inputs]
        packet = inputs[0].packet
        # The channel's buffer is longer than the way through it, so only arrivals matter.
        ready = np.max([entrance.packet.wire for entrance in inputs], axis=0) + timing.receive + 1
        ready[0] = max(ready[0], cycle + timing.go)
        gone = one_by_one(ready)
        if self.fabric.link.rate != 1:
            gone = paced(gone, [self._gates[port] for port in flow.outputs])
        wire = gone + self.interconnect
        last = int(gone[-1])
        for port, entrance in zip(flow.inputs, inputs, strict=True):
            self._ends[port] = last
            entrance.take(cycle, gone)
        for port in flow.outputs:
            self.credits[port].reserved.append((cycle + 1, packet.flits))
            self.outputs[port].carry(packet, wire + self.fabric.link.latency)
        for port in flow.inputs:
            self._advance(port)
        self.look(last)

    def credited(self, port: int, cycles: Cycles) -> None:
        """Credits of an output that will be there from these cycles on."""
        self.credits[port].coming.append(cycles)
        self.look(int(cycles[0]) + self.timing.match)


class _Trunk:
    """An output that leads to another switch."""

    def __init__(self, switch: _Switch, port: int) -> None:
        self.switch = switch
        self.port = port

    def carry(self, packet: Packet, wire: Cycles) -> None:
        """A packet is on its way; its flits are there in these cycles."""
        self.switch.offer(self.port, packet.moved(wire))


class _TrunkCredits:
    """Where the credits of an input behind another switch go."""

    def __init__(self, switch: _Switch, port: int) -> None:
        self.switch = switch
        self.port = port

    def credited(self, cycles: Cycles) -> None:
        """Credits that will be there from these cycles on."""
        self.switch.credited(self.port, cycles)


class _NpuPort:
    """The link of an NPU to its L1 switch and back: outlet and inlet of its dim engine."""

    def __init__(self, fabric: TreeFabric, engine: DimEngine, switch: _Switch, port: int) -> None:
        self.fabric = fabric
        self.engine = engine
        self.switch = switch
        self.port = port
        engine.outlet = self
        engine.inlet = self
        switch.outputs[port] = self
        switch.sources[port] = self
        self._gate = RateGate(fabric.link.rate)
        self._credits: deque[Cycles] = deque()  # of flits that have left the L1 switch's buffer
        self._free = fabric.buffer_flits  # credits that have not been used
        self._last = -1  # cycle of the last flit
        self._leaving: deque[tuple[Op, Send, Packet, int, bool]] = deque()
        self._begun: dict[tuple[int, int], tuple[int, int]] = {}  # of messages arriving
        self._unread: deque[int] = deque()  # flits of messages that wait

    # Outlet

    def begin(self, op: Op, send: Send, chosen: int) -> None:
        """A message begins; each of its packets is known when the credits for it are."""
        assert send.after < 0, "in-network steps send nothing that they have received"
        ready = chosen + self.fabric.constants.ace.transmit
        full, left, sequence = self.fabric.packet_flits + 1, send.flits, 0
        while left:
            flits = min(full, left)
            packet = Packet(
                configuration=send.configuration,
                order=(op.number, send.step, sequence),
                step=send.step,
                final=flits == left,
                wire=np.arange(ready, ready + flits, dtype=np.int64),
            )
            self._leaving.append((op, send, packet, chosen, flits == left))
            ready += flits
            left -= flits
            sequence += flits - 1
        self._settle()

    def credited(self, cycles: Cycles) -> None:
        """Credits that will be there from these cycles on; the sender sees them at the wire."""
        self._credits.append(cycles - 1 + self.fabric.constants.link.credit_use)
        self._settle()

    def _settle(self) -> None:
        """Let packets go whose last credit is known."""
        constants = self.fabric.constants
        while self._leaving:
            op, send, packet, chosen, final = self._leaving[0]
            known = self._free + sum(map(len, self._credits))
            if known < packet.flits:
                return
            self._leaving.popleft()
            ready = self._funded(packet.wire)
            ready[0] = max(ready[0], self._last + 1)
            leaves = one_by_one(ready)
            if self.fabric.link.rate != 1:
                for k in range(len(leaves)):
                    after = leaves[k - 1] + 1 if k else 0
                    leaves[k] = self._gate.depart(int(max(leaves[k], after)))
            self._last = last = int(leaves[-1])
            flight = constants.link.transmit + self.fabric.link.latency
            self.switch.offer(self.port, packet.moved(leaves + flight))
            if final:
                held = constants.ace.run_ahead
                taken = int(leaves[-1 - held]) + 1 if len(leaves) > held else 0
                self.engine.sent(op, last, max(chosen + send.flits, taken))

    def _funded(self, ready: Cycles) -> Cycles:
        """From when on each flit is ready and has a credit."""
        out = ready.copy()
        place = min(self._free, len(ready))
        self._free -= place
        while place < len(ready):
            cycles = self._credits[0]
            some = min(len(cycles), len(ready) - place)
            np.maximum(out[place : place + some], cycles[:some], out=out[place : place + some])
            place += some
            if some == len(cycles):
                self._credits.popleft()
            else:
                self._credits[0] = cycles[some:]
        return out

    # Inlet

    def carry(self, packet: Packet, wire: Cycles) -> None:
        """A packet comes out of the switch; its flits are here in these cycles."""
        constants = self.fabric.constants
        delay = constants.link.receive + constants.ace.receive
        number, step = packet.order[0], packet.step
        first, flits = self._begun.pop((number, step), (int(wire[min(1, len(wire) - 1)]), 0))
        flits += len(wire) - 1
        read = 0
        if packet.final:
            read = self.engine.message(number, step, first + delay, int(wire[-1]) + delay, flits)
        else:
            self._begun[number, step] = (first, flits)
        if read == NEVER:
            self._unread.append(len(wire))
        else:
            self._return(wire + constants.link.receive)

    def drained(self, last: int) -> None:
        """The oldest message that had to wait is written up to its last flit in this cycle."""
        flits = self._unread.popleft()
        read = last - self.fabric.constants.ace.receive
        self._return(np.arange(read - flits + 1, read + 1, dtype=np.int64))

    def _return(self, read: Cycles) -> None:
        back = self.fabric.constants.link.credit_return + self.fabric.link.latency + 1
        self.switch.credited(self.port, read + back)
