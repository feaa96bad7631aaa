"""The link of an NPU to the tree of switches and back, packet by packet."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sw_model.endpoint.class_turns import ClassTurns
from sw_model.endpoint.dim_engine import NEVER, DimEngine, Op
from sw_model.endpoint.link import RateGate
from sw_model.endpoint.programs import Send
from sw_model.engine import EventKernel
from sw_model.fabric.constants import FabricConstants
from sw_model.fabric.fred_entrance import Packet
from sw_model.fabric.packet_pace import one_by_one
from sw_model.fabric.tree_switch import TreeSwitch
from sw_model.platform import LinkParameters

__all__ = ["NpuLink"]

Cycles = NDArray[np.int64]


@dataclass(frozen=True)
class _Leaving:
    """A packet that waits for the link; ``chosen`` : cycle in which its message was chosen;
    ``held`` : its message fits into the pipeline in front of the link, with all that is there."""

    op: Op
    send: Send
    packet: Packet
    chosen: int
    held: bool


class NpuLink:
    """Both directions of an NPU's link: outlet and inlet of its dim engines.

    Packets leave one at a time, of the lane whose turn it is. One begins when it is known when its
    last credit comes; the RTL begins it with its first credit, and lets others pass while it lacks
    one.

    Parameters
    ----------
    kernel : event kernel
    engines : the NPU's dim engine of each lane
    switch, port : where the link leads to
    link : rate and latency
    buffer_flits : that the switch holds for each lane
    packet_flits : payload flits of a full packet
    constants : pipeline constants

    Attributes
    ----------
    turns : whose packet goes first
    interrupted_packets : by lane and higher lane, packets of the one between whose flits a packet
        of the other left
    """

    def __init__(
        self,
        kernel: EventKernel,
        engines: Sequence[DimEngine],
        switch: TreeSwitch,
        port: int,
        link: LinkParameters,
        buffer_flits: int,
        packet_flits: int,
        constants: FabricConstants,
    ) -> None:
        self.kernel = kernel
        self.switch = switch
        self.port = port
        self.link = link
        self.constants = constants
        self.packet_flits = packet_flits
        self.shared = len(engines) > 1
        self._lanes = [_Lane(self, lane, e, buffer_flits) for lane, e in enumerate(engines)]
        self._gate = RateGate(link.rate)
        # Whose message is chosen reads SRAM before lower classes, and takes their place on a link
        # that is as fast.
        self._interrupts = link.rate == 1
        self.turns = ClassTurns()
        self.interrupted_packets: Counter[tuple[int, int]] = Counter()
        self._due = NEVER
        switch.outputs[port] = self
        switch.sources[port] = self

    def carry(self, packet: Packet, wire: Cycles) -> None:
        """A packet comes out of the switch; its flits are here in these cycles."""
        self._lanes[packet.lane].carry(packet, wire)

    def interrupted(self, lane: int, cycle: int, flits: int) -> None:
        """Nobody waits for the link behind a packet that arrives."""

    def credited(self, lane: int, cycles: Cycles) -> None:
        """Credits that will be there from these cycles on; the sender sees them at the wire."""
        self._lanes[lane].credits.append(cycles - 1 + self.constants.link.credit_use)
        self.settle()

    def settle(self) -> None:
        """Let packets go whose last credit is known."""
        if not self.shared:
            (lane,) = self._lanes
            while lane.begins() != NEVER:
                self._depart(lane, 0)
            return
        cycle = max(min(map(self._soonest, self._lanes)), self.kernel.now)
        if cycle < self._due:
            self._due = cycle
            self.kernel.decide(cycle, self._choose, cycle)

    def _choose(self, cycle: int) -> None:
        if cycle != self._due:
            return
        self._due = NEVER
        able = [n for n, lane in enumerate(self._lanes) if self._soonest(lane) <= cycle]
        if able:
            chosen = self.turns.choose(able)
            self.turns.begin(chosen, 1, able)
            self._depart(self._lanes[chosen], cycle)
        self.settle()

    def _soonest(self, lane: _Lane) -> int:
        """Cycle from which the next packet of a lane may leave, as far as is known."""
        begins = lane.begins()
        if not self._interrupts or (lane.leaving and lane.leaving[0].held):
            return max(begins, 1 + max(one.last for one in self._lanes))
        cycle = max(begins, 1 + max(one.last for one in self._lanes[: lane.lane + 1]))
        # A flit of the packet that is interrupted is ready when the header is.
        return cycle + any(one.last >= cycle for one in self._lanes[lane.lane + 1 :])

    def _depart(self, lane: _Lane, cycle: int) -> None:
        """The next packet of a lane leaves, its header not before ``cycle``."""
        leaving = lane.leaving.popleft()
        ready = lane.funded(leaving.packet.wire)
        ready[0] = max(ready[0], lane.last + 1, cycle)
        leaves = one_by_one(ready)
        if self.link.rate != 1:
            for k in range(len(leaves)):
                after = leaves[k - 1] + 1 if k else 0
                leaves[k] = self._gate.depart(int(max(leaves[k], after)))
        lane.last = int(leaves[-1])
        lane.interrupted_by.clear()
        flight = self.constants.link.transmit + self.link.latency
        for other in self._lanes[lane.lane + 1 :]:
            if other.last >= leaves[0]:
                other.last += len(leaves)
                if lane.lane not in other.interrupted_by:
                    other.interrupted_by.add(lane.lane)
                    self.interrupted_packets[other.lane, lane.lane] += 1
                self.switch.interrupted(self.port, other.lane, int(leaves[0]) + flight, len(leaves))
        self.switch.offer(self.port, leaving.packet.moved(leaves + flight))
        if leaving.packet.final:
            lane.left(leaving, leaves)


class _Lane:
    """One class's share of the link."""

    def __init__(self, link: NpuLink, lane: int, engine: DimEngine, buffer_flits: int) -> None:
        self.link = link
        self.lane = lane
        self.last = -1  # cycle of the last flit
        self.interrupted_by: set[int] = set()  # lanes, since the header of the last packet
        self.engine = engine
        engine.outlet = self
        engine.inlet = self
        self.credits: deque[Cycles] = deque()  # of flits that have left the L1 switch's buffer
        self._free = buffer_flits  # credits that have not been used
        self.leaving: deque[_Leaving] = deque()
        self._begun: dict[tuple[int, int], tuple[int, int]] = {}  # of messages arriving
        self._unread: deque[int] = deque()  # flits of messages that wait

    # Outlet

    def begin(self, op: Op, send: Send, chosen: int) -> None:
        """A message begins; each of its packets is known when the credits for it are."""
        assert send.after < 0, "in-network steps send nothing that they have received"
        constants = self.link.constants
        ready = chosen + constants.ace.transmit
        full, left, sequence = self.link.packet_flits + 1, send.flits, 0
        before = sum(one.packet.flits for one in self.leaving)
        held = self.link.shared and before + left <= constants.ace.run_ahead
        while left:
            flits = min(full, left)
            packet = Packet(
                configuration=send.configuration,
                lane=self.lane,
                order=(op.number, send.step, sequence),
                step=send.step,
                final=flits == left,
                wire=np.arange(ready, ready + flits, dtype=np.int64),
            )
            self.leaving.append(_Leaving(op, send, packet, chosen, held))
            ready += flits
            left -= flits
            sequence += flits - 1
        self.link.settle()
        if held:
            self.engine.transmitters[0].taken(op, chosen + send.flits)

    def begins(self) -> int:
        """Cycle from which the next packet may leave; NEVER where its credits are not known."""
        if not self.leaving:
            return NEVER
        packet = self.leaving[0].packet
        if self._free + sum(map(len, self.credits)) < packet.flits:
            return NEVER
        ready = int(packet.wire[0])
        return ready if self._free else max(ready, int(self.credits[0][0]))

    def left(self, leaving: _Leaving, leaves: Cycles) -> None:
        """The last packet of a message leaves."""
        last = int(leaves[-1])
        if leaving.held:
            self.engine.transmitters[0].left(leaving.op, last)
            return
        held = self.link.constants.ace.run_ahead
        taken = int(leaves[-1 - held]) + 1 if len(leaves) > held else 0
        self.engine.sent(leaving.op, last, max(leaving.chosen + leaving.send.flits, taken))

    def funded(self, ready: Cycles) -> Cycles:
        """From when on each flit is ready and has a credit."""
        out = ready.copy()
        place = min(self._free, len(ready))
        self._free -= place
        while place < len(ready):
            cycles = self.credits[0]
            some = min(len(cycles), len(ready) - place)
            np.maximum(out[place : place + some], cycles[:some], out=out[place : place + some])
            place += some
            if some == len(cycles):
                self.credits.popleft()
            else:
                self.credits[0] = cycles[some:]
        return out

    # Inlet

    def carry(self, packet: Packet, wire: Cycles) -> None:
        """A packet comes out of the switch; its flits are here in these cycles."""
        constants = self.link.constants
        delay = constants.link.receive + constants.ace.receive
        number, step = packet.order[0], packet.step
        first, flits = self._begun.pop((number, step), (int(wire[min(1, len(wire) - 1)]), 0))
        flits += len(wire) - 1
        read = 0
        if packet.final:
            header = int(wire[0]) + delay
            last = int(wire[-1]) + delay
            read = self.engine.message(number, step, first + delay, last, flits, header=header)
        else:
            self._begun[number, step] = (first, flits)
        if read == NEVER:
            self._unread.append(len(wire))
        elif read > int(wire[-1]) + delay:  # behind messages that have waited for their op
            self._return(self._at_once(read, len(wire)))
        else:
            self._return(wire + constants.link.receive)

    def drained(self, last: int) -> None:
        """The oldest message that had to wait is written up to its last flit in this cycle."""
        self._return(self._at_once(last, self._unread.popleft()))

    def _at_once(self, last: int, flits: int) -> Cycles:
        """When flits are read, one after another, the last of which is written in this cycle."""
        read = last - self.link.constants.ace.receive
        return np.arange(read - flits + 1, read + 1, dtype=np.int64)

    def _return(self, read: Cycles) -> None:
        link = self.link
        back = link.constants.link.credit_return + link.link.latency + 1
        link.switch.credited(link.port, self.lane, read + back)
