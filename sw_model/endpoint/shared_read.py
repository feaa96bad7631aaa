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


class _Fetch:
    """A burst of records that a class wants, and whom to tell."""

    __slots__ = ("beats", "records", "requested")

    def __init__(self, records: int, beats: int, requested: Callable[[list[int]], object]) -> None:
        self.records = records
        self.beats = beats
        self.requested = requested


_LOADS = (
    1 << 8
)  # users of the port in the order of turns: fetch of lane l is l, its load _LOADS + l


class SharedRead:
    """What the ports of the classes have in common: requests, one in a cycle, and beats.

    A request is a burst of descriptors or of payload. Descriptors go first, the higher class before
    the lower, whatever is under way; payload while no more than the window without a burst is
    under way of all classes. Whom too many have passed is asked first, as everywhere
    (docs/links.md).

    Parameters
    ----------
    kernel : event kernel
    latency : cycles from a request to its first beat
    burst, window : beats of a payload burst, and of payload under way at most
    rate : beats per cycle, above 0 and at most 1
    """

    __slots__ = (
        "_asked", "_bursts", "_due", "_fetches", "_gate", "_held", "_loads", "_next", "burst",
        "kernel", "latency", "turns", "window",
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
        self._loads: dict[int, _Load] = {}  # by lane
        self._fetches: dict[int, _Fetch] = {}
        self._held = 0  # cycle from which payload is taken: one load may still write its last flit
        self._asked = 0  # beats of payload requested so far
        # (behind its last beat of payload, cycles of its beats), of the last bursts.
        self._bursts: deque[tuple[int, list[int]]] = deque()
        self._due = NEVER

    def load(self, lane: int, load: _Load) -> None:
        """A class wants payload from now on; it has no other load that is not all requested."""
        self._loads[lane] = load
        self._look(self.kernel.now)

    def fetch(self, lane: int, fetch: _Fetch) -> None:
        """A class wants a burst of records from now on; it has no other that is not requested."""
        self._fetches[lane] = fetch
        self._look(self.kernel.now)

    def _look(self, cycle: int) -> None:
        """Request something as soon as anything may be."""
        cycle = max(cycle, self._next)
        if not self._fetches:
            cycle = max(cycle, self._room())
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
        """Request a burst of the user whose turn it is."""
        if cycle != self._due:
            return
        self._due = NEVER
        self._next = cycle + 1
        users = list(self._fetches)
        if self._loads and self._room() <= cycle:
            users += [_LOADS + lane for lane in self._loads]
        user = self.turns.choose(users)
        self.turns.begin(user, 1, users)
        if user < _LOADS:
            self._fetch(cycle, self._fetches.pop(user))
        else:
            self._load(cycle, user - _LOADS)
        if self._fetches or self._loads:
            self._look(cycle)

    def _fetch(self, cycle: int, fetch: _Fetch) -> None:
        ready, gate = cycle + self.latency, self._gate
        fetch.requested([gate.depart_many(ready, fetch.beats)[1] + 1 for _ in range(fetch.records)])

    def _load(self, cycle: int, lane: int) -> None:
        load = self._loads[lane]
        beats = min(load.left, self.burst)
        load.left -= beats
        ready, gate = max(cycle + self.latency, self._held), self._gate
        cycles = [gate.depart(ready) for _ in range(beats)]
        self._asked += beats
        self._bursts.append((self._asked, cycles))
        if not load.left:
            self._held = end = cycles[-1] + 1 + load.late
            del self._loads[lane]
            self.kernel.at(end, load.end, load.argument)
            load.over(None)


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

    def fetch(self, records: int, beats: int, requested: Callable[[list[int]], object]) -> None:
        """See `sw_model.endpoint.read_port.ReadPort`."""
        self._shared.fetch(self._lane, _Fetch(records, beats, requested))
