"""Packets that are interrupted, counted from the flits of a link; who counts as overtaken; when the
flits of a collective may be on a link."""

import pytest

from sim_top.cosim.interruptions import RunningPackets
from sim_top.cosim.verify import moving_from
from sw_model.collective.plan import Collective, Operation
from sw_model.endpoint.class_turns import ClassTurns
from sw_model.fabric.preemption import by_class


@pytest.mark.parametrize(
    ("flits", "interrupted"),
    [
        ("Aaa Bbb", {}),
        ("Bbb Aaa Bbb", {}),  # between packets
        ("Bb Aaa b", {(1, 0): 1}),
        ("Bb Aa b Aa b", {(1, 0): 1}),  # twice, but one packet
        ("Bb Aa b Bb Aa b", {(1, 0): 2}),
        ("B A b a", {(1, 0): 1, (0, 1): 1}),
        ("Cc Bb Aa b c", {(2, 1): 1, (2, 0): 1, (1, 0): 1}),
    ],
)
def test_packets_with_flits_of_others_between_their_own(flits, interrupted) -> None:
    """A letter is a flit of a class, a capital one a header."""
    link = RunningPackets(3)
    for flit in flits.replace(" ", ""):
        link.flit("abc".index(flit.lower()), header=flit.isupper())
    assert dict(link.interrupted) == interrupted


def test_packets_of_a_class_are_overtaken_once_by_each_higher_one() -> None:
    turns = ClassTurns()
    for lane, waiting in [(0, (0, 2)), (0, (0, 2)), (1, (1, 2)), (2, (0, 2)), (0, (0, 2))]:
        turns.begin(lane, 1, waiting)
    # Its first packet by both, its second by the first class; the lower passing is not counted.
    assert dict(turns.overtaken) == {(2, 0): 2, (2, 1): 1}


def test_numbers_by_class() -> None:
    assert by_class(("mp", "pp", "dp"), {(2, 0): 7, (0, 2): 5}) == {
        "pp": {"mp": 0},
        "dp": {"mp": 7, "pp": 0},
    }


def test_what_is_sent_moves_when_the_sender_enters() -> None:
    send = Collective(
        Operation.SEND, 8, groups=((0, 2),), root=0, target=1, traffic_class="pp", name="sent"
    )
    entered, left = {0: 50, 1: 10, 2: 20}, {0: 80, 1: 15, 2: 90}
    assert moving_from(send, entered, left) == {0: 50, 1: 15, 2: 50}
    reduce = Collective(Operation.ALL_REDUCE, 8, groups=((0, 2),))
    assert moving_from(reduce, entered, left) == {0: 50, 1: 15, 2: 20}
