"""rtl.link: the composed link."""

import re
from fractions import Fraction

import pytest
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.common.packet import flit_layout
from rtl.link.link import Link, minimum_credits
from sim_top.simulator import simulate
from sw_model.endpoint import link as model

RATES = [Fraction(1), Fraction(3, 4), Fraction(2, 3), Fraction(1, 3), Fraction(5, 7)]


def run(rate, latency, credits, simulator="icarus", flit_bytes=16):
    simulate(
        Link(flit_bytes=flit_bytes, rate=rate, latency=latency, credits=credits),
        testbench="testbenches.tb_link",
        simulator=simulator,
        parameters={
            "rate": [rate.numerator, rate.denominator],
            "latency": latency,
            "credits": credits,
            "flit_bits": 8 * flit_bytes + 2,
        },
    )


def test_signature():
    link = Link(flit_bytes=16, rate=Fraction(2, 3), latency=4)
    assert link.signature == wiring.Signature(
        {
            "i": In(stream.Signature(flit_layout(16))),
            "o": Out(stream.Signature(flit_layout(16))),
            "grant": In(1),
            "granted": Out(1),
            "sent": Out(32),
            "starved": Out(32),
            "overrun": Out(1),
        }
    )
    assert (link.flit_bytes, link.rate, link.latency, link.credits) == (16, Fraction(2, 3), 4, 8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"flit_bytes": 24}, "flit_bytes must be a power of two of at least 16, not 24"),
        ({"rate": 0.5}, "rate must be a Fraction above 0 and at most 1, not 0.5"),
        ({"rate": 0}, "rate must be a Fraction above 0 and at most 1, not 0"),
        (
            {"rate": Fraction(4, 3)},
            "rate must be a Fraction above 0 and at most 1, not Fraction(4, 3)",
        ),
        ({"latency": 0}, "latency must be a positive integer, not 0"),
        ({"credits": 0}, "credits must be a positive integer, not 0"),
    ],
)
def test_wrong_parameters(change, message):
    good = {"flit_bytes": 16, "rate": Fraction(1), "latency": 1, "credits": 4}
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Link(**(good | change))


def test_minimum_credits_are_those_of_the_model():
    for rate in RATES:
        for latency in (1, 2, 3, 25, 500):
            assert minimum_credits(rate=rate, latency=latency) == model.minimum_credits(
                rate, latency
            )


@pytest.mark.parametrize(
    ("rate", "latency"),
    [(RATES[0], 1), (RATES[1], 2), (RATES[2], 3), (RATES[3], 4), (RATES[4], 25)],
)
def test_enough_credits(rate, latency):
    run(rate, latency, minimum_credits(rate=rate, latency=latency))


@pytest.mark.parametrize(("rate", "latency"), [(RATES[0], 3), (RATES[2], 5)])
def test_one_credit_less(rate, latency):
    run(rate, latency, minimum_credits(rate=rate, latency=latency) - 1)


def test_one_credit():
    run(Fraction(1), 2, 1)


@pytest.mark.full
@pytest.mark.parametrize("less", [0, 1])
@pytest.mark.parametrize("latency", [1, 2, 3, 4, 7, 25, 90])
@pytest.mark.parametrize("rate", [*RATES, Fraction(1, 64), Fraction(63, 64)], ids=str)
def test_matrix(rate, latency, less):
    credits = minimum_credits(rate=rate, latency=latency) - less
    if credits:
        run(rate, latency, credits)


@pytest.mark.full
@pytest.mark.parametrize(("rate", "latency"), [(RATES[0], 1), (RATES[2], 2), (RATES[4], 25)])
def test_verilator(rate, latency):
    run(rate, latency, minimum_credits(rate=rate, latency=latency), "verilator")


@pytest.mark.full
@pytest.mark.parametrize("flit_bytes", [32, 64])
def test_wide_flits(flit_bytes):
    run(Fraction(3, 4), 5, 20, flit_bytes=flit_bytes)
