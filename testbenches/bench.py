"""The cycle loop of a unit test bench: one coroutine that drives, samples and counts cycles.

Parts of a bench (drivers, monitors, models) are plain objects with two methods. In every cycle t
the bench first calls ``drive(t)`` of each part, just after the rising edge that begins the cycle,
then, when all combinational paths have settled, ``sample(t)`` of each, at the falling edge. So
what is sampled in cycle t is what the next rising edge takes, on every simulator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge, Timer

__all__ = ["Bench", "Part"]


class Part:
    """Base of everything a :class:`Bench` runs."""

    def drive(self, cycle: int) -> None:
        """Set inputs of the DUT for this cycle; read nothing of it here."""

    def sample(self, cycle: int) -> None:
        """Read settled values of this cycle; set nothing here."""


PartT = TypeVar("PartT", bound=Part)


class Bench:
    """Clock, reset and cycle count of one DUT.

    Parameters
    ----------
    dut : the cocotb handle; ``clk`` and ``rst`` are its ports (``rst`` may be missing)
    period_ns : clock period, even

    Attributes
    ----------
    cycle : cycles since the end of the last reset; 0 is the first one
    parts : in the order in which they are driven and sampled
    """

    def __init__(self, dut: Any, *, period_ns: int = 2):
        self.dut = dut
        self.cycle = 0
        self.parts: list[Part] = []
        self._period_ns = period_ns
        self._started = False

    def add(self, part: PartT) -> PartT:
        """Run ``part`` from the next cycle on, after the parts before it."""
        self.parts.append(part)
        return part

    async def reset(self, cycles: int = 2) -> None:
        """Start the clock if need be and hold reset; parts rest meanwhile. Cycle 0 is next."""
        reset = getattr(self.dut, "rst", None)
        if not self._started:
            self._started = True
            Clock(self.dut.clk, self._period_ns, unit="ns").start(start_high=False)
        if reset is not None:
            reset.value = 1
        for _ in range(cycles):
            await RisingEdge(self.dut.clk)
        if reset is not None:
            reset.value = 0
        self.cycle = 0

    async def step(self, cycles: int = 1) -> None:
        """Run that many cycles.

        Afterwards registers show what the last edge made of them, on every simulator; inputs are
        still those of the last cycle, and what is written to them now counts in the next one.
        """
        clk = self.dut.clk
        for _ in range(cycles):
            for part in self.parts:
                part.drive(self.cycle)
            await FallingEdge(clk)
            for part in self.parts:
                part.sample(self.cycle)
            await RisingEdge(clk)
            self.cycle += 1
        await Timer(1, "step")

    async def until(self, condition: Callable[[], bool], *, limit: int, stuck: str) -> int:
        """Run until ``condition()`` holds at the end of a cycle; give the cycles it took.

        Raises
        ------
        TimeoutError
            after ``limit`` cycles; ``stuck`` says what did not happen.
        """
        for count in range(limit + 1):
            if condition():
                return count
            await self.step()
        raise TimeoutError(f"after {limit} cycles: {stuck}")
