"""The rate gate and the link's timing constants, against brute force."""

import random
import re
from fractions import Fraction

import pytest

from sw_model.endpoint.link import LINK_TIMING, RateGate, minimum_credits

RATES = [
    Fraction(1),
    Fraction(3, 4),
    Fraction(2, 3),
    Fraction(1, 3),
    Fraction(5, 7),
    Fraction(1, 64),
]


class BruteGate:
    """The accumulator, cycle by cycle."""

    def __init__(self, rate):
        self.gain, self.cost = rate.numerator, rate.denominator
        self.most = self.gain + self.cost - 1
        self.cycle, self.saved = 0, self.most

    def tick(self, leaves):
        assert not leaves or self.saved >= self.cost
        self.saved = min(self.most, self.saved - leaves * self.cost + self.gain)
        self.cycle += 1

    def depart(self, ready):
        while self.cycle < ready or self.saved < self.cost:
            self.tick(False)
        leaves = self.cycle
        self.tick(True)
        return leaves


@pytest.mark.parametrize("rate", RATES, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_random_demand_against_brute_force(rate, seed):
    generator = random.Random(seed)
    gate, brute = RateGate(rate), BruteGate(rate)
    ready = 0
    for _ in range(300):
        ready += generator.choice((0, 0, 1, 2, 5, 40, 200))
        count = generator.choice((1, 1, 2, 3, 10, 30))
        expected = [brute.depart(ready) for _ in range(count)]
        assert [gate.departure(ready, k) for k in range(count)] == expected
        assert gate.earliest <= expected[0]
        assert gate.depart_many(ready, count) == (expected[0], expected[-1])


@pytest.mark.parametrize("rate", RATES, ids=str)
def test_after_idling_the_kth_more_takes_floor_k_over_rate(rate):
    gate = RateGate(rate)
    first = gate.depart(1000)
    assert first == 1000
    assert [gate.depart(0) - first for _ in range(100)] == [
        (k * rate.denominator) // rate.numerator for k in range(1, 101)
    ]


def test_long_messages_take_constant_time():
    gate = RateGate(Fraction(5, 7))
    assert gate.depart_many(0, 10**15 + 1) == (0, 10**15 * 7 // 5)


@pytest.mark.parametrize("rate", [0, Fraction(-1, 2), Fraction(3, 2), 0.5])
def test_wrong_rate(rate):
    message = f"rate must be a Fraction above 0 and at most 1, not {rate!r}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        RateGate(rate)


def test_wrong_count():
    with pytest.raises(ValueError, match=r"^count must be at least 1, not 0$"):
        RateGate(Fraction(1)).depart_many(0, 0)


def test_constants():
    assert LINK_TIMING.flit(25) == 27
    assert LINK_TIMING.grant(25) == 26
    assert LINK_TIMING.round_trip(25) == 54
    assert minimum_credits(Fraction(2, 3), 25) == 36
    assert minimum_credits(Fraction(5, 7), 25) == 39
