"""rtl.link with virtual channels."""

import re
from fractions import Fraction

import pytest
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

import rtl.link.link
from rtl.common.packet import flit_layout
from rtl.link.delay import LinkDelay
from rtl.link.link import Link
from rtl.link.receiver import LinkReceiver
from rtl.link.transmitter import LinkTransmitter
from rtl.link.wire import LinkWire
from sim_top.simulator import simulate
from sim_top.simulator.run import SimulationError
from tests.mutants import mutant

FLITS = stream.Signature(flit_layout(16))


def run(
    credits=(14, 20, 9),
    rate=Fraction(1),
    latency=3,
    bound=3,
    simulator="icarus",
    testcase=None,
):
    simulate(
        Link(
            flit_bytes=16,
            rate=rate,
            latency=latency,
            credits=credits,
            channels=len(credits),
            starvation_bound=bound,
        ),
        testbench="testbenches.tb_link_channels",
        simulator=simulator,
        testcase=testcase,
        parameters={
            "rate": [rate.numerator, rate.denominator],
            "latency": latency,
            "credits": list(credits),
            "starvation_bound": bound,
        },
    )


def test_signatures():
    wire = LinkWire(16, 3)
    assert dict(wire.members) == {
        "valid": Out(1),
        "flit": Out(flit_layout(16)),
        "channel": Out(range(3)),
        "credit": In(3),
        "grant": In(3),
    }
    assert wire == LinkWire(16, channels=3) != LinkWire(16)
    assert hash(wire) == hash(LinkWire(16, 3))
    assert repr(wire) == "LinkWire(16, channels=3)"
    transmitter = LinkTransmitter(flit_bytes=16, credits=4, rate=Fraction(2, 3), channels=3)
    assert transmitter.signature == wiring.Signature(
        {
            "i": In(FLITS).array(3),
            "o": Out(wire),
            "granted": Out(3),
            "sent": Out(32).array(3),
            "starved": Out(32).array(3),
        }
    )
    assert transmitter.starvation_bound == 16
    assert LinkReceiver(flit_bytes=16, depth=(4, 5, 6), channels=3).signature == wiring.Signature(
        {"i": In(wire), "o": Out(FLITS).array(3), "grant": In(3), "overrun": Out(3)}
    )
    assert LinkDelay(flit_bytes=16, latency=4, channels=3).signature == wiring.Signature(
        {"i": In(wire), "o": Out(wire)}
    )
    link = Link(flit_bytes=16, rate=Fraction(1), latency=2, credits=(3, 4), channels=2)
    assert link.signature == wiring.Signature(
        {
            "i": In(FLITS).array(2),
            "o": Out(FLITS).array(2),
            "grant": In(2),
            "granted": Out(2),
            "sent": Out(32).array(2),
            "starved": Out(32).array(2),
            "overrun": Out(2),
        }
    )
    assert (link.channels, link.credits) == (2, (3, 4))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"channels": 0}, "channels must be an integer in 1..16, not 0"),
        ({"channels": 17}, "channels must be an integer in 1..16, not 17"),
        ({"channels": 2.0}, "channels must be an integer in 1..16, not 2.0"),
        (
            {"credits": (3, 4, 5)},
            "credits must be 2 positive integers, one per channel, not (3, 4, 5)",
        ),
        ({"credits": (3, 0)}, "credits must be 2 positive integers, one per channel, not (3, 0)"),
        ({"credits": 0}, "credits must be a positive integer, not 0"),
        ({"starvation_bound": 0}, "starvation_bound must be a positive integer, not 0"),
    ],
)
def test_wrong_parameters(change, message):
    good = {"flit_bytes": 16, "rate": Fraction(1), "latency": 1, "credits": 4, "channels": 2}
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Link(**(good | change))


def test_wrong_depths():
    text = "depth must be 2 positive integers, one per channel, not (1, 2, 3)"
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        LinkReceiver(flit_bytes=16, depth=(1, 2, 3), channels=2)


def test_three_channels():
    run()


def test_two_channels_at_two_thirds():
    run((9, 9), Fraction(2, 3), 4, 1)


@pytest.mark.full
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
@pytest.mark.parametrize(
    ("credits", "rate", "latency", "bound"),
    [
        ((8, 8), Fraction(1), 1, 1),
        ((12, 12, 12), Fraction(1), 3, 1),
        ((1, 30), Fraction(1), 2, 2),
        ((60, 60, 60, 4), Fraction(5, 7), 25, 16),
        ((16, 16, 16), Fraction(1, 3), 5, 4),
    ],
)
def test_matrix(credits, rate, latency, bound, simulator):
    run(credits, rate, latency, bound, simulator)


FAULTS = [
    # a packet is torn, a stalled one holds the wire, the bound is off by one or forgotten
    ("transmitter", "with m.If((able & within).any()):", "with m.If(0):"),
    ("transmitter", "with m.If((able & within).any()):", "with m.If(within.any()):"),
    ("transmitter", "passed == self.starvation_bound)", "passed == self.starvation_bound - 1)"),
    ("transmitter", "with m.Elif(due.any()):", "with m.Elif(0):"),
    ("transmitter", "Mux((due & behind).any(), due & behind, due)", "due"),
    ("transmitter", "turn.eq(candidates & -candidates)", "turn.eq(candidates)"),
    # credits and flits of one channel go to another
    ("transmitter", "m.If(take[c] != self.o.credit[c]",
     "m.If(take[c] != self.o.credit[0]"),
    ("transmitter", "m.d.sync += number.eq(c)", "m.d.sync += number.eq(0)"),
    ("receiver", "credit[c].eq(o.valid & o.ready)", "credit[0].eq(o.valid & o.ready)"),
    ("receiver", "grant.eq(self.grant)", "grant.eq(self.grant[0])"),
    ("delay", "return Cat(flit, wire.channel) if self.channels > 1 else flit", "return flit"),
]  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize(("part", "old", "new"), FAULTS)
def test_faults_are_caught(monkeypatch, part, old, new):
    name = f"Link{part.capitalize()}"
    monkeypatch.setattr(rtl.link.link, name, getattr(mutant(f"rtl.link.{part}", old, new), name))

    def both():
        run()
        run((12, 12, 12), bound=1)

    with pytest.raises(SimulationError):
        both()
