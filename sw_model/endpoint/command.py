"""The command unit: descriptor fetch and dispatch of records to the units' bounded queues."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from sw_model.endpoint.fetch import FETCH
from sw_model.endpoint.programs import Record, Unit
from sw_model.endpoint.timing import AceTiming
from sw_model.engine import EventKernel

__all__ = ["CommandUnit", "ReadPort", "RecordQueue"]


class ReadPort:
    """The memory read port, shared by descriptor fetch and TX DMA.

    Beats come back in the order of the requests, one per cycle. TX DMA asks in bursts, at most
    ``window`` beats ahead, so a descriptor burst slips in between them.

    Parameters
    ----------
    kernel : event kernel
    latency : cycles from a request to its first beat
    burst, window : beats of a payload burst, and of payload under way at most
    """

    __slots__ = (
        "_begun", "_ends", "_fetched", "_loads", "_requesting", "_slow", "burst", "free", "kernel",
        "latency", "window",
    )  # fmt: skip

    def __init__(self, kernel: EventKernel, *, latency: int, burst: int, window: int) -> None:
        self.kernel = kernel
        self.latency = latency
        self.burst = burst
        self.window = window
        self.free = 0  # cycle behind the last beat asked for
        self._begun = 0  # cycle of the first beat of the run that ends there
        self._slow = latency > window - 2 * burst
        self._ends = deque([0] * (window // burst), maxlen=window // burst)  # of the last bursts
        self._fetched: deque[tuple[int, int]] = deque(maxlen=8)  # first beat, beats of the last
        self._requesting = (0, 0, 0)  # of the last load: request, first beat, beats
        self._loads: deque[list[Any]] = deque()  # [cycle behind the last beat, action, argument]

    def load(self, beats: int, action: Callable[[Any], object], argument: Any) -> int:
        """Request ``beats`` (at least 1) of payload from now on; ``action(argument)`` is called in
        the cycle behind the last.

        Returns
        -------
        int
            cycle behind the last request
        """
        if self._slow:
            return self._load_slowly(beats, action, argument)
        now = self.kernel.now
        start = now + self.latency
        if start < self.free:
            start = self.free
        else:
            self._begun = start
        self.free = end = start + beats
        self._loads.append([end, action, argument])
        self.kernel.at(end, self._loaded)
        self._requesting = (now, start, beats)
        return self._request(-(-beats // self.burst) - 1) + 1

    def _request(self, burst: int) -> int:
        """Cycle in which a burst of the load requested last is requested: one after another, and
        when no more than a window without a burst is under way."""
        now, start, _ = self._requesting
        room = start + burst * self.burst - (self.window - self.burst)
        for slot, beats in reversed(self._fetched):  # what lies between is no payload
            if slot < room:
                break
            room -= beats
        return max(now + burst, room if room > self._begun else 0)

    def _load_slowly(self, beats: int, action: Callable[[Any], object], argument: Any) -> int:
        """The same where the window does not cover the latency, burst by burst."""
        request = self.kernel.now - 1
        end = self.free
        while beats:
            flits = min(beats, self.burst)
            request = max(request + 1, self._ends[0])
            end = max(request + self.latency, end) + flits
            self._ends.append(end)
            beats -= flits
        self.free = end
        self._loads.append([end, action, argument])
        self.kernel.at(end, self._loaded)
        return request + 1

    def _loaded(self, _: Any) -> None:
        load = self._loads[0]
        if load[0] > self.kernel.now:  # a descriptor burst has slipped in
            self.kernel.at(load[0], self._loaded)
            return
        self._loads.popleft()
        load[1](load[2])

    def fetch(self, beats: int) -> int:
        """Request a descriptor burst now, in front of payload that has not been requested yet;
        returns the cycle of its first beat."""
        now = self.kernel.now
        flits = self._requesting[2]
        waiting, request = 0, now + 1  # beats at the end of the last load, and their request
        for burst in reversed(range(-(-flits // self.burst))):
            cycle = self._request(burst)
            if cycle < now:
                break
            waiting, request = flits - burst * self.burst, max(cycle, now + 1)
        start = max(now + self.latency, self.free - waiting)
        if waiting:
            self.free += beats
            self._loads[-1][0] += beats
            self._requesting = (request, self.free - waiting, waiting)
        else:
            if start > self.free:
                self._begun = start
            self.free = start + beats
        self._fetched.append((start, beats))
        return start


class RecordQueue(Protocol):
    """A unit with a queue in front of it."""

    room: int
    command: CommandUnit

    @property
    def idle(self) -> bool:
        """Nothing is queued or under way."""

    def accept(self, record: Record, collective: Any) -> None:
        """A record enters the queue and can be seen in the next cycle."""


class CommandUnit:
    """Fetches descriptors in the order of their doorbells.

    Parameters
    ----------
    kernel : event kernel
    port : memory read port
    units : queue of every unit, by :class:`~sw_model.endpoint.programs.Unit` (LOAD on)
    timing : pipeline depths
    beats : flits of a record
    """

    __slots__ = (
        "_arrivals", "_asked", "_collective", "_drained", "_ended", "_pending", "_position",
        "_records",
        "beats", "blocked", "kernel", "port", "timing", "units",
    )  # fmt: skip

    def __init__(
        self,
        kernel: EventKernel,
        port: ReadPort,
        units: dict[int, RecordQueue],
        timing: AceTiming,
        beats: int,
    ) -> None:
        self.kernel = kernel
        self.port = port
        self.units = units
        self.timing = timing
        self.beats = beats
        self.blocked = -1  # unit whose queue has no room for the next record
        self._pending: deque[tuple[list[Record], Any]] = deque()
        self._records: list[Record] = []
        self._collective: Any = None
        self._position = 0
        self._asked = 0
        self._ended = True
        self._drained = 0  # cycle before the one in which a descriptor may begin
        self._arrivals: deque[int] = deque()

    def doorbell(self, descriptor: tuple[list[Record], Any]) -> None:
        """A descriptor lies in memory: its records, and the collective they belong to. Called in
        the cycle in which the engine takes the doorbell."""
        self._pending.append(descriptor)
        if len(self._pending) == 1:
            soonest = self.kernel.now + self.timing.doorbell
            self.kernel.at(max(soonest, self._drained + 1), self._begin)

    def _begin(self, _: Any) -> None:
        self._records, self._collective = self._pending[0]
        self._position = self._asked = 0
        self._ended = False
        self._request(None)
        self.kernel.at(self._arrivals[0], self._dispatch)

    def _request(self, _: Any) -> None:
        """Request bursts of records while the window has room, also behind END: the engine only
        knows it when it gets there."""
        beats, burst = self.beats, FETCH.descriptor_burst
        room = FETCH.descriptor_window - burst
        if self._asked - self._position <= room and not self._ended:
            first = self.port.fetch(burst * beats)
            for number in range(1, burst + 1):
                self._arrivals.append(first + number * beats)
            self._asked += burst
            if self._asked - self._position <= room:
                self.kernel.at(self.kernel.now + 1, self._request)

    def _dispatch(self, _: Any) -> None:
        """Hand the next record to its unit, where it can be seen a cycle later."""
        position = self._position
        if position == len(self._records):
            self._end()
            return
        record = self._records[position]
        unit = record.unit
        if unit >= Unit.LOAD:
            queue = self.units[unit]
            if not queue.room:
                self.blocked = unit
                return
            queue.room -= 1
            queue.accept(record, self._collective)
        elif unit == Unit.FENCE and not self._idle():
            self.blocked = Unit.FENCE
            return
        self._position = position = position + 1
        arrivals, now = self._arrivals, self.kernel.now
        arrivals.popleft()
        if self._asked - position == FETCH.descriptor_window - FETCH.descriptor_burst:
            self.kernel.at(now + 2, self._request)
        # A record takes as many cycles as it has beats.
        arrival, soonest = arrivals[0], now + self.beats
        self.kernel.at(arrival if arrival > soonest else soonest, self._dispatch)

    def _end(self) -> None:
        """END: the next descriptor begins when what was read ahead has come in."""
        self._ended = True
        self._drained = max(self.kernel.now, self._arrivals[-1]) + 2
        self._arrivals.clear()
        self._pending.popleft()
        if self._pending:
            self.kernel.at(self._drained + 1, self._begin)

    def _idle(self) -> bool:
        return all(unit.idle for unit in self.units.values())

    def made_room(self, unit: int) -> None:
        """A queue gives a record to its unit in this cycle."""
        if self.blocked == unit:
            self.blocked = -1
            self.kernel.at(self.kernel.now + 1, self._dispatch)

    def became_idle(self) -> None:
        """A unit has nothing more to do for now."""
        if self.blocked == Unit.FENCE and self._idle():
            self.blocked = -1
            self.kernel.at(self.kernel.now + 1, self._dispatch)
