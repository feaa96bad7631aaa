"""The convex program behind both objectives, and the certificate of its optimum.

Variables z > 0; times T_c = max over pieces of amount / (weights . z); minimise

    constant + sum_c counts_c T_c + sum_s count_s S_s,
    S_s = max over paths (constant + sum_c n_c T_c + sum of n_s S_s of later steps)

under linear rows. A time is convex in z, since amount / (a positive linear form) is.

*Certificate.* Put non-negative numbers with sum 1 on the pieces of every time and on the paths of
every step: the objective is at least the so weighted sum, k + sum_p q_p / l_p(z). Each q / l is at
least 2 sqrt(q r) - r l for any r >= 0. Add any multiples y of the rows (non-negative of the
inequalities): what is left is linear in z, and smallest at the ends of the ranges that the rows
leave to each variable. So any multipliers give a lower bound. Those of the solver are only a guess:
`lower_bound` evaluates them in exact rational arithmetic, roots rounded down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import isqrt

from sw_model.optimize.simplex import Row

__all__ = ["Multipliers", "Piece", "Program", "ProgramPath", "ProgramStep", "lower_bound"]


@dataclass(frozen=True)
class Piece:
    """``amount / (weights . z)``."""

    amount: Fraction
    weights: tuple[Fraction, ...]

    def form(self, point: Sequence[Fraction]) -> Fraction:
        """``weights . z``."""
        return sum((w * z for w, z in zip(self.weights, point, strict=True) if w), Fraction(0))


@dataclass(frozen=True)
class ProgramPath:
    """``constant``, so many of each time, and so many of later steps, by number."""

    constant: Fraction
    counts: Mapping[int, Fraction]
    steps: Mapping[int, Fraction] = field(default_factory=dict)


@dataclass(frozen=True)
class ProgramStep:
    """The longest of ``paths``, ``count`` times, besides those inside other steps."""

    paths: tuple[ProgramPath, ...]
    count: Fraction


@dataclass(frozen=True)
class Program:
    """See the module.

    Attributes
    ----------
    times : the pieces of each
    constant, counts : what is always there
    steps : each after those that it is part of
    rows : on z
    ranges : of each variable, lowest and highest that the rows and z >= 0 leave to it
    centre : a point that is well inside
    """

    times: tuple[tuple[Piece, ...], ...]
    constant: Fraction
    counts: Mapping[int, Fraction]
    steps: tuple[ProgramStep, ...]
    rows: tuple[Row, ...]
    ranges: tuple[tuple[Fraction, Fraction], ...]
    centre: tuple[Fraction, ...]

    @property
    def variables(self) -> int:
        """How many."""
        return len(self.ranges)

    def time(self, index: int, point: Sequence[Fraction]) -> Fraction:
        """One of the times."""
        return max(piece.amount / piece.form(point) for piece in self.times[index])

    def value(self, point: Sequence[Fraction]) -> Fraction:
        """The objective, exactly."""
        times = [self.time(index, point) for index in range(len(self.times))]
        longest: dict[int, Fraction] = {}

        def total(path: ProgramPath) -> Fraction:
            out = path.constant + sum((n * times[c] for c, n in path.counts.items()), Fraction(0))
            return out + sum((n * longest[s] for s, n in path.steps.items()), Fraction(0))

        for s in range(len(self.steps) - 1, -1, -1):
            longest[s] = max(total(path) for path in self.steps[s].paths)
        base = total(ProgramPath(self.constant, self.counts))
        return base + sum(
            (step.count * longest[s] for s, step in enumerate(self.steps)), Fraction()
        )


@dataclass(frozen=True)
class Multipliers:
    """What a solver thinks that the optimum's multipliers are; see the module.

    Attributes
    ----------
    pieces : by time and piece, shares (any scale) and r
    paths : by step and path, shares (any scale)
    rows : by row, y
    """

    pieces: tuple[tuple[tuple[float, float], ...], ...]
    paths: tuple[tuple[float, ...], ...]
    rows: tuple[float, ...] = field(default=())


def lower_bound(program: Program, multipliers: Multipliers) -> Fraction:
    """A bound below the objective of every z that fulfils the rows, whatever the multipliers."""
    constant = program.constant
    counts: dict[int, Fraction] = dict(program.counts)
    often = [step.count for step in program.steps]
    for s, (step, wished) in enumerate(zip(program.steps, multipliers.paths, strict=True)):
        for path, share in zip(step.paths, _shares(wished), strict=True):
            constant += often[s] * share * path.constant
            for c, n in path.counts.items():
                counts[c] = counts.get(c, Fraction(0)) + often[s] * share * n
            for inner, n in path.steps.items():
                often[inner] += often[s] * share * n
    slope = [Fraction(0)] * program.variables
    bound = constant
    for c, pieces in enumerate(program.times):
        guesses = multipliers.pieces[c]
        for piece, share, (_, guess) in zip(
            pieces, _shares([share for share, _ in guesses]), guesses, strict=True
        ):
            r = _rational(max(0.0, guess))
            bound += 2 * _root_below(counts.get(c, Fraction(0)) * share * piece.amount * r)
            for i, weight in enumerate(piece.weights):
                slope[i] -= r * weight
    for row, price in zip(program.rows, multipliers.rows, strict=True):
        y = _rational(price if row.equal else max(0.0, price))
        bound -= y * row.right
        for i, coefficient in enumerate(row.coefficients):
            slope[i] += y * coefficient
    for rise, (lowest, highest) in zip(slope, program.ranges, strict=True):
        bound += rise * (lowest if rise >= 0 else highest)
    return bound


def _rational(value: float) -> Fraction:
    return Fraction(value).limit_denominator(10**12) if abs(value) > 1e-3 else Fraction(value)


def _shares(guesses: Sequence[float]) -> list[Fraction]:
    """Non-negative, with sum 1."""
    positive = [Fraction(max(0.0, guess)) for guess in guesses]
    total = sum(positive, Fraction(0))
    if not total:
        return [Fraction(1, len(positive))] * len(positive)
    return [value / total for value in positive]


_ROOT_DIGITS = 10**24


def _root_below(value: Fraction) -> Fraction:
    """A rational at most the square root, to about 24 digits."""
    if value <= 0:
        return Fraction(0)
    # sqrt(n / d) = sqrt(n d) / d, scaled so that the whole root has enough digits.
    whole = value.numerator * value.denominator * _ROOT_DIGITS**2
    return Fraction(isqrt(whole), value.denominator * _ROOT_DIGITS)
