"""Resets that a design gives to its parts itself."""

from amaranth.hdl import ClockDomain, ClockSignal, DomainRenamer, Elaboratable, Module, ResetSignal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["ClearCopy", "add_cleared"]


class ClearCopy(wiring.Component):
    """A register of its own for a part's reset: as a module, so that no tool makes one of many.

    Members
    -------
    i : In(1)
    o : Out(1)
        ``i`` one cycle later.
    """

    def __init__(self):
        super().__init__({"i": In(1), "o": Out(1)})

    def elaborate(self, platform) -> Module:
        m = Module()
        m.d.sync += self.o.eq(self.i)
        return m


def add_cleared(m: Module, name: str, part: Elaboratable, clear) -> None:
    """Make ``part`` a submodule that is also reset one cycle after each in which ``clear`` is high.

    Every part has a copy of ``clear`` in a register, or one net would go to all flip-flops of the
    design: the synthesis maps module by module and buffers no net that passes through several
    (docs/synthesis.md).

    Parameters
    ----------
    m : the module around it
    name : of the submodule
    clear : a value in the domain ``sync``
    """
    copy = ClearCopy()
    m.submodules[f"{name}_clear"] = copy
    domain = ClockDomain(name, local=True)
    m.domains += domain
    m.d.comb += [
        copy.i.eq(clear),
        domain.clk.eq(ClockSignal()),
        domain.rst.eq(ResetSignal() | copy.o),
    ]
    m.submodules[name] = DomainRenamer(name)(part)
