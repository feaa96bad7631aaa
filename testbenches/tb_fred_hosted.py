"""Entries written by words into a real configuration memory.

Parameters: ``ports``, ``middle_copies``, ``entries``.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import cocotb

from rtl.fred.configuration import Refusal, entry_layout
from rtl.fred.host_port import word_layout
from sw_model.fred.modes import Kind, edge_side_bits
from sw_model.fred.table import HOST_WORD_BITS, entry_image, entry_words
from testbenches import parameters, random_generator
from testbenches.bench import Bench
from testbenches.fred_flows import routed
from testbenches.streams import StreamSource

_GIVEN = parameters()
PORTS, COPIES = _GIVEN.get("ports", 2), _GIVEN.get("middle_copies", 2)
ENTRIES = _GIVEN.get("entries", 1)


LAYOUT = entry_layout(PORTS, COPIES)


class Host:
    """Writes entries by words."""

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        self.bench = Bench(dut)
        self.source = self.bench.add(StreamSource(dut, "write"))
        self.words = word_layout(-(-LAYOUT.size // HOST_WORD_BITS))

    async def start(self, *, idle: int) -> None:
        """Reset; whether the switch around the memory is idle."""
        self.dut.idle.value = idle
        self.dut.index.value = 0
        await self.bench.reset()

    async def load(self, image_words: tuple[int, ...], index: int) -> Refusal:
        """Write an entry and commit it; what the memory says of it."""
        source, at = self.source, self.words["word"].offset
        for number, value in enumerate(image_words):
            source.send([number << self.words["number"].offset | value << at])
        source.send([1 | index << at, 0])
        done = int(self.dut.committed.value) + 1 & 0xFFFF
        await self.bench.until(
            lambda: int(self.dut.committed.value) == done and source.idle,
            limit=100,
            stuck="a commit",
        )
        assert source.cycles[-1] - source.cycles[-2] == 4
        return Refusal(int(self.dut.result.value))


@cocotb.test()
async def what_is_written_is_loaded_checked_and_read_back(dut: Any) -> None:
    """Modes as the model packs them; every verdict; the next write exactly 4 cycles after."""
    host = Host(dut)
    await host.start(idle=0)
    found = routed(random_generator("entries"), PORTS, COPIES, ENTRIES)
    for index, configuration in enumerate(found):
        assert await host.load(entry_words(configuration), index) is Refusal.NONE
    for index, configuration in enumerate(found):
        dut.index.value = index
        await host.bench.step(2)
        assert int(dut.modes.value) == entry_image(configuration) >> LAYOUT["modes"].offset
    good = entry_words(found[0])
    assert await host.load(good, ENTRIES) is Refusal.INDEX
    assert await host.load(good, 0) is Refusal.BUSY
    dut.idle.value = 1
    assert await host.load(good, 0) is Refusal.NONE
    # All ones: modes that no switch has; nothing but modes: a flow without ports.
    assert await host.load((0xFFFFFFFF,) * len(good), 0) is Refusal.MODE
    assert await host.load((1, *(0,) * (len(good) - 1)), 0) is Refusal.FLOW


@cocotb.test()
async def a_code_that_is_no_mode_of_its_micro_switch_is_refused(dut: Any) -> None:
    """Every code of every R, D, RD, demultiplexer and multiplexer, one at a time.

    A side of an edge switch has the codes of m ways and of none; where m + 1 is a power of two no
    other code is left, and all are legal. The centre always has four that are none.
    """
    host = Host(dut)
    await host.start(idle=1)
    configuration = routed(random_generator("entries"), PORTS, COPIES, 1)[0]
    good, shift = entry_image(configuration), LAYOUT["modes"].offset
    illegal: Counter[Kind] = Counter()
    switches = configuration.construction.switches
    for switch in switches:
        centre = switch.kind is Kind.REDUCE_DISTRIBUTE
        bits = 4 if centre else edge_side_bits(COPIES)
        legal = range(12 if centre else COPIES + 1)
        for _ in range(1 if centre else switch.kind.sides):
            for code in range(1 << bits):
                image = good & ~(((1 << bits) - 1) << shift) | code << shift
                words = tuple(
                    image >> HOST_WORD_BITS * k & ((1 << HOST_WORD_BITS) - 1)
                    for k in range(-(-LAYOUT.size // HOST_WORD_BITS))
                )
                verdict = Refusal.NONE if code in legal else Refusal.MODE
                assert await host.load(words, 0) is verdict, f"{switch}: {code}"
                illegal[switch.kind] += code not in legal
            shift += bits
    assert shift == LAYOUT.size
    full = 1 << edge_side_bits(COPIES) == COPIES + 1
    for kind in {switch.kind for switch in switches}:
        assert (illegal[kind] == 0) is (full and kind is not Kind.REDUCE_DISTRIBUTE)
