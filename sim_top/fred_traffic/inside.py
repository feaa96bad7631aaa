"""The cocotb side of a measurement: load, start, wait for the end, take down the counters."""

import json
import os
import time
from pathlib import Path
from typing import Any

import cocotb

from sim_top.shell.control import Shell


@cocotb.test()
async def measure(dut: Any) -> None:
    """Run one load; the counters go to the file ``results``."""
    given = json.loads(os.environ["ANTIPHON_PARAMETERS"])
    record = given["record"]
    shell = Shell(dut, events=("ended",), record=Path(record) if record else None)
    await shell.reset(watchdog_limit=0)
    for name in ("packets", "period", "alternate"):
        shell.write(name, given[name])
    for request in given["requests"]:
        shell.write("configure__payload", int(request, 16))
        shell.write("configure__valid", 1)
        await shell.run(until=shell.cycle + 1)
        shell.write("configure__valid", 0)
        await shell.run(until=shell.cycle + 4)
        assert int(dut.refusal.value) == 0
    shell.write("start", 1)
    limit = shell.cycle + 4 * given["packets"] * (given["payload_flits"] + 1) + 1000
    begun, began = time.process_time(), shell.cycle
    wake = await shell.run(until=limit)
    seconds = time.process_time() - begun
    assert wake.events, f"the load must end within {limit} cycles"
    assert int(dut.error.value) == 0
    words = {
        name: [
            int(getattr(dut, name).value) >> (32 * port) & 0xFFFFFFFF
            for port in range(given["ports"])
        ]
        for name in ("first", "last", "flits", "digest", "received", "sent")
    }
    figures = {
        "entered": int(dut.entered.value),
        "simulated": shell.cycle - began,
        "seconds": seconds,
    }
    Path(given["results"]).write_text(json.dumps(figures | words))
