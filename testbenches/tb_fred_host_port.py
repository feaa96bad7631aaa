"""Loading entries by words: against a memory in the bench that answers when it likes.

Parameters: ``ports``, ``middle_copies``.
"""

from __future__ import annotations

from typing import Any

import cocotb

from rtl.fred.configuration import Refusal, request_layout
from rtl.fred.host_port import word_layout
from sw_model.fred.configuration import Configuration
from sw_model.fred.table import HOST_WORD_BITS, entry_image, entry_words
from testbenches import parameters, random_generator
from testbenches.bench import Bench, Part
from testbenches.fred_flows import routed
from testbenches.streams import (
    StreamMonitor,
    StreamSink,
    StreamSource,
    always,
    never,
    random_stalls,
)

_GIVEN = parameters()
PORTS, COPIES = _GIVEN.get("ports", 2), _GIVEN.get("middle_copies", 2)


class Answerer(Part):
    """Answers each request some cycles after it was taken, with the refusals given."""

    def __init__(self, dut: Any, sink: StreamSink, delay: int = 1):
        self.dut = dut
        self.sink = sink
        self.delay = delay
        self.verdicts: list[Refusal] = []
        self.answered = 0
        dut.configured.value = 0
        dut.refusal.value = 0

    def drive(self, cycle: int) -> None:
        """Answer what is due."""
        due = len(self.sink.cycles) > self.answered
        now = due and self.sink.cycles[self.answered] + self.delay <= cycle
        self.dut.configured.value = int(now)
        # Another's verdict stands there before.
        self.dut.refusal.value = self.verdicts[self.answered] if now else Refusal.BUSY
        self.answered += now


class HostBench(Bench):
    """Writes of the host, and a memory behind."""

    def __init__(self, dut: Any):
        super().__init__(dut)
        self.source = self.add(StreamSource(dut, "write"))
        self.sink = self.add(StreamSink(dut, "configure"))
        self.add(StreamMonitor(dut, "write"))
        self.requests = self.add(StreamMonitor(dut, "configure"))
        self.answers = self.add(Answerer(dut, self.sink))
        entry = request_layout(PORTS, COPIES)["entry"]
        self.layout = word_layout(-(-entry.width // HOST_WORD_BITS))

    def word(self, number: int, value: int) -> None:
        """Queue a write of a word."""
        self.source.send(
            [number << self.layout["number"].offset | value << self.layout["word"].offset]
        )

    def commit(self, index: int, verdict: Refusal = Refusal.NONE) -> None:
        """Queue a commit."""
        self.source.send([1 | index << self.layout["word"].offset])
        self.answers.verdicts.append(verdict)

    async def settled(self, commits: int) -> None:
        """Run until so many commits are done."""
        await self.until(
            lambda: int(self.dut.committed.value) == commits and self.source.idle,
            limit=2000,
            stuck=f"{commits} commits",
        )


def image(request: int) -> tuple[int, int]:
    """Index and entry of a request."""
    layout = request_layout(PORTS, COPIES)
    index = request >> layout["index"].offset & ((1 << layout["index"].width) - 1)
    return index, request >> layout["entry"].offset & ((1 << layout["entry"].width) - 1)


def configurations(count: int) -> list[Configuration]:
    """Random ones."""
    return routed(random_generator("entries"), PORTS, COPIES, count)


@cocotb.test()
async def entries_arrive_as_the_model_packs_them(dut: Any) -> None:
    """Words in any order, some of them twice; and the verdict of each comes back."""
    bench = HostBench(dut)
    generator = random_generator("order")
    await bench.reset()
    assert int(dut.result.value) == Refusal.NONE
    expected = []
    for number, configuration in enumerate(configurations(8)):
        bench.source.stalls = random_stalls(number, 0.4)
        bench.sink.stalls = random_stalls(100 + number, 0.4)
        bench.answers.delay = generator.randint(1, 5)
        words = list(enumerate(entry_words(configuration)))
        bench.word(words[0][0], generator.getrandbits(32))
        generator.shuffle(words)
        for place, value in words:
            bench.word(place, value)
        index = generator.randrange(4096)
        verdict = generator.choice(list(Refusal))
        bench.commit(index, verdict)
        await bench.settled(number + 1)
        assert int(dut.result.value) == verdict
        assert not int(dut.busy.value)
        expected.append((index, entry_image(configuration)))
    assert [image(request) for request in bench.requests.items] == expected


@cocotb.test()
async def words_keep_their_value(dut: Any) -> None:
    """A second commit needs only the words that differ."""
    bench = HostBench(dut)
    await bench.reset()
    first, second = (entry_words(c) for c in configurations(2))
    for place, value in enumerate(first):
        bench.word(place, value)
    bench.commit(1)
    for place, value in enumerate(second):
        if value != first[place]:
            bench.word(place, value)
    bench.commit(2)
    await bench.settled(2)
    assert [image(r)[0] for r in bench.requests.items] == [1, 2]
    assert image(bench.requests.items[1])[1] == sum(w << 32 * k for k, w in enumerate(second))


@cocotb.test()
async def a_write_per_cycle_and_none_while_a_commit_goes_on(dut: Any) -> None:
    """Exactly; the request waits for as long as the memory does not take it."""
    bench = HostBench(dut)
    await bench.reset()
    bench.sink.stalls = always()
    for place, value in enumerate(entry_words(configurations(1)[0])):
        bench.word(place, value)
    words = len(bench.source.queue)
    bench.commit(3)
    bench.word(0, 0)
    await bench.step(words + 20)
    assert bench.source.cycles == list(range(words + 1))
    assert int(dut.busy.value)
    bench.sink.stalls = never()
    await bench.settled(1)
    assert bench.source.cycles[-1] == bench.sink.cycles[0] + 2


@cocotb.test()
async def an_index_of_more_than_twelve_bits_is_refused(dut: Any) -> None:
    """It never gets to the memory, where it would look like another."""
    bench = HostBench(dut)
    await bench.reset()
    for index in (4096, 4097, 1 << 31):
        bench.commit(index)
    await bench.settled(3)
    assert not bench.requests.items
    assert int(dut.result.value) == Refusal.INDEX
    bench.answers.verdicts.clear()
    bench.commit(4095)
    await bench.settled(4)
    assert image(bench.requests.items[0])[0] == 4095
    assert int(dut.result.value) == Refusal.NONE


@cocotb.test()
async def reset_forgets_a_commit(dut: Any) -> None:
    """And the words."""
    bench = HostBench(dut)
    await bench.reset()
    bench.sink.stalls = always()
    bench.word(0, 0xFFFFFFFF)
    bench.commit(5)
    await bench.step(6)
    assert int(dut.busy.value)
    for part in (bench.source, bench.sink, bench.requests):
        part.clear()
    bench.answers.verdicts.clear()
    await bench.reset(cycles=1)
    await bench.step()
    assert not int(dut.busy.value)
    assert int(dut.committed.value) == 0
    bench.sink.stalls = never()
    bench.commit(6)
    await bench.settled(1)
    assert [image(request) for request in bench.requests.items] == [(6, 0)]
