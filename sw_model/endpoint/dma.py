"""TX DMA (memory to the first partition) and RX DMA (terminal partition to memory)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from fractions import Fraction
from math import ceil
from typing import Any

from sw_model.endpoint.command import CommandUnit
from sw_model.endpoint.fetch import FETCH
from sw_model.endpoint.link import RateGate
from sw_model.endpoint.programs import Record, Unit
from sw_model.endpoint.read_port import ReadPort
from sw_model.endpoint.scoreboard import Scoreboard
from sw_model.endpoint.timing import AceTiming
from sw_model.engine import EventKernel

__all__ = ["RxDma", "TxDma"]

_WRITES = FETCH.write_beats
_LONG_AGO = -(1 << 40)


class TxDma:
    """Loads chunks in record order; the next load's requests follow the last one's directly."""

    __slots__ = (
        "_depth", "_flying", "_full", "_queue", "busy_flits", "command", "kernel", "port", "room",
        "scoreboard", "timing",
    )  # fmt: skip

    def __init__(
        self,
        kernel: EventKernel,
        port: ReadPort,
        scoreboard: Scoreboard,
        timing: AceTiming,
        depth: int,
    ) -> None:
        self.kernel = kernel
        self.port = port
        self.scoreboard = scoreboard
        self.timing = timing
        self.command: CommandUnit
        self.room = depth
        self.busy_flits = 0
        self._queue: deque[Record] = deque()
        self._flying = 0  # records whose data are under way, as many as can wait
        self._depth = depth
        self._full = False

    @property
    def idle(self) -> bool:
        return not self._queue and not self._flying

    def accept(self, record: Record, collective: Any) -> None:
        """A record enters the queue."""
        self._queue.append(record)
        if len(self._queue) == 1:
            self.kernel.decide(self.kernel.now + 1, self._begin)

    def _retry(self, _: Any) -> None:
        self.kernel.decide(self.kernel.now, self._begin)

    def _begin(self, _: Any) -> None:
        record = self._queue[0]
        if self._flying == self._depth:
            self._full = True
            return
        if record.first and not self.scoreboard.free(record.buffer, record.epoch, self._retry):
            return
        self._flying += 1
        if record.flits:
            self.port.load(record.flits, self._end, record, record.late, self._over)
        else:
            self.kernel.at(self.kernel.now + 1, self._end, record)
            self._over(None)

    def _over(self, _: Any) -> None:
        """The last request is made in this cycle: the record leaves the queue."""
        self._queue.popleft()
        self.room += 1
        self.command.made_room(Unit.LOAD)
        if self._queue:
            self.kernel.decide(self.kernel.now + 1, self._begin)

    def _end(self, record: Record) -> None:
        self._flying -= 1
        if self._full:
            self._full = False
            self.kernel.decide(self.kernel.now, self._begin)
        self.busy_flits += record.flits
        if record.final:
            self.scoreboard.fill(record.buffer)
        if self.idle:
            self.command.became_idle()

    def head(self) -> Record | None:
        """The record that is next, for the watchdog."""
        return self._queue[0] if self._queue else None


class RxDma:
    """Stores finished chunks in record order and raises completions.

    Parameters
    ----------
    write_latency : cycles from a beat to its acknowledgement
    write_rate : beats per cycle that memory takes
    complete : called with the collective when all its writes are acknowledged
    gate : of that rate, where others write too; by default its own
    """

    __slots__ = (
        "_acknowledged", "_completed", "_covered", "_flying", "_gate", "_left", "_queue",
        "busy_flits", "command", "complete", "kernel", "room", "scoreboard", "timing",
        "write_latency",
    )  # fmt: skip

    def __init__(
        self,
        kernel: EventKernel,
        scoreboard: Scoreboard,
        timing: AceTiming,
        depth: int,
        write_latency: int,
        write_rate: Fraction,
        complete: Callable[[Any], None],
        gate: RateGate | None = None,
    ) -> None:
        self.kernel = kernel
        self.scoreboard = scoreboard
        self.timing = timing
        self.command: CommandUnit
        self.room = depth
        self.busy_flits = 0
        self.write_latency = write_latency
        self.complete = complete
        self._queue: deque[tuple[Record, Any]] = deque()
        self._flying = 0
        self._acknowledged = _LONG_AGO  # cycle of the last acknowledgement
        self._completed = _LONG_AGO  # and of the last completion
        # Flits read and not yet acknowledged, where nothing but the rate holds them up: in the
        # buffer in front of memory, and in memory.
        held = timing.store_read if write_rate == 1 else timing.store_buffer
        self._covered = held + ceil((write_latency + 1) * write_rate) <= FETCH.write_beats
        self._gate = gate
        if gate is None and not (self._covered and write_rate == 1):
            self._gate = RateGate(write_rate)
        # Cycles in which the last flits were given to memory, as many as anything waits for.
        wanted = timing.store_buffer if self._covered else max(timing.store_buffer, _WRITES)
        self._left = deque([_LONG_AGO] * wanted, maxlen=wanted)

    @property
    def idle(self) -> bool:
        return not self._queue and not self._flying

    def accept(self, record: Record, collective: Any) -> None:
        """A record enters the queue."""
        self._queue.append((record, collective))
        if len(self._queue) == 1:
            self.kernel.decide(self.kernel.now + 1, self._begin)

    def _retry(self, _: Any) -> None:
        self.kernel.decide(self.kernel.now, self._begin)

    def _begin(self, _: Any) -> None:
        record, collective = self._queue[0]
        if record.first and not self.scoreboard.filled(record.buffer, record.epoch, self._retry):
            return
        kernel, timing = self.kernel, self.timing
        last, given = self._stream(record.flits)
        self._flying += 1
        if last == kernel.now:
            self._over(None)
        else:
            kernel.decide(last, self._over)
        if record.final:
            kernel.at(last + 1, self._release, record)
        # Where nothing is written the record waits for what was written before it.
        if record.flits:
            self._acknowledged = given + self.write_latency
        end = max(kernel.now, self._acknowledged) + timing.completion
        if record.complete:  # one completion in a cycle
            self._completed = end = max(end, self._completed + 1)
        kernel.at(end, self._end, (record, collective))
        self.busy_flits += record.flits

    def _stream(self, flits: int) -> tuple[int, int]:
        """Flits are read from SRAM from now on, one a cycle while there is room for them, and
        follow each other to memory, which takes them at its rate.

        Returns
        -------
        tuple of int
            the cycles in which the last is read, and given to memory
        """
        now, ahead = self.kernel.now, self.timing.store_read
        if not flits:
            return now, now
        if self._gate is None:
            last = now + flits - 1
            return last, last + ahead
        left, room = self._left, self.timing.store_buffer
        if not self._covered:
            read = now - 1
            for _ in range(flits):
                read = max(read + 1, left[-room] + 1, left[-_WRITES] + self.write_latency + 1)
                left.append(self._gate.depart(read + ahead))
            return read, left[-1]
        ready = max(now, left[0] + 1) + ahead
        # Flit i is read when flit i - room has left, if not before; it never holds up the rate.
        late = flits - 1 - room
        before = self._gate.departure(ready, late) if late >= 0 else left[flits - 1]
        last = max(now + flits - 1, before + 1)
        tail = min(flits, room)
        times = [self._gate.departure(ready, flits - tail + i) for i in range(tail)]
        self._gate.depart_many(ready, flits)
        left += times
        return last, times[-1]

    def _over(self, _: Any) -> None:
        """The last flit is read in this cycle: the record leaves the queue."""
        self._queue.popleft()
        self.room += 1
        self.command.made_room(Unit.STORE)
        if self._queue:
            self.kernel.decide(self.kernel.now + 1, self._begin)

    def _release(self, record: Record) -> None:
        self.scoreboard.release(record.buffer)

    def _end(self, item: tuple[Record, Any]) -> None:
        record, collective = item
        self._flying -= 1
        if record.complete:
            self.complete(collective)
        if self.idle:
            self.command.became_idle()

    def head(self) -> Record | None:
        """The record that is next, for the watchdog."""
        return self._queue[0][0] if self._queue else None
