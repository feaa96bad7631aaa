"""Groups of engines on AXI, as simulation models."""

from dataclasses import asdict, replace
from functools import cache

from rtl.ace.parameters import AceParameters, DimParameters
from rtl.axi.parameters import AxiParameters
from sim_top.emission import emit_systemverilog
from sim_top.emission.ports import field_ports
from sim_top.platform.parameters import engine_parameters
from sim_top.simulator import Model
from testbenches.ace_axi_fred import AceAxiFred
from testbenches.ace_axi_ring import AceAxiGroup
from testbenches.ace_axi_torus import TORUS

ENGINE = AceParameters(
    flit_bytes=16,
    dims=(DimParameters(grants=True, depth=8),),
    sram_flits=512,
    buffers=8,
    sram_banks=4,
    contexts=2,
    packet_bytes=64,
    program_steps=16,
    doorbells=2,
    adder_depth=3,
)
AXI = AxiParameters(
    read_id=3, write_id=5, prot=0b011, qos=7, cache=0b1111, burst_beats=4, reads=2, writes=2
)
TORUS_ENGINE = replace(engine_parameters(TORUS), doorbells=3, adder_depth=3)
"""Engines of ``testbenches.ace_axi_torus``'s platform."""
EXPECTED = asdict(AXI) | {"flit_bytes": ENGINE.flit_bytes}
"""What a monitor of a memory port expects."""


@cache
def model(ranks: int, simulator: str) -> Model:
    """``ranks`` engines with one ring dim, side by side."""
    return _model(AceAxiGroup(ranks=ranks, parameters=ENGINE, axi=AXI), simulator)


@cache
def torus_model(simulator: str) -> Model:
    """2 x 2 engines with two ring dims and two classes, side by side."""
    group = AceAxiGroup(ranks=TORUS.topology.npus, parameters=TORUS_ENGINE, axi=AXI)
    return _model(group, simulator)


@cache
def fred_model(ranks: int, simulator: str) -> Model:
    """``ranks`` engines around a FRED switch."""
    dim = DimParameters(grants=False, depth=32)
    group = AceAxiFred(ranks=ranks, parameters=replace(ENGINE, dims=(dim,)), axi=AXI)
    return _model(group, simulator)


def _model(group, simulator: str) -> Model:
    text = emit_systemverilog(group, name="dut", ports=field_ports(group))
    return Model(
        top="dut",
        sources={"dut.sv": text},
        simulator=simulator,
        public={"dut": ("*",)},
        optimise="-O0",
        blocks=("ace_axi",),
    )
