"""Faults in rtl.link and rtl.common.fifo that the benches must notice."""

from fractions import Fraction

import pytest

import rtl.link.link
from rtl.common.fifo import StreamFifo
from rtl.link.link import Link, minimum_credits
from sim_top.simulator import simulate
from sim_top.simulator.run import SimulationError
from tests.mutants import mutant

pytestmark = pytest.mark.full

COUNTER = "range(self._credits[c] + 1),\n                init=self._credits[c],"
STARVED = "with m.If(offered.valid & rate_open & ~funded[c] & ~taken):"
TRANSMITTER = [
    # off by one in the credit counter, both ways
    (COUNTER, "range(self._credits[c] + 2), init=self._credits[c] + 1,"),
    (COUNTER, "range(self._credits[c] + 1), init=self._credits[c] - 1,"),
    # a credit that comes while a flit leaves is lost
    ("with m.If(take[c] != self.o.credit[c]):", "with m.If(take[c] | self.o.credit[c]):"),
    # the rate loses its fraction, or is not kept
    ("most = cost + gain - 1", "most = cost"),
    ("saved >= cost)", "saved >= cost - 1)"),
    # a counter that counts idle cycles
    (STARVED, "with m.If(rate_open & ~funded[c] & ~taken):"),
]
RECEIVER = [
    ("m.d.sync += grant.eq(self.grant)", "m.d.sync += grant.eq(self.grant & ~grant)"),
    ("credit[c].eq(o.valid & o.ready)", "credit[c].eq(o.ready)"),
]
DELAY = [
    ("places = self.latency - 1", "places = self.latency"),
    ("read.en.eq(due)", "read.en.eq(0)"),
    ("return Mux(fresh, read.data, 0)", "return read.data"),
]
FIFO = [
    ("(pop & (level == 1))", "(pop & (level == 2))"),
    ("m.d.sync += came_directly.eq(direct)", "m.d.sync += came_directly.eq(1)"),
    ("Mux(push, within, without)", "Mux(push, level + 1, without)"),
    ("self.i.ready.eq(level != self.depth)", "self.i.ready.eq(level != self.depth - 1)"),
]


def run_link():
    rate, latency = Fraction(2, 3), 6
    credits = minimum_credits(rate=rate, latency=latency)
    simulate(
        Link(flit_bytes=16, rate=rate, latency=latency, credits=credits),
        testbench="testbenches.tb_link",
        parameters={"rate": [2, 3], "latency": latency, "credits": credits, "flit_bits": 130},
    )


@pytest.mark.parametrize(
    ("part", "old", "new"),
    [("transmitter", *change) for change in TRANSMITTER]
    + [("receiver", *change) for change in RECEIVER]
    + [("delay", *change) for change in DELAY],
)
def test_faults_of_the_link_are_caught(monkeypatch, part, old, new):
    name = f"Link{part.capitalize()}"
    faulty = getattr(mutant(f"rtl.link.{part}", old, new), name)
    monkeypatch.setattr(rtl.link.link, name, faulty)
    with pytest.raises(SimulationError):
        run_link()


def test_a_lost_last_is_caught(monkeypatch):
    faulty = mutant(
        "rtl.link.receiver",
        "buffer.i.payload.eq(self.i.flit),",
        "buffer.i.payload.eq(self.i.flit.as_value()[:-1]),",
    )
    monkeypatch.setattr(rtl.link.link, "LinkReceiver", faulty.LinkReceiver)
    with pytest.raises(SimulationError):
        run_link()


@pytest.mark.parametrize(("old", "new"), FIFO)
def test_faults_of_the_fifo_are_caught(old, new):
    faulty = mutant("rtl.common.fifo", old, new).StreamFifo(shape=9, depth=5)
    with pytest.raises(SimulationError):
        simulate(
            faulty,
            testbench="testbenches.tb_stream_fifo",
            parameters={"depth": 5, "width": 9},
        )


def test_without_a_fault_all_is_well():
    run_link()
    simulate(
        StreamFifo(shape=9, depth=5),
        testbench="testbenches.tb_stream_fifo",
        parameters={"depth": 5, "width": 9},
    )
