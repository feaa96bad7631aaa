"""The register map: one table, and everything that is written from it."""

import re
import subprocess

from rtl.axi.register_map import ADDRESS_BITS, Access, registers
from sim_top.registers import PAGE, c_header, page


def test_no_two_registers_share_an_address():
    taken = []
    for register in registers():
        for address in register.addresses():
            taken += [address, address + 4] if register.wide else [address]
    assert len(set(taken)) == len(taken)
    assert all(address % 4 == 0 and address < 1 << ADDRESS_BITS for address in taken)


def test_fields_lie_apart_and_inside():
    for register in registers():
        bits = [b for f in register.fields for b in range(f.low, f.low + f.width)]
        assert len(set(bits)) == len(bits), register.name
        assert all(bit < 32 for bit in bits), register.name
        assert not (register.wide and register.fields)


def test_an_engine_has_the_rows_of_its_dims():
    full = {register.name: register for register in registers()}
    small = {register.name: register for register in registers(dims=2)}
    assert full.keys() == small.keys()
    for name, register in small.items():
        assert register.offset == full[name].offset
        assert register.count == (2 if register.per == "dim" else full[name].count)


def test_the_page_is_up_to_date():
    """If not: ``python -m sim_top.registers``."""
    assert PAGE.read_text() == page(registers())


def test_the_header_compiles_and_says_the_same(tmp_path):
    table = registers(dims=3)
    (tmp_path / "ace_registers.h").write_text(c_header(table))
    lines = ["#include <stdio.h>", '#include "ace_registers.h"', "int main(void) {"]
    expected = []
    for register in table:
        for number, address in enumerate(register.addresses()):
            call = f"ACE_{register.name}" + (f"({number})" if register.count > 1 else "")
            lines.append(f'printf("%u\\n", {call});')
            expected.append(address)
        for field in register.fields:
            name = f"ACE_{register.name}_{field.name.upper()}"
            lines.append(f'printf("%u\\n", ({name}_MASK >> {name}_SHIFT));')
            expected.append((1 << field.width) - 1)
    (tmp_path / "main.c").write_text("\n".join([*lines, "return 0; }", ""]))
    command = ["gcc", "-Wall", "-Werror", "-o", tmp_path / "main", tmp_path / "main.c"]
    subprocess.run(command, check=True)
    said = subprocess.run([tmp_path / "main"], check=True, capture_output=True, text=True).stdout
    assert [int(word) for word in said.split()] == expected


def test_what_is_read_with_an_effect_says_so():
    names = {register.name for register in registers() if register.access is Access.POP}
    assert names == {"COMPLETION"}
    assert not re.search(r"\bPOP\b", page(registers()))
