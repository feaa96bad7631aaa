"""The engine on AXI (see the bench)."""

import re
from dataclasses import replace

import pytest

from rtl.axi.endpoint import AceAxi
from rtl.axi.parameters import AxiParameters
from sim_top.simulator import run_cocotb
from tests.ace_axi_models import ENGINE, EXPECTED, model

WORK = {"operation": "ar", "chunk_flits": 12, "chunks": 4, "data_type": "INT32", "stall": 30}


def run(ranks: int, simulator: str, *, testcase: str = "collective", seed: int = 1, **work):
    result = run_cocotb(
        model(ranks, simulator),
        module="testbenches.tb_ace_axi",
        testcase=testcase,
        seed=seed,
        parameters={
            "ranks": ranks,
            "expected": EXPECTED,
            "packet_flits": ENGINE.packet_flits,
        }
        | WORK
        | work,
    )
    print("\n".join(line for line in result.log.splitlines() if "longest" in line))


def test_two_on_icarus():
    """Chunks that lie across 4 KiB boundaries."""
    run(2, "icarus", shift=230)


def test_four_on_verilator():
    """The limits of outstanding bursts are reached, and kept, in both directions."""
    run(4, "verilator", data_type="FP16", shift=245, chunk_flits=15, stall=50, reach=1)


def test_registers():
    built = {
        "SHAPE": {"flit_bytes": 16, "contexts": 2, "dims": 1, "completions": 16},
        "SRAM": {"flits": 512, "buffers": 8},
        "LIMITS": {"program_steps": 16, "packet_bytes": 64},
        "ARITHMETIC": {"data_types": 0b1001, "operators": 0b001},
        "PROTECTION": {"regions": 4, "collectives": 4},
        "MEMORY": {"burst_beats": 4, "reads": 2, "writes": 2},
    }
    run(2, "icarus", testcase="registers", built=built)


def test_doorbells_without_room():
    run(2, "icarus", testcase="doorbells_without_room", stall=0)


@pytest.mark.full
@pytest.mark.parametrize("operation", ["ar", "rs", "ag"])
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_wide(ranks, simulator, operation):
    """Quiet and nervous ports, places in a page, several seeds."""
    for seed, stall in enumerate((0, 20, 60), start=1):
        run(
            ranks,
            simulator,
            operation=operation,
            seed=seed,
            stall=stall,
            shift=97 * seed,
            chunk_flits=16 + seed,
            chunks=9,
        )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"address_bits": 11}, "address_bits must be in 12..64, not 11"),
        ({"id_bits": 0}, "id_bits must be in 1..16, not 0"),
        ({"id_bits": 2, "read_id": 4}, "read_id must be in 0..3, not 4"),
        ({"write_id": 16}, "write_id must be in 0..15, not 16"),
        ({"prot": 8}, "prot must be in 0..7, not 8"),
        ({"qos": -1}, "qos must be in 0..15, not -1"),
        ({"cache": 16}, "cache must be in 0..15, not 16"),
        ({"burst_beats": 257}, "burst_beats must be in 1..256, not 257"),
        ({"reads": 0}, "reads must be in 1..256, not 0"),
        ({"writes": 1.5}, "writes must be in 1..256, not 1.5"),
        ({"gather_cycles": 0}, "gather_cycles must be in 1..255, not 0"),
    ],
)
def test_wrong_attributes(changes, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        AxiParameters(**changes)


@pytest.mark.parametrize(("flit_bytes", "least"), [(16, 36), (64, 38), (128, 39)])
def test_an_address_reaches_every_flit(flit_bytes: int, least: int):
    """2**32 flits, and not less: nothing is cut off in silence."""
    parameters = replace(ENGINE, flit_bytes=flit_bytes, packet_bytes=4 * flit_bytes)
    AceAxi(parameters=parameters, axi=AxiParameters(address_bits=least))
    message = (
        f"address_bits must be at least {least}, to reach 2**32 flits of {flit_bytes} bytes, "
        f"not {least - 1}"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        AceAxi(parameters=parameters, axi=AxiParameters(address_bits=least - 1))


def test_dims_of_several_ports_have_no_streams():
    dims = (replace(ENGINE.dims[0], grants=True, ports=3),)
    with pytest.raises(ValueError, match=r"^a dim must have one port on AXI, not 3$"):
        AceAxi(parameters=replace(ENGINE, dims=dims))


@pytest.mark.parametrize(
    ("completions", "message"),
    [
        (0, "completions must be a positive integer, not 0"),
        (256, "completions must be at most 255, not 256"),
    ],
)
def test_wrong_completions(completions, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        AceAxi(parameters=ENGINE, completions=completions)
