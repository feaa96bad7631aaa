"""The shell seen from Python, inside the simulation.

Python runs only while the clock stands still: :meth:`Shell.run` starts it and returns when the
shell has stopped it, with the reason. Ports of the component may be read and written in between.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from cocotb.triggers import Timer, ValueChange
from numpy.typing import NDArray

__all__ = ["Shell", "StuckError", "Wake"]

_NEVER = (1 << 64) - 1
_ONE = Fraction(1)


class StuckError(AssertionError):
    """Nothing moved for as long as the watchdog allows, or a run reached its last cycle."""


@dataclass(frozen=True)
class Wake:
    """Why the clock stopped.

    Attributes
    ----------
    cycle : the cycle it stopped in
    timer : the cycle asked for was reached
    events : names of the events that are high
    """

    cycle: int
    timer: bool
    events: tuple[str, ...]


class Shell:
    """Drives the shell of the top module ``simulation``.

    Parameters
    ----------
    dut : cocotb's handle of the top
    events : names of the events, in the plan's order
    flit_bytes : bytes of a beat of the memories
    describe : called when nothing moves any more; says who is stuck, and in which step
    record : file that takes down every run, so that the same work can be repeated without Python

    Attributes
    ----------
    dut : the handle; ``shell.dut.<port>`` is a port of the component
    wakes : how often Python was woken
    """

    def __init__(
        self,
        dut: Any,
        *,
        events: Sequence[str] = (),
        flit_bytes: int = 16,
        describe: Callable[[], str] | None = None,
        record: Path | None = None,
    ) -> None:
        self.dut = dut
        self.wakes = 0
        self._events = tuple(events)
        self._flit_bytes = flit_bytes
        self._describe = describe
        self._record = None if record is None else record.open("w")
        self._files = 0
        self._started = False

    async def reset(
        self,
        *,
        watchdog_limit: int = 100_000,
        read_rate: Fraction = _ONE,
        write_rate: Fraction = _ONE,
    ) -> None:
        """Reset the component; the next cycle is number 1. The memories keep what they hold.

        Parameters
        ----------
        watchdog_limit : cycles without progress after which a run is given up; 0 for never
        read_rate, write_rate : beats per cycle of every memory, exact, above 0 and at most 1, with
            a denominator below 2**16

        Raises
        ------
        ValueError
            for another rate.
        """
        rates = {"read": read_rate, "write": write_rate}
        for name, rate in rates.items():
            if not 0 < rate <= 1 or rate.denominator >= 1 << 16:
                raise ValueError(
                    f"{name}_rate must be above 0 and at most 1, with a denominator below 65536, "
                    f"not {rate}"
                )
        if not self._started:
            await Timer(1, "ps")
            self._started = True
        self.write("watchdog_limit", watchdog_limit)
        self.write("event_enable", (1 << max(1, len(self._events))) - 1)
        for name, rate in rates.items():
            self.write(f"memory_{name}_gain", rate.numerator)
            self.write(f"memory_{name}_cost", rate.denominator)
        self.write("reset_request", 1)
        await self._go()
        self.write("reset_request", 0)

    async def run(self, *, until: int | None = None) -> Wake:
        """Run to the next event, or to cycle ``until`` if that comes first.

        A cycle that has passed already lets one cycle go by. An event that stays high stops the
        clock in every cycle, so what raised it is to be answered before the next run.

        Raises
        ------
        StuckError
            where the watchdog stopped it; the message says for how long nothing has moved, and what
            ``describe`` says.
        """
        self.write("wake_at", _NEVER if until is None else until)
        reason = await self._go()
        cycle = self.cycle
        if reason & 2:
            limit = int(self.dut.watchdog_limit.value)
            what = f": {self._describe()}" if self._describe else ""
            raise StuckError(f"nothing moved for {limit} cycles up to cycle {cycle}{what}")
        events = tuple(
            event for number, event in enumerate(self._events) if reason >> (3 + number) & 1
        )
        return Wake(cycle=cycle, timer=bool(reason & 1), events=events)

    @property
    def cycle(self) -> int:
        """Cycles since reset."""
        return int(self.dut.cycle.value)

    def write(self, signal: str, value: int) -> None:
        """Write a signal of the top: it holds from the present cycle on, in which the clock stands,
        so the edge that begins the next cycle takes it."""
        getattr(self.dut, signal).value = value
        if self._record is not None:
            self._record.write(f"write {signal} {value:x}\n")

    async def _go(self) -> int:
        stopped = ValueChange(self.dut.stopped)
        self._flip("go")
        await stopped
        self.wakes += 1
        return int(self.dut.reason.value)

    def _flip(self, signal: str) -> None:
        handle = getattr(self.dut, signal)
        handle.value = int(handle.value) ^ 1
        if self._record is not None:
            self._record.write(f"flip {signal} -\n")
            self._record.flush()

    def _record_file(self, name: str) -> None:
        """Keep a copy of a file that the simulation is about to read, for the recorded run."""
        if self._record is None:
            return
        kept = Path(self._record.name).resolve().with_name(f"recorded_{self._files}.hex")
        self._files += 1
        shutil.copyfile(name, kept)
        self._record.write(f"file {kept.name} {name}\n")

    async def load(self, memories: Sequence[int], contents: Sequence[NDArray[np.uint8]]) -> None:
        """Fill memories from their first beat on.

        Parameters
        ----------
        memories : numbers of the memories
        contents : bytes of each, all of one length, a multiple of the flit
        """
        await self.load_at(0, memories, contents)

    async def load_at(
        self, first: int, memories: Sequence[int], contents: Sequence[NDArray[np.uint8]]
    ) -> None:
        """Fill memories from beat ``first`` on (see :meth:`load`)."""
        sizes = {content.size for content in contents}
        if len(sizes) != 1 or next(iter(sizes)) % self._flit_bytes:
            raise ValueError(
                f"contents must have one length, a multiple of {self._flit_bytes} bytes, "
                f"not {sorted(sizes)!r}"
            )
        for memory, content in zip(memories, contents, strict=True):
            words = content.reshape(-1, self._flit_bytes)[:, ::-1]
            text = words.tobytes().hex("\n", -self._flit_bytes)
            Path(f"memory_{memory}.hex").write_text(text + "\n")
            self._record_file(f"memory_{memory}.hex")
        await self._transfer("memory_load", first, sizes.pop() // self._flit_bytes, memories)

    async def dump(
        self, memories: Sequence[int], *, first: int, beats: int
    ) -> list[NDArray[np.uint8]]:
        """Contents of ``beats`` beats from ``first`` on, as bytes, of each of the memories."""
        await self._transfer("memory_dump", first, beats, memories)
        contents = []
        for memory in memories:
            lines = Path(f"memory_{memory}.hex").read_bytes().split(b"\n")
            digits = b"".join(line for line in lines if not line.startswith(b"//"))
            words = np.frombuffer(bytes.fromhex(digits.decode()), dtype=np.uint8)
            contents.append(words.reshape(-1, self._flit_bytes)[:, ::-1].reshape(-1).copy())
        return contents

    async def _transfer(self, signal: str, first: int, beats: int, memories: Sequence[int]) -> None:
        self.write("memory_first", first)
        self.write("memory_last", first + beats - 1)
        self.write("memory_chosen", sum(1 << memory for memory in memories))
        await Timer(1, "ps")
        self._flip(signal)
        await Timer(1, "ps")
