"""The simulation shell, seen from inside: when Python wakes, and what the clock does meanwhile."""

import time
from pathlib import Path

import cocotb
import numpy as np

from sim_top.shell.control import Shell, StuckError
from testbenches import parameters, seed

_FLIT = 16
_EVENTS = ("done",)


async def _start(shell: Shell, *, length: int, target: int) -> int:
    """Start a copy; the cycle that begins with the edge that takes the order."""
    shell.write("length", length)
    shell.write("target", target)
    shell.write("start", 1)
    wake = await shell.run(until=shell.cycle + 1)
    shell.write("start", 0)
    return wake.cycle


@cocotb.test()
async def copies_and_wakes_only_on_events(dut):
    """Two wakes for a whole copy, whose data and duration are exact."""
    shell = Shell(dut, events=_EVENTS)
    await shell.reset(watchdog_limit=1000)
    assert shell.cycle == 0
    generator = np.random.default_rng(seed())
    contents = generator.integers(0, 256, 4096 * _FLIT, dtype=np.uint8)
    await shell.load([0], [contents])

    before = shell.wakes
    started = await _start(shell, length=1024, target=8192)
    assert started == 1
    wake = await shell.run(until=100_000)
    assert wake.events == ("done",)
    assert not wake.timer
    assert shell.wakes == before + 2
    latency = parameters()["read_latency"] + parameters()["write_latency"]
    # The first request is accepted in cycle 1; the last of 1024 beats follows 1023 cycles behind
    # the first, is acknowledged, and `done` is high one cycle later.
    assert wake.cycle == started + 1023 + latency + 1, wake
    (copied,) = await shell.dump([0], first=8192, beats=1024)
    assert np.array_equal(copied, contents[: 1024 * _FLIT])


@cocotb.test()
async def the_clock_stands_still_between_runs(dut):
    """What takes time in Python takes no cycle."""
    shell = Shell(dut, events=_EVENTS)
    await shell.reset()
    await shell.run(until=50)
    ticks = int(dut.ticks.value)
    await shell.load([0], [np.zeros(_FLIT, np.uint8)])
    assert int(dut.ticks.value) == ticks
    wake = await shell.run(until=60)
    assert wake.timer
    assert wake.cycle == 60
    assert int(dut.ticks.value) == ticks + 10


@cocotb.test()
async def loads_and_dumps_a_range(dut):
    """A load of a range leaves the rest alone; what was loaded comes back."""
    shell = Shell(dut, events=_EVENTS)
    await shell.reset()
    await shell.load([0], [np.full(8 * _FLIT, 7, np.uint8)])
    piece = np.arange(2 * _FLIT, dtype=np.uint8)
    await shell.load_at(3, [0], [piece])
    (found,) = await shell.dump([0], first=0, beats=8)
    expected = np.full(8 * _FLIT, 7, np.uint8)
    expected[3 * _FLIT : 5 * _FLIT] = piece
    assert np.array_equal(found, expected)


@cocotb.test()
async def the_watchdog_says_what_is_stuck(dut):
    """A copy that waits longer than the limit is given up, with the description."""
    shell = Shell(dut, events=_EVENTS, describe=lambda: f"copier at {int(dut.ticks.value)}")
    await shell.reset(watchdog_limit=200)
    await _start(shell, length=16, target=0)
    shell.write("watchdog_limit", 5)  # shorter than the memory's latency
    try:
        await shell.run()
    except StuckError as error:
        text = str(error)
    else:
        raise AssertionError("the watchdog did not bite")
    assert text.startswith("nothing moved for 5 cycles up to cycle "), text
    assert ": copier at " in text, text


@cocotb.test()
async def an_access_past_the_end_is_a_fault(dut):
    """Reading past the end raises the memory's fault, and only then."""
    shell = Shell(dut, events=_EVENTS)
    await shell.reset()
    words = parameters()["words"]
    await _start(shell, length=16, target=words - 16)
    await shell.run()
    assert int(dut.memory_fault.value) == 0
    await _start(shell, length=16, target=words - 15)
    await shell.run()
    assert int(dut.memory_fault.value) == 1


@cocotb.test()
async def free_run(dut):
    """A long run wakes Python once; its speed is reported."""
    record = parameters().get("record")
    shell = Shell(dut, events=_EVENTS, record=Path(record) if record else None)
    await shell.reset(watchdog_limit=0)
    await shell.load([0], [np.arange(256 * _FLIT, dtype=np.uint32).astype(np.uint8)])
    await _start(shell, length=256, target=4096)
    await shell.run()
    cycles = parameters()["cycles"]
    shell.write("event_enable", 0)
    before = shell.wakes, shell.cycle
    begin = time.perf_counter()
    wake = await shell.run(until=shell.cycle + cycles)
    seconds = time.perf_counter() - begin
    assert (shell.wakes, wake.cycle) == (before[0] + 1, before[1] + cycles)
    dut._log.info("free run: %.0f cycles/s", cycles / seconds)
