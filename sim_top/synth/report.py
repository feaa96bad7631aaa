"""What a mapped netlist says, block by block."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
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
    cells : of all instances with what they contain, macros too; where modules were joined, without
        gates, but for the top
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
    """Count cells, area, loads, and sort paths by the module in which they end.

    Where modules were joined into one, registers and macros count for the modules in which they
    were, and gates for the top alone.
    """
    modules: Mapping[str, Any] = {
        name: module
        for name, module in synthesis.netlist["modules"].items()
        if not module.get("attributes", {}).get("blackbox")
    }
    sums: dict[str, _Sums] = defaultdict(_Sums)
    for lineage, kind in _leaves(modules, synthesis):
        um2 = synthesis.area[kind]
        sums[lineage[-1]].own_um2 += um2
        for name in lineage:
            sums[name].cells += 1
            sums[name].um2 += um2
            sums[name].memory_um2 += um2 * kind.startswith("sram_")
    instances, depths = _instances(synthesis)
    longest = _longest(synthesis)
    blocks = [
        Block(
            name=name,
            depth=depths[name],
            instances=count,
            cells=sums[name].cells,
            area_um2=sums[name].um2,
            own_area_um2=sums[name].own_um2,
            memory_um2=sums[name].memory_um2,
            longest_ns=longest.get(name, 0.0),
        )
        for name, count in instances.items()
    ]
    blocks.sort(key=lambda block: (-block.area_um2, block.name))
    whole = sums[synthesis.top]
    fanout, net = _largest_fanout(modules)
    return SynthesisReport(
        cells=whole.cells,
        area_um2=whole.um2,
        fmax_mhz=1000 / synthesis.timing.longest_ns if synthesis.timing.longest_ns else 0.0,
        longest_ns=synthesis.timing.longest_ns,
        largest_fanout=fanout,
        fanout_net=net,
        blocks=tuple(blocks),
    )


@dataclass
class _Sums:
    cells: int = 0
    um2: float = 0.0
    own_um2: float = 0.0
    memory_um2: float = 0.0


def _lineage(synthesis: Synthesis, names: Iterable[str]) -> tuple[str, ...]:
    """Modules from the top down to where ``names``, of instances one in another, leave them."""
    out = [synthesis.top]
    for name in names:
        inner = synthesis.hierarchy[out[-1]].get(name)
        if inner is None:
            break
        out.append(inner)
    return tuple(out)


def _leaves(
    modules: Mapping[str, Any], synthesis: Synthesis
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every cell of the design: the modules in which it is, from the top down, and its type."""

    def below(name: str, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
        for instance, cell in modules[name]["cells"].items():
            names = (*above, *instance.split("."))
            if cell["type"] in modules:
                yield from below(cell["type"], names)
            else:
                yield _lineage(synthesis, names), cell["type"]

    return below(synthesis.top, ())


def _instances(synthesis: Synthesis) -> tuple[Counter[str], dict[str, int]]:
    """How often each module stands in the design, and how deep at least."""
    counts: Counter[str] = Counter()
    depths: dict[str, int] = {}
    level = Counter({synthesis.top: 1})
    depth = 0
    while level:
        counts += level
        for name in level:
            depths.setdefault(name, depth)
        inner: Counter[str] = Counter()
        for name, count in level.items():
            for module in synthesis.hierarchy[name].values():
                inner[module] += count
        level, depth = inner, depth + 1
    return counts, depths


def _longest(synthesis: Synthesis) -> dict[str, float]:
    out: dict[str, float] = {}
    for pin, nanoseconds in synthesis.timing.ends.items():
        names = pin.replace("\\", "").replace("/", ".").split(".")
        name = _lineage(synthesis, names)[-1]
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
