"""Classes on the link of an NPU to a tree of switches, in the transaction-level model: cycles from
the rules in docs/links.md and docs/tlm.md. Whole platforms are compared with the RTL in
test_cosim."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from sw_model.endpoint.programs import Send
from sw_model.engine import EventKernel
from sw_model.fabric.constants import FabricConstants
from sw_model.fabric.tree_port import NpuLink
from sw_model.platform import LinkParameters

CONSTANTS = FabricConstants()
LATENCY = 20
HEADER = CONSTANTS.ace.transmit  # choice of a message to its header at the link
THERE = CONSTANTS.link.transmit + LATENCY
MP, PP, DP = range(3)


class _Switch:
    """Notes what comes in at a port."""

    def __init__(self) -> None:
        self.outputs: dict[int, NpuLink] = {}
        self.sources: dict[int, NpuLink] = {}
        self.packets: list[tuple[int, int, int]] = []  # lane, first and last cycle at the link
        self.interruptions: list[tuple[int, int, int]] = []  # lane, cycle at the link, flits

    def offer(self, port, packet) -> None:
        first, last = int(packet.wire[0]) - THERE, int(packet.wire[-1]) - THERE
        self.packets.append((packet.lane, first, last))

    def interrupted(self, port, lane, cycle, flits) -> None:
        self.interruptions.append((lane, cycle - THERE, flits))


def run(*messages: tuple[int, int, int], rate: Fraction = Fraction(1)) -> _Switch:
    """Messages by (cycle of their choice, lane, flits)."""
    kernel, switch = EventKernel(), _Switch()
    transmitter = SimpleNamespace(taken=lambda *_: None, left=lambda *_: None)
    engines = [SimpleNamespace(transmitters=[transmitter], sent=lambda *_: None) for _ in range(3)]
    link = NpuLink(
        kernel, engines, switch, 0, LinkParameters(rate=rate, latency=LATENCY), 4096, 256, CONSTANTS
    )
    lanes = [engine.outlet for engine in engines]
    assert link.shared
    for number, (chosen, lane, flits) in enumerate(messages):
        op = SimpleNamespace(number=number)
        send = Send(flits=flits, after=-1, step=0, flow=None)
        kernel.at(
            chosen,
            lambda _, lane=lane, op=op, send=send: lanes[lane].begin(op, send, kernel.now),
        )
    kernel.run()
    return switch


def test_a_higher_class_interrupts() -> None:
    """Its header lets the flit pass that is ready with it, and the next packet of the class that is
    interrupted comes when all of that packet has left."""
    switch = run((0, DP, 141), (1, DP, 20), (50, MP, 11))
    begin = 50 + HEADER + 1
    end = HEADER + 141 + 11
    assert switch.packets == [
        (DP, HEADER, HEADER + 140), (MP, begin, begin + 10), (DP, end, end + 19)
    ]  # fmt: skip
    assert switch.interruptions == [(DP, begin, 11)]


def test_a_flit_of_the_lower_class_stands_between_two_messages() -> None:
    switch = run((0, DP, 141), (50, MP, 11), (61, MP, 11))
    begin = 50 + HEADER + 1
    assert switch.packets[1:] == [(MP, begin, begin + 10), (MP, begin + 12, begin + 22)]


def test_a_message_that_fits_in_front_of_the_link_waits() -> None:
    held = CONSTANTS.ace.run_ahead
    switch = run((0, DP, 141), (50, MP, held))
    assert switch.packets[1:] == [(MP, HEADER + 141, HEADER + 140 + held)]
    assert not switch.interruptions


def test_a_lower_class_waits_and_others_keep_their_order() -> None:
    """Two are interrupted at once; of those that wait the higher goes first."""
    switch = run((0, MP, 100), (10, DP, 30), (11, PP, 30))
    end = HEADER + 100
    assert [lane for lane, _, _ in switch.packets] == [MP, PP, DP]
    assert [first for _, first, _ in switch.packets] == [HEADER, end, end + 30]
    switch = run((0, DP, 100), (10, PP, 40), (20, MP, 11))
    assert switch.interruptions == [
        (DP, 10 + HEADER + 1, 40), (PP, 20 + HEADER + 1, 11), (DP, 20 + HEADER + 1, 11)
    ]  # fmt: skip


@pytest.mark.parametrize("rate", [Fraction(3, 4), Fraction(1, 2)])
def test_nothing_interrupts_on_a_slower_link(rate) -> None:
    """Flits wait in front of it, so the lower class never lacks one."""
    switch = run((0, DP, 141), (50, MP, 11), rate=rate)
    (_, _, last), (lane, first, _) = switch.packets
    assert lane == MP
    assert first == last + np.ceil(1 / rate)
    assert not switch.interruptions
