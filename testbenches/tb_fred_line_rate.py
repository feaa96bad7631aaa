"""Every flow set that routes, at line rate: no bubble, and the latency that the formula says.

Parameters: those of :class:`testbenches.fred_bench.SwitchBench`, and ``flow_sets`` to try.
"""

from __future__ import annotations

from typing import Any

import cocotb

from rtl.fred.configuration import Refusal
from sw_model.fred.table import entry_image
from testbenches import parameters, random_generator
from testbenches.fred_bench import SwitchBench
from testbenches.fred_flows import routed

_GIVEN = parameters()


@cocotb.test()
async def every_flow_of_a_set_fills_its_ports(dut: Any) -> None:
    """All flows together, packets back to back, the set replaced while the switch is idle."""
    bench = SwitchBench(dut, _GIVEN, random_generator("data"))
    generator = random_generator("flow sets")
    await bench.bench.reset()
    sets = routed(
        generator,
        bench.ports,
        _GIVEN["middle_copies"],
        _GIVEN["flow_sets"],
        data_types=tuple(_GIVEN["data_types"]),
        operators=tuple(_GIVEN["operators"]),
    )
    widest = 0
    for op, configuration in enumerate(sets):
        bench.forget()
        bench.expected.clear()
        assert await bench.configure(0, entry_image(configuration)) is Refusal.NONE
        bench.configurations[0] = configuration
        packets = [generator.randint(1, _GIVEN["packet_bytes"]) for _ in range(4)]
        for flow in configuration.flows:
            bench.message(0, flow, packets, op=op)
        await bench.finish(settle=4)
        for flow in configuration.flows:
            entered = max(bench.senders[port].cycles[0] for port in flow.inputs)
            for port in flow.outputs:
                cycles = bench.receivers[port].cycles
                assert cycles == [entered + bench.latency + k for k in range(len(cycles))], (
                    f"{flow} of {[str(f) for f in configuration.flows]}, output {port}"
                )
        widest = max(widest, len(configuration.flows))
    assert not bench.errors()
    assert widest > 1
    heard = int(dut.switchovers.value)
    assert heard == 1  # the index stays, whatever it holds
