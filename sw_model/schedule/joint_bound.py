"""The bound of several collectives together, however they are scheduled.

Any prices of a second on each dim, that sum to 1, give a bound (`sw_model.schedule.bound`): in the
time in which the collectives run no dim is busy for longer than that time, so neither is the
priced sum; and each byte pays at least for its cheapest orders. Tried are the prices that are best
for each of the collectives alone, and their mean; the result is the largest, and exact. That they
overlap, or not, is no matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from sw_model.schedule.bound import Bound, OrderCosts, priced_seconds, solve_bound

__all__ = ["NO_BOUND", "Amounts", "JointBound", "joint_bound"]

#: Bytes of each kind of collective, of one NPU where they are most. The dims of all kinds are
#: those of one network, innermost first, of size 1 where a collective does not span one.
Amounts = Mapping[OrderCosts, int]


@dataclass(frozen=True)
class JointBound:
    """What was found.

    Attributes
    ----------
    seconds : no schedule of all the collectives is done sooner
    dims : those that set it, the weightiest first
    """

    seconds: Fraction
    dims: tuple[int, ...]

    @property
    def ns(self) -> float:
        """In nanoseconds, rounded to a picosecond."""
        return round(float(self.seconds * 10**9), 3)

    @property
    def named(self) -> list[str]:
        """The dims as reports name them."""
        return [f"dim {k + 1}" for k in self.dims]


NO_BOUND = JointBound(Fraction(0), ())

_solved = lru_cache(maxsize=1024)(solve_bound)
_priced = lru_cache(maxsize=1 << 14)(priced_seconds)


def joint_bound(amounts: Amounts) -> JointBound:
    """The bound of all collectives of a run, or of a layer."""
    alone = {costs: _solved(costs) for costs, size in amounts.items() if size}
    alone = {costs: bound for costs, bound in alone.items() if bound.seconds_per_byte}
    if not alone:
        return NO_BOUND
    tried = {bound.weights for bound in alone.values()}
    if len(tried) > 1:
        times = {costs: amounts[costs] * bound.seconds_per_byte for costs, bound in alone.items()}
        whole = sum(times.values(), Fraction(0))
        shares = {costs: _rounded(time / whole) for costs, time in times.items()}
        count = len(next(iter(tried)))
        mean = [
            sum((shares[c] * b.weights[k] for c, b in alone.items()), Fraction(0))
            for k in range(count)
        ]
        tried.add(tuple(weight / sum(mean, Fraction(0)) for weight in mean))

    def under(weights: tuple[Fraction, ...]) -> Fraction:
        return sum((amounts[costs] * _priced(costs, weights) for costs in alone), Fraction(0))

    best = max(sorted(tried), key=under)
    return JointBound(under(best), Bound(Fraction(1), best, ()).dims)


def _rounded(share: Fraction) -> Fraction:
    return share.limit_denominator(1000) or Fraction(1, 1000)
