"""The parts of the NPU's memory that the engine may touch."""

from functools import reduce
from operator import or_

from amaranth.hdl import Signal
from amaranth.lib import data

from rtl.ace.memory_port import ADDRESS_BITS

__all__ = ["Region", "Regions", "covered"]


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


def covered(m, regions, *, first, flits, write, name):
    """Whether ``flits`` flits from ``first`` on lie in one region and may be read, or written.

    No flits always may. A range that passes the end of the address space never does.

    Parameters
    ----------
    regions : a view of :class:`Regions`
    name : prefix of the signals made

    Returns
    -------
    Signal
    """
    end = Signal(ADDRESS_BITS + 1, name=f"{name}_end")  # the flit behind the last
    covers = Signal(name=f"{name}_covered")
    inside = [
        (region.write if write else region.read)
        & (first >= region.base)
        & (end <= region.limit + 1)
        for region in regions.regions
    ]
    m.d.comb += [
        end.eq(first + flits),
        covers.eq(~regions.restricted | (flits == 0) | reduce(or_, inside)),
    ]
    return covers
