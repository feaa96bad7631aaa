"""Whole messages through a link's rate, against a cycle by cycle account."""

import random
from fractions import Fraction

import pytest

from sw_model.fabric.gate import MessageGate

AHEAD = 8


class CycleByCycle:
    """The transmitter's accumulator and the sender's pipeline, one cycle at a time."""

    def __init__(self, rate: Fraction) -> None:
        self.gain, self.cost = rate.numerator, rate.denominator
        self.most = self.gain + self.cost - 1
        self.saved, self.cycle = self.most, 0

    def message(self, ready: int, flits: int) -> list[int]:
        """Cycles in which the flits leave."""
        left: list[int] = []
        while len(left) < flits:
            if self.cycle >= ready and self.saved >= self.cost:
                self.saved -= self.cost
                left.append(self.cycle)
            self.saved = min(self.saved + self.gain, self.most)
            self.cycle += 1
        return left


@pytest.mark.parametrize("seed", range(40))
def test_messages_leave_as_flit_by_flit(seed):
    source = random.Random(seed)
    denominator = source.randint(1, 9)
    rate = Fraction(source.randint(1, denominator), denominator)
    gate, reference = MessageGate(rate, AHEAD), CycleByCycle(rate)
    ready = 0
    for _ in range(60):
        ready += source.randint(0, 30)
        flits = source.randint(1, 12)
        left = reference.message(ready, flits)
        second, last, taken = gate.message(ready, flits)
        assert gate.first == left[0]
        assert second == left[min(1, flits - 1)]
        assert last == left[-1]
        if flits > AHEAD:
            # The last flit enters the pipeline when the one AHEAD places before it has left it.
            assert taken == left[flits - 1 - AHEAD] + 1


@pytest.mark.parametrize("seed", range(20))
def test_a_message_stretched_by_its_source_leaves_room_behind_it(seed):
    source = random.Random(seed)
    rate = Fraction(source.randint(1, 5), 5)
    gate, reference = MessageGate(rate, AHEAD), CycleByCycle(rate)
    _, last, _ = gate.message(3, 4)
    reference.message(3, 4)
    late = last + source.randint(0, 20)
    gate.stretch(late)
    for _ in range(late + 1 - reference.cycle):
        reference.saved = min(reference.saved + reference.gain, reference.most)
        reference.cycle += 1
    left = reference.message(late + 1, 3)
    second, last, _ = gate.message(late + 1, 3)
    assert [gate.first, second, last] == left


def test_a_bad_rate_is_refused():
    with pytest.raises(ValueError, match=r"rate must be a Fraction above 0 and at most 1, not Fr"):
        MessageGate(Fraction(2), AHEAD)
