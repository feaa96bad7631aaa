"""The simulation shell: clock, memories, events, watchdog; and the same work without Python."""

import re

import pytest

from sim_top.shell import MemoryAttachment, ShellPlan, shell_model
from sim_top.shell.top import write_top
from sim_top.simulator import Model, build, run_bare, run_cocotb
from testbenches.copier import Copier

PLAN = ShellPlan(
    events=("done",),
    activity="activity",
    outstanding="busy",
    public=("start", "length", "target", "ticks"),
    memories=(MemoryAttachment(read="read", write="write"),),
    memory_words=16384,
    read_latency=40,
    write_latency=20,
)


def _model(simulator: str) -> Model:
    return shell_model(Copier(), PLAN, name="copier", simulator=simulator, optimise="-O2")


def _run(simulator: str, *, cycles: int, testcase: str | None = None, record: str | None = None):
    parameters = {
        "cycles": cycles,
        "read_latency": PLAN.read_latency,
        "write_latency": PLAN.write_latency,
        "words": PLAN.memory_words,
        "record": record,
    }
    return run_cocotb(
        _model(simulator),
        module="testbenches.tb_shell",
        testcase=testcase,
        parameters=parameters,
    )


@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
def test_shell(simulator):
    result = _run(simulator, cycles=10_000)
    assert len(result.tests) == 6


def test_free_run_of_a_million_cycles_and_its_bare_twin(tmp_path):
    """The recorded run repeats the same cycles in C++; the shell costs little beside it."""
    script = tmp_path / "script.txt"
    log = _run("verilator", cycles=1_000_000, testcase="free_run", record=str(script)).log
    found = re.search(r"free run: (\d+) cycles/s", log)
    assert found is not None
    bare = run_bare(_model("verilator"), script=script)
    assert bare.cycles > 1_000_000
    print(f"through cocotb {found.group(1)} cycles/s, bare {bare.cycles_per_second:.0f} cycles/s")
    assert int(found.group(1)) > 100_000


def test_an_unchanged_model_is_not_built_again():
    directory = build(_model("icarus"))
    marker = (directory / ".complete").stat().st_mtime_ns
    assert build(_model("icarus")) == directory
    assert (directory / ".complete").stat().st_mtime_ns == marker


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"events": ("start",)}, "an event must be an output of the component, not 'start'"),
        ({"activity": "none"}, "activity must be an output of the component, not 'none'"),
        ({"public": ("none",)}, "a public signal must be a port of the component, not 'none'"),
        (
            {"memories": (MemoryAttachment(read="none", write="write"),)},
            "a read response must be an input of the component, not 'none__data__payload'",
        ),
    ],
)
def test_wrong_plans(change, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        write_top(Copier(), ShellPlan(**change), name="copier")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"memory_words": 0}, "memory_words must be at least 1, not 0"),
        ({"read_latency": 1}, "read_latency must be at least 2 cycles, not 1"),
        ({"write_latency": 0}, "write_latency must be at least 1 cycle, not 0"),
    ],
)
def test_wrong_capacities(change, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        ShellPlan(**change)


def test_only_signals_of_the_plan_are_public():
    control = _model("verilator").public["simulation"]
    assert "start" in control
    assert "read__data__payload" not in control


def test_bare_needs_a_shell_model(tmp_path):
    with pytest.raises(ValueError, match=r"^model must be a shell model on verilator, not icarus$"):
        run_bare(_model("icarus"), script=tmp_path / "script.txt")
