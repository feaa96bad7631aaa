"""What an endpoint can hold and move, as far as the planner must respect it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from sw_model.endpoint.link import LINK_TIMING
from sw_model.endpoint.timing import ACE_TIMING

if TYPE_CHECKING:
    from sw_model.platform import Platform

__all__ = ["Limits", "PlannerState"]


@dataclass(frozen=True)
class Limits:
    """Limits of one endpoint, for one class of traffic. None is no limit.

    Parameters
    ----------
    contexts : ops of one dim that may be under way, of all or by dim; op k waits for the end of op
        k - contexts
    buffers : by partition, (number of buffers, bytes of each)
    memory_bandwidth : bytes per second of TX DMA, and of RX DMA; the lower, where they differ
    read_latency_ps, write_latency_ps : of the memory
    step_ps : what a step of a ring takes in the engines, beside its link. Only where memory is
        slower than the ports, and a wrong order costs it time; 0 elsewhere. Where it is given, the
        grant of an op counts as one step more
    """

    contexts: int | tuple[int, ...] | None = None
    buffers: tuple[tuple[int, int], ...] | None = None
    memory_bandwidth: Fraction | None = None
    read_latency_ps: int = 0
    write_latency_ps: int = 0
    step_ps: int = 0

    @classmethod
    def of(cls, platform: Platform) -> Limits:
        """The limits of a platform's engines."""
        engine, memory, clock = platform.engine, platform.memory, platform.clock_hz
        paced = min(memory.read_rate, memory.write_rate) < 1
        step = ACE_TIMING.payload + LINK_TIMING.flit(0) + ACE_TIMING.receive + ACE_TIMING.chase
        return cls(
            contexts=engine.contexts,
            buffers=tuple((p.buffers, p.flits * engine.flit_bytes) for p in engine.partitions),
            memory_bandwidth=engine.flit_bytes
            * clock
            * Fraction(min(memory.read_rate, memory.write_rate)),
            read_latency_ps=memory.read_latency * 10**12 // clock,
            write_latency_ps=memory.write_latency * 10**12 // clock,
            step_ps=step * 10**12 // clock if paced else 0,
        )


@dataclass
class PlannerState:
    """What one collective leaves to the next of its class: the order in which the buffers of every
    partition became free, and how often each was used. It advances at every plan, and only then.

    Attributes
    ----------
    free : by partition, numbers of the free buffers, longest free first
    uses : by partition, by buffer, how often it was taken since reset: the next owner's epoch
    """

    free: dict[int, deque[int]] = field(default_factory=dict)
    uses: dict[int, list[int]] = field(default_factory=dict)

    def copy(self) -> PlannerState:
        """An independent copy."""
        return PlannerState(
            {p: deque(numbers) for p, numbers in self.free.items()},
            {p: list(counts) for p, counts in self.uses.items()},
        )
