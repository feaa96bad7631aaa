"""The engine on AXI with two dims and two classes (see the bench)."""

import pytest

from sim_top.simulator import run_cocotb
from tests.ace_axi_models import EXPECTED, TORUS_ENGINE, torus_model

BUILT = {
    "ID": {"version": 1, "magic": int.from_bytes(b"ACE")},
    "SHAPE": {"flit_bytes": 16, "contexts": 2, "dims": 2, "completions": 16},
    "SRAM": {"flits": 384, "buffers": 16},
    "LIMITS": {"program_steps": 16, "packet_bytes": 64},
    "ARITHMETIC": {"data_types": 0b1001, "operators": 0b001},
    "GRANTS": 0b11,
    "MEMORY": {"burst_beats": 4, "reads": 2, "writes": 2},
    "PROTECTION": {"regions": 4, "collectives": 4},
    "CLASSES": {"count": 2, "first": 0, "second": 2, "third": 0},
}
"""What the registers say of an engine's parameters."""


def run(testcase: str, simulator: str = "verilator", *, seed: int = 1, **work) -> None:
    result = run_cocotb(
        torus_model(simulator),
        module="testbenches.tb_ace_axi_torus",
        testcase=testcase,
        seed=seed,
        timeout_seconds=1200,
        parameters={"expected": EXPECTED, "built": BUILT, "doorbells": TORUS_ENGINE.doorbells}
        | work,
    )
    print("\n".join(line for line in result.log.splitlines() if " cycles" in line))


def test_two_classes():
    run("two_classes", stall=30, chunks=2, flits=[32, 32, 32, 32])


def test_registers():
    run("registers")


@pytest.mark.full
def test_wide():
    """Quiet and nervous ports, several seeds, more chunks than there are buffers."""
    run("registers", seed=2)
    for seed, (stall, flits) in enumerate(((0, 96), (20, 80), (60, 64)), start=2):
        run("two_classes", seed=seed, stall=stall, chunks=flits // 16, flits=[flits] * 4)


@pytest.mark.full
def test_two_classes_on_icarus():
    """A thousand cycles take it a minute of processor time."""
    run("two_classes", "icarus", seed=2, stall=20, chunks=2, flits=[32] * 4)
