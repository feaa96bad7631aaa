"""The memory's read port, as an engine of one class has it; that of several classes is in
`sw_model.endpoint.shared_read`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol

from sw_model.engine import EventKernel

__all__ = ["OwnReadPort", "ReadPort"]


class ReadPort(Protocol):
    """What descriptor fetch and TX DMA of a class ask for memory."""

    def load(
        self,
        beats: int,
        action: Callable[[Any], object],
        argument: Any,
        late: bool,
        over: Callable[[Any], object],
    ) -> None:
        """Request ``beats`` (at least 1) of payload from now on; ``action(argument)`` is called in
        the cycle behind the last, or one cycle later where the load ends ``late``: no payload is
        taken from memory in that cycle. ``over`` is called in the cycle of the last request, and no
        other load comes before."""

    def fetch(self, records: int, beats: int, requested: Callable[[list[int]], object]) -> None:
        """Request a burst of records from now on, in front of payload that has not been requested
        yet. In the cycle of the request ``requested`` is told the cycle behind the last of the
        ``beats`` of each record; no other fetch comes before."""


class OwnReadPort:
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
        "_begun", "_cost", "_count", "_ends", "_fetched", "_gain", "_gap", "_held", "_late",
        "_loads", "_most", "_requesting", "_saved", "_slow", "burst", "kernel", "latency", "window",
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
        self._gain, self._cost = rate.numerator, rate.denominator
        self._most = self._cost + self._gain - 1
        self._begun = 0  # cycle of the first beat of the run
        self._saved = self._most  # the account in that cycle
        self._count = 0  # beats of the run so far
        self._slow = latency * rate > window - 2 * burst
        self._ends = deque([0] * (window // burst), maxlen=window // burst)  # of the last bursts
        self._held = 0  # cycle from which payload is taken
        # First beat and beats of what is no payload, of late.
        self._fetched: deque[tuple[int, int]] = deque(maxlen=16)
        self._requesting = (0, 0, 0)  # of the last load: request, first beat, beats
        self._late = False  # whether it ends late,
        self._gap = False  # and was held up by a beat's time because the one before did
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
        self,
        beats: int,
        action: Callable[[Any], object],
        argument: Any,
        late: bool,
        over: Callable[[Any], object],
    ) -> None:
        """See `ReadPort`."""
        self._over(over, self._requested(beats, action, argument, late))

    def _over(self, over: Callable[[Any], object], last: int) -> None:
        """Call ``over`` in the cycle ``last``, or once what has slipped in until then is made up
        for."""
        if last == self.kernel.now:
            over(None)
        else:
            self.kernel.decide(last, self._look, over)

    def _look(self, over: Callable[[Any], object]) -> None:
        now = self.kernel.now
        self._over(over, now if self._slow else max(now, self._last_request()))

    def _requested(
        self, beats: int, action: Callable[[Any], object], argument: Any, late: bool
    ) -> int:
        """Request a load; the cycle of its last request."""
        if self._slow:
            return self._load_slowly(beats, action, argument, late)
        now = self.kernel.now
        ready = now + self.latency
        self._gap = False
        if self._held > max(ready, self._beat(self._count)):
            # A beat is offered while the load before it still writes its last flit.
            if self._gain < self._cost:
                ready = self._held
            else:
                self._gap = True
                self._fetched.append((self._count, 1))
                self._count += 1
        first = self._reserve(ready, beats)
        end = self._ended(late)
        self._loads.append([end, action, argument])
        self.kernel.at(end, self._loaded)
        self._requesting = (now, first, beats)
        self._late = late
        return self._last_request()

    def _last_request(self) -> int:
        """Cycle in which the last burst of the load requested last is requested."""
        return self._request(-(-self._requesting[2] // self.burst) - 1)

    def _ended(self, late: bool) -> int:
        """The cycle behind the last flit of the load whose last beat is reserved last."""
        end = self._beat(self._count - 1) + 1 + late
        self._held = end
        return end

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
            self._reserve(max(request + self.latency, self._held), flits)
            end = self._ended(late and not beats)
            self._ends.append(end)
        self._loads.append([end, action, argument])
        self.kernel.at(end, self._loaded)
        return request

    def _loaded(self, _: Any) -> None:
        load = self._loads[0]
        if load[0] > self.kernel.now:  # a descriptor burst has slipped in
            self.kernel.at(load[0], self._loaded)
            return
        self._loads.popleft()
        load[1](load[2])

    def fetch(self, records: int, beats: int, requested: Callable[[list[int]], object]) -> None:
        """See `ReadPort`."""
        now = self.kernel.now
        flits = self._requesting[2]
        waiting, request = 0, now + 1  # beats at the end of the last load, and their request
        for burst in reversed(range(-(-flits // self.burst))):
            cycle = self._request(burst)
            if cycle < now:
                break
            waiting, request = flits - burst * self.burst, max(cycle, now + 1)
        if waiting:
            if self._gap and waiting == flits:  # all of it: these come in the time it is held up
                self._fetched.pop()
                self._count -= 1
            self._gap = False
            first = self._count - waiting
            self._count += records * beats
            self._loads[-1][0] = self._ended(self._late)
            self._requesting = (request, first + records * beats, waiting)
        else:
            first = self._reserve(now + self.latency, records * beats)
        self._fetched.append((first, records * beats))
        requested([self._beat(first + number * beats - 1) + 1 for number in range(1, records + 1)])
