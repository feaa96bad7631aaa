"""The memory of the simulation shell, alone, on both simulators."""

import importlib.resources

import pytest

from sim_top.simulator import Model, run_cocotb

WORDS = 128


@pytest.mark.parametrize(
    ("simulator", "read_latency", "write_latency", "stalls"),
    [
        ("icarus", 2, 1, 0),
        ("icarus", 13, 7, 0),
        ("icarus", 13, 7, 90),
        ("verilator", 13, 7, 0),
        ("verilator", 13, 7, 90),
        pytest.param("verilator", 2, 1, 0, marks=pytest.mark.full),
    ],
)
def test_sim_memory(simulator, read_latency, write_latency, stalls):
    source = importlib.resources.files("sim_top").joinpath("verilog", "sim_memory.sv").read_text()
    parameters = {
        "WORDS": WORDS,
        "READ_LATENCY": read_latency,
        "WRITE_LATENCY": write_latency,
        "QUEUE": 8,
    }
    model = Model(
        top="sim_memory",
        sources={"sim_memory.sv": source},
        simulator=simulator,
        public={"sim_memory": ("*",)},
        parameters=parameters,
    )
    run_cocotb(
        model,
        module="testbenches.tb_sim_memory",
        parameters={
            "words": WORDS,
            "read_latency": read_latency,
            "write_latency": write_latency,
            "stalls": stalls,
        },
        plusargs=(f"memory_stalls={stalls}", "memory_seed=3"),
    )
