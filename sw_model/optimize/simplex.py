"""Small linear programs in exact arithmetic: a two-phase simplex with Bland's rule.

Programs here have a handful of variables and constraints. Exactness is worth more than speed: what
is feasible, what is bounded and which constraints clash must not hang on a solver's tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

__all__ = ["Row", "UnboundedError", "feasible_point", "maximise", "minimal_clash"]


@dataclass(frozen=True)
class Row:
    """``coefficients . x <= right``, or ``=`` where ``equal``."""

    coefficients: tuple[Fraction, ...]
    right: Fraction
    equal: bool = False

    def holds(self, point: Sequence[Fraction]) -> bool:
        """Whether ``point`` fulfils it, exactly."""
        left = sum((c * x for c, x in zip(self.coefficients, point, strict=True)), Fraction(0))
        return left == self.right if self.equal else left <= self.right


class UnboundedError(Exception):
    """The objective grows without limit."""


class _Tableau:
    """Rows in the form ``basic variable + ... = right`` with ``right >= 0``; all x >= 0."""

    def __init__(self, rows: Sequence[Row], variables: int) -> None:
        slacks = sum(not row.equal for row in rows)
        self.variables = variables
        self.columns = variables + slacks + len(rows)
        self.artificial = variables + slacks
        self.rows: list[list[Fraction]] = []
        self.basis: list[int] = []
        slack = variables
        for index, row in enumerate(rows):
            line = [*row.coefficients] + [Fraction(0)] * (slacks + len(rows))
            if not row.equal:
                line[slack] = Fraction(1)
            sign = -1 if row.right < 0 else 1
            line = [sign * value for value in line]
            if not row.equal and sign > 0:
                self.basis.append(slack)
            else:
                line[self.artificial + index] = Fraction(1)
                self.basis.append(self.artificial + index)
            slack += not row.equal
            self.rows.append([*line, sign * row.right])

    def _pivot(self, row: int, column: int) -> None:
        head = self.rows[row][column]
        self.rows[row] = [value / head for value in self.rows[row]]
        for other, line in enumerate(self.rows):
            if other != row and line[column]:
                factor = line[column]
                self.rows[other] = [
                    a - factor * b if b else a for a, b in zip(line, self.rows[row], strict=True)
                ]
        self.basis[row] = column

    def maximise(self, objective: Sequence[Fraction], columns: int) -> None:
        """Go to an optimum over the first ``columns`` columns."""
        while True:
            prices = [objective[b] for b in self.basis]
            entering = next(
                (
                    c
                    for c in range(columns)
                    if c not in self.basis
                    and objective[c]
                    > sum(p * line[c] for p, line in zip(prices, self.rows, strict=True) if p)
                ),
                None,
            )
            if entering is None:
                return
            ratios = [
                (line[-1] / line[entering], self.basis[index], index)
                for index, line in enumerate(self.rows)
                if line[entering] > 0
            ]
            if not ratios:
                raise UnboundedError
            self._pivot(min(ratios)[2], entering)

    def start(self) -> bool:
        """Phase one: whether there is a feasible point; then no artificial variable is left in
        the basis but in rows of zeros, which go."""
        objective = [Fraction(0)] * self.artificial
        objective += [Fraction(-1)] * (self.columns - self.artificial)
        self.maximise(objective, self.columns)
        if any(
            line[-1]
            for line, basic in zip(self.rows, self.basis, strict=True)
            if basic >= self.artificial
        ):
            return False
        for index in range(len(self.rows) - 1, -1, -1):
            if self.basis[index] >= self.artificial:
                line = self.rows[index]
                column = next((c for c in range(self.artificial) if line[c]), None)
                if column is None:
                    del self.rows[index], self.basis[index]
                else:
                    self._pivot(index, column)
        return True

    def point(self) -> tuple[Fraction, ...]:
        """Values of the variables."""
        values = [Fraction(0)] * self.columns
        for line, basic in zip(self.rows, self.basis, strict=True):
            values[basic] = line[-1]
        return tuple(values[: self.variables])


def maximise(objective: Sequence[Fraction], rows: Sequence[Row]) -> tuple[Fraction, ...] | None:
    """A point x >= 0 that fulfils all ``rows`` and has the largest ``objective . x``.

    Returns None where no point fulfils them.

    Raises
    ------
    UnboundedError
        where the objective has no largest value.
    """
    tableau = _Tableau(rows, len(objective))
    if not tableau.start():
        return None
    padded = [*objective] + [Fraction(0)] * (tableau.columns - len(objective))
    tableau.maximise(padded, tableau.artificial)
    return tableau.point()


def feasible_point(rows: Sequence[Row], variables: int) -> tuple[Fraction, ...] | None:
    """A point x >= 0 that fulfils all ``rows``, or None."""
    return maximise([Fraction(0)] * variables, rows)


def minimal_clash(
    rows: Sequence[Row], variables: int, always: Sequence[Row] = ()
) -> tuple[int, ...]:
    """Indices of rows that clash, with those that ``always`` hold, and of which none can be left
    out: without any one of them the others could hold. Empty where there is no clash.

    A deletion filter: every row is left out once, for good where the rest still clashes.
    """
    if feasible_point([*always, *rows], variables) is not None:
        return ()
    kept = list(range(len(rows)))
    for index in range(len(rows)):
        rest = [k for k in kept if k != index]
        if feasible_point([*always, *(rows[k] for k in rest)], variables) is None:
            kept = rest
    return tuple(kept)
