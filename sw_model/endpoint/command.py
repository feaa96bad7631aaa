"""The command unit: descriptor fetch and dispatch of records to the units' bounded queues."""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from sw_model.endpoint.fetch import FETCH
from sw_model.endpoint.op import NEVER
from sw_model.endpoint.programs import Record, Unit
from sw_model.endpoint.read_port import ReadPort
from sw_model.endpoint.timing import AceTiming
from sw_model.engine import EventKernel

__all__ = ["CommandUnit", "RecordQueue"]

_ROOM = FETCH.descriptor_window - FETCH.descriptor_burst


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
        "_arrivals", "_asked", "_collective", "_dispatched", "_drained", "_end_cycle", "_pending",
        "_position", "_records", "_soonest", "_wanting",
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
        self._dispatched = -1  # cycle of the last record
        self._asked = 0  # records wanted so far, those on their way to memory included
        self._wanting = False  # a burst has not been requested yet
        self._arrivals: deque[int] = deque()  # of the next record, and those requested behind it
        self._end_cycle = NEVER
        # Cycle before the one in which a descriptor may begin; NEVER from END until it is known
        # when all that was wanted comes.
        self._drained = 0
        self._soonest = 0  # cycle in which the last doorbell's descriptor may begin

    def doorbell(self, descriptor: tuple[list[Record], Any]) -> None:
        """A descriptor lies in memory: its records, and the collective they belong to. Called in
        the cycle in which the engine takes the doorbell."""
        self._pending.append(descriptor)
        self._soonest = self.kernel.now + self.timing.doorbell
        if len(self._pending) == 1 and self._drained < NEVER:
            self.kernel.at(max(self._soonest, self._drained + 1), self._begin)

    def _begin(self, _: Any) -> None:
        self._records, self._collective = self._pending[0]
        self._position = self._asked = 0
        self._end_cycle = NEVER
        self._request(None)

    def _request(self, _: Any) -> None:
        """Want a burst of records, for which the window has room; also behind END, which the
        engine only knows when it gets there."""
        if self._end_cycle < self.kernel.now:
            return
        self._asked += FETCH.descriptor_burst
        self._wanting = True
        self.port.fetch(FETCH.descriptor_burst, self.beats, self._requested)

    def _requested(self, arrivals: list[int]) -> None:
        """The burst is requested in this cycle: the next may be wanted."""
        now, ahead = self.kernel.now, self._asked - self._position
        self._wanting = False
        if not self._arrivals:  # the next record has waited for this
            self._dispatch_from(arrivals[0])
        self._arrivals += arrivals
        if self._end_cycle < NEVER:
            self._settle(None)
        elif ahead <= _ROOM:
            # Room that a record makes in this very cycle is seen in the next one.
            late = ahead == _ROOM and self._dispatched == now
            self.kernel.at(now + 1 + late, self._request)

    def _dispatch(self, _: Any) -> None:
        """Hand the next record to its unit, where it can be seen a cycle later."""
        position, now = self._position, self.kernel.now
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
        self._dispatched = now
        arrivals = self._arrivals
        arrivals.popleft()
        if self._asked - position == _ROOM and not self._wanting:
            self.kernel.at(now + 2, self._request)
        if arrivals:
            self._dispatch_from(arrivals[0])

    def _dispatch_from(self, arrival: int) -> None:
        """The next record comes in cycle ``arrival``. The one before takes as many cycles as it has
        beats."""
        soonest = self._dispatched + self.beats
        self.kernel.at(arrival if arrival > soonest else soonest, self._dispatch)

    def _end(self) -> None:
        """END: the next descriptor begins when what was read ahead has come in."""
        self._end_cycle = self.kernel.now
        self._drained = NEVER
        self._pending.popleft()
        self.kernel.at(self.kernel.now + 1, self._settle)

    def _settle(self, _: Any) -> None:
        """Nothing more is wanted: when has all come in?"""
        if self._wanting or self._drained < NEVER:
            return
        self._drained = max(self._end_cycle, self._arrivals[-1]) + 2
        self._arrivals.clear()
        if self._pending:
            self.kernel.at(max(self._soonest, self._drained + 1), self._begin)

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
