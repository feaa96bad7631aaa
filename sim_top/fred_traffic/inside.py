"""The cocotb side of a measurement: load, start, wait for the end, take down the counters."""

import json
import os
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, with_timeout


@cocotb.test()
async def measure(dut: Any) -> None:
    """Run one load; the counters go to the file ``results``."""
    given = json.loads(os.environ["ANTIPHON_PARAMETERS"])
    Clock(dut.clk, 2, unit="ns").start(start_high=False)
    dut.rst.value = 1
    dut.start.value = 0
    dut.configure__valid.value = 0
    for name in ("packets", "period", "alternate"):
        getattr(dut, name).value = given[name]
    for _ in range(2):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    for request in given["requests"]:
        dut.configure__payload.value = int(request, 16)
        dut.configure__valid.value = 1
        await RisingEdge(dut.clk)
        dut.configure__valid.value = 0
        await RisingEdge(dut.configured)
        assert int(dut.refusal.value) == 0
        await RisingEdge(dut.clk)
    dut.start.value = 1
    limit = 4 * given["packets"] * (given["payload_flits"] + 1) + 1000
    await with_timeout(RisingEdge(dut.done), 2 * limit, "ns")
    assert int(dut.error.value) == 0
    words = {
        name: [
            int(getattr(dut, name).value) >> (32 * port) & 0xFFFFFFFF
            for port in range(given["ports"])
        ]
        for name in ("first", "last", "flits", "digest")
    }
    Path(given["results"]).write_text(json.dumps({"entered": int(dut.entered.value), **words}))
