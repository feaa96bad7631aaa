"""What the replay asks of a fabric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sw_model.collective.plan import Operation
from sw_model.engine import EventKernel
from sw_model.replay.folding import GroupUse

__all__ = ["DimTraffic", "Fabric", "Request"]

Done = Callable[[], object]


@dataclass(frozen=True)
class Request:
    """A collective that all members have entered.

    Attributes
    ----------
    number : of the node, by which collectives that begin at one time are ordered
    size : bytes of a rank's buffer; of its shard for an all-gather
    priority : of the trace
    precedence : what has less goes first, whatever the policy
    node : its number in the trace, for which the system may name an algorithm
    """

    number: int
    operation: Operation
    size: int
    group: GroupUse
    priority: int = 0
    precedence: int = 0
    node: int = -1


@dataclass(frozen=True)
class DimTraffic:
    """What one dim did: ticks in which it was busy, of the busiest NPU, and the bytes sent by the
    NPU that sent most."""

    busy: int
    bytes_per_npu: int


class Fabric(Protocol):
    """Carries collectives and messages.

    Attributes
    ----------
    kernel : whose events it uses
    ticks_per_ns : ticks of the kernel in a nanosecond
    one_at_a_time : a rank has one send or collective under way at a time
    shortest_compute : ticks that a compute node takes at least
    """

    kernel: EventKernel
    ticks_per_ns: int
    one_at_a_time: bool
    shortest_compute: int

    def collective(self, request: Request, done: Done) -> None:
        """Begin; ``done`` is called when it has ended for all members."""

    def message(
        self,
        source: tuple[int, int],
        destination: tuple[int, int],
        size: int,
        number: int,
        sent: Done,
        arrived: Done,
        precedence: int = 0,
    ) -> None:
        """Begin a message between two (rank, colour); ``sent`` when the sender is done with it.
        ``number`` and ``precedence`` are of the node."""

    def traffic(self) -> tuple[DimTraffic, ...]:
        """Of all dims, innermost first."""

    def notes(self) -> tuple[str, ...]:
        """What a user should know, each once."""
