"""One text for all simulators.

Icarus 11 wakes the ``always_comb`` processes of a module over and over, without end, where two of
them pass through other values on their way to a result and others read them; it reads an
``always @*`` well, but runs it only when an input moves. So an exported file has, for Icarus alone,
``always @*`` that runs once at time 0, and ``always_comb`` for everything else.
"""

from __future__ import annotations

import re

__all__ = ["portable"]

_HEAD = """\
`ifdef __ICARUS__
`define ANTIPHON_START reg at_start_ = 1'b0; initial at_start_ <= 1'b1;
`define ANTIPHON_COMB always @* begin if (at_start_) begin end
`else
`define ANTIPHON_START
`define ANTIPHON_COMB always_comb begin
`endif
"""
_TAIL = """\
`undef ANTIPHON_START
`undef ANTIPHON_COMB
"""


def portable(systemverilog: str) -> str:
    """The text with its combinational processes behind a macro, which it defines and ends."""
    text = re.sub(
        r"^( *)always_comb begin$", r"\1`ANTIPHON_COMB", systemverilog, flags=re.MULTILINE
    )
    parts = re.split(r"(^module [^;]*;\n)", text, flags=re.MULTILINE)
    out = [parts[0]]
    for header, body in zip(parts[1::2], parts[2::2], strict=True):
        start = "  `ANTIPHON_START\n" if "`ANTIPHON_COMB" in body else ""
        out += [header, start, body]
    return _HEAD + "".join(out).rstrip("\n") + "\n" + _TAIL
