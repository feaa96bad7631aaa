"""What is exported, in the tools of others: Verilator, Icarus, Yosys, slang; its companions too."""

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml

from rtl.common.packet import TrafficClass
from sim_top.cli import main
from sim_top.emission.companions import Port, constraints, instantiation, ports_of
from sim_top.emission.portable import portable
from sim_top.emit import LINT, TOPS, WAIVED, emit, written
from sim_top.simulator.toolchain import BuildError, run_tool, verilator_command
from sim_top.synth.tools import yosys
from sw_model.errors import InputError

_CASES = {
    "link": {},
    "link, four channels": {"channels": "4", "rate_numerator": "3", "rate_denominator": "4"},
    "fred": {},
    "fred, five ports of two types": {"ports": "5", "data_types": "bf16+fp32", "operators": "max"},
    "fred, all classes": {"classes": "mp+pp+dp+control"},
    "ace": {},
    "ace, its own ports": {"axi": "0"},
}
_DEFAULT = ("link, four channels", "fred", "ace")
_PARAMETERS = [
    pytest.param(case, marks=() if case in _DEFAULT else pytest.mark.full) for case in _CASES
]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A folder with everything of a case."""

    @cache
    def make(case: str) -> Path:
        folder = tmp_path_factory.mktemp("exported")
        emit(case.split(",")[0], folder, preset="sim", settings=_CASES[case])
        return folder

    return make


def _top(case: str) -> str:
    return case.split(",")[0]


def _lint(top: str, folder: Path) -> None:
    command, environment = verilator_command()
    said = run_tool(
        [
            *command,
            "--lint-only",
            *LINT,
            f"{top}.sv",
            f"{top}_example.v",
            "--top",
            f"{top}_example",
        ],
        directory=folder,
        environment=environment,
    )
    assert "%" not in said


@pytest.mark.full
def test_verilator_lint_of_the_paper_engine(tmp_path):
    """Ports of 128 bytes and 4 MiB of SRAM; with the wrapper 11 MB of text."""
    emit("ace", tmp_path, preset="paper", settings={})
    _lint("ace", tmp_path)


@pytest.mark.full
def test_the_paper_switch(tmp_path):
    """Twelve ports of 64 bytes, and a channel for each class: no warning, and no loop as one
    module; a hundred processor seconds."""
    emit("fred", tmp_path, preset="paper", settings={})
    _lint("fred", tmp_path)
    _one_module("fred", tmp_path)


@pytest.mark.parametrize("case", _PARAMETERS)
def test_verilator_lint(exported, case):
    _lint(_top(case), exported(case))


@pytest.mark.parametrize("case", _PARAMETERS)
def test_icarus(exported, case):
    top = _top(case)
    run_tool(
        ["iverilog", "-g2012", "-t", "null", f"{top}.sv", f"{top}_example.v"],
        directory=exported(case),
    )


@pytest.mark.parametrize("case", _PARAMETERS)
def test_slang(exported, case):
    pytest.importorskip("pyslang", reason="the second front end is not installed")
    from pyslang.ast import Compilation
    from pyslang.syntax import SyntaxTree

    compilation = Compilation()
    for name in (f"{_top(case)}.sv", f"{_top(case)}_example.v"):
        compilation.addSyntaxTree(SyntaxTree.fromFile(str(exported(case) / name)))
    errors = [str(d.code) for d in compilation.getAllDiagnostics() if d.isError()]
    assert errors == []


@pytest.mark.parametrize("case", _PARAMETERS)
def test_yosys(exported, case):
    """No latch, no combinational loop, no net with two drivers or none."""
    top = _top(case)
    script = (
        f"read_verilog -sv {top}.sv; hierarchy -check -top {top}; proc; "
        "select -assert-none t:$dlatch t:$adlatch t:$sr; check -assert"
    )
    try:
        command = yosys()
    except InputError as error:
        pytest.skip(str(error))
    run_tool([*command, "-q", "-p", script], directory=exported(case))


@pytest.mark.parametrize(
    "case",
    [
        *("link, four channels", "fred"),
        *(pytest.param(case, marks=pytest.mark.full) for case in ("link", "ace")),
    ],
)
def test_yosys_across_modules(exported, case):
    """The same of the whole design: a loop may lead through several modules."""
    _one_module(_top(case), exported(case))


def _one_module(top: str, folder: Path) -> None:
    """No latch, no combinational loop, no net with two drivers or none across all modules."""
    try:
        command = yosys()
    except InputError as error:
        pytest.skip(str(error))
    script = (
        f"read_verilog -sv {top}.sv; hierarchy -check -top {top}; proc; flatten; "
        "select -assert-none t:$dlatch t:$adlatch t:$sr; check -assert"
    )
    run_tool([*command, "-q", "-p", script], directory=folder)


def test_a_loop_across_modules_is_found(tmp_path):
    """Each module by itself has none."""
    loop = "  wire a, b;\n  assign y = a;\n  inner i(.a(a), .y(b));\n  inner j(.a(b), .y(a));\n"
    (tmp_path / "pair.sv").write_text(
        "module inner(input a, output y);\n  assign y = ~a;\nendmodule\n"
        f"module pair(output y);\n{loop}endmodule\n"
    )
    with pytest.raises(BuildError, match=r"found logic loop|[Ff]ound and reported 1 problem"):
        _one_module("pair", tmp_path)


@pytest.mark.parametrize(
    "case", ["link, four channels", "fred", pytest.param("ace", marks=pytest.mark.full)]
)
def test_the_same_bytes(exported, tmp_path, case):
    emit(_top(case), tmp_path, preset="sim", settings=_CASES[case])
    for path in exported(case).iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("case", _DEFAULT)
def test_companions(exported, case):
    folder, top = exported(case), _top(case)
    header = {"ace_registers.h"} if top == "ace" else set()
    assert {path.name for path in folder.iterdir()} == header | {
        f"{top}.sv", f"{top}.sdc", f"{top}_example.v", f"{top}.core",
    }  # fmt: skip
    assert "create_clock -name clk -period 5 [get_ports clk]" in (folder / f"{top}.sdc").read_text()
    first, _, core = (folder / f"{top}.core").read_text().partition("\n")
    assert first == "CAPI=2:"
    description = yaml.safe_load(core)
    assert description["name"] == f"antiphon:antiphon:{top}:0.1.0"
    listed = {name for files in description["filesets"].values() for name in files["files"]}
    assert listed == {path.name for path in folder.iterdir()} - {f"{top}.core"}
    lint = description["targets"]["lint"]
    assert lint["toplevel"] == top
    assert lint["flow_options"] == {"tool": "verilator", "verilator_options": LINT}
    assert f"  {top} {top}_0 (" in (folder / f"{top}_example.v").read_text()
    text = (folder / f"{top}.sv").read_text()
    settings = {"link": "channels = 4", "fred": "ports = 4", "ace": "ring_dims = 1"}
    assert f"//   {settings[top]}\n" in text
    assert re.search(rf"^module {top}\(", text, re.MULTILINE)


def _fusesoc(folder: Path, top: str, work: Path) -> subprocess.CompletedProcess[str]:
    """The core's target ``lint``, by FuseSoC, which finds Verilator where a user has it: by its
    name."""
    pytest.importorskip("fusesoc", reason="FuseSoC is not installed")
    (binary,), environment = verilator_command()
    tools = work / "tools"
    tools.mkdir(parents=True)
    command = tools / "verilator"
    command.write_text(f'#!/bin/sh\nexec "{binary}" "$@"\n')
    command.chmod(0o755)
    return subprocess.run(
        [
            *(sys.executable, "-m", "fusesoc.main", "--cores-root", str(folder)),
            *("run", "--work-root", str(work / "build"), "--target", "lint"),
            f"antiphon:antiphon:{top}:0.1.0",
        ],
        cwd=work,
        env=os.environ
        | environment
        | {
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "XDG_CONFIG_HOME": str(work),
            "XDG_CACHE_HOME": str(work),
            "XDG_DATA_HOME": str(work),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("case", ["fred", pytest.param("ace", marks=pytest.mark.full)])
def test_fusesoc_lints_the_core(exported, tmp_path, case):
    result = _fusesoc(exported(case), _top(case), tmp_path)
    assert result.returncode == 0, result.stdout
    assert "verilator -f antiphon_antiphon_" in result.stdout
    assert re.search("warning|error|deprecated", result.stdout, re.IGNORECASE) is None


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("fred.core", '"fred.sv"', '"fried.sv"', "fried.sv"),
        ("fred.core", '"toplevel": "fred"', '"toplevel": "fried"', "MODMISSING|fried"),
        ("fred.core", '"-Wno-CASEINCOMPLETE"', '"-Wcase"', "-Wcase"),
        ("fred.sv", "\nendmodule", "\n  wire loose = nowhere;\nendmodule", "nowhere"),
    ],
)
def test_fusesoc_refuses_a_broken_core(exported, tmp_path, name, old, new, said):
    broken = shutil.copytree(exported("fred"), tmp_path / "broken")
    text = (broken / name).read_text()
    assert old in text
    (broken / name).write_text(text.replace(old, new))
    result = _fusesoc(broken, "fred", tmp_path)
    assert result.returncode != 0
    assert re.search(said, result.stdout), result.stdout


def test_the_page_lists_what_is_waived():
    page = Path(__file__).resolve().parents[1] / "docs" / "toolchain.md"
    _, _, section = page.read_text().partition("\n### Lint\n")
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", section.partition("\n## ")[0], re.MULTILINE)
    assert rows == list(WAIVED.items())
    assert ["-Wall", *(f"-Wno-{name}" for name, _ in rows)] == LINT


def test_constraints():
    text = constraints(_SMALL, "pair", period_ps=800)
    assert "-period 0.8 [get_ports clk]" in text
    assert "set_input_delay 0.32 -clock clk [get_ports [list \\\n  a \\\n  b]]\n" in text


_SMALL = """\
module pair(clk, a, b, y);
  wire [1:0] t;
  input clk;
  wire clk;
  input [7:0] a;
  wire [7:0] a;
  input b;
  wire b;
  output [7:0] y;
  reg [7:0] y;
  always_comb begin
    y = a;
    if (b) y[7:4] = 4'h5;
  end
endmodule
"""


def test_ports():
    assert ports_of(_SMALL, "pair") == (
        Port("clk", "input", 1), Port("a", "input", 8), Port("b", "input", 1),
        Port("y", "output", 8),
    )  # fmt: skip
    example = instantiation(_SMALL, "pair")
    assert "  output wire     [7:0] y\n" in example
    assert "    .clk (clk),\n" in example
    with pytest.raises(ValueError, match=r"^the text must have a module 'pear'$"):
        ports_of(_SMALL, "pear")
    with pytest.raises(ValueError, match=r"^module 'pair' must declare its port 'b'$"):
        ports_of(_SMALL.replace("  input b;\n", ""), "pair")


_BENCH = """\
module bench;
  reg [7:0] a = 8'h3c; reg b = 1'b1; wire [7:0] y; wire [7:0] z;
  pair pair_0 (.clk(1'b0), .a(a), .b(b), .y(y));
  pair pair_1 (.clk(1'b0), .a(8'h12), .b(1'b0), .y(z));
  initial begin
    #1 $display("%h %h", y, z);
    a = 8'h77;
    #1 $display("%h", y);
    $finish;
  end
endmodule
"""


def test_icarus_runs_what_is_exported(tmp_path):
    """Also processes whose inputs never move."""
    if shutil.which("iverilog") is None:
        pytest.skip("Icarus is not installed")
    (tmp_path / "pair.sv").write_text(portable(_SMALL))
    (tmp_path / "bench.sv").write_text(_BENCH)
    run_tool(["iverilog", "-g2012", "-o", "bench", "pair.sv", "bench.sv"], directory=tmp_path)
    said = subprocess.run(
        ["vvp", "-n", "bench"], cwd=tmp_path, capture_output=True, text=True, timeout=20, check=True
    ).stdout
    assert said.split() == ["5c", "12", "57"]


def test_portable():
    text = portable(_SMALL)
    assert "always_comb" not in text.split("`endif", 1)[1]
    assert text.count("`ANTIPHON_START") == 1
    assert (
        "`ANTIPHON_START"
        not in portable("module m(a);\n  input a;\nendmodule\n").split("`endif")[1]
    )


@pytest.mark.parametrize("classes", [(), (TrafficClass.MP, TrafficClass.DP)])
@pytest.mark.parametrize(
    "change", [{"flit_bytes": 1024}, {"control_bytes": 24}, {"control_depth": 0}]
)
def test_a_switch_without_control_has_nothing_of_it_to_refuse(change, classes):
    fred = TOPS["fred"]
    switch = fred.build(dict(fred.presets["sim"]) | {"classes": classes} | change)
    assert not switch.has_control
    assert switch.control_bytes == switch.packet_bytes


def test_what_a_switch_has_for_control():
    fred = TOPS["fred"]
    switch = fred.build(dict(fred.presets["paper"]))
    assert (switch.input_depth, switch.output_credits) == ((384, 384, 384, 32),) * 2
    assert switch.control_bytes == 512


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"data_types": "fp61"},
            "data_types must be of fp16, bf16, fp32, int32, joined by +, not 'fp61'",
        ),
        ({"operators": ""}, "operators must be of sum, max, min, joined by +, not ''"),
        (
            {"classes": "mp+dp+x"},
            "classes must be shared, or of mp, pp, dp, control, joined by +, not 'mp+dp+x'",
        ),
        (
            {"classes": "control"},
            "fred cannot be built: classes must be traffic classes in falling priority, one for "
            "data at least, not control",
        ),
        (
            {"classes": "mp+control", "flit_bytes": "1024"},
            "fred cannot be built: control_bytes must be a multiple of flit_bytes in 1024..65535, "
            "not 512",
        ),
        (
            {"classes": "mp+control", "control_depth": "0"},
            "fred cannot be built: control_depth must be a positive integer, not 0",
        ),
        (
            {"classes": "mp+control", "control_credits": "-1"},
            "fred cannot be built: control_credits must be a positive integer, not -1",
        ),
        ({"ports": "four"}, "ports must be a whole number, not 'four'"),
        ({"ports": "2000000"}, "ports must be at most 1048576, not '2000000'"),
        ({"port": "4"}, "unknown parameter 'port' of fred (did you mean 'ports'?)"),
        (
            {"ports": "1"},
            "fred cannot be built: ports must be an integer in 2..64, not 1",
        ),
    ],
)
def test_bad_settings(settings, message, tmp_path):
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        emit("fred", tmp_path / "o", preset="sim", settings=settings)
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("preset", ["sim", "paper"])
@pytest.mark.parametrize(
    ("top", "settings", "needed"),
    [
        ("ace", {"axi_qos": "0", "axi": "0"}, "set axi to 1"),
        ("ace", {"completions": "32", "axi": "0"}, "set axi to 1"),
        *(
            (
                "fred",
                {key: "1024", "classes": classes},
                "set classes to some with control, such as mp+dp+control",
            )
            for key in ("control_bytes", "control_depth", "control_credits")
            for classes in ("shared", "mp+dp")
        ),
        (
            "fred",
            {"starvation_bound": "4", "classes": "mp"},
            "set classes to several",
        ),
    ],
)
def test_settings_without_effect(tmp_path, capsys, top, settings, needed, preset):
    options = [f"--set={key}={value}" for key, value in settings.items()]
    assert main(["emit", top, "--out", str(tmp_path / "o"), "--preset", preset, *options]) == 2
    message = f"{next(iter(settings))} has no effect on this {top}: {needed}"
    (said,) = capsys.readouterr().err.splitlines()
    assert message in said
    assert "leave it out" in said
    assert not (tmp_path / "o").exists()


@pytest.mark.full
@pytest.mark.parametrize("key", ["control_depth", "control_credits", "starvation_bound"])
def test_settings_with_an_effect(key):
    """What is refused where no class needs it changes what is written where one does."""
    small, large = (
        re.sub(r"^//.*\n", "", text, flags=re.MULTILINE)
        for text, _ in (
            written(
                "fred",
                preset="sim",
                settings={"ports": "2", "classes": "mp+control", key: value},
            )
            for value in ("40", "50")
        )
    )
    assert small != large


@pytest.mark.parametrize(
    ("top", "settings", "message"),
    [
        ("ace", {"fred_dims": "-1"}, "ace cannot be built: fred_dims must be in 0..15, not -1"),
        ("ace", {"ring_dims": "16"}, "ace cannot be built: ring_dims must be in 0..15, not 16"),
        (
            "ace",
            {"ring_dims": "0", "fred_dims": "0"},
            "ace cannot be built: dims must be 1 to 15 dims, not 0",
        ),
        (
            "ace",
            {"link_depth": "0"},
            "ace cannot be built: link_depth must be in 1..1048576, not 0",
        ),
        ("ace", {"adder_depth": "7"}, "ace cannot be built: adder_depth must be in 1..6, not 7"),
        ("ace", {"axi": "2"}, "ace cannot be built: axi must be in 0..1, not 2"),
        (
            "ace",
            {"axi_address_bits": "4"},
            "ace cannot be built: axi_address_bits must be in 12..64, not 4",
        ),
        (
            "ace",
            {"axi_burst_beats": "512"},
            "ace cannot be built: axi_burst_beats must be in 1..256, not 512",
        ),
        (
            "ace",
            {"classes": "control"},
            "ace cannot be built: classes must be of mp, pp, dp in this order, each once, or None, "
            "not 'control'",
        ),
        ("ace", {"classes": "mp+mp"}, "classes must name each of them once, not 'mp+mp'"),
        ("ace", {"data_types": "fp16+fp16"}, "data_types must name each of them once, not 'fp16+f"),
        (
            "link",
            {"rate_denominator": "0"},
            "link cannot be built: rate_denominator must be in 1..1048576, not 0",
        ),
        (
            "link",
            {"rate_numerator": "5", "rate_denominator": "4"},
            "link cannot be built: rate_numerator must be in 1..4, not 5",
        ),
        (
            "link",
            {"depth": "3", "credits": "9"},
            "link cannot be built: credits must be in 1..3, n",
        ),
    ],
)
def test_bad_settings_by_the_names_they_have_here(top, settings, message, tmp_path):
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        emit(top, tmp_path / "o", preset="sim", settings=settings)
    assert not (tmp_path / "o").exists()
