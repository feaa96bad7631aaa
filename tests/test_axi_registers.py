"""The register port of the engine on AXI: AXI4-Lite, and the registers by their table (see the
benches)."""

import pytest
from amaranth.lib.wiring import In, Out

from rtl.axi.lite_port import AxiLitePort, RegisterAccess
from rtl.axi.register_file import RegisterFile
from rtl.axi.signatures import AxiLiteSignature
from sim_top.simulator import simulate
from testbenches.register_table import TABLE

BOTH = pytest.mark.parametrize(
    "simulator", ["icarus", pytest.param("verilator", marks=pytest.mark.full)]
)


@BOTH
def test_lite_port(simulator):
    simulate(
        AxiLitePort(address_bits=12),
        testbench="testbenches.tb_axi_lite_port",
        simulator=simulator,
    )


@BOTH
def test_registers_by_their_table(simulator):
    simulate(
        RegisterFile(table=TABLE), testbench="testbenches.tb_register_file", simulator=simulator
    )


def test_signature_of_the_registers():
    members = RegisterFile(table=TABLE).signature.members
    assert set(members) == {"access", "values", "stored", "written", "refuse", "taken"}
    names = {name: [key for key, _ in members[name].shape] for name in members if name != "access"}
    assert names["values"] == ["ID", "OLDEST", "CAUSES", "STATE", "COUNT", "DIM_COUNT", "LAST"]
    assert names["stored"] == ["MODE", "BASE"]
    assert names["written"] == ["GO", "OTHER_GO", "CAUSES"]
    assert names["refuse"] == ["GO", "OTHER_GO"]
    assert names["taken"] == ["OLDEST"]
    assert {name for name in members if members[name].flow is Out} == {"stored", "written", "taken"}


def test_signature_of_the_port():
    members = AxiLitePort(address_bits=9).signature.members
    assert set(members) == {"axi", "access"}
    assert (members["axi"].flow, members["access"].flow) == (In, Out)
    assert isinstance(members["axi"].signature, AxiLiteSignature)
    assert isinstance(members["access"].signature, RegisterAccess)
    assert members["axi"].signature.members["araddr"].shape == 9
    assert members["access"].signature.members["read_address"].shape == 9
