"""What the benches reach in the RTL: how it is counted, and that every point is reached."""

import re

import pytest

from rtl.ace.tx_dma import TxDma
from sim_top.coverage.exclusions import CONSTANT, constants, reason
from sim_top.coverage.instrument import instrumented
from sim_top.coverage.measured import Counter, counters
from sim_top.coverage.points import GROUPS, POINTS, conditions
from sim_top.coverage.report import Bench, document, figures, markdown, missing, write
from sim_top.simulator import Model, simulate
from tests.coverage_benches import BENCHES, collect, main
from tests.test_ace_dma import TX
from tests.test_fred_micro_switch import build

_KEYS = {
    "f": "dut.sv",
    "l": "7",
    "n": "3",
    "t": "toggle",
    "page": "v_toggle/part",
    "o": "a[2]:0->1",
}


def _line(count: int, **fields: str) -> str:
    key = "".join(f"\1{name}\2{value}" for name, value in (_KEYS | fields).items())
    return f"C '{key}' {count}\n"


def test_counters_of_one_design_are_added_up(tmp_path):
    (tmp_path / "x.1.dat").write_text("# SystemC::Coverage-3\n" + _line(2) + _line(0, l="8"))
    (tmp_path / "x.2.dat").write_text(_line(3))
    (tmp_path / "y.1.dat").write_text(_line(1, page="v_line/part", o="if", n="4"))
    first = {"design": "x", "kind": "toggle", "module": "part", "what": "a[2]:0->1"}
    assert counters(tmp_path.glob("*.dat")) == [
        Counter(**first, line=7, count=5),
        Counter(**first, line=8, count=0),
        Counter(design="y", kind="line", module="part", line=7, what="if#4", count=1),
    ]


def test_what_is_no_counter_is_refused(tmp_path):
    path = tmp_path / "x.1.dat"
    path.write_text("nothing\n")
    text = f"{path}:1 must be a counter, not 'nothing'"
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        counters([path])


def test_a_bench_that_left_nothing_is_an_error(tmp_path):
    text = f"{tmp_path / 'a'} must hold what a bench has counted"
    with pytest.raises(FileNotFoundError, match=f"^{re.escape(text)}$"):
        figures(tmp_path, [Bench(name="a", top="")])


_TEXT = """\
module part(clk, o);
  wire [3:0] o;
  wire c;
  assign o[3:2] = 2'h0;
  assign c = 1'h1;
  assign o[0] = clk;
endmodule
"""


def test_bits_that_are_constant_are_not_asked_for():
    found = constants(_TEXT)
    assert found == {"part": {"o[3]", "o[2]", "c"}}
    assert reason("o[3]", found["part"]) == reason("c", found["part"]) == CONSTANT
    assert reason("o[0]", found["part"]) is None
    assert reason("sent__1[7]", frozenset()) is None
    assert reason("dim_0_sent[8]", frozenset()) == (
        "counters of flits, packets and errors: the upper bits of their adders"
    )


def test_only_models_on_verilator_count():
    model = Model(top="part", sources={"part.sv": _TEXT}, simulator="icarus", blocks=("part",))
    assert instrumented(model) is model
    counted = instrumented(Model(top="part", sources=model.sources, blocks=("part",)))
    assert counted.blocks == ()
    assert "--coverage-toggle" in counted.options
    assert instrumented(counted) is counted


_DEMULTIPLEXER = """\
module demultiplexer_4(clk, rst, i, mode, o__0, o__1, o__2);
  input [135:0] i;
  output [135:0] o__0;
  output [135:0] o__1;
  output [135:0] o__2;
endmodule
"""


def test_points_stand_in_the_module_they_are_of():
    found = {point.name: text for point, text in conditions("demultiplexer_4", _DEMULTIPLEXER)}
    assert found == {
        "demultiplexer idle": "mode == 2'd0",
        **{f"demultiplexer way {k}": f"mode == 2'd{k + 1} && i[0]" for k in range(3)},
    }
    assert not list(conditions("demultiplexer", _DEMULTIPLEXER.replace("output [135:0] o__2", "")))
    model = instrumented(Model(top="x", sources={"x.sv": _DEMULTIPLEXER}))
    assert model.sources["x.sv"].count("cover property (@(posedge clk) disable iff (rst) (") == 4


def test_points_are_told_apart():
    assert len({point.label for point in POINTS}) == len({p.name for p in POINTS}) == len(POINTS)
    assert {point.group for point in POINTS} == set(GROUPS)
    # R and D: 4 ways on each of 2 sides; 12 modes of RD; 4 ways of the odd port's pair.
    assert sum(point.group == "mode" for point in POINTS) == 2 * 16 + 12 + 2 * 4


def test_a_part_of_a_switch_and_one_of_an_engine_are_counted(tmp_path, monkeypatch):
    """D reaches its own 16 modes and no other point; of the DMA lines and toggles are counted."""
    monkeypatch.setenv("ANTIPHON_COVERAGE", str(tmp_path / "small"))
    dut = build("D")
    simulate(
        dut,
        name="distribute_switch",
        testbench="testbenches.tb_fred_micro_switch",
        simulator="verilator",
        parameters={
            "kind": "D",
            "middle_copies": 3,
            "flit_bytes": dut.flit_bytes,
            "latency": dut.latency,
            "data_types": ["fp16", "int32"],
            "operators": ["sum"],
            "cycles": 1000,
        },
    )
    monkeypatch.setenv("ANTIPHON_COVERAGE", str(tmp_path / "dma"))
    simulate(
        TxDma(**TX), testbench="testbenches.tb_ace_tx_dma", simulator="verilator", parameters=TX
    )
    found = write(tmp_path, [Bench(name="small", top=""), Bench(name="dma", top="TxDma")])
    reached = {point.name for point in POINTS if found.points[point.label]}
    sides = ("idle", "way 0", "way 1", "way 2")
    assert reached == {f"D side 0 {a} side 1 {b}" for a in sides for b in sides}
    assert list(found.sources) == [
        "rtl/ace/tx_dma.py", "rtl/common/fifo.py", "rtl/common/front_fifo.py",
        "rtl/fred/micro_switch.py",
    ]  # fmt: skip
    lines, of = found.sources["rtl/fred/micro_switch.py"]["line"]
    assert lines == of > 8  # two sides of four ways
    lines, of = found.sources["rtl/ace/tx_dma.py"]["line"]
    assert 0.9 * of < lines <= of
    assert len(missing(found)) == len(POINTS) - 16
    assert document(found)["missing"] == [point.name for point in missing(found)]
    assert (tmp_path / "coverage.md").read_text() == markdown(found)


def test_the_names_of_benches(tmp_path, capsys):
    assert main([str(tmp_path), "switsh"]) == 2
    assert capsys.readouterr().err == (
        "a bench must be one of micro-switches, switch, switch-classes, switch-control, link, "
        "engines, platform, not 'switsh'\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_every_functional_point_is_reached(tmp_path):
    collect(tmp_path)
    found = figures(tmp_path, [Bench(name=n, top=b.top) for n, b in BENCHES.items()])
    assert [point.name for point in missing(found)] == []
    for kind, least in (("line", 0.94), ("toggle", 0.6)):
        reached, of = found.total(kind)
        assert reached >= least * of, f"{kind}: {reached} of {of}"
