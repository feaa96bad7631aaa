"""Whole messages through a link's rate, in closed form."""

from __future__ import annotations

from fractions import Fraction

from sw_model.endpoint.link import RateGate

__all__ = ["MessageGate"]


class MessageGate(RateGate):
    """Cycles in which the flits of messages leave a link transmitter.

    Parameters
    ----------
    rate : flits per cycle, above 0 and at most 1
    ahead : flits that the sender's pipeline holds in front of the transmitter

    Attributes
    ----------
    first : cycle in which the first flit of the last message left
    """

    __slots__ = ("_ahead", "_begun", "first")

    def __init__(self, rate: Fraction, ahead: int) -> None:
        super().__init__(rate)
        self._ahead = ahead
        self.first = 0
        self._begun = 0  # the accumulator in that cycle

    def message(self, ready: int, flits: int) -> tuple[int, int, int]:
        """Let ``flits`` (at least 1), all ready in cycle ``ready``, leave as soon as they may.

        Returns
        -------
        tuple of int
            cycles in which the second flit leaves (of a single flit: the first), in which the
            last leaves, and in which the sender's pipeline takes the last
        """
        gain, cost = self._gain, self._cost
        first, saved = self._cycle, self._saved
        if ready > first:
            saved += gain * (ready - first)
            if saved > self._most:
                saved = self._most
            first = ready
        if saved < cost:
            wait = -((saved - cost) // gain)
            first += wait
            saved += wait * gain
        self.first = first
        self._begun = saved
        more = flits - 1
        if gain == cost:
            last = first + more
            self._cycle = last + 1
            return first + 1 if more else first, last, last - self._ahead + 1
        span = -((saved - flits * cost) // gain)
        if span < more:
            span = more
        last = first + span
        self._cycle = last + 1
        self._saved = saved + (span + 1) * gain - flits * cost
        second = first
        if more:
            second = -((saved - 2 * cost) // gain)
            second = first + (second if second > 1 else 1)
        # The flit in front of which the pipeline is full when the last one enters it.
        before = flits - self._ahead
        taken = first - ((saved - before * cost) // gain) + 1
        return second, last, taken

    def departed(self, index: int) -> int:
        """Cycle in which flit ``index`` (from 0) of the message let through last has left, where
        nothing but the rate has held it up."""
        waited = (self._begun - (index + 1) * self._cost) // self._gain
        return self.first + max(index, -waited)

    def stretch(self, last: int) -> None:
        """The message let through last leaves more slowly than the rate asks for, because its
        source is slower: its last flit leaves in cycle ``last``."""
        saved = self._saved + self._gain * (last + 1 - self._cycle)
        self._saved = saved if saved < self._most else self._most
        self._cycle = last + 1
