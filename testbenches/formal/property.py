"""A wrapper component that states what is assumed and what must follow."""

from __future__ import annotations

from amaranth.hdl import Assume, Instance, Module, ResetSignal, Signal, Value
from amaranth.lib import wiring

__all__ = ["Property"]


class Property(wiring.Component):
    """Base of the wrappers: no reset, free inputs, and a look inside the design under proof.

    The members of the signature are the free inputs: in every cycle the solver may give each any
    value that the assumptions leave. A proof starts from the reset state; an induction from any
    state that the properties themselves allow, so what a proof by induction needs to know of the
    registers must be stated of a :meth:`probe`.

    Attributes
    ----------
    probes : name of a signal of the wrapper, and the path of the inner one that drives it
    """

    def __init__(self, inputs: dict):
        self.probes: dict[str, str] = {}
        super().__init__(inputs)

    def state(self, m: Module) -> None:
        """Add the design, the assumptions and the assertions."""
        raise NotImplementedError

    def elaborate(self, platform) -> Module:
        self.probes.clear()
        m = Module()
        m.d.comb += Assume(~ResetSignal())
        self.state(m)
        return m

    def probe(self, m: Module, path: str, width: int) -> Signal:
        """The inner signal at ``path`` (names of submodules and of the signal, joined by dots;
        ``memory[2]`` is a word of a memory)."""
        name = f"probe_{len(self.probes)}"
        self.probes[name] = path
        signal = Signal(width, name=name)
        m.submodules += Instance("formal_probe", o_o=signal)
        return signal

    def was(self, m: Module, value, name: str) -> Value:
        """``value`` of the cycle before; 0 in the first."""
        value = Value.cast(value)
        register = Signal(len(value), name=name)
        m.d.sync += register.eq(value)
        return register
