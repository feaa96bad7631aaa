"""The far ends of a switch's links: senders with credits, receivers that return them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from testbenches.bench import Part
from testbenches.streams import Stalls, never

__all__ = ["WireReceiver", "WireSender"]


class WireSender(Part):
    """Puts flits on an input wire of the switch, never without a credit.

    With several channels it sends whole packets where it can, of the lowest channel that has one;
    a packet that lacks its next flit, or a credit, lets others go.

    Parameters
    ----------
    dut, port : the wire is ``i__<port>``
    credits : flits that the switch buffers, one number for each channel; None to ignore credits
    stalls : while True nothing is sent

    Attributes
    ----------
    queues : flits still to send, by channel
    cycles : the cycle in which each was on the wire
    channels : and the channel of each
    """

    def __init__(
        self, dut: Any, port: int, *, credits: Sequence[int], stalls: Stalls | None = None
    ):
        self.valid = getattr(dut, f"i__{port}__valid")
        self.flit = getattr(dut, f"i__{port}__flit")
        self.credit = getattr(dut, f"i__{port}__credit")
        self.channel = getattr(dut, f"i__{port}__channel") if len(credits) > 1 else None
        self.full = tuple(credits)
        self.credits: list[int] | None = list(credits)
        self.stalls = never() if stalls is None else stalls
        self.queues: list[deque[int]] = [deque() for _ in credits]
        self.cycles: list[int] = []
        self.channels: list[int] = []
        self._last = 1 << len(self.flit) - 1
        self._within: set[int] = set()
        self.valid.value = 0
        self.flit.value = 0

    def send(self, flits: Iterable[int], channel: int = 0) -> None:
        """Queue flits."""
        self.queues[channel].extend(flits)

    def clear(self) -> None:
        """As new (with a reset of the DUT)."""
        for queue in self.queues:
            queue.clear()
        self.cycles.clear()
        self.channels.clear()
        self._within.clear()
        self.credits = list(self.full)
        self.valid.value = 0

    def drive(self, cycle: int) -> None:
        """Send the next flit if there is a credit."""
        able = [
            c
            for c, queue in enumerate(self.queues)
            if queue and (self.credits is None or self.credits[c])
        ]
        go = not next(self.stalls) and bool(able)
        self.valid.value = int(go)
        if go:
            chosen = min(able, key=lambda c: (c not in self._within, c))
            flit = self.queues[chosen].popleft()
            (self._within.discard if flit & self._last else self._within.add)(chosen)
            self.flit.value = flit
            if self.channel is not None:
                self.channel.value = chosen
            self.cycles.append(cycle)
            self.channels.append(chosen)
            if self.credits is not None:
                self.credits[chosen] -= 1

    def sample(self, cycle: int) -> None:
        """Take credits back."""
        returned = int(self.credit.value)
        if returned and self.credits is not None:
            for channel in range(len(self.credits)):
                self.credits[channel] += returned >> channel & 1


class WireReceiver(Part):
    """Takes flits from an output wire of the switch and returns a credit for each.

    Parameters
    ----------
    dut, port : the wire is ``o__<port>``
    credits : flits it has room for, by channel; more than that at a time is an error
    delay : cycles from a flit to its credit, at least 1
    stalls : while True no credit is returned; or one such iterator for each channel

    Attributes
    ----------
    flits, cycles, channels : what was received, when, and on which channel
    heard : the flits of each channel
    """

    def __init__(self, dut: Any, port: int, *, credits: Sequence[int], delay: int = 1):
        self.port = port
        self.valid = getattr(dut, f"o__{port}__valid")
        self.flit = getattr(dut, f"o__{port}__flit")
        self.credit = getattr(dut, f"o__{port}__credit")
        self.channel = getattr(dut, f"o__{port}__channel") if len(credits) > 1 else None
        self.room = tuple(credits)
        self.delay = delay
        self.stalls: Stalls | list[Stalls] = never()
        self._owed: list[deque[int]] = [deque() for _ in credits]
        self.heard: list[list[int]] = [[] for _ in credits]
        self.flits: list[int] = []
        self.cycles: list[int] = []
        self.channels: list[int] = []
        self.credit.value = 0

    def forget(self) -> None:
        """Drop the record of what was received."""
        for record in (self.flits, self.cycles, self.channels, *self.heard):
            record.clear()

    def clear(self) -> None:
        """As new (with a reset of the DUT)."""
        self.forget()
        for owed in self._owed:
            owed.clear()
        self.credit.value = 0

    def drive(self, cycle: int) -> None:
        """Return the credits that are due."""
        if isinstance(self.stalls, list):
            stalled = [next(stalls) for stalls in self.stalls]
        else:
            stalled = [next(self.stalls)] * len(self._owed)
        give = 0
        for channel, owed in enumerate(self._owed):
            if not stalled[channel] and owed and owed[0] + self.delay <= cycle:
                owed.popleft()
                give |= 1 << channel
        self.credit.value = give

    def sample(self, cycle: int) -> None:
        """Take a flit."""
        if int(self.valid.value):
            channel = 0 if self.channel is None else int(self.channel.value)
            flit = int(self.flit.value)
            self.flits.append(flit)
            self.heard[channel].append(flit)
            self.cycles.append(cycle)
            self.channels.append(channel)
            owed = self._owed[channel]
            owed.append(cycle)
            assert len(owed) <= self.room[channel], f"output {self.port}: sent without a credit"
