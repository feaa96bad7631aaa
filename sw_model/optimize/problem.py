"""The bandwidths that are best for a group of workloads, with the certificate of it.

PerfOpt minimises the weighted sum of iteration times; it is convex in the bandwidths B.

PerfPerCost minimises that sum x cost. With the cost C(B) = c . B, put y = B / C and s = 1 / C: then
c . y = 1, a linear row g . B <= h becomes g . y <= h s, compute K becomes K / s, and a collective's
time x cost becomes the same function of y as its time was of B, since times of collectives fall in
proportion to all bandwidths together. So the product is convex in (y, s) under *any* linear
constraints. Where the constraints are such that log B ranges over a convex set, this is the
geometric program in log B; an equality such as B1 + B2 = 50 is none in log B, and is no obstacle
here (docs/optimize.md).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sw_model.errors import InputError
from sw_model.optimize.conic import nearest_feasible, solve_conic
from sw_model.optimize.constraint import MINIMUM, Constraint, check_constraints
from sw_model.optimize.demand import Demand
from sw_model.optimize.iteration import Path, Step, TrainingTask
from sw_model.optimize.network import GIGA, OpenNetwork
from sw_model.optimize.prices import Prices
from sw_model.optimize.program import Piece, Program, ProgramPath, ProgramStep, lower_bound
from sw_model.optimize.scheduling import Scheduling, TimeModel
from sw_model.optimize.simplex import Row, UnboundedError, maximise
from sw_model.units import LARGEST_BANDWIDTH

__all__ = ["Objective", "Optimum", "Problem", "optimise"]

_STEP = Fraction(1, 10**9)  # GB/s to which a solver's figure is rounded: a byte per second
_NEAR = Fraction(1, 10**7)  # relative, of the time of a scheduler that is modelled by cuts
_LARGEST = Fraction(LARGEST_BANDWIDTH, GIGA)
_ROUNDS = 60
_IDLE = 3


class Objective(enum.Enum):
    """What is minimised."""

    PERF = "perf"
    PERF_PER_COST = "perf-per-cost"


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What is asked.

    Parameters
    ----------
    network : whose bandwidths
    tasks : the group of workloads
    constraints : linear, on the bandwidths; they must limit every dim
    objective : see `Objective`
    prices : needed for time x cost
    scheduling : how collectives are scheduled over the dims
    minimum : GB/s that every dim has at least
    """

    network: OpenNetwork
    tasks: tuple[TrainingTask, ...]
    constraints: tuple[Constraint, ...]
    objective: Objective = Objective.PERF
    prices: Prices | None = None
    scheduling: Scheduling = Scheduling.BASELINE
    minimum: Fraction = MINIMUM

    def __post_init__(self) -> None:
        if not self.tasks:
            raise ValueError("tasks must have at least one workload")
        if self.minimum <= 0:
            raise ValueError(f"minimum must be above 0, not {float(self.minimum):g}")
        if self.objective is Objective.PERF_PER_COST and self.prices is None:
            raise ValueError(f"prices must be given for the objective {self.objective.value}")

    @property
    def floors(self) -> list[Row]:
        """That every dim has the minimum."""
        count = len(self.network.dims)
        return [
            Row(tuple(Fraction(-(i == d)) for i in range(count)), -self.minimum)
            for d in range(count)
        ]


@dataclass(frozen=True, kw_only=True)
class Optimum:
    """What was found, all of it exact.

    Attributes
    ----------
    bandwidths : GB/s by dim
    time_ns : the weighted sum of iteration times
    task_ns : of each workload
    cost : dollars, or None where nothing is priced
    value : what was minimised: ns, or ns x dollars
    bound : no bandwidths under the constraints have a smaller value
    equal_ns : the time with the same total, equal on all dims
    """

    problem: Problem
    bandwidths: tuple[Fraction, ...]
    time_ns: Fraction
    task_ns: tuple[Fraction, ...]
    cost: Fraction | None
    value: Fraction
    bound: Fraction
    equal_ns: Fraction

    @property
    def gap(self) -> float:
        """How far the value may be above the best, relative."""
        return float((self.value - self.bound) / self.value) if self.value else 0.0

    @property
    def speedup_over_equal(self) -> float:
        """Time with equal bandwidths over time."""
        return float(self.equal_ns / self.time_ns) if self.time_ns else 1.0


def times_ns(
    problem: Problem, bandwidths: Sequence[Fraction], model: TimeModel | None = None
) -> tuple[Fraction, ...]:
    """Iteration time of each workload."""
    model = model or TimeModel(problem.network, problem.scheduling)
    known: dict[Demand, Fraction] = {}

    def of(demand: Demand) -> Fraction:
        if demand not in known:
            known[demand] = model.time_ns(demand, bandwidths)
        return known[demand]

    return tuple(task.iteration.time_ns(of) for task in problem.tasks)


def optimise(problem: Problem) -> Optimum:
    """Solve.

    Raises
    ------
    InputError
        where the constraints clash, or do not limit a dim.
    """
    count = len(problem.network.dims)
    check_constraints(problem.constraints, problem.minimum, count)
    rows = [*(c.row for c in problem.constraints), *problem.floors]
    tops = _tops(problem, rows)
    # The mean of the points that are farthest out is well inside.
    centre = tuple(sum((t[d] for t in tops), Fraction(0)) / count for d in range(count))
    rows = [_with_implied_equality(row, rows, centre) for row in rows]
    model = TimeModel(problem.network, problem.scheduling)
    tasks = problem.tasks
    everything = dict.fromkeys(d for task in tasks for d in task.iteration.demands())
    demands = [demand for demand in everything if not demand.idle]
    model.begin(demands, centre)
    rates = problem.prices.rates(problem.network) if problem.prices is not None else None
    best: tuple[Fraction, tuple[Fraction, ...]] | None = None
    bound = Fraction(0)
    idle = 0  # rounds without progress
    for _ in range(_ROUNDS):
        before = None if best is None else best[0] - bound
        program = _program(problem, demands, model, rows, tops, centre)
        point, multipliers = solve_conic(program)
        # Nor is anything better than all variables at their ends: every time falls with each.
        ends = program.value([highest for _, highest in program.ranges])
        bound = max(bound, lower_bound(program, multipliers), ends)
        if problem.objective is Objective.PERF_PER_COST:
            point = tuple(y / point[-1] for y in point[:-1])
        rounded = [Fraction(round(b / float(_STEP)) * _STEP) for b in point]
        bandwidths = nearest_feasible(rounded, rows, centre)
        value = _value(problem, times_ns(problem, bandwidths, model), bandwidths, rates)
        if best is None or value < best[0]:
            best = (value, bandwidths)
        if best[0] - bound <= _NEAR * best[0]:
            break
        refined = model.refine(demands, bandwidths)
        # The next round sees the problem in units of where this one ended, which may be far from
        # where it began.
        centre = best[1]
        idle = idle + 1 if before is not None and 2 * (best[0] - bound) > before else 0
        if idle == _IDLE and not refined:
            break
    assert best is not None
    value, bandwidths = best
    return _optimum(problem, bandwidths, value, bound, model, rates)


def _value(
    problem: Problem,
    task_ns: Sequence[Fraction],
    bandwidths: Sequence[Fraction],
    rates: Sequence[Fraction] | None,
) -> Fraction:
    total = sum((t.weight * ns for t, ns in zip(problem.tasks, task_ns, strict=True)), Fraction(0))
    if problem.objective is Objective.PERF_PER_COST:
        assert rates is not None
        total *= sum((r * b for r, b in zip(rates, bandwidths, strict=True)), Fraction(0))
    return total


def _optimum(
    problem: Problem,
    bandwidths: tuple[Fraction, ...],
    value: Fraction,
    bound: Fraction,
    model: TimeModel,
    rates: Sequence[Fraction] | None,
) -> Optimum:
    def weighted(task_ns: Sequence[Fraction]) -> Fraction:
        pairs = zip(problem.tasks, task_ns, strict=True)
        return sum((task.weight * ns for task, ns in pairs), Fraction(0))

    task_ns = times_ns(problem, bandwidths, model)
    count = len(bandwidths)
    equal = (sum(bandwidths, Fraction(0)) / count,) * count
    cost = None
    if rates is not None:
        cost = sum((r * b for r, b in zip(rates, bandwidths, strict=True)), Fraction(0))
    return Optimum(
        problem=problem,
        bandwidths=bandwidths,
        time_ns=weighted(task_ns),
        task_ns=task_ns,
        cost=cost,
        value=value,
        bound=bound,
        equal_ns=weighted(times_ns(problem, equal, model)),
    )


def _tops(problem: Problem, rows: Sequence[Row]) -> list[tuple[Fraction, ...]]:
    """By dim, a point at which it has the most that the constraints leave to it."""
    count = len(problem.network.dims)
    tops = []
    for d in range(count):
        try:
            top = maximise([Fraction(i == d) for i in range(count)], rows)
        except UnboundedError:
            message = (
                f"the constraints must limit every bandwidth, but B{d + 1} can grow for ever: add "
                f"one such as '{' + '.join(f'B{i + 1}' for i in range(count))} <= 100'"
            )
            if problem.constraints:
                raise problem.constraints[0].error(message) from None
            raise InputError(message) from None
        assert top is not None
        if top[d] > _LARGEST:
            message = (
                f"the constraints must leave every bandwidth at most {float(_LARGEST):g} GB/s, but "
                f"B{d + 1} may have {float(top[d]):g}"
            )
            raise problem.constraints[0].error(message)
        tops.append(top)
    return tops


def _with_implied_equality(row: Row, rows: Sequence[Row], centre: Sequence[Fraction]) -> Row:
    """``row``, as an equality where the others leave it no slack: a solver that walks through the
    interior needs one."""
    if row.equal or not replace(row, equal=True).holds(centre):
        return row
    lowest = maximise([-c for c in row.coefficients], rows)
    assert lowest is not None
    return replace(row, equal=replace(row, equal=True).holds(lowest))


def _program(
    problem: Problem,
    demands: Sequence[Demand],
    model: TimeModel,
    rows: Sequence[Row],
    tops: Sequence[tuple[Fraction, ...]],
    centre: tuple[Fraction, ...],
) -> Program:
    """The program in B, or in (y, s)."""
    product = problem.objective is Objective.PERF_PER_COST
    numbers = {demand: c for c, demand in enumerate(demands)}
    count = len(centre)
    extra = (Fraction(0),) * product
    times = [
        tuple(Piece(p.amount, (*p.weights, *extra)) for p in model.pieces(demand))
        for demand in demands
    ]
    compute = len(times)
    if product:
        times.append((Piece(Fraction(1), (*[Fraction(0)] * count, Fraction(1))),))

    compute_time = compute if product else None
    parts = _Parts(numbers, compute_time)
    for task in problem.tasks:
        for step in task.iteration.steps:
            parts.add(step, task.weight)
    constant, always, steps = parts.constant, parts.counts, parts.steps()
    if not product:
        ranges = tuple((problem.minimum, tops[d][d]) for d in range(count))
        return Program(tuple(times), constant, always, steps, tuple(rows), ranges, centre)
    assert problem.prices is not None
    rates = problem.prices.rates(problem.network)
    scaled = [Row((*row.coefficients, -row.right), Fraction(0), row.equal) for row in rows]
    scaled.append(Row((*rates, Fraction(0)), Fraction(1), equal=True))
    total = sum((r * b for r, b in zip(rates, centre, strict=True)), Fraction(0))
    inside = (*(b / total for b in centre), 1 / total)
    ranges = tuple(_range(i, count + 1, scaled) for i in range(count + 1))
    return Program(tuple(times), constant, always, steps, tuple(scaled), ranges, inside)


class _Parts:
    """The sum of an objective, as it is put together.

    Parameters
    ----------
    numbers : of the times of demands
    compute : number of the time that stands for a nanosecond of compute; None where that is
        constant
    """

    def __init__(self, numbers: Mapping[Demand, int], compute: int | None) -> None:
        self.numbers, self.compute = numbers, compute
        self.constant = Fraction(0)
        self.counts: dict[int, Fraction] = {}
        self._counted: dict[Step, Fraction] = {}

    def add(self, step: Step, weight: Fraction) -> None:
        """A step that stands by itself."""
        count = weight * step.count
        if len(step.paths) > 1 or step.paths[0].steps:
            one = replace(step, count=1)
            self._counted[one] = self._counted.get(one, Fraction(0)) + count
            return
        path = self._path(step.paths[0], {})
        self.constant += count * path.constant
        for c, n in path.counts.items():
            self.counts[c] = self.counts.get(c, Fraction(0)) + count * n

    def steps(self) -> tuple[ProgramStep, ...]:
        """All of several paths, those inside others too, each once and after all it is part of."""
        depth: dict[Step, int] = {}

        def visit(step: Step, level: int) -> None:
            if depth.get(step, -1) >= level:
                return
            depth[step] = level
            for path in step.paths:
                for inner in path.steps:
                    visit(replace(inner, count=1), level + 1)

        for step in self._counted:
            visit(step, 0)
        order = sorted(depth, key=depth.__getitem__)
        place = {step: number for number, step in enumerate(order)}
        return tuple(
            ProgramStep(
                tuple(self._path(path, place) for path in step.paths),
                self._counted.get(step, Fraction(0)),
            )
            for step in order
        )

    def _path(self, path: Path, place: Mapping[Step, int]) -> ProgramPath:
        counts: dict[int, Fraction] = {}
        for demand, n in path.demands:
            if demand.idle:
                continue
            c = self.numbers[demand]
            counts[c] = counts.get(c, Fraction(0)) + n
        constant = path.compute_ns
        if self.compute is not None:
            counts[self.compute] = constant
            constant = Fraction(0)
        inner: dict[int, Fraction] = {}
        for step in path.steps:
            number = place[replace(step, count=1)]
            inner[number] = inner.get(number, Fraction(0)) + step.count
        return ProgramPath(constant, counts, inner)


def _range(index: int, count: int, rows: Sequence[Row]) -> tuple[Fraction, Fraction]:
    """What ``rows`` leave to a variable that they limit."""
    highest = maximise([Fraction(i == index) for i in range(count)], rows)
    lowest = maximise([Fraction(-(i == index)) for i in range(count)], rows)
    assert highest is not None
    assert lowest is not None
    return lowest[index], highest[index]
