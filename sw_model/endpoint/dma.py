"""TX DMA (memory to the first partition) and RX DMA (terminal partition to memory)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from sw_model.endpoint.command import CommandUnit, ReadPort
from sw_model.endpoint.fetch import FETCH
from sw_model.endpoint.programs import Record, Unit
from sw_model.endpoint.scoreboard import Scoreboard
from sw_model.endpoint.timing import AceTiming
from sw_model.engine import EventKernel

__all__ = ["RxDma", "TxDma"]


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
        now = self.kernel.now
        self._flying += 1
        follow = now + 1
        if record.flits:
            follow = self.port.load(record.flits, self._end, record)
        else:
            self.kernel.at(follow, self._end, record)
        self.kernel.decide(follow, self._next)

    def _next(self, _: Any) -> None:
        self._queue.popleft()
        self.room += 1
        self.command.made_room(Unit.LOAD)
        if self._queue:
            self._begin(None)

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
    complete : called with the collective when all its writes are acknowledged
    """

    __slots__ = (
        "_flying", "_queue", "_round_trip", "busy_flits", "command", "complete", "kernel", "room",
        "scoreboard", "timing", "write_latency",
    )  # fmt: skip

    def __init__(
        self,
        kernel: EventKernel,
        scoreboard: Scoreboard,
        timing: AceTiming,
        depth: int,
        write_latency: int,
        complete: Callable[[Any], None],
    ) -> None:
        self.kernel = kernel
        self.scoreboard = scoreboard
        self.timing = timing
        self.command: CommandUnit
        self.room = depth
        self.busy_flits = 0
        self.write_latency = write_latency
        self.complete = complete
        self._round_trip = timing.store_read + write_latency + 1
        self._queue: deque[tuple[Record, Any]] = deque()
        self._flying = 0

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
        # Flits are read from SRAM one a cycle from now on, and follow each other to memory; where
        # write_beats do not cover the acknowledgement, as many in a round trip.
        kernel, timing = self.kernel, self.timing
        flits = record.flits
        if self._round_trip > FETCH.write_beats:
            flits = -(-flits * self._round_trip // FETCH.write_beats)
        end = kernel.now + (flits or 1)
        self._flying += 1
        kernel.decide(end, self._next)
        if record.final:
            kernel.at(end, self._release, record)
        acknowledged = end - 1 + timing.store_read + self.write_latency
        kernel.at(acknowledged + timing.completion, self._end, (record, collective))
        self.busy_flits += record.flits

    def _next(self, _: Any) -> None:
        self._queue.popleft()
        self.room += 1
        self.command.made_room(Unit.STORE)
        if self._queue:
            self._begin(None)

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
