"""The memory's read port in the transaction-level model: of one class in closed form, of several
burst by burst. The RTL's arbiter is compared in its bench, whole engines in test_ace_classes."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from sw_model.endpoint.read_port import OwnReadPort
from sw_model.endpoint.shared_read import LaneReadPort, SharedRead
from sw_model.engine import EventKernel

BURST, WINDOW = 16, 128


class _Dma:
    """Loads one behind the other, as TX DMA makes them, each not before a given cycle."""

    def __init__(self, kernel, port, loads):
        self.kernel, self.port, self.loads = kernel, port, list(loads)
        self.over, self.ended = [], []
        self._next()

    def _next(self):
        if self.loads:
            self.kernel.decide(max(self.loads[0][0], self.kernel.now + 1), self._begin)

    def _begin(self, _):
        _, beats, late = self.loads.pop(0)
        self.port.load(beats, self._end, len(self.over), late, self._over)

    def _over(self, _):
        self.over.append(self.kernel.now)
        self._next()

    def _end(self, number):
        assert number == len(self.ended)
        self.ended.append(self.kernel.now)


@pytest.mark.parametrize(
    ("rate", "latency"),
    [(Fraction(1), 64), (Fraction(3, 4), 64), (Fraction(2, 5), 100), (Fraction(1), 300)],
)
def test_a_class_alone_reads_as_if_there_were_no_others(rate, latency):
    """Burst by burst as in closed form, with loads that end late, and with idle times."""
    for seed in range(20):
        rng = random.Random(seed)
        loads, cycle = [], 0
        for _ in range(30):
            cycle += rng.choice((0, 0, 0, 5, 400))
            # Where the window does not cover the latency, the closed form counts whole bursts.
            sizes = (1, 16, 17, 60, 252) if latency < 200 else (16, 64, 256)
            loads.append((cycle, rng.choice(sizes), latency < 200 and rng.random() < 0.2))
        outcomes = []
        for alone in (True, False):
            kernel = EventKernel()
            reading = (kernel, latency, BURST, WINDOW, rate)
            port = OwnReadPort(*reading) if alone else LaneReadPort(SharedRead(*reading), 1)
            dma = _Dma(kernel, port, loads)
            kernel.run()
            outcomes.append(dma.ended)
        assert outcomes[0] == outcomes[1], seed
        assert len(outcomes[0]) == len(loads)


def test_descriptors_go_first():
    """In front of all payload that is not yet requested, and one class a cycle behind the other."""
    kernel = EventKernel()
    shared = SharedRead(kernel, 64, BURST, WINDOW, Fraction(1))
    ports = [LaneReadPort(shared, lane) for lane in range(2)]
    found: list[list[int]] = []
    for port in ports:
        kernel.at(11, lambda _, port=port: port.fetch(4, 2, found.append))
    dma = _Dma(kernel, ports[0], [(10, 2 * BURST, False)])
    kernel.run()
    assert found == [[92, 94, 96, 98], [100, 102, 104, 106]]
    assert dma.over == [13]  # bursts in 10 and 13; descriptors in 11 and 12
    assert dma.ended == [10 + 64 + 16 + 8 + 8 + 16]


def test_descriptors_of_the_higher_class_go_first():
    """They ask again in the cycle after each of their requests, and win it again; the lower class
    has one for every sixteen that pass it."""
    kernel = EventKernel()
    shared = SharedRead(kernel, 64, BURST, WINDOW, Fraction(1))
    asked: list[list[int]] = [[], []]

    def fetch(lane: int, count: int) -> None:
        def requested(_):
            asked[lane].append(kernel.now)
            if len(asked[lane]) < count:
                kernel.at(kernel.now + 1, lambda _: fetch(lane, count))

        LaneReadPort(shared, lane).fetch(4, 2, requested)

    kernel.at(10, lambda _: fetch(1, 5))
    kernel.at(11, lambda _: fetch(0, 40))
    kernel.run()
    # 10: the lower alone; 11 to 26, 28 to 43, 45 to 52: the higher; between them the lower.
    assert asked[1] == [10, 27, 44, 53, 54]
    assert asked[0] == [c for c in range(11, 53) if c not in (27, 44)]


def test_the_higher_class_has_memory():
    """Both always ask: what the lower one has under way is the window, then it gets a burst for
    every sixteen of the other; memory is never idle."""
    kernel = EventKernel()
    latency, bursts = 64, 170
    shared = SharedRead(kernel, latency, BURST, WINDOW, Fraction(1))
    lower = _Dma(kernel, LaneReadPort(shared, 1), [(0, BURST, False)] * 2 * bursts)
    higher = _Dma(kernel, LaneReadPort(shared, 0), [(500, BURST, False)] * bursts)
    kernel.run()
    began = higher.over[0]
    before = sum(cycle <= began for cycle in lower.over)
    beside = sum(began < cycle <= higher.over[-1] for cycle in lower.over)
    assert beside in (bursts // 16, (bursts - 1) // 16)
    end = 1 + latency + BURST * (before + beside + bursts)
    assert higher.ended[-1] == end
    assert lower.ended[-1] == 1 + latency + 3 * BURST * bursts
    assert higher.ended[0] - began <= WINDOW + BURST
