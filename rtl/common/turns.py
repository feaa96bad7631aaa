"""Whose turn it is among classes that share something."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Turns"]


class Turns(wiring.Component):
    """Chooses one of those that ask, by the rule of the link transmitter (docs/links.md).

    One that was offered and not taken keeps its turn. Else it is the turn of one that ``bound``
    others have passed while it asked, these in turn; else of the lowest number.

    Parameters
    ----------
    askers : how many, at least 1
    bound : others that may pass one that asks; None: any number

    Members
    -------
    asks : In(askers)
    offered : In(1)
        What the one whose turn it is asks for is offered in this cycle.
    taken : In(1)
        And taken.
    turn : Out(askers)
        One bit, or none if nobody asks. Depends on ``asks`` in the same cycle.

    Notes
    -----
    At most ``bound + askers - 1`` pass one that asks.

    Raises
    ------
    ValueError
        for parameters out of range.
    """

    def __init__(self, *, askers: int, bound: int | None):
        for name, value in (("askers", askers), ("bound", 1 if bound is None else bound)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a positive integer, not {value!r}")
        self.askers = askers
        self.bound = bound
        super().__init__(
            {
                "asks": In(askers),
                "offered": In(1),
                "taken": In(1),
                "turn": Out(askers),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        width = self.askers
        kept = Signal(width)
        candidates = Signal(width)
        m.d.sync += kept.eq(Mux(self.offered & ~self.taken, self.turn, 0))
        m.d.comb += [
            candidates.eq(self.asks),
            self.turn.eq(candidates & -candidates),
        ]
        if self.bound is not None and width > 1:
            self._urgent(m, candidates)
        with m.If(kept.any()):
            m.d.comb += candidates.eq(kept)
        return m

    def _urgent(self, m, candidates):
        """Those that too many have passed, one behind the other."""
        width = self.askers
        urgent, due, behind = Signal(width), Signal(width), Signal(width)
        m.d.comb += due.eq(self.asks & urgent)
        with m.If(due.any()):
            m.d.comb += candidates.eq(Mux((due & behind).any(), due & behind, due))
        for number in range(width):
            passed = Signal(range(self.bound + 1), name=f"passed_{number}")
            m.d.comb += urgent[number].eq(passed == self.bound)
            with m.If(self.taken & self.turn[number]):
                m.d.sync += passed.eq(0)
                with m.If(urgent[number]):
                    m.d.sync += behind.eq(((1 << width) - 1) & ~((2 << number) - 1))
            with m.Elif(self.taken & self.asks[number] & ~urgent[number]):
                m.d.sync += passed.eq(passed + 1)
