"""The check of a range of memory against the registered regions, alone."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.ace.memory_port import ADDRESS_BITS
from rtl.ace.regions import Regions, behind_limits, covered

__all__ = ["Covered"]


class Covered(wiring.Component):
    """``covered`` for reading and for writing, of a range as long as its field allows.

    Parameters
    ----------
    regions : how many
    flits_bits : width of the number of flits
    """

    def __init__(self, *, regions: int, flits_bits: int):
        super().__init__(
            {
                "regions": In(Regions(regions)),
                "first": In(ADDRESS_BITS),
                "flits": In(flits_bits),
                "more": In(1),
                "may_read": Out(1),
                "may_write": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        behind = behind_limits(m, self.regions)
        for name, write in (("may_read", False), ("may_write", True)):
            inside = covered(
                m,
                self.regions,
                behind,
                first=self.first,
                flits=self.flits,
                more=self.more,
                write=write,
                name=name,
            )
            m.d.comb += getattr(self, name).eq(inside)
        return m
