"""Engines on AXI side by side, for test benches: the models of the bench join and feed them."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from rtl.ace.parameters import AceParameters
from rtl.axi.endpoint import AceAxi
from rtl.axi.parameters import AxiParameters

__all__ = ["AceAxiGroup"]


class AceAxiGroup(wiring.Component):
    """``ranks`` engines that share nothing but their clock.

    Parameters
    ----------
    ranks : how many
    parameters, axi : of each

    Members
    -------
    r<i> : Out(signature of AceAxi)
    """

    def __init__(self, *, ranks: int, parameters: AceParameters, axi: AxiParameters):
        self._engines = [AceAxi(parameters=parameters, axi=axi) for _ in range(ranks)]
        super().__init__(
            {f"r{rank}": Out(engine.signature) for rank, engine in enumerate(self._engines)}
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        for rank, engine in enumerate(self._engines):
            m.submodules[f"rank_{rank}"] = engine
            wiring.connect(m, engine, wiring.flipped(getattr(self, f"r{rank}")))
        return m
