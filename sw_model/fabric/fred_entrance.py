"""An input of a FRED switch in a tree: which packets have come, and when their flits enter."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from sw_model.fabric.packet_pace import NEVER, Cycles, one_by_one
from sw_model.fred.timing import FredTiming

__all__ = ["Entrance", "Packet"]


@dataclass(frozen=True, eq=False)
class Packet:
    """A packet on a wire.

    Attributes
    ----------
    configuration : its index
    lane : number of its class, 0 where all share one channel
    order : op, step, sequence: its place in the plan's order
    step : receive step that takes it
    final : the last of its message
    wire : ascending cycles in which its flits, the header first, are there
    """

    configuration: int
    lane: int
    order: tuple[int, int, int]
    step: int
    final: bool
    wire: Cycles

    @property
    def flits(self) -> int:
        """The header too."""
        return len(self.wire)

    def moved(self, wire: Cycles) -> Packet:
        """The same on another wire."""
        return replace(self, wire=wire)


class Entrance:
    """The channel of an input: a flit enters when it is out of the link's buffer, the one before
    it has entered, and the one that many places before it has left, as the channel holds; a header
    also when that many packets before it one has started, as the channel keeps.

    Attributes
    ----------
    head : cycle from which the next packet is at the scheduler, NEVER where there is none
    """

    def __init__(self, timing: FredTiming) -> None:
        self.timing = timing
        self.head = NEVER
        self._packets: deque[Packet] = deque()  # not started
        self._headers: deque[int] = deque()  # cycles in which theirs entered, as far as they have
        self._entered = 0  # flits of these packets that have entered
        self._before = -1  # cycle in which the last flit entered
        # When the flits in front of these packets left, as many as the channel holds; long ago at
        # first.
        self._gone = np.full(timing.look_ahead, -1, dtype=np.int64)
        self._taken: deque[int] = deque(maxlen=timing.look_ahead_packets)
        self._late: list[Cycles] = []  # entries of packets that have started

    @property
    def packet(self) -> Packet:
        """The next packet."""
        return self._packets[0]

    def offer(self, packet: Packet) -> None:
        """A packet comes, behind those that have come."""
        self._packets.append(packet)

    def interrupted(self, cycle: int, flits: int) -> bool:
        """The last packet makes room for so many flits of others, from ``cycle`` on. False where it
        has started."""
        if not self._packets:
            return False
        wire = self._packets[-1].wire
        wire[wire >= cycle] += flits
        return True

    def advance(self) -> Cycles:
        """Let in what may enter; the cycles in which it does, and has since the last time."""
        timing = self.timing
        entering, self._late = self._late, []
        start = 0  # the first flit of a packet, counted from that of the first
        for number, packet in enumerate(self._packets):
            if start >= timing.look_ahead or number >= timing.look_ahead_packets:
                break
            begin = max(0, self._entered - start)
            end = min(packet.flits, timing.look_ahead - start)
            if begin < end:
                ready = packet.wire[begin:end] + timing.receive
                np.maximum(ready, self._gone[start + begin : start + end] + 1, out=ready)
                kept = len(self._taken) + number - timing.look_ahead_packets
                if begin == 0 and kept >= 0:
                    ready[0] = max(ready[0], self._taken[kept] + 1)
                entered = self._enter(ready)
                entering.append(entered)
                if begin == 0:
                    self._headers.append(int(entered[0]))
            start += packet.flits
        self.head = NEVER
        if self._headers:
            self.head = self._headers[0] + timing.look_up
            if self._taken:
                self.head = max(self.head, self._taken[-1] + 1)
        return np.concatenate(entering) if entering else np.zeros(0, dtype=np.int64)

    def _enter(self, ready: Cycles) -> Cycles:
        ready[0] = max(ready[0], self._before + 1)
        entered = one_by_one(ready)
        self._before = int(entered[-1])
        self._entered += len(entered)
        return entered

    def take(self, start: int, gone: Cycles) -> None:
        """The next packet starts, and its flits leave in these cycles."""
        packet = self._packets.popleft()
        self._headers.popleft()
        left = np.concatenate([self._gone, gone])
        begin = self._entered
        if begin < packet.flits:
            ready = packet.wire[begin:] + self.timing.receive
            np.maximum(ready, left[begin : packet.flits] + 1, out=ready)
            self._late.append(self._enter(ready))
        self._entered -= packet.flits
        self._gone = left[-self.timing.look_ahead :]
        self._taken.append(start)
        self.head = NEVER
