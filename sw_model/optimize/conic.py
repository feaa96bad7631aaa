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
    steps = len(program.steps)
    first_time, first_step = count, count + len(times)
    objective = np.zeros(first_step + steps)
    for c, n in program.counts.items():
        objective[first_time + c] = float(n) * times[c] / value
    # A step costs `count` times its longest path, in units of the whole objective.
    for s, step in enumerate(program.steps):
        objective[first_step + s] = float(step.count)

    matrix = _Matrix()
    order = sorted(range(len(program.rows)), key=lambda k: not program.rows[k].equal)
    scales = {}
    for k in order:
        row = program.rows[k]
        scaled = {i: float(c) * centre[i] for i, c in enumerate(row.coefficients) if c}
        scales[k] = max(abs(v) for v in scaled.values())
        matrix.add({i: v / scales[k] for i, v in scaled.items()}, float(row.right) / scales[k])
    first_path = len(matrix.right)
    for s, step in enumerate(program.steps):
        for path in step.paths:
            line = {first_time + c: float(n) * times[c] / value for c, n in path.counts.items()}
            line |= {first_step + inner: float(n) for inner, n in path.steps.items()}
            matrix.add(line | {first_step + s: -1.0}, -float(path.constant) / value)
    first_cone = len(matrix.right)
    for c, pieces in enumerate(program.times):
        for piece in pieces:
            form = {i: float(w) * centre[i] for i, w in enumerate(piece.weights) if w}
            size = sum(form.values())
            form = {i: w / size for i, w in form.items()}
            t = first_time + c
            matrix.add({i: -w for i, w in form.items()} | {t: -1.0}, 0.0)
            matrix.add(form | {t: -1.0}, 0.0)
            matrix.add({}, 2 * sqrt(float(piece.amount) / (times[c] * size)))
    cones = []
    equal = sum(row.equal for row in program.rows)
    if equal:
        cones.append(clarabel.ZeroConeT(equal))
    if first_cone > equal:
        cones.append(clarabel.NonnegativeConeT(first_cone - equal))
    cones += [clarabel.SecondOrderConeT(3)] * sum(len(pieces) for pieces in program.times)
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
    paths = []
    for step in program.steps:
        paths.append(tuple(dual[at : at + len(step.paths)]))
        at += len(step.paths)
    by_time = []
    for pieces in program.times:
        guesses = []
        for piece in pieces:
            a, b = dual[at], dual[at + 1]
            size = float(piece.form(program.centre))
            guesses.append((a + b, (a - b) * value / size))
            at += 3
        by_time.append(tuple(guesses))
    point = tuple(x * c for x, c in zip(solution.x[:count], centre, strict=True))
    return point, Multipliers(tuple(by_time), tuple(paths), tuple(rows))


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
