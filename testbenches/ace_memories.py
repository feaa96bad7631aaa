"""What stands around the engine's blocks in unit test benches: SRAM and memory ports."""

from __future__ import annotations

from collections import deque
from typing import Any

from rtl.ace.sram import SRAM_READ_LATENCY
from testbenches.bench import Part
from testbenches.streams import Stalls, never

__all__ = ["MemoryReadPort", "MemoryWritePort", "SramReadPort", "SramReadUser", "SramWritePort"]


class SramReadPort(Part):
    """Serves an SRAM read port of the DUT out of ``contents`` (flit address to data).

    Attributes
    ----------
    addresses, cycles : of the accepted requests
    """

    def __init__(
        self, dut: Any, name: str, contents: dict[int, int], *, stalls: Stalls | None = None
    ):
        self.request_valid = getattr(dut, f"{name}__request__valid")
        self.request_ready = getattr(dut, f"{name}__request__ready")
        self.request_payload = getattr(dut, f"{name}__request__payload")
        self.valid = getattr(dut, f"{name}__valid")
        self.data = getattr(dut, f"{name}__data")
        self.contents = contents
        self.stalls = never() if stalls is None else stalls
        self.addresses: list[int] = []
        self.cycles: list[int] = []
        self._pipeline: deque[int | None] = deque([None] * (SRAM_READ_LATENCY - 1))
        self._ready = False
        self._next: int | None = None
        self.request_ready.value = 0
        self.valid.value = 0
        self.data.value = 0

    def drive(self, cycle: int) -> None:
        """Answer, and be ready or not."""
        self._ready = not next(self.stalls)
        self.request_ready.value = int(self._ready)
        self.valid.value = int(self._next is not None)
        self.data.value = self._next if self._next is not None else 0xDEAD

    def sample(self, cycle: int) -> None:
        """Take a request."""
        taken = None
        if self._ready and int(self.request_valid.value):
            address = int(self.request_payload.value)
            taken = self.contents.get(address, 0)
            self.addresses.append(address)
            self.cycles.append(cycle)
        self._pipeline.append(taken)
        self._next = self._pipeline.popleft()


class SramWritePort(Part):
    """Serves an SRAM write port of the DUT into ``contents``.

    Attributes
    ----------
    writes : (address, data) in order
    cycles : of each
    """

    def __init__(
        self,
        dut: Any,
        name: str,
        contents: dict[int, int],
        *,
        address_bits: int,
        stalls: Stalls | None = None,
    ):
        self.valid = getattr(dut, f"{name}__request__valid")
        self.ready = getattr(dut, f"{name}__request__ready")
        self.payload = getattr(dut, f"{name}__request__payload")
        self.contents = contents
        self.address_bits = address_bits
        self.stalls = never() if stalls is None else stalls
        self.writes: list[tuple[int, int]] = []
        self.cycles: list[int] = []
        self._ready = False
        self.ready.value = 0

    def drive(self, cycle: int) -> None:
        """Be ready or not."""
        self._ready = not next(self.stalls)
        self.ready.value = int(self._ready)

    def sample(self, cycle: int) -> None:
        """Take a write."""
        if self._ready and int(self.valid.value):
            word = int(self.payload.value)
            address = word & ((1 << self.address_bits) - 1)
            self.contents[address] = word >> self.address_bits
            self.writes.append((address, word >> self.address_bits))
            self.cycles.append(cycle)


class SramReadUser(Part):
    """Reads through a read port of the SRAM under test.

    Attributes
    ----------
    answers : (cycle, data)
    accepted : (cycle, address)
    """

    def __init__(self, dut: Any, name: str, *, stalls: Stalls | None = None):
        self.request_valid = getattr(dut, f"{name}__request__valid")
        self.request_ready = getattr(dut, f"{name}__request__ready")
        self.request_payload = getattr(dut, f"{name}__request__payload")
        self.valid = getattr(dut, f"{name}__valid")
        self.data = getattr(dut, f"{name}__data")
        self.stalls = never() if stalls is None else stalls
        self.queue: deque[int] = deque()
        self.answers: list[tuple[int, int]] = []
        self.accepted: list[tuple[int, int]] = []
        self._offered: int | None = None
        self.request_valid.value = 0
        self.request_payload.value = 0

    def drive(self, cycle: int) -> None:
        """Offer the next address."""
        if self._offered is None and self.queue and not next(self.stalls):
            self._offered = self.queue.popleft()
            self.request_payload.value = self._offered
        self.request_valid.value = int(self._offered is not None)

    def sample(self, cycle: int) -> None:
        """Record what was accepted and answered."""
        if self._offered is not None and int(self.request_ready.value):
            self.accepted.append((cycle, self._offered))
            self._offered = None
        if int(self.valid.value):
            self.answers.append((cycle, int(self.data.value)))


class MemoryReadPort(Part):
    """The memory behind a read port of the DUT.

    Attributes
    ----------
    bursts : (cycle, address, beats) of every accepted request
    beats : cycle of every beat that was taken
    """

    def __init__(
        self,
        dut: Any,
        name: str,
        contents: dict[int, int],
        *,
        latency: int = 10,
        request_stalls: Stalls | None = None,
        data_stalls: Stalls | None = None,
    ):
        self.request_valid = getattr(dut, f"{name}__request__valid")
        self.request_ready = getattr(dut, f"{name}__request__ready")
        self.request_payload = getattr(dut, f"{name}__request__payload")
        self.valid = getattr(dut, f"{name}__data__valid")
        self.ready = getattr(dut, f"{name}__data__ready")
        self.data = getattr(dut, f"{name}__data__payload")
        self.contents = contents
        self.latency = latency
        self.request_stalls = never() if request_stalls is None else request_stalls
        self.data_stalls = never() if data_stalls is None else data_stalls
        self.bursts: list[tuple[int, int, int]] = []
        self.beats: list[int] = []
        self.outstanding = 0
        self.most_outstanding = 0
        self._due: deque[tuple[int, int]] = deque()
        self._ready = False
        self._offered = False
        for signal in (self.request_ready, self.valid, self.data):
            signal.value = 0

    def drive(self, cycle: int) -> None:
        """Offer a beat that is due."""
        self._ready = not next(self.request_stalls)
        self.request_ready.value = int(self._ready)
        if not self._offered:
            self._offered = (
                bool(self._due) and self._due[0][0] <= cycle and not next(self.data_stalls)
            )
        self.valid.value = int(self._offered)
        if self._offered:
            self.data.value = self.contents.get(self._due[0][1], 0)

    def sample(self, cycle: int) -> None:
        """Take a request, see a beat taken."""
        if self._offered and int(self.ready.value):
            self._due.popleft()
            self._offered = False
            self.beats.append(cycle)
            self.outstanding -= 1
        if self._ready and int(self.request_valid.value):
            word = int(self.request_payload.value)
            address, beats = word & 0xFFFFFFFF, word >> 32
            assert beats > 0, "an empty burst"
            self.bursts.append((cycle, address, beats))
            self.outstanding += beats
            self.most_outstanding = max(self.most_outstanding, self.outstanding)
            self._due.extend((cycle + self.latency, address + i) for i in range(beats))


class MemoryWritePort(Part):
    """The memory behind a write port of the DUT; only strobed bytes of ``contents`` change.

    Attributes
    ----------
    writes : (cycle, address, data, strobe)
    """

    def __init__(
        self,
        dut: Any,
        name: str,
        contents: dict[int, int],
        *,
        flit_bytes: int,
        latency: int = 10,
        stalls: Stalls | None = None,
    ):
        self.valid = getattr(dut, f"{name}__request__valid")
        self.ready = getattr(dut, f"{name}__request__ready")
        self.payload = getattr(dut, f"{name}__request__payload")
        self.acknowledged = getattr(dut, f"{name}__acknowledged")
        self.contents = contents
        self.flit_bytes = flit_bytes
        self.latency = latency
        self.stalls = never() if stalls is None else stalls
        self.writes: list[tuple[int, int, int, int]] = []
        self.most_outstanding = 0
        self.last_acknowledgement = -1
        self._due: deque[int] = deque()
        self._ready = False
        self.ready.value = 0
        self.acknowledged.value = 0

    def drive(self, cycle: int) -> None:
        """Acknowledge what is due."""
        self._ready = not next(self.stalls)
        self.ready.value = int(self._ready)
        due = bool(self._due) and self._due[0] <= cycle
        if due:
            self._due.popleft()
            self.last_acknowledgement = cycle
        self.acknowledged.value = int(due)

    def sample(self, cycle: int) -> None:
        """Take a write."""
        if self._ready and int(self.valid.value):
            word = int(self.payload.value)
            address = word & 0xFFFFFFFF
            data = (word >> 32) & ((1 << 8 * self.flit_bytes) - 1)
            strobe = word >> (32 + 8 * self.flit_bytes)
            self.writes.append((cycle, address, data, strobe))
            mask = sum(0xFF << 8 * b for b in range(self.flit_bytes) if strobe >> b & 1)
            self.contents[address] = self.contents.get(address, 0) & ~mask | data & mask
            self._due.append(cycle + self.latency)
            self.most_outstanding = max(self.most_outstanding, len(self._due))
