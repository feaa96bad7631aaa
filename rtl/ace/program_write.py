"""How the command unit writes the program memories of a dim."""

from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from rtl.ace.layouts import PORT_BITS

__all__ = ["ProgramWrite"]


class ProgramWrite(wiring.Signature):
    """A write into the program memory of a port, seen from the writer."""

    def __init__(self, *, step):
        super().__init__(
            {"valid": Out(1), "port": Out(PORT_BITS), "index": Out(12), "step": Out(step)}
        )
