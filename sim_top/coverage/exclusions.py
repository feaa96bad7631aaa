"""What toggles are not asked for, and why; declared once.

Bits that the text drives with a constant are found in it. The rest is by name of module and net.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["CONSTANT", "EXCLUSIONS", "Exclusion", "constants", "reason"]

CONSTANT = "driven by a constant: a port that this instance does not use, or the padding of a word"


@dataclass(frozen=True, kw_only=True)
class Exclusion:
    """Nets of which not every bit is asked to move.

    Parameters
    ----------
    nets : pattern for the whole name of a net, in any module
    above : bits from this one on are left out
    reason : why
    """

    nets: str
    above: int
    reason: str


EXCLUSIONS = (
    Exclusion(
        nets=r"(.*_)?(received|sent|starved|switchovers|count|errors_count|error_count|came|due)"
        r"(_\d+_)?",
        above=8,
        reason="counters of flits, packets and errors: the upper bits of their adders",
    ),
    Exclusion(
        nets=r"(high|high_\d+)",
        above=0,
        reason="upper halves of the 48-bit counters, which the register file latches",
    ),
    Exclusion(
        nets=r"(.*_)?(memory_address|araddr|awaddr|address|base|limit|(load|store|source|result)_end)",
        above=14,
        reason="addresses in flits beyond the memory of the benches (256 KiB)",
    ),
    Exclusion(
        nets=r"(.*_)?(configuration|memory_index|index|active|lookup_index|collective|collectives_\d+_"
        r"|ending|current|given_up|completion__payload)",
        above=8,
        reason="numbers of more configurations or collectives than a bench has",
    ),
)


def constants(text: str) -> Mapping[str, frozenset[str]]:
    """By module the bits that its text drives with a constant, as ``net`` or ``net[3]``."""
    found: dict[str, frozenset[str]] = {}
    for module in re.finditer(r"^module (\w+)\b.*?^endmodule", text, re.MULTILINE | re.DOTALL):
        bits: set[str] = set()
        for net, high, low in re.findall(
            r"^\s*assign (\w+)(?: ?\[(\d+)(?::(\d+))?\])? = \d+'[bhd][0-9a-f]+;",
            module[0],
            re.MULTILINE,
        ):
            if high:
                bits |= {f"{net}[{bit}]" for bit in range(int(low or high), int(high) + 1)}
            else:
                bits.add(net)
        found[module[1]] = frozenset(bits)
    return found


def reason(net: str, constant: frozenset[str]) -> str | None:
    """Why a bit (``net``, ``net[3]``, ``memory[2][3]``) is not asked to move; None where it is."""
    name, *places = re.split(r"\]?\[", net.rstrip("]"))
    place = places[-1] if places else ""
    if name in constant or net in constant:
        return CONSTANT
    for exclusion in EXCLUSIONS:
        if place and int(place) >= exclusion.above and re.fullmatch(exclusion.nets, name):
            return exclusion.reason
    return None
