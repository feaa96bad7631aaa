"""Designs through the real Yosys and nextpnr for ECP5, against what can be counted by hand."""

from __future__ import annotations

import json

import pytest

from sim_top import cli
from sim_top.synth.fpga import place_ecp5

RECORDER = """\
module recorder(input clk, input rst, input [35:0] d, input w, output reg [35:0] q);
  reg [35:0] m [0:1023];
  reg [9:0] a;
  always @(posedge clk) begin
    if (w) m[a] <= d;
    q <= m[a];
    a <= rst ? 10'd0 : a + 10'd1;
  end
endmodule
"""


def test_a_counter_and_a_memory_are_placed() -> None:
    """Ten bits of a counter are ten flip-flops; 36,864 bits are two block RAMs of 18,432 each
    (Lattice FPGA-TN-02204, ECP5 Memory Usage Guide), whose registers hold what is read."""
    found = place_ecp5(RECORDER, top="recorder")
    assert found.used["TRELLIS_FF"] == (10, 83640)
    assert found.used["DP16KD"] == (2, 208)
    assert 100 < found.fmax_mhz < 1000


@pytest.mark.full
def test_a_link_is_placed(capsys) -> None:
    """Its buffer of 64 flits of 128 bits with two marks, 36 bits wide in a block RAM."""
    assert cli.main(["synth", "link", "--ecp5", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)["ecp5"]
    assert found["used"]["DP16KD"] == [-(-130 // 36), 208]
    assert all(0 < used <= most for used, most in found["used"].values())
    assert found["fmax_mhz"] > 100
