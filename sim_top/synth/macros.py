"""Memories as macros: what Yosys is told to leave alone, and a stated model of area and time.

A memory of at least 32 words with one synchronous read port and one write port becomes a black box;
smaller ones become flip-flops. No memory compiler is at hand, so a macro is modelled (decided here,
for 180 nm):

* area: 8 um2 a bit, twice a bit cell of 4 um2 that is usual for the node, for decoders and sensing;
* clock to data: 0.8 ns + 0.12 ns x log2 of its bits;
* setup of all inputs: 0.3 ns; input capacitance 0.01 pF, 0.05 pF of the clock.

The bits of a word that always have the same write enable share a pin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Any

__all__ = ["LEAST_WORDS", "Macro", "black_boxes", "liberty", "macros_of", "techmap"]

LEAST_WORDS = 32
_AREA_PER_BIT = 8.0
_ACCESS_NS, _ACCESS_NS_PER_BIT = 0.8, 0.12
_SETUP_NS = 0.3

_PARAMETERS = """\
parameter MEMID = ""; parameter SIZE = 1; parameter OFFSET = 0; parameter ABITS = 1;
parameter WIDTH = 1; parameter signed INIT = 1'bx;
parameter RD_PORTS = 1; parameter RD_CLK_ENABLE = 1; parameter RD_CLK_POLARITY = 1;
parameter RD_TRANSPARENCY_MASK = 0; parameter RD_COLLISION_X_MASK = 0;
parameter RD_WIDE_CONTINUATION = 0; parameter RD_CE_OVER_SRST = 0; parameter RD_ARST_VALUE = 0;
parameter RD_SRST_VALUE = 0; parameter RD_INIT_VALUE = 0;
parameter WR_PORTS = 1; parameter WR_CLK_ENABLE = 1; parameter WR_CLK_POLARITY = 1;
parameter WR_PRIORITY_MASK = 0; parameter WR_WIDE_CONTINUATION = 0;
input [RD_PORTS-1:0] RD_CLK, RD_EN, RD_ARST, RD_SRST;
input [RD_PORTS*ABITS-1:0] RD_ADDR; output [RD_PORTS*WIDTH-1:0] RD_DATA;
input [WR_PORTS-1:0] WR_CLK; input [WR_PORTS*WIDTH-1:0] WR_EN;
input [WR_PORTS*ABITS-1:0] WR_ADDR; input [WR_PORTS*WIDTH-1:0] WR_DATA;"""


@dataclass(frozen=True, order=True)
class Macro:
    """One read port, one write port, one clock.

    Parameters
    ----------
    words, width : its size
    address : bits of an address
    enables : write enables, each for ``width // enables`` neighbouring bits
    """

    words: int
    width: int
    address: int
    enables: int

    @property
    def name(self) -> str:
        """Of the black box."""
        masked = f"_{self.enables}" if self.enables > 1 else ""
        return f"sram_{self.words}x{self.width}{masked}"

    @property
    def bits(self) -> int:
        """That it keeps."""
        return self.words * self.width

    @property
    def area_um2(self) -> float:
        """By the model above."""
        return self.bits * _AREA_PER_BIT

    @property
    def access_ns(self) -> float:
        """Clock to data, by the model above."""
        return _ACCESS_NS + _ACCESS_NS_PER_BIT * log2(self.bits)


def macros_of(netlist: Mapping[str, Any]) -> tuple[Macro, ...]:
    """Every shape of memory in a netlist that Yosys has written as JSON before mapping.

    Where two differ in their write enables only, both get the macro with more of them.
    """
    found: dict[tuple[int, int], Macro] = {}
    for module in netlist["modules"].values():
        for cell in module["cells"].values():
            if cell["type"] == "$mem_v2":
                shape = _shape(cell)
                if shape is None:
                    continue
                other = found.setdefault((shape.words, shape.width), shape)
                found[shape.words, shape.width] = max(shape, other)
    return tuple(sorted(found.values()))


def _shape(cell: Mapping[str, Any]) -> Macro | None:
    number = {
        key: int(text, 2)
        for key, text in cell["parameters"].items()
        if key in ("SIZE", "WIDTH", "ABITS", "RD_PORTS", "WR_PORTS", "RD_CLK_ENABLE")
    }
    ports = (number["RD_PORTS"], number["WR_PORTS"], number["RD_CLK_ENABLE"])
    if ports != (1, 1, 1) or number["SIZE"] < LEAST_WORDS:
        return None
    enables = cell["connections"]["WR_EN"]
    width = number["WIDTH"]
    groups = next(
        count
        for count in range(1, width + 1)
        if width % count == 0
        and all(enables[i] == enables[i - i % (width // count)] for i in range(width))
    )
    return Macro(number["SIZE"], width, number["ABITS"], groups)


def techmap(macros: Sequence[Macro]) -> str:
    """The Verilog that makes black boxes of memories."""
    rows = [
        '(* techmap_celltype = "$mem_v2" *)',
        "module memory_to_macro (RD_CLK, RD_EN, RD_ARST, RD_SRST, RD_ADDR, RD_DATA,",
        "  WR_CLK, WR_EN, WR_ADDR, WR_DATA);",
        _PARAMETERS,
    ]
    plain = "RD_PORTS == 1 && WR_PORTS == 1 && RD_CLK_ENABLE == 1"
    known = " || ".join(f"(SIZE == {m.words} && WIDTH == {m.width})" for m in macros)
    rows.append(f"wire _TECHMAP_FAIL_ = !({plain} && ({known or '0'}));")
    rows.append("generate")
    for macro in macros:
        step = macro.width // macro.enables
        enables = ", ".join(f"WR_EN[{k * step}]" for k in reversed(range(macro.enables)))
        rows.append(
            f"if (SIZE == {macro.words} && WIDTH == {macro.width}) {macro.name} macro ("
            f".clk(WR_CLK[0]), .re(RD_EN[0]), .ra(RD_ADDR), .rd(RD_DATA), "
            f".we({{{enables}}}), .wa(WR_ADDR), .wd(WR_DATA));"
        )
    rows += ["endgenerate", "endmodule", ""]
    return "\n".join(rows)


def black_boxes(macros: Sequence[Macro]) -> str:
    """Their Verilog declarations."""
    return "".join(
        f"(* blackbox *) module {m.name} (input clk, input re, input [{m.address - 1}:0] ra, "
        f"output [{m.width - 1}:0] rd, input [{m.enables - 1}:0] we, "
        f"input [{m.address - 1}:0] wa, input [{m.width - 1}:0] wd); endmodule\n"
        for m in macros
    )


def liberty(macros: Sequence[Macro]) -> str:
    """The model as a Liberty library."""
    widths = sorted({w for m in macros for w in (m.width, m.address, m.enables)})
    rows = [
        "library (macros) {",
        '  time_unit : "1ns"; voltage_unit : "1V"; current_unit : "1uA";',
        '  pulling_resistance_unit : "1kohm"; capacitive_load_unit (1, pf);',
        "  delay_model : table_lookup; nom_process : 1; nom_voltage : 1.8; nom_temperature : 25;",
    ]
    for edge in ("rise", "fall"):
        rows.append(f"  input_threshold_pct_{edge} : 50; output_threshold_pct_{edge} : 50;")
        rows.append(
            f"  slew_lower_threshold_pct_{edge} : 20; slew_upper_threshold_pct_{edge} : 80;"
        )
    rows += [
        f"  type (bus{w}) {{ base_type : array; data_type : bit; bit_width : {w}; "
        f"bit_from : {w - 1}; bit_to : 0; downto : true; }}"
        for w in widths
    ]
    for macro in macros:
        rows += _cell(macro)
    rows += ["}", ""]
    return "\n".join(rows)


def _cell(macro: Macro) -> list[str]:
    constraint = (
        'timing () { related_pin : "clk"; timing_type : setup_rising; '
        f'rise_constraint (scalar) {{ values ("{_SETUP_NS}"); }} '
        f'fall_constraint (scalar) {{ values ("{_SETUP_NS}"); }} }} '
        'timing () { related_pin : "clk"; timing_type : hold_rising; '
        'rise_constraint (scalar) { values ("0"); } fall_constraint (scalar) { values ("0"); } }'
    )
    tables = " ".join(
        f'{kind} (scalar) {{ values ("{value:.3f}"); }}'
        for kind, value in (
            ("cell_rise", macro.access_ns),
            ("cell_fall", macro.access_ns),
            ("rise_transition", 0.1),
            ("fall_transition", 0.1),
        )
    )
    out = [
        f"  cell ({macro.name}) {{ area : {macro.area_um2:.1f}; dont_touch : true;",
        "    pin (clk) { direction : input; clock : true; capacitance : 0.05; }",
        f"    pin (re) {{ direction : input; capacitance : 0.01; {constraint} }}",
    ]
    buses = (("ra", macro.address), ("wa", macro.address), ("wd", macro.width))
    out += [
        f"    bus ({name}) {{ bus_type : bus{width}; direction : input; capacitance : 0.01; "
        f"{constraint} }}"
        for name, width in (*buses, ("we", macro.enables))
    ]
    out.append(
        f"    bus (rd) {{ bus_type : bus{macro.width}; direction : output; max_capacitance : 0.5; "
        f'timing () {{ related_pin : "clk"; timing_type : rising_edge; {tables} }} }}'
    )
    out.append("  }")
    return out
