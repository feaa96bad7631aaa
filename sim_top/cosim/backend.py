"""The RTL platform as a backend of the training loop, inside the simulation.

Python is awake only while the simulation's clock stands still: to ring doorbells, and when a
collective has ended somewhere. Cycles in which nothing is outstanding are not simulated, but for
the first ``IDLE_CYCLES``, in which what engines have read ahead comes in: ``now`` then runs ahead
of the simulation's own cycle count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sim_top.cosim.memory_map import Region, payload
from sim_top.cosim.outcome import IDLE_CYCLES, Issued
from sim_top.cosim.placement import Placement
from sim_top.platform.control import PlatformControl, PlatformError
from sw_model.backend import Completion
from sw_model.collective.plan import Collective, CollectivePlan
from sw_model.errors import DeadlockError
from sw_model.platform import Platform
from sw_model.schedule.options import PlanBook

__all__ = ["RtlBackend"]


@dataclass
class _Entry:
    """A collective that has been entered by at least one rank."""

    plan: CollectivePlan
    descriptor: Region
    source: Region
    result: Region
    issued: dict[int, int] = field(default_factory=dict)
    ended: dict[int, int] = field(default_factory=dict)
    contents: list[NDArray[np.uint8]] = field(default_factory=list)


class RtlBackend:
    """See the module. A collective's number is its place in the sequence.

    Parameters
    ----------
    control : the running simulation
    book : plans
    seed : of the payloads
    protected : with a BEGIN record in front of every collective
    advance : lets the simulation run in the place of ``control.run``, to watch it
    """

    def __init__(
        self,
        control: PlatformControl,
        book: PlanBook,
        *,
        seed: int,
        protected: bool = False,
        advance: Callable[[int | None], Awaitable[None]] | None = None,
    ) -> None:
        self.control = control
        self._advance = advance or control.run
        self.platform: Platform = book.platform
        self.seed = seed
        self.ahead = 0
        self._restless = 0  # cycles in which something may still move after all has ended
        npus = self.platform.topology.npus
        self.representatives: Sequence[int] = tuple(range(npus))
        lanes = range(self.platform.engine.lanes)
        self._placement = Placement(book, control.flows, protected=protected)
        self._entries: list[_Entry] = []
        self._entered = [0] * npus  # collectives entered, by rank
        # By rank and class: in an engine, completions that the engine has counted, doorbells rung.
        self._running: list[list[deque[int]]] = [[deque() for _ in lanes] for _ in range(npus)]
        self._counted = [[0 for _ in lanes] for _ in range(npus)]
        self._rung = [[0 for _ in lanes] for _ in range(npus)]
        self._doorbells: deque[tuple[int, list[int]]] = deque()  # not yet: (collective, ranks)
        self._rang_at = -1  # the cycle of the last doorbell
        self._empty: list[Completion] = []  # nothing to do: ended at once

    @property
    def now(self) -> int:
        """Cycles since the start, simulated or not."""
        return self.control.cycle + self.ahead

    @property
    def issued(self) -> tuple[Issued, ...]:
        """What has been issued so far."""
        return tuple(
            Issued(e.plan, e.source, e.result, dict(e.issued), dict(e.ended)) for e in self._entries
        )

    def issue(self, collective: Collective, ranks: Sequence[int]) -> int:
        """See :class:`sw_model.backend.Backend`."""
        numbers = {self._entered[rank] for rank in ranks}
        if len(numbers) != 1:
            raise ValueError(f"ranks must enter the same collective, not {sorted(numbers)!r}")
        number = numbers.pop()
        if number == len(self._entries):
            self._entries.append(self._prepare(number, collective))
        entry = self._entries[number]
        for rank in ranks:
            self._entered[rank] += 1
            entry.issued[rank] = self.now
        if entry.plan.chunks:
            self._doorbells.append((number, list(ranks)))
            for rank in ranks:
                self._running[rank][self._lane(number)].append(number)
        else:
            self._empty += [self._end(number, rank) for rank in ranks]
        return number

    def issue_at_once(self, collectives: Sequence[Collective], backwards: Sequence[int]) -> None:
        """Let all ranks enter several collectives, those in ``backwards`` the last one first."""
        count = len(collectives)
        for number, collective in enumerate(collectives):
            self._entries.append(self._prepare(number, collective))
            self._entries[-1].issued = dict.fromkeys(self.representatives, self.now)
        forwards = [rank for rank in self.representatives if rank not in backwards]
        for place in range(count):
            for number, ranks in ((place, forwards), (count - 1 - place, list(backwards))):
                self._doorbells.append((number, ranks))
                for rank in ranks:
                    self._running[rank][self._lane(number)].append(number)

    async def wait(self, until: int | None) -> list[Completion]:
        """See :class:`sw_model.backend.Backend`."""
        while self._doorbells and self._room(*self._doorbells[0]):
            if self._rang_at == self.now:  # one doorbell in a cycle
                if until is not None and until <= self.now:
                    return []  # the others ring when they next wait
                ended = await self._run(self.now + 1)
                if ended:
                    return ended
            self._rang_at = self.now
            await self._ring(*self._doorbells.popleft())
        if self._empty:
            ended, self._empty = self._empty, []
            return ended
        if until is not None and until <= self.now:
            return []
        if not any(map(any, self._running)):
            if until is not None:
                some = min(until - self.now, self._restless)
                if some:
                    self._restless -= some
                    await self.control.run(self._cycle_of(self.now + some))
                self.ahead += until - self.now
            return []
        self._restless = IDLE_CYCLES
        return await self._run(until)

    def _cycle_of(self, now: int) -> int:
        """The simulation's own cycle at a time."""
        return now - self.ahead

    async def _run(self, until: int | None) -> list[Completion]:
        try:
            await self._advance(None if until is None else self._cycle_of(until))
        except PlatformError as error:
            raise DeadlockError("\n".join([str(error), *self._absent()])) from error
        return self._completions()

    def _absent(self) -> list[str]:
        """A line for every collective that some rank has not entered."""
        everyone = set(self.representatives)
        return [
            f"collective {number} has not been entered by ranks {sorted(everyone - set(e.issued))}"
            for number, e in enumerate(self._entries)
            if len(e.issued) < len(everyone)
        ]

    def _completions(self) -> list[Completion]:
        """What has ended in this cycle. An engine ends the collectives of a class in order."""
        out = []
        for rank, counts in enumerate(self.control.completed()):
            for lane, count in enumerate(counts):
                while self._counted[rank][lane] % (1 << 16) != count:
                    self._counted[rank][lane] += 1
                    out.append(self._end(self._running[rank][lane].popleft(), rank))
        return sorted(out, key=lambda c: (c.collective, c.rank))

    def _end(self, number: int, rank: int) -> Completion:
        self._entries[number].ended[rank] = self.now
        return Completion(collective=number, rank=rank, cycle=self.now)

    def _prepare(self, number: int, collective: Collective) -> _Entry:
        """Plan it, place it in memory and write its descriptors."""
        placed = self._placement.place(number, collective)
        flit = self.platform.engine.flit_bytes
        entry = _Entry(placed.plan, placed.descriptor, placed.source, placed.result)
        start = placed.source.flits * flit
        for rank, block in enumerate(placed.blocks):
            image = np.zeros(start + placed.descriptor.flits * flit, dtype=np.uint8)
            data = payload(collective, seed=self.seed, number=number, rank=rank)
            image[: placed.source_bytes] = data.view(np.uint8)
            image[start : start + len(block)] = np.frombuffer(block, dtype=np.uint8)
            entry.contents.append(image)
        return entry

    def _lane(self, number: int) -> int:
        """Of the class of a collective."""
        collective = self._entries[number].plan.collective
        return self.platform.engine.lane_of(collective.traffic_class)

    def _room(self, number: int, ranks: Sequence[int]) -> bool:
        """Whether the engines' doorbell queues surely have room: as a driver knows it, by what
        has completed."""
        limit, lane = self.control.doorbells, self._lane(number)
        return all(self._rung[rank][lane] - self._counted[rank][lane] < limit for rank in ranks)

    async def _ring(self, number: int, ranks: Sequence[int]) -> None:
        entry = self._entries[number]
        lane = self._lane(number)
        for rank in ranks:
            self._rung[rank][lane] += 1
        if entry.contents:
            await self.control.load(entry.source.first, entry.contents)
            entry.contents.clear()
        await self.control.doorbell(entry.descriptor.first, ranks, lane)
