"""Simulating one component: what the tests of ``rtl`` call."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from amaranth.hdl import Value
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring

from sim_top.emission import emit_systemverilog
from sim_top.simulator.model import Model
from sim_top.simulator.run import SimulationResult, run_cocotb

__all__ = ["simulate"]


def simulate(
    component: wiring.Component,
    *,
    testbench: str,
    simulator: str = "icarus",
    name: str = "dut",
    parameters: Mapping[str, Any] | None = None,
    testcase: str | None = None,
    seed: int | None = None,
    ports: dict[str, tuple[Value, PortDirection]] | None = None,
    public: Mapping[str, tuple[str, ...]] | None = None,
    optimise: str = "-O1",
    timeout_seconds: float = 300,
    waves: Path | None = None,
    plusargs: tuple[str, ...] = (),
    change: Callable[[Model], Model] | None = None,
) -> SimulationResult:
    """Run the cocotb tests of ``testbench`` on ``component``; return if all of them pass.

    The component becomes the module ``name``; its ports are those of its signature with the path
    joined by ``__``, and ``clk`` and ``rst``, which the test bench drives.

    Parameters
    ----------
    component : the design under test
    testbench : Python module with the cocotb tests, as ``testbenches.tb_adder``
    simulator : ``icarus`` (starts at once) or ``verilator`` (compiles first, runs faster)
    name : name of the top module
    parameters : JSON values that ``testbenches.parameters()`` returns inside the simulation
    testcase : only the test of this name
    seed : seed of the run; by default ``ANTIPHON_SEED``, or 1
    ports : ports of the top where they are not those of the signature
    public : on Verilator, inner signals that the test bench reads, by module; on Icarus all are
    optimise : compiler option for Verilator's model
    timeout_seconds : wall time after which the run is given up
    waves : file for a waveform (FST)
    plusargs : plusargs of the Verilog side
    change : makes another model of the component's, such as its netlist after synthesis

    Raises
    ------
    SimulationError
        (an ``AssertionError``) where a test or an assertion of the RTL fails; it names the failing
        tests, the seed and the directory of the run, and ends with the log's tail.
    """
    if seed is None:
        seed = int(os.environ.get("ANTIPHON_SEED", "1"))
    visible = {name: ("*",)} | dict(public or {})
    model = Model(
        top=name,
        sources={f"{name}.sv": emit_systemverilog(component, name=name, ports=ports)},
        simulator=simulator,
        public=visible,
        optimise=optimise,
        waves=waves is not None,
    )
    if change is not None:
        model = change(model)
    print(f"{testbench} on {simulator}: seed {seed}, parameters {dict(parameters or {})}")
    return run_cocotb(
        model,
        module=testbench,
        testcase=testcase,
        seed=seed,
        parameters=parameters,
        timeout_seconds=timeout_seconds,
        waves=waves,
        plusargs=plusargs,
    )
