"""RTLIL to SystemVerilog by the Yosys that comes with Amaranth.

``amaranth.back.verilog`` writes ``always @*``, which leaves outputs unknown on Icarus until an
input moves; with ``write_verilog -sv`` Yosys writes ``always_comb`` and ``always_ff``.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from amaranth._toolchain.yosys import find_yosys
from amaranth.hdl import Value
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring

from sim_top.emission.hierarchy import convert_hierarchy
from sim_top.emission.rtlil import ModuleLibrary

__all__ = ["emit_rtlil", "emit_systemverilog"]

_HEADER = "// Written from the Amaranth description of this design; edit that, not this file.\n"
_CONVERTED, _WRITTEN = 0.8, 0.98
"""Shares of the work that are done when all is RTLIL, and when Yosys has written it."""
_MODULES = 20
"""How many modules are a large part of a design: there may be 5 of them or 60."""
_MODULE = re.compile(r"^module .*?^endmodule\n", re.MULTILINE | re.DOTALL)


def emit_rtlil(
    component: wiring.Component,
    *,
    name: str,
    ports: dict[str, tuple[Value, PortDirection]] | None = None,
) -> str:
    """RTLIL of ``component`` with each distinct module once (see :func:`emit_systemverilog`)."""
    return _library(component, name=name, ports=ports).text()


def emit_systemverilog(
    component: wiring.Component,
    *,
    name: str,
    ports: dict[str, tuple[Value, PortDirection]] | None = None,
    progress: Callable[[float], object] | None = None,
) -> str:
    """SystemVerilog of ``component``, the same bytes on every run.

    Each distinct component is one module, named after its class (or its attribute ``module_name``),
    with the ports of its signature: ``clk`` and ``rst`` where it is clocked, then each path joined
    with ``__``. Modules stand leaves first; the top is the last.

    Parameters
    ----------
    component : the design; elaborated once, so a second emission needs a second object only where
        its ``elaborate`` changes the object
    name : name of the top module
    ports : ports of the top module where they are not those of the signature
    progress : called with the share that is done, in rising order. How many modules there will be
        is not known before the last, so the first part is a guess

    Raises
    ------
    ValueError
        where two ports come out with the same name, or ``name`` is no Verilog identifier.
    """
    tell = progress or (lambda share: None)
    converted = 0

    def count() -> None:
        nonlocal converted
        converted += 1
        tell(_CONVERTED * converted / (converted + _MODULES))

    library = _library(component, name=name, ports=ports, each=count)
    tell(_CONVERTED)
    script = "\n".join(
        (
            f"read_rtlil <<rtlil\n{library.text()}\nrtlil",
            "proc -nomux -norom",
            "memory_collect",
            "write_verilog -sv",
        )
    )
    # Yosys always warns that some processes cannot be translated; Amaranth emits none of those.
    yosys = find_yosys(lambda version: version >= (0, 40))
    output = yosys.run(["-q", "-"], script, ignore_warnings=True)
    tell(_WRITTEN)
    modules = {
        re.split(r"[ (;]", text[7:], maxsplit=1)[0]: text for text in _MODULE.findall(output)
    }
    return _HEADER + "".join("\n" + modules[module] for module in library.order)


def _library(
    component: wiring.Component,
    *,
    name: str,
    ports: dict[str, tuple[Value, PortDirection]] | None,
    each: Callable[[], None] = lambda: None,
) -> ModuleLibrary:
    """What the component consists of; ``each`` is called behind every module that is converted."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(f"name must be a Verilog identifier, not {name!r}")
    libraries: list[ModuleLibrary] = []

    def make_library() -> Callable[[str, str], str]:
        library = ModuleLibrary(reserved=name)
        libraries.append(library)

        def add(wanted: str, text: str) -> str:
            found = library.add(wanted, text)
            each()
            return found

        return add

    convert_hierarchy(component, name=name, ports=ports, make_library=make_library)
    return libraries[-1]
