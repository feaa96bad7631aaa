"""Two ends of a link that agree after resets, for their test bench."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from rtl.axi.link_sync import LinkSync

__all__ = ["LinkSyncPair"]


class LinkSyncPair(wiring.Component):
    """``ends`` that the bench joins.

    Members
    -------
    end : Out(signature of LinkSync) × 2
    """

    def __init__(self):
        self._ends = [LinkSync(), LinkSync()]
        super().__init__({"end": Out(self._ends[0].signature).array(2)})

    def elaborate(self, platform) -> Module:
        m = Module()
        for number, end in enumerate(self._ends):
            m.submodules[f"end_{number}"] = end
            wiring.connect(m, end, wiring.flipped(self.end[number]))
        return m
