"""What the classes of an engine share: ports of the SRAM, the memory's write port (see the
benches)."""

import pytest
from amaranth.lib.wiring import In, Out

from rtl.ace.memory_port import MemoryWriteSignature
from rtl.ace.memory_write import MemoryWriteArbiter
from rtl.ace.sram import SramReadSignature, SramWriteSignature
from rtl.ace.sram_share import SramReadShare, SramWriteShare
from sim_top.simulator import simulate

SHARES = {"read": SramReadShare, "write": SramWriteShare}
PORT = {"address_bits": 7, "flit_bytes": 2}
WIDE = pytest.mark.parametrize("simulator", ["icarus", "verilator"])


def run_share(kind, users, simulator="icarus"):
    simulate(
        SHARES[kind](users=users, **PORT),
        testbench="testbenches.tb_ace_sram_share",
        simulator=simulator,
        parameters={"kind": kind, "users": users, "address_bits": PORT["address_bits"]},
    )


def run_writes(simulator="icarus", **shape):
    simulate(
        MemoryWriteArbiter(flit_bytes=2, **shape),
        testbench="testbenches.tb_ace_memory_write",
        simulator=simulator,
        parameters=shape,
    )


@pytest.mark.parametrize("kind", list(SHARES))
def test_a_port_of_the_sram(kind):
    run_share(kind, 3)


@pytest.mark.full
@WIDE
@pytest.mark.parametrize("users", [2, 3])
@pytest.mark.parametrize("kind", list(SHARES))
def test_a_port_of_the_sram_wide(kind, users, simulator):
    run_share(kind, users, simulator)


def test_the_memory_s_write_port():
    run_writes(users=3, writes=8, run=4)


@pytest.mark.full
@WIDE
@pytest.mark.parametrize("shape", [(2, 8, 16), (3, 16, 2), (3, 9, 8)])
def test_the_memory_s_write_port_wide(shape, simulator):
    users, writes, run = shape
    run_writes(simulator, users=users, writes=writes, run=run)


@pytest.mark.parametrize(
    ("component", "port", "signature"),
    [
        (SramReadShare(users=3, **PORT), "port", SramReadSignature),
        (SramWriteShare(users=3, **PORT), "port", SramWriteSignature),
        (MemoryWriteArbiter(users=3, flit_bytes=2, writes=4), "memory", MemoryWriteSignature),
    ],
    ids=["read", "write", "memory"],
)
def test_signatures(component, port, signature):
    members = component.signature.members
    assert set(members) == {"user", port}
    assert (members["user"].flow, members["user"].dimensions) == (In, (3,))
    assert (members[port].flow, members[port].dimensions) == (Out, ())
    for member in (members["user"], members[port]):
        assert isinstance(member.signature, signature)
        assert member.signature.flit_bytes == 2
