"""The banked SRAM and its in-order reader."""

import pytest
from amaranth.hdl import unsigned
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.ace.sram import Sram, SramReadSignature
from rtl.ace.sram_reader import SramReader
from sim_top.simulator import simulate

GOOD = {"flit_bytes": 16, "depth": 64, "banks": 4, "readers": 2, "writers": 2}
READER = {"tag_shape": unsigned(16), "depth": 8, "address_bits": 6, "flit_bytes": 16}


@pytest.mark.parametrize("banks", [2, 4])
def test_sram(banks):
    simulate(
        Sram(**GOOD | {"banks": banks}),
        testbench="testbenches.tb_ace_sram",
        parameters={"depth": 64, "banks": banks},
    )


@pytest.mark.parametrize("depth", [4, 8])
def test_sram_reader(depth):
    simulate(
        SramReader(**READER | {"depth": depth}),
        testbench="testbenches.tb_ace_sram_reader",
        parameters={"depth": depth, "address_bits": 6},
    )


def test_sram_signature():
    sram = Sram(**GOOD)
    assert sram.address_bits == 6
    members = sram.signature.members
    assert members["read"].dimensions == (2,)
    assert members["write"].dimensions == (2,)
    assert members["read"].flow is In
    reader = SramReader(**READER)
    assert reader.signature.members["port"].flow is Out
    assert isinstance(reader.signature.members["port"].signature, SramReadSignature)
    assert isinstance(reader.signature.members["o"].signature, stream.Signature)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"banks": 3}, "banks must be a power of two, not 3"),
        ({"banks": 0}, "banks must be a power of two, not 0"),
        ({"depth": 62}, "depth must be a positive multiple of 4 banks, not 62"),
        ({"depth": "big"}, "depth must be a positive multiple of 4 banks, not 'big'"),
        ({"readers": 0}, "readers must be a positive integer, not 0"),
        ({"writers": -1}, "writers must be a positive integer, not -1"),
    ],
)
def test_sram_parameters(change, message):
    with pytest.raises(ValueError, match="^" + message.replace("*", r"\*") + "$"):
        Sram(**GOOD | change)


@pytest.mark.parametrize("depth", [2, 6, "8"])
def test_sram_reader_parameters(depth):
    with pytest.raises(
        ValueError, match=f"^depth must be a power of two of at least 4, not {depth!r}$"
    ):
        SramReader(**READER | {"depth": depth})
