"""The command unit: descriptor fetch and dispatch of records to the units' bounded queues."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Protocol

from sw_model.endpoint.fetch import FETCH
from sw_model.endpoint.programs import Record, Unit
from sw_model.endpoint.timing import AceTiming
from sw_model.engine import EventKernel

__all__ = ["CommandUnit", "ReadPort", "RecordQueue"]


class ReadPort:
    """The memory read port, shared by descriptor fetch and TX DMA.

    Beats come back in the order of the requests, at the memory's rate. TX DMA asks in bursts, at
    most ``window`` beats ahead, so a descriptor burst slips in between them.

    Beats that wait for nothing but the rate are a *run*; beat i of it, from 0, comes when the
    account of the rate (`sw_model.endpoint.link.RateGate`) has gained what i + 1 beats cost.

    Parameters
    ----------
    kernel : event kernel
    latency : cycles from a request to its first beat
    burst, window : beats of a payload burst, and of payload under way at most
    rate : beats per cycle, above 0 and at most 1
    """

    __slots__ = (
        "_begun", "_cost", "_count", "_ends", "_fetched", "_gain", "_late", "_loads", "_most",
        "_others", "_requesting", "_saved", "_slow", "burst", "kernel", "latency", "window",
    )  # fmt: skip

    def __init__(
        self,
        kernel: EventKernel,
        *,
        latency: int,
        burst: int,
        window: int,
        rate: Fraction = Fraction(1),
    ) -> None:
        self._others: Sequence[ReadPort] = ()
        self.kernel = kernel
        self.latency = latency
        self.burst = burst
        self.window = window
        self._gain, self._cost = rate.numerator, rate.denominator
        self._most = self._cost + self._gain - 1
        self._begun = 0  # cycle of the first beat of the run
        self._saved = self._most  # the account in that cycle
        self._count = 0  # beats of the run so far
        self._slow = latency * rate > window - 2 * burst
        self._ends = deque([0] * (window // burst), maxlen=window // burst)  # of the last bursts
        # First beat and beats of what is no payload, of late.
        self._fetched: deque[tuple[int, int]] = deque(maxlen=16)
        self._requesting = (0, 0, 0)  # of the last load: request, first beat, beats
        self._late = False  # whether it ends late
        self._loads: deque[list[Any]] = deque()  # [cycle behind the last beat, action, argument]

    def _beat(self, index: int) -> int:
        """Cycle in which a beat of the run comes."""
        waited = (self._saved - (index + 1) * self._cost) // self._gain
        return self._begun - waited if waited < 0 else self._begun

    def _reserve(self, ready: int, beats: int) -> int:
        """Beats that may come from ``ready`` on: number of the first in its run."""
        index = self._count
        if ready > self._beat(index):
            saved = self._saved + (ready - self._begun) * self._gain - index * self._cost
            self._saved = saved if saved < self._most else self._most
            self._begun = ready
            self._fetched.clear()
            self._requesting = (0, 0, 0)  # all of it has been requested
            index = 0
        self._count = index + beats
        return index

    def load(
        self, beats: int, action: Callable[[Any], object], argument: Any, late: bool = False
    ) -> int:
        """Request ``beats`` (at least 1) of payload from now on; ``action(argument)`` is called in
        the cycle behind the last, or one cycle later where the load ends ``late``: nothing is taken
        from memory in that cycle.

        Returns
        -------
        int
            cycle behind the last request
        """
        if self._others:
            self._tell(beats)
        if self._slow:
            return self._load_slowly(beats, action, argument, late)
        now = self.kernel.now
        first = self._reserve(now + self.latency, beats + late)
        end = self._beat(first + beats + late - 1) + 1
        self._loads.append([end, action, argument])
        self.kernel.at(end, self._loaded)
        self._requesting = (now, first, beats)
        self._late = late
        follow = self._request(-(-beats // self.burst) - 1) + 1
        if late:
            self._fetched.append((first + beats, 1))
        return follow

    def _request(self, burst: int) -> int:
        """Cycle in which a burst of the load requested last is requested: one after another, and
        when no more than a window without a burst is under way."""
        now, first, _ = self._requesting
        room = first + burst * self.burst - (self.window - self.burst)
        for slot, beats in reversed(self._fetched):  # what lies between is no payload
            if slot + beats < room:
                break
            room -= beats
        return max(now + burst, self._beat(room - 1) + 1 if room > 0 else 0)

    def _load_slowly(
        self, beats: int, action: Callable[[Any], object], argument: Any, late: bool
    ) -> int:
        """The same where the window does not cover the latency, burst by burst."""
        request = self.kernel.now - 1
        end = 0
        while beats:
            flits = min(beats, self.burst)
            request = max(request + 1, self._ends[0])
            beats -= flits
            slots = flits + (late and not beats)
            end = self._beat(self._reserve(request + self.latency, slots) + slots - 1) + 1
            self._ends.append(end)
        self._loads.append([end, action, argument])
        self.kernel.at(end, self._loaded)
        return request + 1

    def share(self, ports: Sequence[ReadPort]) -> None:
        """It is the port as one of several classes has it; ``ports`` has all, the highest first."""
        self._others = ports

    def _tell(self, beats: int) -> None:
        """Payload is requested: lower classes wait for all of it, higher ones for no more than
        what is under way when they ask."""
        lower = False
        for port in self._others:
            if port is self:
                lower = True
            else:
                port._wait(beats if lower else min(beats, self.window))

    def _wait(self, beats: int) -> None:
        """Beats of another class come in between."""
        self._reserve(self.kernel.now + self.latency, beats)

    def _loaded(self, _: Any) -> None:
        load = self._loads[0]
        if load[0] > self.kernel.now:  # a descriptor burst has slipped in
            self.kernel.at(load[0], self._loaded)
            return
        self._loads.popleft()
        load[1](load[2])

    def fetch(self, records: int, beats: int) -> list[int]:
        """Request a burst of records now, in front of payload that has not been requested yet;
        returns the cycle behind the last of the ``beats`` of each record."""
        now = self.kernel.now
        flits = self._requesting[2]
        waiting, request = 0, now + 1  # beats at the end of the last load, and their request
        for burst in reversed(range(-(-flits // self.burst))):
            cycle = self._request(burst)
            if cycle < now:
                break
            waiting, request = flits - burst * self.burst, max(cycle, now + 1)
        if waiting:
            first = self._count - waiting - self._late
            self._count += records * beats
            self._loads[-1][0] = self._beat(self._count - 1) + 1
            self._requesting = (request, first + records * beats, waiting)
        else:
            first = self._reserve(now + self.latency, records * beats)
        self._fetched.append((first, records * beats))
        return [self._beat(first + number * beats - 1) + 1 for number in range(1, records + 1)]


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
            self._arrivals += self.port.fetch(burst, beats)
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
