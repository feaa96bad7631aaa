"""Entries written by words into a real configuration memory.

Parameters: ``ports``, ``middle_copies``, ``entries``.
"""

from __future__ import annotations

from typing import Any

import cocotb

from rtl.fred.configuration import Refusal, entry_layout
from rtl.fred.host_port import word_layout
from sw_model.fred.table import HOST_WORD_BITS, entry_image, entry_words
from testbenches import parameters, random_generator
from testbenches.bench import Bench
from testbenches.fred_flows import routed
from testbenches.streams import StreamSource

_GIVEN = parameters()
PORTS, COPIES = _GIVEN.get("ports", 2), _GIVEN.get("middle_copies", 2)
ENTRIES = _GIVEN.get("entries", 1)


@cocotb.test()
async def what_is_written_is_loaded_checked_and_read_back(dut: Any) -> None:
    """Modes as the model packs them; every verdict; the next write exactly 4 cycles after."""
    layout = entry_layout(PORTS, COPIES)
    words = word_layout(-(-layout.size // HOST_WORD_BITS))
    bench = Bench(dut)
    source = bench.add(StreamSource(dut, "write"))
    dut.idle.value = 0
    dut.index.value = 0
    await bench.reset()

    async def load(image_words: tuple[int, ...], index: int) -> Refusal:
        at = words["word"].offset
        for number, value in enumerate(image_words):
            source.send([number << words["number"].offset | value << at])
        source.send([1 | index << at, 0])
        done = int(dut.committed.value) + 1
        await bench.until(
            lambda: int(dut.committed.value) == done and source.idle, limit=100, stuck="a commit"
        )
        assert source.cycles[-1] - source.cycles[-2] == 4
        return Refusal(int(dut.result.value))

    found = routed(random_generator("entries"), PORTS, COPIES, ENTRIES)
    for index, configuration in enumerate(found):
        assert await load(entry_words(configuration), index) is Refusal.NONE
    for index, configuration in enumerate(found):
        dut.index.value = index
        await bench.step(2)
        assert int(dut.modes.value) == entry_image(configuration) >> layout["modes"].offset
    good = entry_words(found[0])
    assert await load(good, ENTRIES) is Refusal.INDEX
    assert await load(good, 0) is Refusal.BUSY
    dut.idle.value = 1
    assert await load(good, 0) is Refusal.NONE
    # All ones: modes that no switch has; nothing but modes: a flow without ports.
    assert await load((0xFFFFFFFF,) * len(good), 0) is Refusal.MODE
    assert await load((1, *(0,) * (len(good) - 1)), 0) is Refusal.FLOW
