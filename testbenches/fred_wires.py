"""The far ends of a switch's links: senders with credits, receivers that return them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from testbenches.bench import Part
from testbenches.streams import Stalls, never

__all__ = ["WireReceiver", "WireSender"]


class WireSender(Part):
    """Puts flits on an input wire of the switch, never without a credit.

    Parameters
    ----------
    dut, port : the wire is ``i__<port>``
    credits : flits that the switch buffers; None to ignore credits
    stalls : while True nothing is sent

    Attributes
    ----------
    queue : flits still to send
    cycles : the cycle in which each was on the wire
    """

    def __init__(self, dut: Any, port: int, *, credits: int | None, stalls: Stalls | None = None):
        self.valid = getattr(dut, f"i__{port}__valid")
        self.flit = getattr(dut, f"i__{port}__flit")
        self.credit = getattr(dut, f"i__{port}__credit")
        self.credits = credits
        self.stalls = never() if stalls is None else stalls
        self.queue: deque[int] = deque()
        self.cycles: list[int] = []
        self.valid.value = 0
        self.flit.value = 0

    def send(self, flits: Iterable[int]) -> None:
        """Queue flits."""
        self.queue.extend(flits)

    def drive(self, cycle: int) -> None:
        """Send the next flit if there is a credit."""
        go = not next(self.stalls) and bool(self.queue) and self.credits != 0
        self.valid.value = int(go)
        if go:
            self.flit.value = self.queue.popleft()
            self.cycles.append(cycle)
            if self.credits is not None:
                self.credits -= 1

    def sample(self, cycle: int) -> None:
        """Take a credit back."""
        if int(self.credit.value) and self.credits is not None:
            self.credits += 1


class WireReceiver(Part):
    """Takes flits from an output wire of the switch and returns a credit for each.

    Parameters
    ----------
    dut, port : the wire is ``o__<port>``
    credits : flits it has room for; more than that at a time is an error
    delay : cycles from a flit to its credit, at least 1
    stalls : while True no credit is returned

    Attributes
    ----------
    flits, cycles : what was received, and when
    held : flits whose credits have not been returned
    """

    def __init__(
        self, dut: Any, port: int, *, credits: int, delay: int = 1, stalls: Stalls | None = None
    ):
        self.port = port
        self.valid = getattr(dut, f"o__{port}__valid")
        self.flit = getattr(dut, f"o__{port}__flit")
        self.credit = getattr(dut, f"o__{port}__credit")
        self.room = credits
        self.delay = delay
        self.stalls = never() if stalls is None else stalls
        self.flits: list[int] = []
        self.cycles: list[int] = []
        self._owed: deque[int] = deque()
        self.credit.value = 0

    @property
    def held(self) -> int:
        """Flits whose credits have not been returned."""
        return len(self._owed)

    def drive(self, cycle: int) -> None:
        """Return a credit that is due."""
        give = not next(self.stalls) and bool(self._owed) and self._owed[0] + self.delay <= cycle
        self.credit.value = int(give)
        if give:
            self._owed.popleft()

    def sample(self, cycle: int) -> None:
        """Take a flit."""
        if int(self.valid.value):
            self.flits.append(int(self.flit.value))
            self.cycles.append(cycle)
            self._owed.append(cycle)
            assert len(self._owed) <= self.room, f"output {self.port}: sent without a credit"
