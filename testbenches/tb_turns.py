"""Whose turn it is: in the same cycle, kept while it is not taken, and not for ever another's."""

import cocotb

from sw_model.endpoint.class_turns import ClassTurns
from testbenches import parameters, random_generator
from testbenches.bench import Bench, Part


class _Askers(Part):
    """Those that ask go on until they are served; ``plan`` says when one begins to.

    Parameters
    ----------
    plan : (cycle, who asks already) to who begins to ask
    offers, takes : whether what is asked for is offered, and taken if so, in a cycle

    Attributes
    ----------
    served : numbers, in order
    turns : what ``turn`` was in every cycle
    """

    def __init__(self, dut, plan, *, offers=lambda cycle: True, takes=lambda cycle: True):
        self.dut = dut
        self.plan = plan
        self.offers = offers
        self.takes = takes
        self.asks = set()
        self.served = []
        self.turns = []
        bound = parameters()["bound"]
        self.model = ClassTurns(1 << 60 if bound is None else bound)
        self.kept = None
        self.waits = {}

    def drive(self, cycle):
        self.asks |= set(self.plan(cycle, self.asks))
        offered = bool(self.asks) and self.offers(cycle)
        self.offered, self.taken = offered, offered and self.takes(cycle)
        self.dut.asks.value = sum(1 << number for number in self.asks)
        self.dut.offered.value = int(self.offered)
        self.dut.taken.value = int(self.taken)

    def sample(self, cycle):
        turn = int(self.dut.turn.value)
        self.turns.append(turn)
        if not self.asks:
            assert turn == 0, cycle
            return
        expected = self.model.choose(self.asks) if self.kept is None else self.kept
        assert turn == 1 << expected, (cycle, self.asks, turn)
        self.kept = expected if self.offered and not self.taken else None
        if self.taken:
            self.model.begin(expected, 1, self.asks)
            self.asks.remove(expected)
            self.served.append(expected)
            for other in self.asks:
                self.waits[other] = self.waits.get(other, 0) + 1
                self._check_bound(other)
            self.waits[expected] = 0

    def _check_bound(self, number):
        told = parameters()
        if told["bound"] is not None:
            assert self.waits[number] <= told["bound"] + told["askers"] - 1


@cocotb.test()
async def one_that_asks_has_its_turn_at_once(dut):
    """In the same cycle, and nobody where nobody asks; the lowest of several."""
    askers = parameters()["askers"]
    bench = Bench(dut)
    begins = {2: [askers - 1], 5: range(askers)}
    part = bench.add(_Askers(dut, lambda cycle, _: begins.get(cycle, ())))
    await bench.reset()
    await bench.step(8 + askers)
    expected = [0, 0, 1 << (askers - 1), 0, 0, *(1 << n for n in range(askers)), 0, 0, 0]
    assert part.turns == expected


@cocotb.test()
async def all_ask_in_every_cycle(dut):
    """One is served in every cycle: the lowest, until ``bound`` have passed the others, which come
    in turn; one of them has been passed by those of the others since (docs/links.md)."""
    told = parameters()
    askers, bound = told["askers"], told["bound"]
    bench = Bench(dut)
    part = bench.add(_Askers(dut, lambda *_: range(askers)))
    await bench.reset()
    await bench.step(100)
    others = list(range(1, askers))
    if bound is None or not others:
        expected = [0] * 100
    else:
        assert bound >= len(others)
        again = [0] * (bound - len(others) + 1) + others
        expected = [0] * bound + others + again * 100
    assert part.served == expected[:100]


@cocotb.test()
async def an_offer_keeps_its_turn(dut):
    """What was offered and not taken stays, whoever comes; what was not offered does not."""
    last = parameters()["askers"] - 1
    bench = Bench(dut)
    again = 8 + last  # all have been served before
    begins = {0: [last], 2: range(last), again: [last], again + 2: range(last)}
    part = bench.add(
        _Askers(
            dut,
            lambda cycle, _: begins.get(cycle, ()),
            offers=lambda cycle: not again <= cycle <= again + 4,
            takes=lambda cycle: cycle > 4,
        )
    )
    await bench.reset()
    await bench.step(again + 8 + last)
    lower = list(range(last))
    assert part.turns[:6] == [1 << last] * 6
    assert part.turns[again + 2] == 1  # the lowest: itself, where there is one only
    assert part.served == [last, *lower, *lower, last]


@cocotb.test()
async def random_askers(dut):
    """Askers, offers and what takes them pause at random."""
    told = parameters()
    generator = random_generator("turns")
    bench = Bench(dut)

    def begin(cycle, asks):
        eager = 0.9 if cycle // 500 % 2 else 0.3
        return [n for n in range(told["askers"]) if generator.random() < eager]

    part = bench.add(
        _Askers(
            dut,
            begin,
            offers=lambda _: generator.random() < 0.8,
            takes=lambda _: generator.random() < 0.7,
        )
    )
    await bench.reset()
    await bench.step(3000)
    assert set(part.served) == set(range(told["askers"]))
