"""Messages between single NPUs, as ASTRA-sim's analytical back-ends carry them.

`Unaware`: a message takes ``floor(hops * latency + bytes / bandwidth)``, and nothing queues.
`Aware` (one dim only, as there): a message crosses its links one after another, whole (store and
forward); a link carries one message at a time, first come, first served. A link is busy for
``floor(bytes / bandwidth)``; the message is at its other end ``floor(latency + bytes / bandwidth)``
after it began.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

from sw_model.astra.cost import Wire
from sw_model.engine import EventKernel
from sw_model.errors import InputError
from sw_model.topology import Dim, DimKind, Topology

__all__ = ["Aware", "Carrier", "Unaware", "pair_wire"]


class Carrier(Protocol):
    """What carries messages."""

    def send(
        self,
        source: int,
        destination: int,
        size: int,
        arrived: Callable[[Any], object],
        argument: Any,
    ) -> None:
        """Begin a message now; ``arrived(argument)`` is called when it is there."""


def _link_bandwidth(dim: Dim) -> float:
    """Bytes per ns of one link."""
    links = max(1, dim.size - 1) if dim.kind is DimKind.FULLY_CONNECTED else 1
    return float(dim.bandwidth / links / 10**9)


def _hops(dim: Dim, a: int, b: int) -> int:
    if dim.kind is DimKind.SWITCH:
        return 2
    if dim.kind is DimKind.RING:
        distance = abs(a - b)
        return min(distance, dim.size - distance)
    return 1


@lru_cache(maxsize=1 << 16)
def pair_wire(topology: Topology, source: int, destination: int) -> Wire:
    """What a message between two NPUs crosses: the first dim on which they differ, as there."""
    here, there = topology.coordinates(source), topology.coordinates(destination)
    for dim, a, b in zip(topology.dims, here, there, strict=True):
        if a != b:
            return Wire(dim.latency_ps / 1000, _link_bandwidth(dim), _hops(dim, a, b))
    raise ValueError(f"destination must be another NPU, not {destination!r}")


class Unaware:
    """Messages that never meet."""

    def __init__(self, topology: Topology, kernel: EventKernel) -> None:
        self.topology = topology
        self.kernel = kernel

    def send(
        self,
        source: int,
        destination: int,
        size: int,
        arrived: Callable[[Any], object],
        argument: Any,
    ) -> None:
        """See `Carrier`."""
        wire = pair_wire(self.topology, source, destination)
        self.kernel.after(wire.message_ns(size), arrived, argument)


class Aware:
    """Messages that queue for links.

    Parameters
    ----------
    topology : of one dim

    Raises
    ------
    InputError
        where the network has several dims.
    """

    def __init__(self, topology: Topology, kernel: EventKernel) -> None:
        wide = [dim for dim in topology.dims if dim.size > 1]
        if len(wide) > 1:
            raise InputError(
                "astra-sim-aware must have a network of one dim, as in that program, not "
                f"{len(wide)}; use astra-sim"
            )
        self.kernel = kernel
        self.dim = wide[0] if wide else topology.dims[0]
        self.latency = self.dim.latency_ps / 1000
        self.bandwidth = _link_bandwidth(self.dim)
        self.free: dict[tuple[int, int], int] = {}  # by link: when it can begin the next message

    def route(self, source: int, destination: int) -> list[int]:
        """The nodes after ``source``, up to ``destination``; a switch is node -1. A ring's message
        goes the shorter way, up where both are equal."""
        if self.dim.kind is DimKind.SWITCH:
            return [-1, destination]
        if self.dim.kind is not DimKind.RING:
            return [destination]
        size = self.dim.size
        forward = (destination - source) % size
        step, count = (1, forward) if forward <= size - forward else (-1, size - forward)
        return [(source + step * i) % size for i in range(1, count + 1)]

    def send(
        self,
        source: int,
        destination: int,
        size: int,
        arrived: Callable[[Any], object],
        argument: Any,
    ) -> None:
        """See `Carrier`."""
        self._forward((source, self.route(source, destination), max(1, size), arrived, argument))

    def _forward(self, message: tuple[int, list[int], int, Callable[[Any], object], Any]) -> None:
        here, way, size, arrived, argument = message
        if not way:
            arrived(argument)
            return
        link = (here, way[0])
        begin = max(self.kernel.now, self.free.get(link, 0))
        self.free[link] = begin + int(size / self.bandwidth)
        there = begin + int(self.latency + size / self.bandwidth)
        self.kernel.at(there, self._forward, (way[0], way[1:], size, arrived, argument))
