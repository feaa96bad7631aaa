"""testbenches.streams: the monitors themselves, on wires made of plain objects."""

import re
from types import SimpleNamespace

import pytest

from testbenches.streams import (
    StreamMonitor,
    StreamRuleError,
    StreamSink,
    StreamSource,
    always,
    bursty_stalls,
    never,
    random_stalls,
    stall_pattern,
)


class Unknown:
    """A value with unknown bits."""

    def __int__(self):
        raise ValueError("X")


def port(valid=0, ready=0, payload=0):
    names = {"s__valid": valid, "s__ready": ready, "s__payload": payload}
    return SimpleNamespace(**{n: SimpleNamespace(value=v) for n, v in names.items()})


def show(dut, valid, ready, payload):
    dut.s__valid.value, dut.s__ready.value, dut.s__payload.value = valid, ready, payload


def breaks(message):
    return pytest.raises(StreamRuleError, match=f"^{re.escape(message)}$")


def test_the_monitor_records_transfers():
    dut = port()
    seen = []
    monitor = StreamMonitor(dut, "s", on_transfer=lambda cycle, item: seen.append((cycle, item)))
    for cycle, wires in enumerate([(0, 1, 9), (1, 0, 5), (1, 1, 5), (1, 1, 6), (0, 0, 0)]):
        show(dut, *wires)
        monitor.sample(cycle)
    assert (monitor.items, monitor.cycles) == ([5, 6], [2, 3])
    assert seen == [(2, 5), (3, 6)]


def test_the_monitor_refuses_a_withdrawn_offer():
    dut = port(valid=1, payload=5)
    monitor = StreamMonitor(dut, "s")
    monitor.sample(7)
    show(dut, 0, 1, 5)
    with breaks("s: valid withdrawn in cycle 8"):
        monitor.sample(8)


def test_the_monitor_refuses_a_changed_payload():
    dut = port(valid=1, payload=5)
    monitor = StreamMonitor(dut, "s")
    monitor.sample(7)
    show(dut, 1, 1, 6)
    with breaks("s: payload changed from 0x5 to 0x6 while waiting in cycle 8"):
        monitor.sample(8)


@pytest.mark.parametrize("wires", [(Unknown(), 0, 0), (0, Unknown(), 0), (1, 0, Unknown())])
def test_the_monitor_refuses_unknown_bits(wires):
    with breaks("s: unknown bits in cycle 3"):
        StreamMonitor(port(*wires), "s").sample(3)


def test_after_clear_an_offer_may_have_gone():
    dut = port(valid=1, payload=5)
    monitor = StreamMonitor(dut, "s")
    monitor.sample(0)
    monitor.clear()
    show(dut, 0, 0, 0)
    monitor.sample(1)


def test_the_source_keeps_an_offer_until_it_is_taken():
    dut = port()
    source = StreamSource(dut, "s", stalls=stall_pattern([True, False, True, True], then=False))
    source.send([4, 5])
    offered = []
    for cycle, ready in enumerate([1, 0, 0, 1, 1, 1, 1]):
        source.drive(cycle)
        offered.append((dut.s__valid.value, dut.s__payload.value))
        dut.s__ready.value = ready
        source.sample(cycle)
    assert offered[:4] == [(0, 0), (1, 4), (1, 4), (1, 4)]
    assert [valid for valid, _ in offered[4:]] == [0, 0, 1]
    assert (source.offers, source.cycles, source.idle) == ([1, 6], [3, 6], True)


def test_the_sink_takes_only_while_ready():
    dut = port(valid=1, payload=8)
    sink = StreamSink(dut, "s", stalls=stall_pattern([True, False, True]))
    for cycle in range(4):
        sink.drive(cycle)
        sink.sample(cycle)
    assert (sink.items, sink.cycles) == ([8, 8], [1, 3])


def test_stalls_are_seeded():
    def first(stalls):
        return [next(stalls) for _ in range(50)]

    assert first(never()) == [False] * 50
    assert first(always()) == [True] * 50
    assert (
        first(random_stalls(1, 0.5)) == first(random_stalls(1, 0.5)) != first(random_stalls(2, 0.5))
    )
    assert first(bursty_stalls(1, 5)) == first(bursty_stalls(1, 5)) != first(bursty_stalls(2, 5))
