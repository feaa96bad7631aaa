"""The register map of the engine on AXI as a C header and as a page of documentation.

``python -m sim_top.registers`` writes docs/registers.md anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rtl.axi.register_map import Field, Register, registers

__all__ = ["PAGE", "c_header", "page"]

PAGE = Path(__file__).parents[1] / "docs" / "registers.md"
"""Where the page lies in the source tree."""

_BEGIN = """\
# Registers of the ACE engine on AXI

This page is written from the table in `rtl/axi/register_map.py` by `python -m sim_top.registers`;
`antiphon emit ace` writes the same table as a C header. How the registers are used is said in
docs/ace.md, *On AXI*.

Registers are 32 bits wide, little-endian, in a space of 4 KiB. An access to an address that is not
listed, a write to a register that is only read, a read of one that is only written, and a write
with a byte strobe low are answered with SLVERR and do nothing. Bits that are not listed read as
zero and are ignored when written. A 64-bit number stands in two registers, the low half first:
reading the low half keeps the high half for the next read of it. Addresses in memory count flits
of `SHAPE.flit_bytes` bytes.

"""


def page(table: Sequence[Register]) -> str:
    """The page, in Markdown."""
    lines = ["| offset | name | access | |", "|---|---|---|---|"]
    for register in table:
        lines.append(
            f"| {_offset(register)} | `{register.name}` | {_access(register)} | {register.text} |"
        )
    for register in table:
        if not register.fields:
            continue
        lines += ["", f"## {register.name}", "", "| bits | name | |", "|---|---|---|"]
        for field in register.fields:
            lines.append(f"| {_bits(field)} | `{field.name}` | {field.text} |")
    return _BEGIN + "\n".join(lines) + "\n"


def c_header(table: Sequence[Register]) -> str:
    """Offsets, masks and shifts as macros."""
    lines = [
        "/* Registers of the ACE engine on AXI: docs/registers.md. Written, not edited. */",
        "#ifndef ANTIPHON_ACE_REGISTERS_H",
        "#define ANTIPHON_ACE_REGISTERS_H",
    ]
    for register in table:
        name = f"ACE_{register.name}"
        lines += ["", f"/* {register.text} ({register.access.value}) */"]
        if register.count == 1:
            lines.append(f"#define {name} 0x{register.offset:03X}u")
        else:
            lines.append(f"#define {name}(n) (0x{register.offset:03X}u + {register.stride}u * (n))")
            lines.append(f"#define {name}_COUNT {register.count}u")
        for field in register.fields:
            mask = ((1 << field.width) - 1) << field.low
            lines.append(f"#define {name}_{field.name.upper()}_MASK 0x{mask:08X}u")
            lines.append(f"#define {name}_{field.name.upper()}_SHIFT {field.low}")
    return "\n".join([*lines, "", "#endif", ""])


def _offset(register: Register) -> str:
    if register.count == 1:
        return f"`0x{register.offset:03X}`"
    return f"`0x{register.offset:03X} + 0x{register.stride:X} * {register.per}`"


def _access(register: Register) -> str:
    return register.access.value + (", 64 bits" if register.wide else "")


def _bits(field: Field) -> str:
    last = field.low + field.width - 1
    return f"{field.low}" if field.width == 1 else f"{last}:{field.low}"


if __name__ == "__main__":
    PAGE.write_text(page(registers()))
