"""The memory of the simulation shell, alone, on both simulators."""

import importlib.resources

import pytest

from sim_top.simulator import Model, run_cocotb
from sim_top.simulator.run import SimulationError

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
    run(simulator, read_latency, write_latency, stalls)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        # what is left over is lost; it is saved without end; a cycle too late; the other's rate
        ("(taken ? saved - {2'd0, cost} : saved)", "(taken ? 18'd0 : saved)"),
        ("if (saved_next > most) saved_next = most;", ""),
        ("read_saved >= {2'd0, read_cost}", "read_saved > {2'd0, read_cost}"),
        ("write_saved, write_gain, write_cost", "write_saved, read_gain, read_cost"),
        ("write_ready = write_saved >= {2'd0, write_cost} &&", "write_ready ="),
    ],
)
def test_a_wrong_pace_is_noticed(right, wrong):
    with pytest.raises(SimulationError):
        run("icarus", 13, 7, 0, right=right, wrong=wrong)


def run(simulator, read_latency, write_latency, stalls, *, right="", wrong=""):
    """The bench, on a memory in which ``right``, found exactly once, reads ``wrong``."""
    source = importlib.resources.files("sim_top").joinpath("verilog", "sim_memory.sv").read_text()
    if right:
        assert source.count(right) == 1, right
        source = source.replace(right, wrong)
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
