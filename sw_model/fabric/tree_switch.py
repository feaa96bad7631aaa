"""A FRED switch of a tree, packet by packet, driven by the kernel.

The rules are those of :class:`sw_model.fabric.fred_packets.PacketSwitch`, of which all packets are
known before it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sw_model.endpoint.class_turns import ClassTurns
from sw_model.endpoint.dim_engine import NEVER
from sw_model.endpoint.link import RateGate
from sw_model.engine import EventKernel
from sw_model.fabric.constants import FabricConstants
from sw_model.fabric.fred_entrance import Entrance, Packet
from sw_model.fabric.packet_pace import PacketCredits, one_by_one, paced, startable
from sw_model.fred.configuration import Flow
from sw_model.fred.table import CLASS_CODES
from sw_model.platform import LinkParameters

__all__ = ["TreeSwitch"]

Cycles = NDArray[np.int64]


class _Output(Protocol):
    """What an output leads to."""

    def carry(self, packet: Packet, wire: Cycles) -> None:
        """A packet whose flits are there in these cycles."""

    def interrupted(self, lane: int, cycle: int, flits: int) -> None:
        """The last packet of a lane makes room for so many flits of others, from ``cycle`` on."""


class _Source(Protocol):
    """What sends to an input."""

    def credited(self, lane: int, cycles: Cycles) -> None:
        """Credits of a lane that are there from these cycles on."""


@dataclass
class _Moving:
    """A packet that has started.

    Attributes
    ----------
    lane, flow : its lane and flow
    behind : by input, cycles by which the last flit of the packet comes later there than it would
        have to; below 0 where flits wait
    """

    lane: int
    flow: Flow
    behind: dict[int, int]


class TreeSwitch:
    """One switch.

    Parameters
    ----------
    kernel : event kernel
    ports : P
    flows : by configuration, the flow of every input
    lanes : classes with a channel of their own
    link : of every port
    buffer_flits : credits of every output and lane
    constants : pipeline constants

    Attributes
    ----------
    outputs, sources : by port, what it leads to and what sends to it
    turns : whose packet goes first
    """

    def __init__(
        self,
        kernel: EventKernel,
        ports: int,
        flows: Sequence[Mapping[int, Flow]],
        lanes: int,
        link: LinkParameters,
        buffer_flits: int,
        constants: FabricConstants,
    ) -> None:
        self.kernel = kernel
        self.link = link
        self.timing = constants.fred
        self.interconnect = self.timing.interconnect(ports)
        self.outputs: dict[int, _Output] = {}
        self.sources: dict[int, _Source] = {}
        self._inputs = [[Entrance(self.timing) for _ in range(ports)] for _ in range(lanes)]
        self._credits = [[PacketCredits(buffer_flits) for _ in range(ports)] for _ in range(lanes)]
        self._credit_return = constants.link.credit_return + link.latency + 1
        self._flows = flows
        self._gates = [RateGate(link.rate) for _ in range(ports)]
        self._ends = [0] * ports
        self._moving: dict[int, _Moving] = {}  # by input, what started last
        self._active: int | None = None
        self.turns = ClassTurns()
        self._due: set[int] = set()

    def offer(self, port: int, packet: Packet) -> None:
        """A packet comes, behind those of its lane that have been offered."""
        self._inputs[packet.lane][port].offer(packet)
        self._advance(packet.lane, port)

    def _advance(self, lane: int, port: int) -> None:
        entrance = self._inputs[lane][port]
        entered = entrance.advance()
        if entrance.head != NEVER:
            self.look(entrance.head + self.timing.match)
        if len(entered):
            self.sources[port].credited(lane, entered + self._credit_return)

    def look(self, cycle: int) -> None:
        """Arbitrate in ``cycle``."""
        cycle = max(cycle, self.kernel.now)
        if cycle not in self._due:
            self._due.add(cycle)
            self.kernel.decide(cycle, self._arbitrate, cycle)

    def _ready(self, lane: int, cycle: int) -> list[Flow]:
        """Flows that may start in ``cycle``, by what was there in the cycle before."""
        match = self.timing.match
        found, later = startable(
            self._inputs[lane], self._credits[lane], self._flows, cycle - match
        )
        for there in later:
            self.look(max(there, cycle) + match)
        return found

    def _next(self, lane: int, flow: Flow) -> Packet:
        """The packet of a flow at the head of its inputs."""
        return self._inputs[lane][flow.inputs[0]].packet

    def _first(self, lane: int, flows: Sequence[Flow]) -> Flow:
        """The flow whose packet comes first in the plan's order."""
        return min(flows, key=lambda f: (CLASS_CODES[f.traffic_class], *self._next(lane, f).order))

    def _arbitrate(self, cycle: int) -> None:
        """Choose a configuration and start what can start in it."""
        self._due.discard(cycle)
        ready = {}
        for lane in range(len(self._inputs)):
            flows = self._ready(lane, cycle)
            if flows:
                ready[lane] = flows
        if not ready:
            return
        first = {lane: self._first(lane, flows) for lane, flows in ready.items()}
        chosen = self.turns.choose(ready)
        index = self._next(chosen, first[chosen]).configuration
        if index != self._active and max(self._ends) > cycle:
            self.look(max(self._ends))
            return
        started = {
            lane: [
                flow
                for flow in flows
                if self._next(lane, flow).configuration == index
                and all(self._ends[port] <= cycle for port in flow.inputs)
            ]
            for lane, flows in ready.items()
        }
        for lane, flows in started.items():
            for flow in flows:
                self._start(lane, flow, cycle)
        count = sum(map(len, started.values()))
        if not count:
            return
        self._active = index
        for lane, flows in started.items():
            if first[lane] in flows:
                self.turns.served(lane)
            else:
                others = [other for other in started if other != lane and started[other]]
                self.turns.passed(lane, count - len(flows), others)
        # Credits reserved now are seen to be gone one cycle late.
        self.look(cycle + 1)
        self.look(cycle + 2)

    def _start(self, lane: int, flow: Flow, cycle: int) -> None:
        """Work out when the flits of the flow's next packet leave, and what follows from it."""
        timing = self.timing
        inputs = [self._inputs[lane][port] for port in flow.inputs]
        packet = inputs[0].packet
        # The channel's buffer is longer than the way through it, so only arrivals matter.
        ready = np.max([entrance.packet.wire for entrance in inputs], axis=0) + timing.receive + 1
        ready[0] = max(ready[0], cycle + timing.go)
        gone = one_by_one(ready)
        if self.link.rate != 1:
            gone = paced(gone, [self._gates[port] for port in flow.outputs])
        wire = gone + self.interconnect
        last = int(gone[-1])
        spare = {
            port: int(entrance.packet.wire[-1]) + timing.receive + 1 - last
            for port, entrance in zip(flow.inputs, inputs, strict=True)
        }
        moving = _Moving(lane, flow, spare)
        for port, entrance in zip(flow.inputs, inputs, strict=True):
            self._moving[port] = moving
            self._ends[port] = last
            entrance.take(cycle, gone)
        for port in flow.outputs:
            self._credits[lane][port].reserved.append((cycle + 1, packet.flits))
            self.outputs[port].carry(packet, wire + self.link.latency)
        for port in flow.inputs:
            self._advance(lane, port)
        self.look(last)

    def interrupted(self, port: int, lane: int, cycle: int, flits: int) -> None:
        """The last packet that a lane has offered makes room for so many flits of others, from
        ``cycle`` on. What has been worked out of a packet that has started is left as it is, but
        for the cycle in which it ends here and behind its outputs."""
        if self._inputs[lane][port].interrupted(cycle, flits):
            return
        moving = self._moving[port]
        if moving.lane != lane:
            return
        before = max(0, *moving.behind.values())
        moving.behind[port] += flits
        late = max(0, *moving.behind.values()) - before
        if late:
            for source in moving.flow.inputs:
                self._ends[source] += late
            self.look(self._ends[port])
            for output in moving.flow.outputs:
                self.outputs[output].interrupted(lane, cycle, late)

    def credited(self, port: int, lane: int, cycles: Cycles) -> None:
        """Credits of an output that will be there from these cycles on."""
        self._credits[lane][port].coming.append(cycles)
        self.look(int(cycles[0]) + self.timing.match)
