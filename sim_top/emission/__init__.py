"""From Amaranth to SystemVerilog that a person can read and a tool can compile quickly.

:func:`emit_systemverilog` is what the rest of the project calls. The way there:

1. :mod:`~sim_top.emission.hierarchy` elaborates the component and cuts the design at the
   signatures of its components, so that each becomes a module with exactly the ports its signature
   names;
2. :mod:`~sim_top.emission.rtlil` cleans the names in the RTLIL and merges modules that are
   identical up to their names, from the leaves to the root;
3. :mod:`~sim_top.emission.systemverilog` lets the built-in Yosys write SystemVerilog, leaves
   first.
"""

from sim_top.emission.hierarchy import port_names
from sim_top.emission.systemverilog import emit_rtlil, emit_systemverilog

__all__ = ["emit_rtlil", "emit_systemverilog", "port_names"]
