"""The parts of the NPU's memory that the engine may touch."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Signal, Value, signed
from amaranth.lib import data

from rtl.ace.memory_port import ADDRESS_BITS

__all__ = ["Region", "Regions", "behind_limits", "covered"]


class Region(data.Struct):
    """A registered region.

    Members
    -------
    base, limit : its first and its last flit
    read, write : the engine may read it, write it
    """

    base: ADDRESS_BITS
    limit: ADDRESS_BITS
    read: 1
    write: 1


class Regions(data.StructLayout):
    """All that is registered.

    Members
    -------
    restricted : only what follows may be touched; low: all of memory
    regions : array of :class:`Region`
    """

    def __init__(self, count: int):
        super().__init__({"restricted": 1, "regions": data.ArrayLayout(Region, count)})


def behind_limits(m, regions):
    """Of each region, the flit behind its last: a register, one cycle behind the region."""
    found = []
    for number, region in enumerate(regions.regions):
        behind = Signal(ADDRESS_BITS + 1, name=f"behind_{number}")
        m.d.sync += behind.eq(region.limit + 1)
        found.append(behind)
    return found


def covered(m, regions, behind, *, first, flits, write, name, more=0):
    """Whether ``flits`` flits from ``first`` on lie in one region and may be read, or written.

    No flits always may. A range that passes the end of the address space never does.

    Parameters
    ----------
    regions : a view of :class:`Regions`
    behind : of :func:`behind_limits`
    more : high for one flit more, which takes no longer than without
    name : prefix of the signals made

    Returns
    -------
    Signal
    """
    # first + flits + more - behind is below 1 or not: of three numbers two are made, without
    # carries, so that one sum is all that it takes. Minus a number is its complement, plus 1.
    more = Value.cast(more)[0]
    width = 3 + max(ADDRESS_BITS, len(Value.cast(flits)))
    one, two = Signal(width, name=f"{name}_first"), Signal(width, name=f"{name}_flits")
    m.d.comb += [one.eq(first), two.eq(flits)]
    inside = []
    for number, (region, limit) in enumerate(zip(regions.regions, behind, strict=True)):
        three = Signal(width, name=f"{name}_limit_{number}")
        excess = Signal(signed(width), name=f"{name}_excess_{number}")  # less 1
        carries = ((one & two) | (one & three) | (two & three))[: width - 1]
        m.d.comb += [
            three.eq(~Cat(limit, Const(0, width - len(limit)))),
            excess.eq((one ^ two ^ three) + Cat(more, carries)),
        ]
        inside.append(
            (region.write if write else region.read) & (first >= region.base) & (excess < 0)
        )
    covers = Signal(name=f"{name}_covered")
    m.d.comb += covers.eq(~regions.restricted | ((flits == 0) & ~more) | reduce(or_, inside))
    return covers
