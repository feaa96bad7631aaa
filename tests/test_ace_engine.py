"""The engine as a whole: parameters, ports, counters."""

import re
from fractions import Fraction

import pytest
from amaranth.lib.wiring import In, Out

from rtl.ace.counters import Counters, DimCounters, EngineCounters, engine_counters
from rtl.ace.endpoint import AceEndpoint
from rtl.ace.engine import AceEngine
from rtl.ace.layouts import RECORD_BYTES, Load, Op, Program, RxStep, Store, TxStep
from rtl.ace.parameters import AceParameters, DimParameters
from rtl.common.packet import PacketHeader
from rtl.link.wire import LinkWire
from sim_top.simulator import simulate

RING, FRED = DimParameters(grants=True), DimParameters(grants=False)
GOOD = {"flit_bytes": 16, "dims": (RING, FRED), "sram_flits": 1024, "buffers": 16}


@pytest.mark.parametrize("dims", [1, 2])
def test_counters(dims):
    simulate(
        Counters(dims=dims, flit_bytes=16),
        testbench="testbenches.tb_ace_counters",
        parameters={"dims": dims},
    )


def test_counter_layout():
    layout = engine_counters(3)
    assert layout.size == 48 * (len(list(EngineCounters.as_shape())) + 3 * 12)
    assert len(list(DimCounters.as_shape())) == 12


def test_records_and_headers_fit():
    for layout in (Load, Op, Program, Store):
        assert layout.as_shape().size <= 8 * RECORD_BYTES
    assert TxStep.as_shape().size <= 128
    assert RxStep.as_shape().size <= 128
    assert PacketHeader.as_shape().size <= 128


def test_ports():
    parameters = AceParameters(**GOOD)
    engine = AceEngine(parameters=parameters).signature.members
    assert engine["ports"].dimensions == (2,)
    assert engine["doorbell"].flow is In
    assert engine["completion"].flow is Out
    endpoint = AceEndpoint(parameters=parameters).signature.members
    assert (endpoint["send"].flow, endpoint["receive"].flow) == (Out, In)
    assert endpoint["send"].signature == LinkWire(16)
    assert endpoint["counters"].shape == engine_counters(2)


def test_derived():
    parameters = AceParameters(**GOOD)
    assert parameters.address_bits == 10
    assert parameters.packet_flits == 256


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"flit_bytes": 8}, "flit_bytes must be a power of two of at least 16, not 8"),
        ({"flit_bytes": 256}, "flit_bytes must be at most 128, not 256"),
        ({"dims": ()}, "dims must be 1 to 15 dims, not 0"),
        ({"sram_flits": 0}, "sram_flits must be a positive integer, not 0"),
        (
            {"sram_flits": 1000},
            "sram_flits must be a multiple of 16 banks of at most 2**20, not 1000",
        ),
        ({"sram_banks": 12}, "sram_banks must be a power of two, not 12"),
        ({"buffers": 257}, "buffers must be in 1..256, not 257"),
        ({"contexts": 6}, "contexts must be a power of two, not 6"),
        ({"forward_flits": 48}, "forward_flits must be a power of two, not 48"),
        ({"forward_flits": 1}, "forward_flits must be at least 2, not 1"),
        ({"contexts": 256}, "contexts must be at most 128, not 256"),
        ({"packet_bytes": 1 << 16}, "packet_bytes must be a multiple of 16 below 65536, not 65536"),
        ({"packet_bytes": 24}, "packet_bytes must be a multiple of 16 below 65536, not 24"),
        ({"program_steps": 0}, "program_steps must be a positive integer, not 0"),
        ({"program_steps": 5000}, "program_steps must be at most 4096, not 5000"),
        ({"queue_depth": 0}, "queue_depth must be a positive integer, not 0"),
        ({"doorbells": 0}, "doorbells must be a positive integer, not 0"),
        ({"descriptor_window": 7}, "descriptor_window must be at least 8 records, not 7"),
        ({"burst_beats": 512}, "burst_beats must be at most 256, not 512"),
        ({"read_beats": 8}, "read_beats must be at least 16 burst_beats, not 8"),
        ({"write_beats": -1}, "write_beats must be a positive integer, not -1"),
        ({"adder_depth": 0}, "adder_depth must be a positive integer, not 0"),
    ],
)
def test_parameters(change, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        AceParameters(**GOOD | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"rate": Fraction(5, 4)},
            "rate must be a Fraction above 0 and at most 1, not Fraction(5, 4)",
        ),
        ({"rate": 0.5}, "rate must be a Fraction above 0 and at most 1, not 0.5"),
        ({"credits": 0}, "credits must be a positive integer, not 0"),
        ({"depth": -3}, "depth must be a positive integer, not -3"),
    ],
)
def test_dim_parameters(change, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        DimParameters(grants=True, **change)
