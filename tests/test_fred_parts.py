"""The parts of the switch one by one: signatures and parameters (behaviour: test_fred_switch)."""

import re
from fractions import Fraction

import pytest
from amaranth.hdl import unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.common.packet import DataType, Operator, TrafficClass, flit_layout
from rtl.fred.configuration import (
    ConfigurationMemory,
    Refusal,
    membership_layout,
    request_layout,
)
from rtl.fred.control_path import ControlCrossbar, ControlDestination
from rtl.fred.errors import ErrorKeeper, error_layout
from rtl.fred.input_channel import InputChannel, PacketFault, packet_layout
from rtl.fred.matcher import FlowMatcher
from rtl.fred.modes import modes_layout
from rtl.fred.output_account import OutputAccount
from rtl.fred.scheduler import FlowScheduler


def refused(text):
    return pytest.raises(ValueError, match=f"^{re.escape(text)}$")


def test_input_channel():
    channel = InputChannel(ports=4, flit_bytes=16, packet_bytes=64)
    assert channel.signature == wiring.Signature(
        {
            "i": In(stream.Signature(flit_layout(16))),
            "lookup_index": Out(12),
            "membership": In(membership_layout(4)),
            "packet": Out(stream.Signature(packet_layout(4, 5))),
            "flits": Out(stream.Signature(flit_layout(16))),
            "fault": Out(PacketFault),
            "empty": Out(1),
        }
    )
    assert (channel.ports, channel.flit_bytes, channel.packet_bytes) == (4, 16, 64)


@pytest.mark.parametrize("packet_bytes", [0, 8, 72, 1 << 16, 64.0])
def test_packet_bytes_are_checked(packet_bytes):
    with refused(
        f"packet_bytes must be a multiple of flit_bytes in 16..65535, not {packet_bytes!r}"
    ):
        InputChannel(ports=4, flit_bytes=16, packet_bytes=packet_bytes)


def test_scheduler():
    scheduler = FlowScheduler(ports=2, most_flits=5, credits=9)
    bits = unsigned(2)
    assert scheduler.signature == wiring.Signature(
        {
            "packet": In(stream.Signature(packet_layout(2, 5))).array(2),
            "flit_valid": In(bits),
            "available": In(range(10)).array(2),
            "open": In(bits),
            "reserve": Out(range(10)).array(2),
            "go": Out(bits),
            "forward": Out(bits),
            "moving": Out(bits),
            "leave": Out(bits),
            "data_type": Out(3).array(2),
            "operator": Out(2).array(2),
            "configuration": Out(12),
            "started": Out(1),
            "switched": Out(1),
            "misaligned": Out(bits),
            "waiting": Out(bits),
            "missing": Out(bits),
            "idle": Out(1),
        }
    )
    with refused("ports must be an integer in 2..64, not 1"):
        FlowScheduler(ports=1, most_flits=5, credits=9)
    with refused("channels must be an integer in 1..16, not 0"):
        FlowScheduler(ports=2, most_flits=5, credits=9, channels=0)
    with refused("starvation_bound must be a positive integer, not 0"):
        FlowScheduler(ports=2, most_flits=5, credits=9, starvation_bound=0)
    several = dict(FlowScheduler(ports=2, most_flits=5, credits=9, channels=3).signature.members)
    assert several["packet"].dimensions == several["reserve"].dimensions == (6,)
    assert several["go"].shape == several["leave"].shape == unsigned(6)
    assert several["open"].shape == unsigned(2)
    assert several["idle"].shape == 3


def test_matcher():
    matcher = FlowMatcher(ports=3, most_flits=5, credits=9)
    bits = unsigned(3)
    assert matcher.signature == wiring.Signature(
        {
            "valid": In(bits),
            "packet": In(packet_layout(3, 5)).array(3),
            "take": In(bits),
            "available": In(range(10)).array(3),
            "ready": Out(bits),
            "drop": Out(bits),
            "first": Out(bits),
            "misaligned": Out(bits),
            "waiting": Out(bits),
            "missing": Out(bits),
        }
    )
    with refused("ports must be an integer in 2..64, not 65"):
        FlowMatcher(ports=65, most_flits=5, credits=9)


def test_control_path():
    good = {"ports": 3, "flit_bytes": 16, "most_flits": 4, "credits": 8, "delay": 5}
    bits = unsigned(3)
    assert ControlCrossbar(**good).signature == wiring.Signature(
        {
            "packet": In(stream.Signature(packet_layout(3, 4))).array(3),
            "flits": In(stream.Signature(flit_layout(16))).array(3),
            "credit": In(bits),
            "open": In(bits),
            "data": In(bits),
            "started": In(bits),
            "claim": Out(bits),
            "go": Out(bits),
            "slot": In(bits),
            "o": Out(data.ArrayLayout(flit_layout(16), 3)),
            "idle": Out(1),
        }
    )
    assert ControlCrossbar(**good).starvation_bound == 16
    for change, text in (
        ({"ports": 1}, "ports must be an integer in 2..64, not 1"),
        ({"credits": 0}, "credits must be a positive integer, not 0"),
        ({"delay": 1}, "delay must be an integer of at least 2, not 1"),
        ({"starvation_bound": 0}, "starvation_bound must be a positive integer, not 0"),
    ):
        with refused(text):
            ControlCrossbar(**(good | change))
    destination = ControlDestination(ports=3, port=1)
    assert destination.signature == wiring.Signature(
        {"index": In(12), "membership": Out(membership_layout(3))}
    )


def test_error_keeper():
    layout = error_layout(3, 2)
    assert ErrorKeeper(ports=3, channels=2).signature == wiring.Signature(
        {
            "new": In(layout),
            "clear": In(1),
            "errors": Out(layout),
            "error": Out(1),
            "count": Out(data.ArrayLayout(16, 8)),
        }
    )


def memory(**changes):
    good = {
        "ports": 3,
        "middle_copies": 2,
        "entries": 4,
        "data_types": frozenset({DataType.FP16}),
        "operators": frozenset({Operator.SUM}),
    }
    return ConfigurationMemory(**(good | changes))


def test_configuration_memory():
    lookup = wiring.Signature({"index": Out(12), "membership": In(membership_layout(3))})
    assert memory().signature == wiring.Signature(
        {
            "configure": In(stream.Signature(request_layout(3, 2))),
            "idle": In(1),
            "done": Out(1),
            "refusal": Out(Refusal),
            "lookup": In(lookup).array(3),
            "index": In(12),
            "activate": In(1),
            "modes": Out(modes_layout(3, 2)),
        }
    )
    several = memory(classes=(TrafficClass.MP, TrafficClass.DP))
    assert several.channels == 2
    assert dict(several.signature.members)["lookup"].dimensions == (6,)
    assert dict(several.signature.members)["idle"].shape == 2
    with refused("configurations must be an integer in 1..4096, not 0"):
        memory(entries=0)
    with refused("ports must be an integer in 2..64, not 65"):
        memory(ports=65)


def test_output_account():
    account = OutputAccount(credits=7, rate=Fraction(2, 3))
    assert account.signature == wiring.Signature(
        {
            "credit": In(1),
            "reserve": In(range(8)),
            "available": Out(range(8)),
            "go": In(1),
            "open": Out(1),
        }
    )
    several = OutputAccount(credits=(7, 4), rate=Fraction(1), channels=2)
    assert several.signature == wiring.Signature(
        {
            "credit": In(2),
            "reserve": In(range(8)).array(2),
            "available": Out(range(8)).array(2),
            "go": In(1),
            "open": Out(1),
        }
    )
    with refused("credits must be a positive integer, not 0"):
        OutputAccount(credits=0, rate=Fraction(1))
    with refused("credits must be 2 positive integers, one per channel, not (7,)"):
        OutputAccount(credits=(7,), rate=Fraction(1), channels=2)
    with refused("rate must be a Fraction above 0 and at most 1, not 0.5"):
        OutputAccount(credits=7, rate=0.5)
