"""The memory's read port where several classes share it, burst by burst (docs/ace.md, *Classes*).

Memory answers in the order in which it was asked, so the fate of a burst is certain once it is
requested, and only which one is requested next is decided as time goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from sw_model.endpoint.class_turns import ClassTurns
from sw_model.endpoint.link import RateGate
from sw_model.endpoint.op import NEVER
from sw_model.engine import EventKernel

__all__ = ["LaneReadPort", "SharedRead"]


class _Load:
    """Payload that a class reads: what is left to request, and whom to tell."""

    __slots__ = ("argument", "end", "late", "left", "over")

    def __init__(
        self,
        beats: int,
        end: Callable[[Any], object],
        argument: Any,
        late: bool,
        over: Callable[[Any], object],
    ) -> None:
        self.left = beats
        self.end = end
        self.argument = argument
        self.late = late
        self.over = over


class SharedRead:
    """What the ports of the classes have in common: requests, one in a cycle, and beats.

    Of the classes that want payload the one whose turn it is requests a burst, while no more than
    the window without a burst is under way of all of them. Descriptors go first, whatever is under
    way.

    Parameters
    ----------
    kernel : event kernel
    latency : cycles from a request to its first beat
    burst, window : beats of a payload burst, and of payload under way at most
    rate : beats per cycle, above 0 and at most 1
    """

    __slots__ = (
        "_asked", "_bursts", "_due", "_gate", "_loads", "_next", "burst", "kernel", "latency",
        "turns", "window",
    )  # fmt: skip

    def __init__(
        self,
        kernel: EventKernel,
        latency: int,
        burst: int,
        window: int,
        rate: Fraction,
    ) -> None:
        self.kernel = kernel
        self.latency = latency
        self.burst = burst
        self.window = window
        self.turns = ClassTurns()
        self._gate = RateGate(rate)
        self._next = 0  # cycle from which the next request may be made
        self._loads: dict[int, _Load] = {}
        self._asked = 0  # beats of payload requested so far
        # (behind its last beat of payload, cycles of its beats), of the last bursts.
        self._bursts: deque[tuple[int, list[int]]] = deque()
        self._due = NEVER

    def load(self, lane: int, load: _Load) -> None:
        """A class wants payload from now on; it has no other load that is not all requested."""
        self._loads[lane] = load
        self._look(self.kernel.now)

    def fetch(self, records: int, beats: int) -> list[int]:
        """Request a burst of records now, or in the next cycle in which no other class does."""
        request = max(self.kernel.now, self._next)
        self._next = request + 1
        out = []
        for _ in range(records):
            out.append(self._gate.depart_many(request + self.latency, beats)[1] + 1)
        return out

    def _look(self, cycle: int) -> None:
        cycle = max(cycle, self._next, self._room())
        if cycle < self._due:
            self._due = cycle
            self.kernel.decide(cycle, self._request, cycle)

    def _room(self) -> int:
        """Cycle from which no more than the window without a burst is under way."""
        index = self._asked - (self.window - self.burst) - 1
        bursts = self._bursts
        while bursts and bursts[0][0] <= index:
            bursts.popleft()
        if index < 0:
            return 0
        behind, cycles = bursts[0]
        return cycles[index - behind + len(cycles)] + 1

    def _request(self, cycle: int) -> None:
        """Request a burst of the class whose turn it is."""
        if cycle != self._due:
            return
        self._due = NEVER
        if cycle >= self._next:
            self._next = cycle + 1
            lane = self.turns.choose(self._loads)
            self.turns.begin(lane, 1, self._loads)
            load = self._loads[lane]
            beats = min(load.left, self.burst)
            load.left -= beats
            ready, gate = cycle + self.latency, self._gate
            cycles = [gate.depart(ready) for _ in range(beats)]
            self._asked += beats
            self._bursts.append((self._asked, cycles))
            if not load.left:
                end = gate.depart(ready) if load.late else cycles[-1]
                del self._loads[lane]
                self.kernel.at(end + 1, load.end, load.argument)
                load.over(None)
        if self._loads:
            self._look(cycle)


class LaneReadPort:
    """The port as one class has it.

    Parameters
    ----------
    shared : by all
    lane : number of the class
    """

    __slots__ = ("_lane", "_shared")

    def __init__(self, shared: SharedRead, lane: int) -> None:
        self._shared = shared
        self._lane = lane

    def load(
        self,
        beats: int,
        action: Callable[[Any], object],
        argument: Any,
        late: bool,
        over: Callable[[Any], object],
    ) -> None:
        """See `sw_model.endpoint.read_port.ReadPort`."""
        self._shared.load(self._lane, _Load(beats, action, argument, late, over))

    def fetch(self, records: int, beats: int) -> list[int]:
        """See `sw_model.endpoint.read_port.ReadPort`."""
        return self._shared.fetch(records, beats)
