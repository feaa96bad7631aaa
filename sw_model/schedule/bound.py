"""The bound that no hierarchical schedule can beat, and the dims that set it.

A schedule gives every part of the payload a reduce-scatter order and an all-gather order. Choosing
which share takes which, so that the most loaded dim is done soonest, is a linear program::

    minimise t  with  sum over orders (share x load on dim k) <= t  for every k,  sum of shares = 1

It is solved by generating columns: given a price for a second on each dim, the cheapest pair of
orders is found over subsets of dims (what a phase costs depends only on *which* dims came before),
so it needs no list of orders and works for many dims. Loads are scaled to about one before
solving.

Any prices give a bound: every schedule pays at least the cheapest orders for its whole payload. So
the result is computed from the final prices in exact arithmetic and holds whatever rounding the
solver has suffered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any

from sw_model.collective.cost import phase_cost
from sw_model.collective.plan import Algorithm, Operation
from sw_model.schedule.phases import Turn, turn_merges
from sw_model.topology import Dim

__all__ = [
    "Bound",
    "Column",
    "Order",
    "OrderCosts",
    "other_columns",
    "priced_seconds",
    "solve_bound",
]

#: Dims of the reduce-scatter half, and of the all-gather half, each in order of the visit.
Order = tuple[tuple[int, ...], tuple[int, ...]]

_TOLERANCE = 1e-11
_ROUNDS = 400


@dataclass(frozen=True)
class OrderCosts:
    """Seconds per byte of every phase, for a payload of one byte where it is largest.

    Parameters
    ----------
    dims : of the collective; orders index into them
    operation : the collective
    algorithms : by dim
    turn : whether the turning point is one phase
    """

    dims: tuple[Dim, ...]
    operation: Operation
    algorithms: tuple[Algorithm, ...]
    turn: Turn = Turn.IN_NETWORK

    def seconds(self, operation: Operation, k: int) -> Fraction:
        """Of one byte on dim ``k``. A double binary tree makes whole all-reduces: to the bound each
        half counts half of one, which no schedule can do better."""
        dim = self.dims[k]
        if self.algorithms[k] is Algorithm.DOUBLE_BINARY_TREE and operation.reorders:
            cost = phase_cost(dim, Operation.ALL_REDUCE, self.algorithms[k], 1)
            halves = 1 if operation is Operation.ALL_REDUCE else 2
            return cost.port / dim.bandwidth / halves
        return phase_cost(dim, operation, self.algorithms[k], 1).port / dim.bandwidth

    def merges(self, k: int) -> bool:
        """Whether a turning point on dim ``k`` is one phase."""
        return turn_merges(self.turn, self.algorithms[k])

    def loads(self, order: Order) -> list[Fraction]:
        """Seconds on every dim, of a byte that takes ``order``."""
        scatter, gather = order
        out = [Fraction(0)] * len(self.dims)
        if not self.operation.reorders:
            for k in gather:
                out[k] += self.seconds(self.operation, k)
            return out
        merged = bool(scatter and gather) and scatter[-1] == gather[0] and self.merges(gather[0])
        part = Fraction(1)
        for k in scatter[:-1] if merged else scatter:
            out[k] += part * self.seconds(Operation.REDUCE_SCATTER, k)
            part /= self.dims[k].size
        if merged:
            out[gather[0]] += part * self.seconds(Operation.ALL_REDUCE, gather[0])
        part = Fraction(1)
        for k in reversed(gather[1:] if merged else gather):
            out[k] += part * self.seconds(Operation.ALL_GATHER, k)
            part /= self.dims[k].size
        return out


@dataclass(frozen=True)
class Column:
    """A share of the payload and the order that it takes."""

    order: Order
    share: float


@dataclass(frozen=True)
class Bound:
    """The optimum.

    Attributes
    ----------
    seconds_per_byte : no schedule is faster
    weights : by dim, how much of the bound falls by making this dim faster; sums to 1
    columns : shares of the payload that reach it
    """

    seconds_per_byte: Fraction
    weights: tuple[Fraction, ...]
    columns: tuple[Column, ...]

    @property
    def dims(self) -> tuple[int, ...]:
        """The dims that set the bound, the weightiest first."""
        setting = [k for k, weight in enumerate(self.weights) if weight > Fraction(1, 10**9)]
        return tuple(sorted(setting, key=lambda k: (-self.weights[k], k)))


def solve_bound(costs: OrderCosts) -> Bound:
    """Solve the linear program for a collective on all of its dims."""
    active = [k for k, dim in enumerate(costs.dims) if dim.size > 1]
    count = len(costs.dims)
    if not active:
        return Bound(Fraction(0), (Fraction(0),) * count, ())
    if not costs.operation.reorders:
        order: Order = ((), tuple(active))
        loads = costs.loads(order)
        largest = max(loads)
        first = loads.index(largest)
        weights = tuple(Fraction(int(k == first)) for k in range(count))
        return Bound(largest, weights, (Column(order, 1.0),))
    pricing = _Pricing(costs, active)
    prices, columns = _solve(costs, active, pricing)
    exact = [Fraction(price).limit_denominator(10**15) for price in prices]
    total = sum(exact, Fraction(0))
    value, _ = pricing.cheapest(exact, Fraction(1))
    weights_by_dim = [Fraction(0)] * count
    for k, price in zip(active, exact, strict=True):
        weights_by_dim[k] = price / total
    return Bound(value / total, tuple(weights_by_dim), tuple(columns))


def other_columns(costs: OrderCosts, dims: Sequence[int]) -> tuple[Column, ...]:
    """Shares that reach the bound too, of other orders where there is a choice: of orders that cost
    the same those are taken that come first in ``dims``, the dims of more than one NPU."""
    return tuple(_solve(costs, dims, _Pricing(costs, dims))[1])


def priced_seconds(costs: OrderCosts, weights: Sequence[Fraction]) -> Fraction:
    """Priced seconds of a byte that takes its cheapest orders: no schedule of it has less.

    Parameters
    ----------
    weights : price of a second on each dim
    """
    active = [k for k, dim in enumerate(costs.dims) if dim.size > 1]
    if not active:
        return Fraction(0)
    if not costs.operation.reorders:
        loads = costs.loads(((), tuple(active)))
        return sum((w * load for w, load in zip(weights, loads, strict=True)), Fraction(0))
    prices = [weights[k] for k in active]
    value: Fraction = _Pricing(costs, active).cheapest(prices, Fraction(1))[0]
    return value


class _Pricing:
    """The cheapest orders under prices, over subsets of the active dims."""

    def __init__(self, costs: OrderCosts, active: Sequence[int]) -> None:
        self.costs = costs
        self.active = list(active)
        self.sizes = [costs.dims[k].size for k in active]
        self.scatters = costs.operation is not Operation.ALL_GATHER
        self.gathers = costs.operation is not Operation.REDUCE_SCATTER
        seconds = costs.seconds
        self.scatter = [seconds(Operation.REDUCE_SCATTER, k) for k in active]
        self.gather = [seconds(Operation.ALL_GATHER, k) for k in active]
        self.turn = {
            i: seconds(Operation.ALL_REDUCE, k)
            for i, k in enumerate(active)
            if self.scatters and self.gathers and costs.merges(k)
        }

    def cheapest(self, prices: Sequence[Any], one: Any) -> tuple[Any, Order]:
        """The least price of a byte, and the orders that have it; in the arithmetic of ``one``."""
        number: Callable[[Fraction], Any] = type(one)
        everything = (1 << len(self.active)) - 1
        nothing: tuple[list[Any], list[int]] = ([one * 0] * (everything + 1), [])

        def half(seconds: Sequence[Fraction]) -> tuple[list[Any], list[int]]:
            """For every set of visited dims the least price, and the dim visited last."""
            priced = [p * number(s) for p, s in zip(prices, seconds, strict=True)]
            best: list[Any] = [None] * (everything + 1)
            last = [-1] * (everything + 1)
            best[0] = one * 0
            for visited in range(1, everything + 1):
                for i in range(len(priced)):
                    bit = 1 << i
                    if not visited & bit:
                        continue
                    before = visited ^ bit
                    value = best[before] + priced[i] / self._shrunk(before)
                    if best[visited] is None or value < best[visited]:
                        best[visited], last[visited] = value, i
            return best, last

        out, out_last = half(self.scatter) if self.scatters else nothing
        back, back_last = half(self.gather) if self.gathers else nothing
        value = out[everything] + back[everything]
        turn, rest = -1, everything
        for i, seconds in self.turn.items():
            before = everything ^ (1 << i)
            merged = prices[i] * number(seconds) / self._shrunk(before) + out[before] + back[before]
            if merged <= value:
                value, turn, rest = merged, i, before
        scatter = self._path(out_last, rest) if self.scatters else []
        # The all-gather runs its path backwards: its last dim has the largest result.
        gather = self._path(back_last, rest)[::-1] if self.gathers else []
        if turn >= 0:
            scatter, gather = [*scatter, turn], [turn, *gather]
        dims = self.active
        return value, (tuple(dims[i] for i in scatter), tuple(dims[i] for i in gather))

    def _shrunk(self, visited: int) -> int:
        return prod(size for i, size in enumerate(self.sizes) if visited >> i & 1)

    @staticmethod
    def _path(last: Sequence[int], visited: int) -> list[int]:
        path = []
        while visited:
            path.append(last[visited])
            visited ^= 1 << last[visited]
        return path[::-1]


def _solve(
    costs: OrderCosts, active: Sequence[int], pricing: _Pricing
) -> tuple[list[float], list[Column]]:
    """Prices by active dim, and shares. A revised simplex over the columns that pay.

    Rows are ``t - load of dim k - slack = 0`` for each dim, and ``sum of shares = 1``.
    """
    rows = len(active) + 1
    start = tuple(active)
    first: Order = (start if pricing.scatters else (), start[::-1] if pricing.gathers else ())
    loads = costs.loads(first)
    scale = float(max(loads))

    def column(order: Order) -> list[float]:
        exact = costs.loads(order)
        return [-float(exact[k]) / scale for k in active] + [1.0]

    worst = max(range(len(active)), key=lambda i: loads[active[i]])
    # The basis: a name and a column of each variable in it.
    basis: list[tuple[Any, list[float]]] = [(first, column(first)), ("t", [1.0] * (rows - 1) + [0])]
    for i in range(rows - 1):
        if i != worst:
            basis.append((i, [-float(i == r) for r in range(rows)]))
    prices = [float(i == worst) for i in range(rows - 1)]
    target = [0.0] * (rows - 1) + [1.0]
    values: list[float] = []
    for _ in range(_ROUNDS):
        matrix = [[c[r] for _, c in basis] for r in range(rows)]
        values = _linear(matrix, target)
        objective = [float(name == "t") for name, _ in basis]
        transposed = [list(c) for _, c in basis]
        dual = _linear(transposed, objective)
        prices = [max(0.0, p) for p in dual[:-1]]
        # A slack whose price is negative comes in first; then the cheapest orders.
        entering: tuple[Any, list[float]] | None = None
        lowest = min(range(rows - 1), key=lambda i: dual[i])
        if dual[lowest] < -_TOLERANCE:
            entering = (lowest, [-float(lowest == r) for r in range(rows)])
        else:
            value, order = pricing.cheapest([p / scale for p in prices], 1.0)
            if value < dual[-1] - _TOLERANCE:
                entering = (order, column(order))
        if entering is None:
            break
        direction = _linear(matrix, entering[1])
        ratios = [
            (max(0.0, values[i]) / direction[i], i)
            for i in range(rows)
            if direction[i] > _TOLERANCE
        ]
        if not ratios:
            break
        basis[min(ratios)[1]] = entering
    columns = [
        Column(name, value)
        for (name, _), value in zip(basis, values, strict=True)
        if isinstance(name, tuple) and value > 1e-9
    ]
    columns.sort(key=lambda c: -c.share)
    return prices, columns


def _linear(matrix: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """Solve a small square system by elimination with pivoting."""
    size = len(right)
    work = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for c in range(size):
        pivot = max(range(c, size), key=lambda r: abs(work[r][c]))
        work[c], work[pivot] = work[pivot], work[c]
        head = work[c][c]
        for r in range(c + 1, size):
            factor = work[r][c] / head
            if factor:
                work[r] = [a - factor * b for a, b in zip(work[r], work[c], strict=True)]
    out = [0.0] * size
    for r in range(size - 1, -1, -1):
        known = sum(work[r][c] * out[c] for c in range(r + 1, size))
        out[r] = (work[r][size] - known) / work[r][r]
    return out
