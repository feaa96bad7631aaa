"""When packets start at a FRED switch, and at what pace they leave: what the switch alone
(`sw_model.fabric.fred_packets`) and the switches of a tree (`sw_model.fabric.tree_switch`) share.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sw_model.endpoint.link import RateGate
from sw_model.fred.configuration import Flow

__all__ = ["NEVER", "Cycles", "PacketCredits", "one_by_one", "paced", "startable"]

Cycles = NDArray[np.int64]

NEVER = 1 << 62


class PacketCredits:
    """Credits of one channel of one output, as its switch sees them."""

    def __init__(self, credits: int) -> None:
        self.available = credits
        self.coming: deque[Cycles] = deque()  # cycles from which each is there
        self.reserved: deque[tuple[int, int]] = deque()  # (cycle from which they are gone, flits)

    def count(self, cycle: int) -> int:
        """Credits there in ``cycle``; cycles must not go back."""
        while self.coming:
            there = int(np.searchsorted(self.coming[0], cycle, side="right"))
            self.available += there
            if there < len(self.coming[0]):
                self.coming[0] = self.coming[0][there:]
                break
            self.coming.popleft()
        while self.reserved and self.reserved[0][0] <= cycle:
            self.available -= self.reserved.popleft()[1]
        return self.available

    def when(self, flits: int, cycle: int) -> int:
        """The first cycle in which ``flits`` are there, if no more are reserved."""
        lacking = flits - self.count(cycle) + sum(reserved for _, reserved in self.reserved)
        if lacking <= 0:
            return cycle
        for cycles in self.coming:
            if lacking <= len(cycles):
                return int(cycles[lacking - 1])
            lacking -= len(cycles)
        return NEVER


class Waiting(Protocol):
    """A packet at the head of an input."""

    @property
    def configuration(self) -> int: ...
    @property
    def wire(self) -> Cycles: ...


class Head(Protocol):
    """An input: its next packet, and the cycle from which that is at the scheduler."""

    head: int

    @property
    def packet(self) -> Waiting: ...


def startable(
    inputs: Sequence[Head],
    credits: Sequence[PacketCredits],
    flows: Sequence[Mapping[int, Flow]],
    seen: int,
) -> tuple[list[Flow], list[int]]:
    """Flows whose next packet is at all of their inputs in cycle ``seen``, and room for it behind
    all of their outputs; and for those without room the cycle in which it is there, if known.

    Parameters
    ----------
    inputs, credits : by port, of one channel
    flows : by configuration, the flow of every input
    """
    found, later = [], []
    for port, entrance in enumerate(inputs):
        if entrance.head > seen:
            continue
        packet = entrance.packet
        flow = flows[packet.configuration][port]
        if flow.inputs[0] != port or any(
            inputs[other].head > seen or inputs[other].packet.configuration != packet.configuration
            for other in flow.inputs
        ):
            continue
        flits = len(packet.wire)
        behind = [credits[output] for output in flow.outputs]
        if all(credit.count(seen) >= flits for credit in behind):
            found.append(flow)
            continue
        there = max(credit.when(flits, seen) for credit in behind)
        if there != NEVER:
            later.append(there)
    return found, later


def paced(gone: Cycles, gates: Sequence[RateGate]) -> Cycles:
    """When flits leave that are ready in the cycles ``gone``, in order, at the rate of all of
    ``gates``."""
    out = gone.copy()
    for k in range(len(out)):
        ready = int(out[k]) if k == 0 else max(int(out[k]), int(out[k - 1]) + 1)
        leaves = max(gate.departure(ready, 0) for gate in gates)
        for gate in gates:
            gate.depart(leaves)
        out[k] = leaves
    return out


def one_by_one(ready: Cycles) -> Cycles:
    """When things leave that are ready in these cycles, in order, one per cycle."""
    steps = np.arange(len(ready))
    return np.maximum.accumulate(ready - steps) + steps
