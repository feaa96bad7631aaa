"""The command unit: descriptor fetch and dispatch of records to the units' bounded queues."""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from sw_model.endpoint.fetch import FETCH
from sw_model.endpoint.programs import Record, Unit
from sw_model.endpoint.read_port import ReadPort
from sw_model.endpoint.timing import AceTiming
from sw_model.engine import EventKernel

__all__ = ["CommandUnit", "RecordQueue"]


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
