"""Every flow set that routes: no bubble at line rate, the latency of the formula, every bit.

Parameters: those of :class:`testbenches.fred_bench.SwitchBench`, and ``flow_sets``, how many random
ones to try, or ``all``.
"""

from __future__ import annotations

from typing import Any

import cocotb

from rtl.fred.configuration import Refusal
from sw_model.fred.configuration import Configuration
from sw_model.fred.routing import route
from sw_model.fred.table import entry_image
from testbenches import parameters, random_generator
from testbenches.fred_bench import SwitchBench
from testbenches.fred_flows import all_flow_sets, routed
from testbenches.streams import bursty_stalls, random_stalls

_GIVEN = parameters()


async def start(dut: Any) -> tuple[SwitchBench, Any, list[Configuration]]:
    """A reset switch, a generator and the flow sets to try."""
    bench = SwitchBench(dut, _GIVEN, random_generator("data"))
    generator = random_generator("flow sets")
    await bench.bench.reset()
    copies = _GIVEN["middle_copies"]
    if _GIVEN["flow_sets"] == "all":
        found = (route(bench.ports, copies, flows) for flows in all_flow_sets(bench.ports))
        sets = [outcome for outcome in found if isinstance(outcome, Configuration)]
    else:
        sets = routed(
            generator,
            bench.ports,
            copies,
            _GIVEN["flow_sets"],
            data_types=tuple(_GIVEN["data_types"]),
            operators=tuple(_GIVEN["operators"]),
        )
    assert len(sets) == _GIVEN.get("expected_sets", len(sets))
    assert max(len(configuration.flows) for configuration in sets) > 1
    return bench, generator, sets


async def replace_entry(bench: SwitchBench, configuration: Configuration) -> None:
    """Load it in the place of the last one, while the switch is idle."""
    bench.forget()
    bench.expected.clear()
    assert await bench.configure(0, entry_image(configuration)) is Refusal.NONE
    bench.configurations[0] = configuration


@cocotb.test()
async def every_flow_of_a_set_fills_its_ports(dut: Any) -> None:
    """All flows together, packets back to back."""
    bench, generator, sets = await start(dut)
    for op, configuration in enumerate(sets):
        await replace_entry(bench, configuration)
        lengths = [generator.randint(1, _GIVEN["packet_bytes"]) for _ in range(4)]
        for flow in configuration.flows:
            bench.message(0, flow, lengths, op=op)
        await bench.finish(settle=4)
        for flow in configuration.flows:
            entered = max(bench.senders[port].cycles[0] for port in flow.inputs)
            for port in flow.outputs:
                cycles = bench.receivers[port].cycles
                assert cycles == [entered + bench.latency + k for k in range(len(cycles))], (
                    f"{flow} of {[str(f) for f in configuration.flows]}, output {port}"
                )
    assert not bench.errors()
    assert int(dut.switchovers.value) == 1  # the index stays, whatever it holds


@cocotb.test()
async def every_flow_of_a_set_under_gaps_and_late_credits(dut: Any) -> None:
    """Each flow with packets of its own lengths; every bit as the model says."""
    bench, generator, sets = await start(dut)
    for op, configuration in enumerate(sets):
        await replace_entry(bench, configuration)
        for sender, receiver in zip(bench.senders, bench.receivers, strict=True):
            sender.stalls = random_stalls(generator.getrandbits(32), 0.4)
            receiver.stalls = bursty_stalls(generator.getrandbits(32), 15)
            receiver.delay = generator.randint(1, 12)
        for flow in configuration.flows:
            lengths = [
                generator.randint(1, _GIVEN["packet_bytes"]) for _ in range(generator.randint(1, 5))
            ]
            bench.message(0, flow, lengths, op=op)
        await bench.finish(settle=4)
        await bench.bench.until(
            lambda: bool(int(dut.idle.value)), limit=50, stuck="the switch to be idle"
        )
    assert not bench.errors()
