"""Netlists of standard cells run the test benches of the RTL they were made from."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from rtl.fred.switch import FredSwitch
from sim_top.simulator import run_cocotb, simulate
from sim_top.simulator.model import Model
from sim_top.synth import tools
from sim_top.synth.flow import Effort
from sim_top.synth.macros import Macro
from sim_top.synth.netlist import mapped, memory_models
from sw_model.errors import InputError
from tests.test_ace_ring import WORK, ring_model
from tests.test_fred_switch import GOOD

_SWITCH = {key: value for key, value in GOOD.items() if key != "ports"} | {"middle_copies": 2}


@pytest.fixture(scope="module", autouse=True)
def installed():
    """Where Yosys, OpenSTA or the cells are missing there is nothing to test."""
    try:
        tools.yosys(), tools.opensta(), tools.standard_cells()
    except InputError as error:
        pytest.skip(str(error))


def _switch(
    ports: int,
    testcase: str | None,
    *,
    simulator: str = "icarus",
    change: Callable[[Model], Model] = partial(mapped, module="dut"),  # noqa: B008
    plusargs: tuple[str, ...] = (),
    seconds: float = 300,
) -> None:
    simulate(
        FredSwitch(ports=ports, **_SWITCH),
        testbench="testbenches.tb_fred_switch",
        testcase=testcase,
        simulator=simulator,
        parameters={
            "ports": ports,
            **{key: value for key, value in _SWITCH.items() if isinstance(value, int)},
            "data_types": ["fp16", "int32"],
            "ops": 40,
            "rate": [1, 1],
        },
        change=change,
        optimise="-O0",
        plusargs=plusargs,
        timeout_seconds=seconds,
    )


@pytest.mark.parametrize("effort", [Effort.AREA, Effort.FLAT])
def test_fred_switch(effort):
    """On four-state logic: what reset does not reach must not show at the outputs."""
    change = partial(mapped, module="dut", effort=effort)
    _switch(2, "every_port_moves_a_flit_in_every_cycle", change=change)


def _random_start(model: Model) -> Model:
    """The netlist, whose flip-flops and memories hold random bits before reset."""
    return replace(mapped(model, "dut"), options=("--x-initial", "unique"))


@pytest.mark.full
def test_every_test_of_a_fred_switch_of_four_ports():
    """Compiled to machine code: Icarus has not elaborated so many gates after ten minutes."""
    _switch(
        4,
        None,
        simulator="verilator",
        change=_random_start,
        plusargs=("verilator+rand+reset+2", "verilator+seed+1"),
        seconds=3000,
    )


@pytest.mark.full
@pytest.mark.parametrize("power_up", [1, 2, 3])
def test_fred_switch_wakes_in_any_state(power_up):
    """In other states. (On four-state logic gates make X of what is 0 for every value, so random
    traffic needs this.)"""
    _switch(
        2,
        "random_traffic_under_stalls_on_both_sides",
        simulator="verilator",
        change=_random_start,
        plusargs=("verilator+rand+reset+2", f"verilator+seed+{power_up}"),
        seconds=900,
    )


@pytest.mark.full
@pytest.mark.parametrize("data_type", ["FP16", "INT32"])
def test_ace_ring(data_type):
    """Two whole engines; memories beside them as for the RTL. The engine is compiled once."""
    found = mapped(ring_model(ranks=2, buffers=4, flits=32), "ace_ring")
    model = replace(found, blocks=("ace_endpoint",), optimise="-O0")
    work = WORK | {"chunk_flits": 32, "chunks": 4, "sources": 4, "destinations": 4}
    for operation in ("ar", "rs", "ag"):
        run_cocotb(
            model,
            module="testbenches.tb_ace_ring",
            testcase="collective",
            parameters={"ranks": 2, "data_type": data_type, "operation": operation} | work,
            plusargs=("memory_stalls=60", "memory_seed=2"),
            timeout_seconds=1200,
        )


def test_memory_model(tmp_path):
    """A read with a write to the same word gives what was there; enables write their bits only."""
    bench = """
module bench;
  reg clk = 0, re = 1; reg [1:0] we = 0; reg [4:0] ra = 3, wa = 3; reg [7:0] wd = 0; wire [7:0] rd;
  sram_32x8_2 dut (.*);
  task cycle(input [1:0] e, input [7:0] d); begin
    we = e; wd = d; #1 clk = 1; #1 $display("%h", rd); clk = 0; end
  endtask
  initial begin
    cycle(3, 8'h12); cycle(3, 8'h34); cycle(1, 8'hff); cycle(2, 8'hab); re = 0; cycle(0, 0);
    re = 1; cycle(0, 0);
  end
endmodule
"""
    (tmp_path / "all.v").write_text(memory_models([Macro(32, 8, 5, 2)]) + bench)
    program = tmp_path / "all.vvp"
    subprocess.run(["iverilog", "-g2012", "-o", program, tmp_path / "all.v"], check=True)
    said = subprocess.run(["vvp", "-n", program], check=True, capture_output=True, text=True)
    assert said.stdout.split() == ["xx", "12", "34", "3f", "3f", "af"]


def test_a_module_that_is_not_there():
    model = Model(top="dut", sources={"dut.sv": "module dut; endmodule"})
    with pytest.raises(ValueError, match=r"^module must be in a source of the model, not 'du'$"):
        mapped(model, "du")


def test_the_netlist_is_of_cells():
    """Nothing of the RTL is left: only library cells, and modules of the hierarchy."""
    model = Model(top="dut", sources={"dut.sv": _ADDER}, simulator="icarus")
    found = mapped(model, "dut")
    assert sorted(found.sources) == ["cells.v", "memories.v", "netlist.v"]
    netlist = found.sources["netlist.v"]
    types = re.findall(r"^  ([A-Z]\w*) \S+ \($", netlist, re.MULTILINE)
    assert types.count("DFFPOSX1") == 5
    assert not re.search("always|reg ", netlist)
    assert all(f"module {kind}(" in found.sources["cells.v"] for kind in types)


_ADDER = """
module dut(input clk, input [3:0] a, input [3:0] b, output reg [4:0] o);
  always @(posedge clk) o <= a + b;
endmodule
"""
