"""What a mapped netlist says, block by block."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from sim_top.synth.flow import Synthesis

__all__ = ["Block", "SynthesisReport", "report"]

#: Pins of cells and macros that are outputs or clocks.
_NOT_LOADS = frozenset(("clk", "CLK", "Y", "Q", "YC", "YS", "rd"))


@dataclass(frozen=True)
class Block:
    """One module, all its instances together.

    Attributes
    ----------
    name : of the module
    depth : 0 for the top, 1 for what it instantiates, at the shallowest place
    instances : in the whole design
    cells : of all instances with what they contain, macros too
    area_um2 : the same
    own_area_um2 : without what is a block of its own
    memory_um2 : of area_um2 what is macros
    longest_ns : longest path that ends in a register or macro of the module itself; 0 for none
    """

    name: str
    depth: int
    instances: int
    cells: int
    area_um2: float
    own_area_um2: float
    memory_um2: float
    longest_ns: float


@dataclass(frozen=True)
class SynthesisReport:
    """A design.

    Attributes
    ----------
    cells, area_um2 : in all
    fmax_mhz : by the longest path
    largest_fanout, fanout_net : loads of the net that has most of them, the clock apart
    blocks : by area, the largest first
    """

    cells: int
    area_um2: float
    fmax_mhz: float
    longest_ns: float
    largest_fanout: int
    fanout_net: str
    blocks: tuple[Block, ...]


def report(synthesis: Synthesis) -> SynthesisReport:
    """Count cells, area, loads, and sort paths by the module in which they end."""
    modules: Mapping[str, Any] = {
        name: module
        for name, module in synthesis.netlist["modules"].items()
        if not module.get("attributes", {}).get("blackbox")
    }
    area = synthesis.area

    @cache
    def totals(name: str) -> tuple[int, float, float]:
        cells, um2, memory = 0, 0.0, 0.0
        for cell in modules[name]["cells"].values():
            kind = cell["type"]
            if kind in modules:
                inner = totals(kind)
                cells, um2, memory = cells + inner[0], um2 + inner[1], memory + inner[2]
                continue
            cells += 1
            um2 += area[kind]
            memory += area[kind] * kind.startswith("sram_")
        return cells, um2, memory

    instances, depths = _instances(modules, synthesis.top)
    longest = _longest(modules, synthesis)
    blocks = []
    for name, count in instances.items():
        cells, um2, memory = totals(name)
        own = sum(
            area[cell["type"]]
            for cell in modules[name]["cells"].values()
            if cell["type"] not in modules
        )
        blocks.append(
            Block(
                name=name,
                depth=depths[name],
                instances=count,
                cells=cells * count,
                area_um2=um2 * count,
                own_area_um2=own * count,
                memory_um2=memory * count,
                longest_ns=longest.get(name, 0.0),
            )
        )
    blocks.sort(key=lambda block: (-block.area_um2, block.name))
    cells, um2, _ = totals(synthesis.top)
    fanout, net = _largest_fanout(modules)
    return SynthesisReport(
        cells=cells,
        area_um2=um2,
        fmax_mhz=1000 / synthesis.timing.longest_ns if synthesis.timing.longest_ns else 0.0,
        longest_ns=synthesis.timing.longest_ns,
        largest_fanout=fanout,
        fanout_net=net,
        blocks=tuple(blocks),
    )


def _instances(modules: Mapping[str, Any], top: str) -> tuple[Counter[str], dict[str, int]]:
    """How often each module stands in the design, and how deep at least."""
    counts: Counter[str] = Counter()
    depths: dict[str, int] = {}
    level = Counter({top: 1})
    depth = 0
    while level:
        counts += level
        for name in level:
            depths.setdefault(name, depth)
        inner: Counter[str] = Counter()
        for name, count in level.items():
            for cell in modules[name]["cells"].values():
                if cell["type"] in modules:
                    inner[cell["type"]] += count
        level, depth = inner, depth + 1
    return counts, depths


def _longest(modules: Mapping[str, Any], synthesis: Synthesis) -> dict[str, float]:
    out: dict[str, float] = {}
    for pin, nanoseconds in synthesis.timing.ends.items():
        name = synthesis.top
        for part in pin.split("/"):
            cell = modules[name]["cells"].get(part.replace("\\", ""))
            if cell is None or cell["type"] not in modules:
                break
            name = cell["type"]
        out[name] = max(out.get(name, 0.0), nanoseconds)
    return out


def _largest_fanout(modules: Mapping[str, Any]) -> tuple[int, str]:
    """Pins of cells on one net, through the ports of modules down to the leaves."""

    @cache
    def loads(name: str) -> Mapping[int, int]:
        out: dict[int, int] = defaultdict(int)
        for cell in modules[name]["cells"].values():
            inner = cell["type"] in modules
            for port, bits in cell["connections"].items():
                if port in _NOT_LOADS:
                    continue
                if inner:
                    if modules[cell["type"]]["ports"][port]["direction"] != "input":
                        continue
                    inside = modules[cell["type"]]["ports"][port]["bits"]
                    known = loads(cell["type"])
                for index, bit in enumerate(bits):
                    if isinstance(bit, int):
                        out[bit] += known.get(inside[index], 0) if inner else 1
        return out

    worst, where = 0, ""
    for name, module in modules.items():
        found = loads(name)
        if not found:
            continue
        bit, count = max(found.items(), key=lambda item: item[1])
        if count > worst:
            names = [n for n, net in module["netnames"].items() if bit in net["bits"]]
            names.sort(key=lambda n: (n.startswith("_") or "$" in n, n))
            worst, where = count, f"{name}.{names[0] if names else bit}"
    return worst, where
