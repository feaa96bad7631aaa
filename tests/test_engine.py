"""The event kernel."""

import re

import pytest

from sw_model.engine import EventKernel


def test_events_run_in_order_of_time_and_then_of_scheduling():
    kernel, seen = EventKernel(), []
    for time, name in ((5, "c"), (2, "a"), (5, "d"), (3, "b")):
        kernel.at(time, seen.append, (time, name))
    kernel.run()
    assert seen == [(2, "a"), (3, "b"), (5, "c"), (5, "d")]
    assert kernel.now == 5
    assert kernel.cycles == 3


def test_an_event_may_add_events_to_its_own_cycle():
    kernel, seen = EventKernel(), []

    def first(_):
        seen.append("first")
        kernel.at(kernel.now, seen.append, "added")

    kernel.at(1, first)
    kernel.at(1, seen.append, "second")
    kernel.run()
    assert seen == ["first", "second", "added"]
    assert kernel.now == 1


def test_decisions_see_all_events_of_their_cycle():
    kernel, seen = EventKernel(), []
    kernel.decide(4, seen.append, "decision")
    kernel.at(4, seen.append, "event")
    kernel.run()
    assert seen == ["event", "decision"]


def test_events_of_a_decision_run_before_the_next_decisions():
    kernel, seen = EventKernel(), []

    def decision(_):
        seen.append("decision")
        kernel.decide(kernel.now, seen.append, "later decision")
        kernel.at(kernel.now, seen.append, "event")

    kernel.decide(4, decision)
    kernel.run()
    assert seen == ["decision", "event", "later decision"]


def test_run_stops_at_until_and_goes_on_from_there():
    kernel, seen = EventKernel(), []
    kernel.at(3, seen.append, "at 3")
    kernel.after(7, seen.append, "at 7")
    kernel.run(until=5)
    assert seen == ["at 3"]
    assert kernel.now == 5
    assert not kernel.idle
    kernel.after(2, seen.append, "at 7 too")
    kernel.run(until=7)
    assert seen == ["at 3", "at 7", "at 7 too"]
    assert kernel.idle
    kernel.run(until=9)
    assert kernel.now == 9


def test_halt_ends_the_run_with_its_cycle():
    kernel, seen = EventKernel(), []
    kernel.at(2, lambda _: kernel.halt())
    kernel.at(2, seen.append, "same cycle")
    kernel.at(3, seen.append, "next cycle")
    kernel.run(until=10)
    assert (kernel.now, seen) == (2, ["same cycle"])
    kernel.run()
    assert (kernel.now, seen) == (3, ["same cycle", "next cycle"])


@pytest.mark.parametrize("schedule", ["at", "decide"])
def test_the_past_is_refused(schedule):
    kernel = EventKernel()
    kernel.run(until=10)
    with pytest.raises(ValueError, match=r"^delay must be at least 0, not -1$"):
        getattr(kernel, schedule)(9, print)


def test_a_negative_delay_is_refused():
    with pytest.raises(ValueError, match=r"^delay must be at least 0, not -3$"):
        EventKernel().after(-3, print)


def test_until_must_not_lie_in_the_past():
    kernel = EventKernel()
    kernel.run(until=10)
    with pytest.raises(ValueError, match=re.escape("until must be at least 10, not 9")):
        kernel.run(until=9)
