"""The time of a collective as a maximum of convex functions of the bandwidths.

With the fixed order every dim has its traffic: T = max over d of traffic_d / B_d.

A balanced scheduler (`sw_model.schedule.balanced`, Themis at its best) chooses which share of the
payload takes which order, so that the dims are done together. T is then the optimum of a linear
program (`sw_model.schedule.bound`), and any prices p >= 0 of the dims bound it from below: T >=
(the least sum of p_d x traffic_d over all orders) / (p . B). The largest of these is T itself, so T
is convex in B, as a maximum of convex functions. They are found as they are needed: solve with
those that are known, ask the linear program at that point, add the one that holds there.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from fractions import Fraction

from sw_model.collective.plan import Operation
from sw_model.optimize.demand import Demand, order_costs, traffic
from sw_model.optimize.network import OpenNetwork
from sw_model.optimize.program import Piece
from sw_model.schedule.bound import solve_bound

__all__ = ["Scheduling", "TimeModel"]

_ROUNDING = Fraction(1, 10**9)  # relative; below it a new piece says nothing new


class Scheduling(enum.Enum):
    """How collectives are scheduled over the dims."""

    BASELINE = "baseline"
    BALANCED = "balanced"


class TimeModel:
    """Times of demands on a network, and the pieces that they are the maximum of.

    Parameters
    ----------
    network : whose bandwidths are open
    scheduling : see the module
    """

    def __init__(self, network: OpenNetwork, scheduling: Scheduling) -> None:
        self.network = network
        self.scheduling = scheduling
        self._pieces: dict[Demand, list[Piece]] = {}
        self._traffic: dict[Demand, tuple[Fraction, ...]] = {}

    def ordered(self, demand: Demand) -> bool:
        """Whether the order of the dims is free for ``demand``."""
        spanned = sum(size > 1 for size in demand.communicator.sizes)
        return (
            self.scheduling is Scheduling.BALANCED
            and spanned > 1
            and demand.operation not in (None, Operation.ALL_TO_ALL)
        )

    def time_ns(self, demand: Demand, bandwidths: Sequence[Fraction]) -> Fraction:
        """With bandwidths in GB/s."""
        if self.ordered(demand):
            # A piece holds everywhere; the program's rounding must not say less than it.
            known = [
                piece.amount / piece.form(bandwidths) for piece in self._pieces.get(demand, ())
            ]
            return max([self._balanced(demand, bandwidths)[0], *known])
        loads = self._loads(demand)
        return max(load / b for load, b in zip(loads, bandwidths, strict=True))

    def begin(self, demands: Sequence[Demand], bandwidths: Sequence[Fraction]) -> None:
        """The first pieces of all ``demands``: all of them, or those that hold at
        ``bandwidths``."""
        count = len(self.network.dims)
        for demand in demands:
            if self.ordered(demand):
                self._pieces[demand] = [self._balanced(demand, bandwidths)[1]]
            else:
                self._pieces[demand] = [
                    Piece(load, tuple(Fraction(i == d) for i in range(count)))
                    for d, load in enumerate(self._loads(demand))
                    if load
                ]

    def pieces(self, demand: Demand) -> tuple[Piece, ...]:
        """Those that are known."""
        return tuple(self._pieces[demand])

    def refine(self, demands: Sequence[Demand], bandwidths: Sequence[Fraction]) -> bool:
        """Add the pieces that hold at ``bandwidths``. False where all were known."""
        found = False
        for demand in demands:
            if not self.ordered(demand):
                continue
            time, piece = self._balanced(demand, bandwidths)
            known = max(p.amount / p.form(bandwidths) for p in self._pieces[demand])
            if time - known > _ROUNDING * time:
                self._pieces[demand].append(piece)
                found = True
        return found

    def _loads(self, demand: Demand) -> tuple[Fraction, ...]:
        if demand not in self._traffic:
            self._traffic[demand] = traffic(self.network, demand)
        return self._traffic[demand]

    def _balanced(self, demand: Demand, bandwidths: Sequence[Fraction]) -> tuple[Fraction, Piece]:
        """The time, and the piece that gives it."""
        bound = solve_bound(order_costs(self.network, demand, bandwidths))
        whole = demand.communicator.ranks if demand.operation is Operation.ALL_GATHER else 1
        time = bound.seconds_per_byte * demand.bytes * whole
        prices = tuple(w / b for w, b in zip(bound.weights, bandwidths, strict=True))
        return time, Piece(time, prices)
