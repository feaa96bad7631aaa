"""Dim engines, and their parts."""

import re
from dataclasses import replace

import pytest
from amaranth.lib.wiring import In, Out

from rtl.ace.contexts import Contexts
from rtl.ace.dim_engine import DimEngine
from rtl.ace.parameters import AceParameters, DimParameters
from rtl.ace.rx_unit import RxUnit
from rtl.ace.tx_unit import TxUnit
from rtl.common.packet import DataType, Operator
from sim_top.simulator import simulate
from sw_model.endpoint.timing import ACE_TIMING
from testbenches.ace_guarded_ports import GuardedPorts

TX = {
    "flit_bytes": 16,
    "address_bits": 11,
    "contexts": 4,
    "packet_flits": 4,
    "program_steps": 16,
    "grants": True,
}
RX = {
    "flit_bytes": 16,
    "address_bits": 11,
    "contexts": 4,
    "program_steps": 16,
    "data_types": {DataType.INT32},
    "operators": {Operator.SUM},
    "adder_depth": 4,
}


def _parameters(contexts, grants=True):
    return AceParameters(
        flit_bytes=16,
        dims=(DimParameters(grants=grants),),
        sram_flits=2048,
        buffers=8,
        contexts=contexts,
        packet_bytes=128,
        program_steps=16,
        data_types=frozenset({DataType.INT32}),
        adder_depth=ACE_TIMING.adder_depth,
    )


@pytest.mark.parametrize(("contexts", "grants"), [(1, True), (2, False), (4, True)])
def test_dim_engine(contexts, grants):
    parameters = {"contexts": contexts, "grants": grants, "address_bits": 11, "packet_flits": 8}
    simulate(
        DimEngine(parameters=_parameters(contexts, grants), dim=0),
        testbench="testbenches.tb_ace_dim_engine",
        parameters=parameters,
    )


def test_nothing_passes_an_all_gather():
    parameters = {"contexts": 2, "grants": False, "address_bits": 11, "packet_flits": 8}
    simulate(
        DimEngine(parameters=_parameters(2, False), dim=0),
        testbench="testbenches.tb_ace_gather",
        parameters=parameters,
    )


def test_ops_that_contradict_their_ports():
    """A dim of two ports behind the guard of its records: none hangs, and none ends too early."""
    dims = (DimParameters(grants=True, ports=2),)
    parameters = replace(_parameters(2), dims=dims)
    simulate(
        GuardedPorts(parameters=parameters),
        testbench="testbenches.tb_ace_guarded_ports",
        parameters={"ports": 2},
    )


def test_signatures():
    members = DimEngine(parameters=_parameters(2), dim=0).signature.members
    flows = {name: members[name].flow for name in ("op", "o", "i", "grant", "granted", "tx_read")}
    assert flows == {"op": In, "o": Out, "i": In, "grant": Out, "granted": In, "tx_read": Out}
    assert TxUnit(**TX).signature.members["no_grant"].shape == 4
    assert RxUnit(**RX).signature.members["busy"].shape == 4


@pytest.mark.parametrize("dim", [-1, 1, "x"])
def test_dim(dim):
    with pytest.raises(ValueError, match=f"^dim must be in 0..0, not {dim!r}$"):
        DimEngine(parameters=_parameters(1), dim=dim)


@pytest.mark.parametrize(
    ("unit", "change", "message"),
    [
        ((TxUnit, TX), {"contexts": 3}, "contexts must be a power of two, not 3"),
        ((TxUnit, TX), {"program_steps": 0}, "program_steps must be a positive integer, not 0"),
        ((TxUnit, TX), {"packet_flits": 0}, "packet_flits must be a positive integer, not 0"),
        (
            (TxUnit, TX),
            {"flit_bytes": 24},
            "flit_bytes must be a power of two of at least 16, not 24",
        ),
        ((RxUnit, RX), {"contexts": 0}, "contexts must be a power of two, not 0"),
        ((RxUnit, RX), {"program_steps": -1}, "program_steps must be a positive integer, not -1"),
        ((RxUnit, RX), {"adder_depth": 0}, "adder_depth must be a positive integer, not 0"),
    ],
)
def test_unit_parameters(unit, change, message):
    component, good = unit
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        component(**good | change)


@pytest.mark.parametrize("contexts", [0, 3, 256, "4"])
def test_contexts_parameters(contexts):
    message = f"contexts must be a power of two of at most 128, not {contexts!r}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Contexts(contexts=contexts)
