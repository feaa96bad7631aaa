"""What goes beside a module: constraints of its clock, and how it is instantiated."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Port", "constraints", "instantiation", "ports_of"]

#: Share of the clock period that the surroundings keep of a path through a port (decided here).
_OUTSIDE = 0.4


@dataclass(frozen=True)
class Port:
    """Of a module.

    Parameters
    ----------
    direction : ``input`` or ``output``
    width : in bits
    """

    name: str
    direction: str
    width: int


def ports_of(systemverilog: str, top: str) -> tuple[Port, ...]:
    """The ports of a module, in order.

    Raises
    ------
    ValueError
        where the text has no such module, or does not declare a port that its header lists.
    """
    found = re.search(
        rf"^module {re.escape(top)}\s*\((.*?)\);(.*?)^endmodule",
        systemverilog,
        flags=re.MULTILINE | re.DOTALL,
    )
    if found is None:
        raise ValueError(f"the text must have a module {top!r}")
    names = [name.strip() for name in found[1].split(",")]
    declared = {
        name: Port(name, direction, int(high) + 1 if high else 1)
        for direction, high, name in re.findall(
            r"^\s*(input|output)\s+(?:\[(\d+):0\]\s+)?(\w+);", found[2], flags=re.MULTILINE
        )
    }
    missing = [name for name in names if name not in declared]
    if missing:
        raise ValueError(f"module {top!r} must declare its port {missing[0]!r}")
    return tuple(declared[name] for name in names)


def constraints(systemverilog: str, top: str, *, period_ps: int) -> str:
    """Synopsys Design Constraints: one clock, and what of it paths through ports may use.

    ``rst`` is synchronous and is constrained as any other input. Inputs are listed: not every tool
    can take the clock out of all of them.
    """
    period = period_ps / 1000
    outside = period * _OUTSIDE
    inputs = [port.name for port in ports_of(systemverilog, top) if port.direction == "input"]
    listed = " \\\n  ".join(name for name in inputs if name != "clk")
    return f"""\
# {top}: one clock domain; the reset is synchronous to it.
create_clock -name clk -period {period:g} [get_ports clk]
set_clock_uncertainty {period * 0.02:g} [get_clocks clk]
set_input_delay {outside:g} -clock clk [get_ports [list \\
  {listed}]]
set_output_delay {outside:g} -clock clk [all_outputs]
"""


def instantiation(systemverilog: str, top: str) -> str:
    """Verilog that instantiates a module and passes all its ports on: a wrapper to start from."""
    ports = ports_of(systemverilog, top)
    longest = max(len(port.name) for port in ports)

    def declared(port: Port) -> str:
        width = f"[{port.width - 1}:0]" if port.width > 1 else ""
        return f"  {port.direction:<6} wire {width:>9} {port.name}"

    header = ",\n".join(declared(port) for port in ports)
    body = ",\n".join(f"    .{port.name:<{longest}} ({port.name})" for port in ports)
    return (
        f"// Instantiates {top}, every port by name: connect them here.\n"
        f"module {top}_example (\n{header}\n);\n\n  {top} {top}_0 (\n{body}\n  );\n\nendmodule\n"
    )
