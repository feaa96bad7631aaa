"""Drivers and monitors of ``amaranth.lib.stream`` ports, with seeded stalls on both sides.

A port named ``i`` of a component is ``i__valid``, ``i__ready`` and ``i__payload`` in the emitted
Verilog. Payloads are plain integers here; pack them with the layout
(``layout.const({...}).as_value().value`` and ``layout.from_bits(value)``).

Rules checked (amaranth RFC 61): once ``valid`` is high it stays, with the same payload, until
``ready`` is high too; nothing is unknown.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, repeat
from typing import Any

from testbenches.bench import Part

__all__ = [
    "StreamMonitor",
    "StreamRuleError",
    "StreamSink",
    "StreamSource",
    "always",
    "bursty_stalls",
    "never",
    "random_stalls",
    "stall_pattern",
]  # fmt: skip

Stalls = Iterator[bool]


def never() -> Stalls:
    """No stalls."""
    return repeat(False)


def always() -> Stalls:
    """Stalled for good."""
    return repeat(True)


def random_stalls(seed: int, probability: float) -> Stalls:
    """Each cycle stalls with ``probability``, independently."""
    generator = random.Random(seed)
    while True:
        yield generator.random() < probability


def bursty_stalls(seed: int, longest: int) -> Stalls:
    """Runs of 1 to ``longest`` cycles, free and stalled in turn."""
    generator = random.Random(seed)
    while True:
        yield from repeat(False, generator.randint(1, longest))
        yield from repeat(True, generator.randint(1, longest))


def stall_pattern(pattern: Iterable[bool], *, then: bool = False) -> Stalls:
    """The given cycles, then ``then`` for ever."""
    return chain(pattern, repeat(then))


class StreamRuleError(AssertionError):
    """A stream broke its rules; the message names port and cycle."""


class StreamMonitor(Part):
    """Records the transfers of a port and checks the stream rules.

    Parameters
    ----------
    dut, name : the port is ``<name>__valid`` and so on
    on_transfer : called with (cycle, payload) at every transfer, e.g. to feed a model

    Attributes
    ----------
    items : payloads transferred, in order
    cycles : the cycle of each transfer
    """

    def __init__(
        self, dut: Any, name: str, *, on_transfer: Callable[[int, int], None] | None = None
    ):
        self.name = name
        self.valid = getattr(dut, f"{name}__valid")
        self.ready = getattr(dut, f"{name}__ready")
        self.payload = getattr(dut, f"{name}__payload")
        self.on_transfer = on_transfer
        self.items: list[int] = []
        self.cycles: list[int] = []
        self._waiting: int | None = None

    def sample(self, cycle: int) -> None:
        """Check and record this cycle."""
        try:
            valid = int(self.valid.value)
            ready = int(self.ready.value)
            payload = int(self.payload.value) if valid else None
        except ValueError:
            raise StreamRuleError(f"{self.name}: unknown bits in cycle {cycle}") from None
        if self._waiting is not None and payload is None:
            raise StreamRuleError(f"{self.name}: valid withdrawn in cycle {cycle}")
        if self._waiting is not None and payload != self._waiting:
            raise StreamRuleError(
                f"{self.name}: payload changed from {self._waiting:#x} to {payload:#x} "
                f"while waiting in cycle {cycle}"
            )
        self._waiting = payload if valid and not ready else None
        if payload is not None and ready:
            self.items.append(payload)
            self.cycles.append(cycle)
            if self.on_transfer is not None:
                self.on_transfer(cycle, payload)

    def clear(self) -> None:
        """Forget the transfer that waits, and all records (after a reset of the DUT)."""
        self._waiting = None
        self.items.clear()
        self.cycles.clear()


class StreamSource(Part):
    """Drives an input stream port of the DUT.

    Parameters
    ----------
    dut, name : the port
    stalls : while True nothing *new* is offered (an offer once made stays)

    Attributes
    ----------
    queue : payloads still to offer
    offers : the cycle from which on each payload was offered
    cycles : the cycle in which each payload was accepted
    """

    def __init__(self, dut: Any, name: str, *, stalls: Stalls | None = None):
        self.valid = getattr(dut, f"{name}__valid")
        self.ready = getattr(dut, f"{name}__ready")
        self.payload = getattr(dut, f"{name}__payload")
        self.stalls = never() if stalls is None else stalls
        self.queue: deque[int] = deque()
        self.offers: list[int] = []
        self.cycles: list[int] = []
        self._offered = False
        self.valid.value = 0
        self.payload.value = 0

    def send(self, items: Iterable[int]) -> None:
        """Queue payloads."""
        self.queue.extend(items)

    @property
    def idle(self) -> bool:
        """Everything queued was accepted."""
        return not self.queue and not self._offered

    def drive(self, cycle: int) -> None:
        """Offer the next payload unless stalled."""
        if self._offered:
            return
        if not next(self.stalls) and self.queue:
            self.payload.value = self.queue.popleft()
            self.valid.value = 1
            self._offered = True
            self.offers.append(cycle)
        else:
            self.valid.value = 0

    def sample(self, cycle: int) -> None:
        """See whether the offer was accepted."""
        if self._offered and int(self.ready.value):
            self._offered = False
            self.cycles.append(cycle)

    def clear(self) -> None:
        """Withdraw everything (with a reset of the DUT)."""
        self.queue.clear()
        self.offers.clear()
        self.cycles.clear()
        self._offered = False
        self.valid.value = 0


class StreamSink(Part):
    """Drives ``ready`` of an output stream port and keeps what it takes.

    Parameters
    ----------
    dut, name : the port
    stalls : while True ``ready`` is low; replace it at any time

    Attributes
    ----------
    items : payloads taken, in order
    cycles : the cycle of each
    """

    def __init__(self, dut: Any, name: str, *, stalls: Stalls | None = None):
        self.valid = getattr(dut, f"{name}__valid")
        self.ready = getattr(dut, f"{name}__ready")
        self.payload = getattr(dut, f"{name}__payload")
        self.stalls = never() if stalls is None else stalls
        self.items: list[int] = []
        self.cycles: list[int] = []
        self._ready = False
        self.ready.value = 0

    def drive(self, cycle: int) -> None:
        """Set ``ready``."""
        ready = not next(self.stalls)
        if ready != self._ready:
            self._ready = ready
            self.ready.value = int(ready)

    def sample(self, cycle: int) -> None:
        """Take what is offered."""
        if self._ready and int(self.valid.value):
            self.items.append(int(self.payload.value))
            self.cycles.append(cycle)

    def clear(self) -> None:
        """Forget what was taken (after a reset of the DUT)."""
        self.items.clear()
        self.cycles.clear()
