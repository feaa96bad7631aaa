"""The runner of unit simulations: what passes, what fails, and what it says."""

import re
import shutil
from pathlib import Path

import pytest

from sim_top.emission import emit_systemverilog
from sim_top.simulator import BuildError, Model, SimulationError, build, run_cocotb, simulate
from sim_top.simulator.cache import build_root, cached, content_key
from sim_top.simulator.toolchain import run_tool
from sw_model.errors import InputError
from testbenches.chain import Chain

BENCH = "testbenches.tb_chain"


def _chain(**options):
    defaults = {"testbench": BENCH, "parameters": {"sum": 3}}
    return simulate(Chain([1, 1]), **(defaults | options))


def test_a_pass_names_its_tests_and_prints_its_seed(capsys):
    result = _chain(seed=17)
    assert "increments_under_stalls" in result.tests
    assert "seed 17" in capsys.readouterr().out
    assert "Seeding Python random module with 17" in result.log


def test_the_seed_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("ANTIPHON_SEED", "99")
    assert "Seeding Python random module with 99" in _chain().log


def test_one_test_of_many():
    log = _chain(testcase="increments_under_stalls", parameters={"sum": 3, "wrong": "x"}).log
    assert "a_wrong_expectation" not in log


@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
def test_a_failing_test_is_named_with_its_reason(simulator):
    with pytest.raises(SimulationError) as caught:
        _chain(simulator=simulator, parameters={"sum": 3, "wrong": "wrong"}, seed=5)
    text = str(caught.value)
    assert text.startswith(f"{BENCH} on {simulator} (seed 5): a_wrong_expectation failed: ")
    assert "the expectation is wrong" in text
    directory = re.search(r"^run directory: (.*)$", text, re.MULTILINE)
    assert (Path(directory.group(1)) / "simulation.log").is_file()


@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
def test_an_assertion_of_the_rtl_fails_the_run(simulator):
    with pytest.raises(SimulationError, match=r"the count reached its limit\n"):
        simulate(
            Chain([1, 1], limit=50),
            testbench=BENCH,
            simulator=simulator,
            parameters={"sum": 3},
        )


def test_the_assertions_condition_is_what_fails():
    simulate(Chain([1, 1], limit=201), testbench=BENCH, parameters={"sum": 3})


def test_a_run_without_end_is_given_up():
    with pytest.raises(SimulationError, match="no end within 3 s of wall time"):
        _chain(parameters={"sum": 3, "hang": True}, timeout_seconds=3)


def test_a_bench_that_does_not_exist_fails():
    with pytest.raises(SimulationError, match="tb_nowhere"):
        _chain(testbench="testbenches.tb_nowhere")


def test_a_test_that_does_not_exist_fails():
    with pytest.raises(SimulationError):
        _chain(testcase="nothing_of_this_name")


def test_sources_that_do_not_compile_are_named():
    with pytest.raises(BuildError, match=r"iverilog ended with status \d+ in "):
        build(Model(top="dut", sources={"dut.sv": "module dut; nonsense"}, simulator="icarus"))


def test_the_simulator_must_be_known():
    message = r"^simulator must be one of \('icarus', 'verilator'\), not 'spice'$"
    with pytest.raises(ValueError, match=message):
        Model(top="dut", sources={}, simulator="spice")


@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
def test_a_waveform_is_written(tmp_path, simulator):
    _chain(waves=tmp_path / "dump.fst", simulator=simulator)
    assert (tmp_path / "dump.fst").stat().st_size > 100


def test_what_was_built_is_not_built_again(tmp_path, monkeypatch):
    monkeypatch.setenv("ANTIPHON_BUILD", str(tmp_path))
    source = emit_systemverilog(Chain([1, 1]), name="dut")
    model = Model(top="dut", sources={"dut.sv": source}, simulator="icarus")
    directory = build(model)
    assert directory.is_relative_to(tmp_path)
    (directory / model.executable).unlink()  # a second build would make it again
    assert build(model) == directory
    assert not (directory / model.executable).exists()


def test_a_build_that_fails_does_not_count(tmp_path, monkeypatch):
    monkeypatch.setenv("ANTIPHON_BUILD", str(tmp_path))
    attempts = []

    def fill(directory):
        attempts.append(list(directory.iterdir()))
        (directory / "piece").touch()
        if len(attempts) == 1:
            raise BuildError("half way")

    with pytest.raises(BuildError):
        cached("kind", "key", fill)
    assert cached("kind", "key", fill) == build_root() / "kind" / "key"
    assert attempts == [[], []]  # each attempt starts with an empty directory


def test_content_keys_tell_pieces_apart():
    assert content_key("ab", "c") != content_key("a", "bc")
    assert content_key("ab", b"c") == content_key(b"ab", "c")


@pytest.mark.parametrize(
    "change",
    [
        {"optimise": "-O3"},
        {"parameters": {"N": 2}},
        {"public": {"dut": ("x",)}},
        {"sources": {"dut.sv": "module dut; wire x; endmodule"}},
        {"timing": True},
    ],
)
def test_every_part_of_a_model_is_in_its_key(change):
    plain = {"top": "dut", "sources": {"dut.sv": "module dut; endmodule"}}
    assert Model(**plain).key != Model(**(plain | change)).key


def test_run_needs_no_pytest(tmp_path):
    """Outside pytest cocotb's own runner returns 0 with failing tests; this one does not."""
    source = emit_systemverilog(Chain([1]), name="dut")
    model = Model(top="dut", sources={"dut.sv": source}, simulator="icarus")
    with pytest.raises(SimulationError, match="increments_under_stalls failed"):
        run_cocotb(model, module=BENCH, parameters={"sum": 77})


ALWAYS_COMB = """\
module dut(input [1:0] a, output [1:0] o);
  reg [1:0] first;
  reg [1:0] second;
  assign o = first;
  always_comb begin
    first = 2'd0;
    if (second != 2'd3) first = a;
  end
  always_comb begin
    second = 2'd3;
    if (first != 2'd3) second = first;
  end
endmodule
"""
"""Two processes that read each other, as Yosys writes them."""


def test_icarus_gets_no_always_comb(tmp_path, monkeypatch):
    monkeypatch.setenv("ANTIPHON_BUILD", str(tmp_path))
    directory = build(Model(top="dut", sources={"dut.sv": ALWAYS_COMB}, simulator="icarus"))
    text = (directory / "dut.sv").read_text()
    assert "always_comb" not in text
    assert text.count("  always @* begin\n    if (at_start_) begin end\n") == 2
    # Once at time 0, or a process whose inputs never move would leave its outputs unknown.
    assert text.count("  reg at_start_ = 1'b0;\n  initial at_start_ <= 1'b1;\n") == 1
    plain = "module dut(input a, output o);\n  assign o = a;\nendmodule\n"
    directory = build(Model(top="dut", sources={"dut.sv": plain}, simulator="icarus"))
    assert (directory / "dut.sv").read_text() == plain


def test_waveforms_need_libraries(tmp_path, monkeypatch):
    """Without their headers nothing is compiled first."""
    monkeypatch.setenv("ANTIPHON_BUILD", str(tmp_path / "build"))
    fake = tmp_path / "g++"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    source = emit_systemverilog(Chain([1, 1]), name="dut")
    message = (
        r"^waveforms of a Verilator model need the Debian packages liblz4-dev and zlib1g-dev; "
        r"install them, or run without --waves$"
    )
    with pytest.raises(InputError, match=message):
        build(Model(top="dut", sources={"dut.sv": source}, waves=True))


def test_a_tool_that_is_not_there(tmp_path):
    message = "no-such-tool must be installed and on PATH; run `make setup`"
    with pytest.raises(InputError, match=f"^{message}$"):
        run_tool(["no-such-tool", "-x"], directory=tmp_path)


@pytest.mark.parametrize("tool", ["make", "g++"])
def test_a_compiler_that_is_not_there(tool, monkeypatch, tmp_path):
    """Verilator would run it in the middle of its work, and fail with what a shell says."""
    monkeypatch.setenv("ANTIPHON_BUILD", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name: None if name == tool else f"/usr/bin/{name}")
    sources = {"m.sv": "module m(input clk); endmodule\n"}
    message = f"{tool} must be installed and on PATH; run `make setup`"
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        build(Model(top="m", sources=sources, simulator="verilator"))
