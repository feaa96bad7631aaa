"""rtl.link: wire, transmitter, receiver and delay on their own."""

import re
from fractions import Fraction

import pytest
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.common.packet import flit_layout
from rtl.link.delay import LinkDelay
from rtl.link.receiver import LinkReceiver
from rtl.link.transmitter import LinkTransmitter
from rtl.link.wire import LinkWire
from sim_top.simulator import simulate

FLITS = stream.Signature(flit_layout(16))


def refuses(message):
    return pytest.raises(ValueError, match=f"^{re.escape(message)}$")


def run(component, part, simulator="icarus", **parameters):
    simulate(
        component,
        testbench="testbenches.tb_link_ends",
        simulator=simulator,
        parameters={"part": part} | parameters,
    )


def test_signatures():
    wire = LinkWire(16)
    assert dict(wire.members) == {
        "valid": Out(1),
        "flit": Out(flit_layout(16)),
        "credit": In(1),
        "grant": In(1),
    }
    assert wire == LinkWire(16)
    assert wire != LinkWire(32)
    assert hash(wire) == hash(LinkWire(16))
    assert repr(wire) == "LinkWire(16)"
    transmitter = LinkTransmitter(flit_bytes=16, credits=4, rate=Fraction(2, 3))
    assert transmitter.signature == wiring.Signature(
        {"i": In(FLITS), "o": Out(wire), "granted": Out(1), "sent": Out(32), "starved": Out(32)}
    )
    assert LinkReceiver(flit_bytes=16, depth=4).signature == wiring.Signature(
        {"i": In(wire), "o": Out(FLITS), "grant": In(1), "overrun": Out(1)}
    )
    assert LinkDelay(flit_bytes=16, latency=4).signature == wiring.Signature(
        {"i": In(wire), "o": Out(wire)}
    )


def test_wrong_parameters():
    with refuses("credits must be a positive integer, not 0"):
        LinkTransmitter(flit_bytes=16, credits=0, rate=Fraction(1))
    with refuses("rate must be a Fraction above 0 and at most 1, not 1.0"):
        LinkTransmitter(flit_bytes=16, credits=1, rate=1.0)
    with refuses("depth must be a positive integer, not 0"):
        LinkReceiver(flit_bytes=16, depth=0)
    with refuses("latency must be a positive integer, not 0"):
        LinkDelay(flit_bytes=16, latency=0)
    with refuses("flit_bytes must be a power of two of at least 16, not 8"):
        LinkWire(8)


def test_transmitter():
    run(LinkTransmitter(flit_bytes=16, credits=3, rate=Fraction(1)), "transmitter", credits=3)


def test_receiver():
    run(LinkReceiver(flit_bytes=16, depth=3), "receiver", credits=3)


@pytest.mark.parametrize("latency", [1, 2, 3, 4, 25])
def test_delay(latency):
    run(LinkDelay(flit_bytes=16, latency=latency), "delay", latency=latency)


@pytest.mark.full
@pytest.mark.parametrize("latency", [5, 8, 9, 90, 500])
def test_delay_matrix(latency):
    run(LinkDelay(flit_bytes=16, latency=latency), "delay", latency=latency)


@pytest.mark.full
@pytest.mark.parametrize("latency", [1, 2, 5])
def test_verilator(latency):
    run(LinkDelay(flit_bytes=16, latency=latency), "delay", "verilator", latency=latency)
