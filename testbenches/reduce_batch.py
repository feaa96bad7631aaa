"""Millions of reductions through the RTL: the emitted ReduceFlit in a bare Verilator loop."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtl.arith.reduce import ReduceFlit
from rtl.common.packet import DataType, Operator
from sim_top.emission import emit_systemverilog
from sim_top.simulator.cache import cached, content_key
from sim_top.simulator.toolchain import (
    make_arguments,
    make_environment,
    run_tool,
    verilator_command,
    verilator_version,
)
from sw_model.collective.numerics import element_type

__all__ = ["build_batch", "run_batch"]

_MAIN = Path(__file__).with_name("reduce_flit.cpp")


def build_batch(dut: ReduceFlit) -> Path:
    """Compile ``dut`` with the loop of ``reduce_flit.cpp``; returns the executable."""
    source = emit_systemverilog(dut, name="dut")
    main = _MAIN.read_text()

    def fill(directory: Path) -> None:
        (directory / "dut.sv").write_text(source)
        (directory / "main.cpp").write_text(main)
        command, environment = verilator_command()
        run_tool(
            [
                *command, "--cc", "--exe", "--no-timing", "-Mdir", ".", "--prefix", "Vdut",
                "-Wno-fatal", "-Wno-WIDTH", "--x-assign", "fast", "-o", "batch",
                "main.cpp", "dut.sv",
            ],
            directory=directory,
            environment=environment,
        )  # fmt: skip
        run_tool(
            ["make", "-f", "Vdut.mk", *make_arguments(optimise="-O1")],
            directory=directory,
            environment=environment | make_environment(),
        )

    return cached("batch", content_key(verilator_version(), source, main), fill) / "batch"


def run_batch(
    executable: Path,
    dut: ReduceFlit,
    a: NDArray[Any],
    b: NDArray[Any],
    data_type: DataType,
    operator: Operator,
) -> NDArray[Any]:
    """Results of ``a (operator) b`` by the RTL; also checks the latency of each.

    Parameters
    ----------
    executable : from :func:`build_batch` of a component built like ``dut``
    a, b : 1-D arrays of the type's storage; padded with zeros to whole flits

    Raises
    ------
    AssertionError
        where a result is early, late, or missing.
    """
    kind = element_type(data_type.name.lower())
    lanes = dut.flit_bytes // kind.bytes
    flits = -(-len(a) // lanes)
    operands = np.zeros((flits, 2, lanes), kind.storage)
    for index, side in enumerate((a, b)):
        padded = np.zeros(flits * lanes, kind.storage)
        padded[: len(side)] = side
        operands[:, index] = padded.reshape(flits, lanes)
    result = subprocess.run(
        [executable, str(int(data_type)), str(int(operator)), str(dut.depth)],
        input=operands.tobytes(),
        capture_output=True,
        check=False,
    )
    if result.returncode:
        raise AssertionError(result.stderr.decode() or f"status {result.returncode}")
    out = np.frombuffer(result.stdout, kind.storage)
    assert len(out) == flits * lanes, f"{len(out)} results for {flits * lanes} pairs"
    return out[: len(a)]
