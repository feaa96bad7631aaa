"""The program as a second-order cone program, for Clarabel (an open interior-point solver).

``t l >= a`` with t, l > 0 is the cone ``|(t - l, 2 sqrt(a))| <= t + l``. Everything is scaled by
its value at the program's centre, so that the solver sees numbers of about one. Its word is not
taken for anything: the point is moved to the nearest one that fulfils the rows exactly
(`nearest_feasible`), and the multipliers are evaluated by `sw_model.optimize.program.lower_bound`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import isfinite, sqrt

from sw_model.errors import AntiphonError
from sw_model.optimize.program import Multipliers, Program
from sw_model.optimize.simplex import Row, maximise

__all__ = ["nearest_feasible", "solve_conic"]

_ACCURACY = 1e-10
_NOTHING = 1e-11
"""Share of the objective below which the solver is not told of a time or a step: numbers of about
one beside numbers of about nothing cost it its accuracy."""


@dataclass
class _Matrix:
    """Rows ``b - A x`` of the cones, sparse."""

    entries: list[tuple[int, int, float]] = field(default_factory=list)
    right: list[float] = field(default_factory=list)

    def add(self, coefficients: dict[int, float], right: float) -> int:
        """A row ``right - coefficients . x``; returns its number."""
        number = len(self.right)
        self.entries += [(number, i, value) for i, value in coefficients.items() if value]
        self.right.append(right)
        return number


def solve_conic(program: Program) -> tuple[tuple[float, ...], Multipliers]:
    """A point that is optimal within a solver's accuracy, and the multipliers that say so.

    Raises
    ------
    AntiphonError
        where the solver gives up.
    """
    import clarabel
    import numpy as np
    from scipy import sparse

    count = program.variables
    centre = [float(value) for value in program.centre]
    times = [float(program.time(c, program.centre)) for c in range(len(program.times))]
    value = float(program.value(program.centre)) or 1.0
    longest, often = _steps_at_centre(program, times)
    of_times = {c: float(n) for c, n in program.counts.items()}
    for step, n in zip(program.steps, often, strict=True):
        for c in {c for path in step.paths for c in path.counts}:
            most = max(float(path.counts.get(c, 0)) for path in step.paths)
            of_times[c] = of_times.get(c, 0.0) + n * most
    kept_times = [c for c, t in enumerate(times) if of_times.get(c, 0.0) * t > _NOTHING * value]
    kept_steps = [s for s, t in enumerate(longest) if often[s] * t > _NOTHING * value]
    time_at = {c: count + number for number, c in enumerate(kept_times)}
    step_at = {s: count + len(kept_times) + number for number, s in enumerate(kept_steps)}
    # Times and steps are in units of what they are at the centre.
    objective = np.zeros(count + len(kept_times) + len(kept_steps))
    for c, column in time_at.items():
        objective[column] = float(program.counts.get(c, 0)) * times[c] / value
    for s, column in step_at.items():
        objective[column] = float(program.steps[s].count) * longest[s] / value

    matrix = _Matrix()
    order = sorted(range(len(program.rows)), key=lambda k: not program.rows[k].equal)
    scales = {}
    for k in order:
        row = program.rows[k]
        scaled = {i: float(c) * centre[i] for i, c in enumerate(row.coefficients) if c}
        scales[k] = max(abs(v) for v in scaled.values())
        matrix.add({i: v / scales[k] for i, v in scaled.items()}, float(row.right) / scales[k])
    first_path = len(matrix.right)
    for s in kept_steps:
        unit = longest[s]
        for path in program.steps[s].paths:
            line = {
                time_at[c]: float(n) * times[c] / unit
                for c, n in path.counts.items()
                if c in time_at
            }
            line |= {
                step_at[inner]: float(n) * longest[inner] / unit
                for inner, n in path.steps.items()
                if inner in step_at
            }
            matrix.add(line | {step_at[s]: -1.0}, -float(path.constant) / unit)
    first_cone = len(matrix.right)
    for c in kept_times:
        for piece in program.times[c]:
            form = {i: float(w) * centre[i] for i, w in enumerate(piece.weights) if w}
            size = sum(form.values())
            form = {i: w / size for i, w in form.items()}
            t = time_at[c]
            matrix.add({i: -w for i, w in form.items()} | {t: -1.0}, 0.0)
            matrix.add(form | {t: -1.0}, 0.0)
            matrix.add({}, 2 * sqrt(float(piece.amount) / (times[c] * size)))
    cones = []
    equal = sum(row.equal for row in program.rows)
    if equal:
        cones.append(clarabel.ZeroConeT(equal))
    if first_cone > equal:
        cones.append(clarabel.NonnegativeConeT(first_cone - equal))
    cones += [clarabel.SecondOrderConeT(3)] * sum(len(program.times[c]) for c in kept_times)
    shape = (len(matrix.right), len(objective))
    at_row, at_column, values = zip(*matrix.entries, strict=True)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = _ACCURACY
    solver = clarabel.DefaultSolver(
        sparse.csc_matrix((len(objective), len(objective))),
        objective,
        sparse.csc_matrix((values, (at_row, at_column)), shape=shape),
        np.array(matrix.right),
        cones,
        settings,
    )
    solution = solver.solve()
    dual = list(solution.z)
    # Whatever the status says: the point and the multipliers are judged by themselves.
    if not all(isfinite(value) for value in (*solution.x, *dual)):
        raise AntiphonError(f"the solver gave up: {solution.status}")
    rows = [0.0] * len(program.rows)
    for number, k in enumerate(order):
        rows[k] = dual[number] * value / scales[k]
    at = first_path
    paths = [tuple(0.0 for _ in step.paths) for step in program.steps]
    for s in kept_steps:
        paths[s] = tuple(dual[at : at + len(paths[s])])
        at += len(paths[s])
    by_time = [tuple((0.0, 0.0) for _ in pieces) for pieces in program.times]
    for c in kept_times:
        guesses = []
        for piece in program.times[c]:
            a, b = dual[at], dual[at + 1]
            size = float(piece.form(program.centre))
            guesses.append((a + b, (a - b) * value / size))
            at += 3
        by_time[c] = tuple(guesses)
    point = tuple(x * c for x, c in zip(solution.x[:count], centre, strict=True))
    return point, Multipliers(tuple(by_time), tuple(paths), tuple(rows))


def _steps_at_centre(program: Program, times: Sequence[float]) -> tuple[list[float], list[float]]:
    """By step, its longest path at the centre, and how often it stands in the objective at most."""
    longest = [0.0] * len(program.steps)
    for s in range(len(program.steps) - 1, -1, -1):
        longest[s] = max(
            float(path.constant)
            + sum(float(n) * times[c] for c, n in path.counts.items())
            + sum(float(n) * longest[inner] for inner, n in path.steps.items())
            for path in program.steps[s].paths
        )
    often = [float(step.count) for step in program.steps]
    for s, step in enumerate(program.steps):
        for path in step.paths:
            for inner, n in path.steps.items():
                often[inner] += often[s] * float(n)
    return longest, often


def nearest_feasible(
    point: Sequence[Fraction], rows: Sequence[Row], scale: Sequence[Fraction]
) -> tuple[Fraction, ...]:
    """The point z >= 0 that fulfils ``rows`` exactly and lies nearest to ``point``: the largest
    difference, in units of ``scale``, is smallest.

    Raises
    ------
    AntiphonError
        where no point fulfils the rows.
    """
    count = len(point)
    widened = [Row((*row.coefficients, Fraction(0)), row.right, row.equal) for row in rows]
    for i in range(count):
        for sign in (1, -1):
            line = [Fraction(0)] * (count + 1)
            line[i], line[count] = Fraction(sign), -scale[i]
            widened.append(Row(tuple(line), sign * point[i]))
    objective = [Fraction(0)] * count + [Fraction(-1)]
    found = maximise(objective, widened)
    if found is None:
        raise AntiphonError("no point fulfils the constraints")
    return found[:count]
