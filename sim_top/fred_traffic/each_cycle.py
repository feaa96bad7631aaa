"""The usual way to test a switch: Python drives and samples all its ports in every cycle.

The traffic is that of :mod:`sim_top.fred_traffic.component`, an all-reduce over all ports, on the
bare switch; what comes out is folded into the same digests. Nothing is done that such a bench can
do without: no monitors, no stalls, no models.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge

from sim_top.fred_traffic.pattern import BEAT_STEP, LANE_STEP, PORT_STEP

_MASK = (1 << 32) - 1


@cocotb.test()
async def measure(dut: Any) -> None:
    """Run one load; cycles, seconds and digests go to the file ``results``."""
    given = json.loads(os.environ["ANTIPHON_PARAMETERS"])
    ports, beats, packets = (given[name] for name in ("ports", "payload_flits", "packets"))
    lanes, depth = given["flit_bytes"] // 4, given["input_depth"]
    width = 32 * lanes
    head, last = 1 << width, 1 << width + 1
    Clock(dut.clk, 2, unit="ns").start(start_high=False)
    dut.rst.value = 1
    dut.configure__valid.value = 0
    dut.clear.value = 0
    ways_in = [tuple(_wire(dut, "i", p)) for p in range(ports)]
    ways_out = [tuple(_wire(dut, "o", p)) for p in range(ports)]
    for valid, _, _ in ways_in:
        valid.value = 0
    for _, _, credit in ways_out:
        credit.value = 0
    for _ in range(2):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    dut.configure__payload.value = int(given["request"], 16)
    dut.configure__valid.value = 1
    await RisingEdge(dut.clk)
    dut.configure__valid.value = 0
    for _ in range(4):
        await RisingEdge(dut.clk)

    headers = [int(text, 16) | head for text in given["headers"]]
    credits = [depth] * ports
    place = [0] * ports  # flits sent
    heard: list[list[int]] = [[] for _ in range(ports)]
    total = packets * (beats + 1)
    began, cycles = time.process_time(), 0
    while any(len(flits) < total for flits in heard):
        cycles += 1
        assert cycles < 4 * total + 1000, "the load must end"
        for port, (valid, flit, _) in enumerate(ways_in):
            go = place[port] < total and credits[port] > 0
            valid.value = int(go)
            if go:
                packet, beat = divmod(place[port], beats + 1)
                if beat == 0:
                    flit.value = headers[packet]
                else:
                    start = (packet * beats + beat - 1) * BEAT_STEP + port * PORT_STEP
                    word = 0
                    for lane in range(lanes):
                        word |= (start + lane * LANE_STEP & _MASK) << 32 * lane
                    flit.value = word | (last if beat == beats else 0)
                place[port] += 1
                credits[port] -= 1
        await FallingEdge(dut.clk)
        for port in range(ports):
            credits[port] += int(ways_in[port][2].value)
            valid, flit, credit = ways_out[port]
            there = int(valid.value)
            if there:
                heard[port].append(int(flit.value))
            credit.value = there
        await RisingEdge(dut.clk)
    seconds = time.process_time() - began
    assert int(dut.error.value) == 0
    digests = [_digest(flits, lanes) for flits in heard]
    figures = {"simulated": cycles, "seconds": seconds, "digest": digests}
    Path(given["results"]).write_text(json.dumps(figures))


def _wire(dut: Any, side: str, port: int) -> list[Any]:
    return [getattr(dut, f"{side}__{port}__{name}") for name in ("valid", "flit", "credit")]


def _digest(flits: list[int], lanes: int) -> int:
    digest = 0
    for flit in flits:
        folded = 0
        for lane in range(lanes):
            folded ^= flit >> 32 * lane & _MASK
        digest = (digest << 1 & _MASK | digest >> 31) ^ folded
    return digest
