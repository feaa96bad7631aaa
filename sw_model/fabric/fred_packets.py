"""A FRED switch packet by packet: several classes, several flows at a time (docs/fred.md).

The exact twin of ``rtl.fred.switch`` for packets without faults, between its wires: given are the
cycles in which the flits of every packet are on the input wires, and how long a receiver takes to
return a credit; what comes out are the cycles in which they are on the output wires, and those in
which their credits are back on the input wires. Packets are decided upon one by one; the flits of
a packet are whole arrays.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

import numpy as np

from sw_model.endpoint.link import LINK_TIMING, RateGate
from sw_model.fabric.packet_pace import NEVER, Cycles, PacketCredits, one_by_one, paced, startable
from sw_model.fred.configuration import Configuration, Flow
from sw_model.fred.timing import FRED_TIMING, FredTiming

__all__ = ["ArrivingPacket", "Departure", "PacketSwitch"]

_ORDER_BITS = 40  # op, step, sequence


@dataclass(frozen=True)
class ArrivingPacket:
    """A packet on an input wire.

    Parameters
    ----------
    configuration : its index
    order : op · 2**24 + step · 2**16 + sequence: its place in the plan's order
    wire : ascending cycles in which its flits, the header first, are on the wire
    """

    configuration: int
    order: int
    wire: Cycles


@dataclass(frozen=True)
class Departure:
    """A packet on the output wires of its flow.

    Attributes
    ----------
    configuration, order, channel : of the packet
    outputs : the ports
    cycles : when each flit is on their wires
    """

    configuration: int
    order: int
    channel: int
    outputs: tuple[int, ...]
    cycles: Cycles


class _Input:
    """One channel of one port. Flits are numbered through all its packets.

    ``first`` : number of the first flit of every packet, and of the end; ``wire``, ``enter`` and
    ``gone`` : cycles of every flit on the wire, into the channel and out of it; ``entered`` and
    ``left`` : how many of the last two are known; ``taken`` : start of every packet that has
    started; ``head`` : cycle from which the next packet is at the scheduler.
    """

    def __init__(self, packets: Sequence[ArrivingPacket]) -> None:
        self.packets = packets
        self.first = [0, *accumulate(len(packet.wire) for packet in packets)]
        self.wire = np.concatenate([np.zeros(0, np.int64), *(p.wire for p in packets)])
        self.enter = np.zeros_like(self.wire)
        self.gone = np.zeros_like(self.wire)
        self.entered = self.left = 0
        self.taken: list[int] = []
        self.head = NEVER

    @property
    def packet(self) -> ArrivingPacket:
        """The next packet."""
        return self.packets[len(self.taken)]

    def arriving(self) -> Cycles:
        """When the flits of the next packet are on the wire."""
        return self.wire[self.first[len(self.taken)] : self.first[len(self.taken) + 1]]

    def advance(self, timing: FredTiming) -> None:
        """Let in what may enter.

        A flit enters when it is out of the link's buffer, the one before it has entered, and the
        one that many places before it has left, as the channel has; a header also when that many
        packets before it one has started, as the channel keeps.
        """
        begin, started = self.entered, len(self.taken)
        ahead, packets = timing.look_ahead, timing.look_ahead_packets
        end = min(len(self.wire), self.left + ahead)
        if started + packets < len(self.packets):
            end = min(end, self.first[started + packets])
        if end > begin:
            ready = self.wire[begin:end] + timing.receive
            limited = max(begin, ahead)
            if end > limited:
                part = ready[limited - begin :]
                np.maximum(part, self.gone[limited - ahead : end - ahead] + 1, out=part)
            for packet in range(packets, len(self.packets)):
                if begin <= self.first[packet] < end:
                    at = self.first[packet] - begin
                    ready[at] = max(ready[at], self.taken[packet - packets] + 1)
            if begin:
                ready[0] = max(ready[0], self.enter[begin - 1] + 1)
            self.enter[begin:end] = one_by_one(ready)
            self.entered = end
        self.head = NEVER
        if started < len(self.packets) and self.first[started] < self.entered:
            self.head = int(self.enter[self.first[started]]) + timing.look_up
            if started:
                self.head = max(self.head, self.taken[-1] + 1)

    def take(self, start: int, gone: Cycles) -> None:
        """The next packet starts, and its flits leave in these cycles."""
        self.gone[self.left : self.left + len(gone)] = gone
        self.left += len(gone)
        self.taken.append(start)


class PacketSwitch:
    """A switch, and the packets through it.

    Parameters
    ----------
    configurations : by index
    classes : name of the class of each channel, in falling priority
    credits : flits of room behind each output, by channel
    credit_delay : cycles from a flit on an output wire to its credit on the wire back, by port
    rate : flits per cycle of the output links
    starvation_bound : packets that may pass a ready one of a lower class
    timing : pipeline depths

    Attributes
    ----------
    departures : packets in the order in which they started
    switchovers : changes of the active configuration
    """

    def __init__(
        self,
        configurations: Sequence[Configuration],
        *,
        classes: Sequence[str],
        credits: Sequence[int],
        credit_delay: Callable[[int], int] = lambda port: 1,
        rate: Fraction = Fraction(1),
        starvation_bound: int = 16,
        timing: FredTiming = FRED_TIMING,
    ) -> None:
        self.ports = configurations[0].ports
        self.classes = tuple(classes)
        self.timing = timing
        self.departures: list[Departure] = []
        self.switchovers = 0
        ports, channels = range(self.ports), range(len(self.classes))
        self._flows: list[dict[int, Flow]] = [
            {port: flow for flow in configuration.flows for port in flow.inputs}
            for configuration in configurations
        ]
        self._offered: list[list[list[ArrivingPacket]]] = [[[] for _ in ports] for _ in channels]
        self._inputs: list[list[_Input]] = []
        self._bound = starvation_bound
        self._passed = [0 for _ in channels]
        self._served = len(self.classes)  # the last channel that was due
        self._paced = rate != 1
        self._gates = [RateGate(rate) for _ in ports]
        self._delay = [credit_delay(port) for port in ports]
        self._credits = [[PacketCredits(credits[c]) for _ in ports] for c in channels]
        self._ends = [0 for _ in ports]  # cycle of the last flit of an input's last packet
        self._active: int | None = None
        self._wake: list[int] = []

    def offer(self, port: int, channel: int, packet: ArrivingPacket) -> None:
        """Let a packet arrive, behind those offered before on the same channel.

        Raises
        ------
        ValueError
            for a packet that the switch would throw away.
        """
        flow = self._flows[packet.configuration].get(port)
        if flow is None or flow.traffic_class != self.classes[channel]:
            raise ValueError(
                f"configuration {packet.configuration} must have a flow of class "
                f"{self.classes[channel]!r} from port {port}"
            )
        self._offered[channel][port].append(packet)

    def run(self) -> None:
        """Carry all packets that can be carried."""
        self._inputs = [[_Input(packets) for packets in channel] for channel in self._offered]
        for channel in self._inputs:
            for entrance in channel:
                self._advance(entrance)
        while self._wake:
            cycle = heapq.heappop(self._wake)
            while self._wake and self._wake[0] == cycle:
                heapq.heappop(self._wake)
            self._arbitrate(cycle)

    def waiting(self) -> list[tuple[int, int]]:
        """Channel and port of every input with a packet that has not started."""
        return [
            (c, p)
            for c, channel in enumerate(self._inputs)
            for p, entrance in enumerate(channel)
            if len(entrance.taken) < len(entrance.packets)
        ]

    def credits_returned(self, port: int, channel: int) -> Cycles:
        """Cycles in which the credits of this input's flits are on the wire, in order."""
        entrance = self._inputs[channel][port]
        return entrance.enter[: entrance.entered] + LINK_TIMING.credit_return

    def _advance(self, entrance: _Input) -> None:
        entrance.advance(self.timing)
        if entrance.head != NEVER:
            heapq.heappush(self._wake, entrance.head + self.timing.match)

    def _ready(self, channel: int, cycle: int) -> list[Flow]:
        """Flows of a channel that may start in ``cycle``, by what was there in the cycle before."""
        match = self.timing.match
        found, later = startable(
            self._inputs[channel], self._credits[channel], self._flows, cycle - match
        )
        for there in later:
            heapq.heappush(self._wake, max(there, cycle) + match)
        return found

    def _arbitrate(self, cycle: int) -> None:
        """Choose a configuration and start what can start in it."""
        ready = [self._ready(c, cycle) for c in range(len(self.classes))]
        waits = [c for c, flows in enumerate(ready) if flows]
        if not waits:
            return
        urgent = [c for c in waits if self._passed[c] == self._bound]
        in_turn = [c for c in urgent if c > self._served] or urgent
        chosen = (in_turn or waits)[0]
        first = [self._first(c, flows) if flows else None for c, flows in enumerate(ready)]
        index = self._next(chosen, first[chosen]).configuration
        stay = index == self._active
        if not stay and max(self._ends) > cycle:
            return
        started: list[list[Flow]] = []
        for c, flows in enumerate(ready):
            started.append(
                [
                    flow
                    for flow in flows
                    if self._next(c, flow).configuration == index
                    and all(self._ends[p] <= cycle for p in flow.inputs)
                ]
            )
        for c, flows in enumerate(started):
            for flow in flows:
                self._start(c, flow, cycle)
        if not any(started):
            return
        self.switchovers += not stay
        self._active = index
        for c in waits:
            if first[c] in started[c]:
                self._passed[c] = 0
                if c in urgent:
                    self._served = c
            else:
                others = sum(len(flows) for d, flows in enumerate(started) if d != c)
                self._passed[c] = min(self._bound, self._passed[c] + others)
        # Credits reserved now are seen to be gone one cycle late.
        heapq.heappush(self._wake, cycle + 1)
        heapq.heappush(self._wake, cycle + 2)

    def _next(self, channel: int, flow: Flow | None) -> ArrivingPacket:
        """The packet of a flow at the head of its inputs."""
        assert flow is not None
        return self._inputs[channel][flow.inputs[0]].packet

    def _first(self, channel: int, flows: list[Flow]) -> Flow:
        """The flow whose packet comes first in the plan's order; serial numbers wrap."""
        orders = [self._next(channel, flow).order for flow in flows]
        half, most = 1 << _ORDER_BITS - 1, (1 << _ORDER_BITS) - 1
        unbeaten = [
            flow
            for flow, own in zip(flows, orders, strict=True)
            if not any((other - own) & most >= half for other in orders)
        ]
        return (unbeaten or flows)[0]

    def _start(self, channel: int, flow: Flow, cycle: int) -> None:
        """Work out when the flits of the flow's next packet leave, and what follows from it."""
        timing = self.timing
        inputs = [self._inputs[channel][port] for port in flow.inputs]
        packet = inputs[0].packet
        # The channel's buffer is longer than the way through it, so only arrivals matter.
        ready = np.max([entrance.arriving() for entrance in inputs], axis=0)
        ready = ready + timing.receive + 1
        ready[0] = max(ready[0], cycle + timing.go)
        gone = one_by_one(ready)
        if self._paced:
            gone = paced(gone, [self._gates[port] for port in flow.outputs])
        wire = gone + timing.interconnect(self.ports)
        self.departures.append(
            Departure(packet.configuration, packet.order, channel, flow.outputs, wire)
        )
        for port in flow.outputs:
            credits = self._credits[channel][port]
            credits.reserved.append((cycle + 1, len(gone)))
            credits.coming.append(wire + self._delay[port] + 1)
        last = int(gone[-1])
        for port, entrance in zip(flow.inputs, inputs, strict=True):
            self._ends[port] = last
            entrance.take(cycle, gone)
            self._advance(entrance)
        heapq.heappush(self._wake, last)
