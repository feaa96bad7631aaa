"""Descriptor fetch, dispatch and the shared read port."""

import re

import pytest
from amaranth.lib.wiring import In, Out

from rtl.ace.command_unit import CommandUnit
from rtl.ace.descriptor_fetch import RECORD_BITS, DescriptorFetch
from rtl.ace.memory_read import MemoryReadArbiter
from sim_top.simulator import simulate
from testbenches.ace_covered import Covered

FETCH = {"flit_bytes": 16, "doorbells": 4, "window": 8, "burst": 2}


@pytest.mark.parametrize("flit_bytes", [16, 32, 64])
def test_descriptor_fetch(flit_bytes):
    parameters = FETCH | {"flit_bytes": flit_bytes}
    simulate(
        DescriptorFetch(**parameters),
        testbench="testbenches.tb_ace_descriptor_fetch",
        parameters=parameters,
    )


@pytest.mark.parametrize("dims", [1, 3])
def test_command_unit(dims):
    simulate(
        CommandUnit(dims=dims),
        testbench="testbenches.tb_ace_command_unit",
        parameters={"dims": dims},
    )


@pytest.mark.parametrize(
    "flits_bits",
    [
        20,  # of a LOAD and a STORE
        36,  # of a BEGIN: 2^40 bytes in flits of 16, more than there is of memory
    ],
)
def test_ranges_of_any_size_against_regions(flits_bits):
    parameters = {"regions": 2, "flits_bits": flits_bits}
    simulate(Covered(**parameters), testbench="testbenches.tb_ace_covered", parameters=parameters)


def test_memory_read_arbiter():
    simulate(MemoryReadArbiter(flit_bytes=16, bursts=4), testbench="testbenches.tb_ace_memory_read")


def test_memory_read_arbiter_of_classes():
    window = 24
    simulate(
        MemoryReadArbiter(flit_bytes=16, bursts=32, classes=2, window=window),
        testbench="testbenches.tb_ace_memory_classes",
        parameters={"window": window},
    )


def test_signatures():
    fetch = DescriptorFetch(**FETCH).signature.members
    assert (fetch["doorbell"].flow, fetch["record"].flow, fetch["memory"].flow) == (In, Out, Out)
    assert RECORD_BITS == 256
    command = CommandUnit(dims=3).signature.members
    assert command["op"].dimensions == command["tx_program"].dimensions == (3,)
    arbiter = MemoryReadArbiter(flit_bytes=16, bursts=4).signature.members
    assert (arbiter["user"].flow, arbiter["user"].dimensions) == (In, (2,))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"burst": 0}, "burst must be a positive multiple of 1, not 0"),
        ({"flit_bytes": 64, "burst": 3}, "burst must be a positive multiple of 2, not 3"),
        ({"window": 3}, "window must be a multiple of 1 and at least 4, not 3"),
        ({"doorbells": 0}, "doorbells must be a positive integer, not 0"),
    ],
)
def test_fetch_parameters(change, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        DescriptorFetch(**FETCH | change)


@pytest.mark.parametrize("dims", [0, 16, "2"])
def test_command_parameters(dims):
    with pytest.raises(ValueError, match=f"^dims must be an integer in 1..15, not {dims!r}$"):
        CommandUnit(dims=dims)


@pytest.mark.parametrize("bursts", [0, 1.5])
def test_arbiter_parameters(bursts):
    with pytest.raises(ValueError, match=f"^bursts must be a positive integer, not {bursts!r}$"):
        MemoryReadArbiter(flit_bytes=16, bursts=bursts)


@pytest.mark.parametrize("window", [-1, 1.5])
def test_arbiter_window(window):
    message = f"window must be an integer of at least 0, or None, not {window!r}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        MemoryReadArbiter(flit_bytes=16, bursts=4, classes=2, window=window)
