"""Linear constraints on the bandwidths, as people write them: ``B1 + B2 = 50``, ``B1 >= 2 B2``.

``B1`` is the bandwidth of dim 1 in GB/s per NPU, ``total`` the sum over all dims, ``cost`` the
dollars of the network. Both sides are sums of numbers and of these with a factor; a number on its
own may carry the unit GB/s. Relations are ``=``, ``<=`` and ``>=``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sw_model.errors import InputError, nearest
from sw_model.optimize.simplex import Row, minimal_clash
from sw_model.units import parse_number, shown

__all__ = ["MINIMUM", "Constraint", "check_constraints", "parse_constraint"]

MINIMUM = Fraction(1, 1000)
"""GB/s that every dim has at least by default: no dim may be left without any (decided here)."""

_RELATION = re.compile(r"<=|>=|==|=|<|>|≤|≥")
_NUMBER = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?:/\d+)?", re.ASCII)
_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True)
class Constraint:
    """A constraint.

    Attributes
    ----------
    text : as written
    row : in GB/s by dim, as ``<=`` or ``=``
    path, line, column : where it stands, for messages
    """

    text: str
    row: Row
    path: str | None = None
    line: int | None = None
    column: int | None = None

    def error(self, message: str) -> InputError:
        """An error that points here."""
        return InputError(message, path=self.path, line=self.line, column=self.column)

    def __str__(self) -> str:
        return repr(self.text) + (f" in line {self.line}" if self.line else "")


class _Side:
    """One side of a relation: reads terms until the text ends."""

    def __init__(self, text: str, dims: int, rates: Sequence[Fraction] | None) -> None:
        self.text, self.dims, self.rates = text.strip(), dims, rates
        self.at = 0

    def _next(self, pattern: re.Pattern[str]) -> str | None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        match = pattern.match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        return match[0]

    def read(self) -> tuple[list[Fraction], Fraction]:
        """Coefficients by dim, and the constant."""
        coefficients, constant = [Fraction(0)] * self.dims, Fraction(0)
        first = True
        while True:
            sign = self._next(re.compile(r"[+-]"))
            if sign is None and not first:
                if self.at >= len(self.text):
                    return coefficients, constant
                raise self._wrong()
            first = False
            factor = Fraction(-1 if sign == "-" else 1)
            number = self._next(_NUMBER)
            if number is not None:
                factor *= _number(number)
            self._next(re.compile(r"\*"))
            if number is not None and self._next(re.compile(r"GB/s\b")):
                constant += factor
                continue
            word = self._next(_WORD)
            if word is None and number is None:
                raise self._wrong()
            if word is None:
                constant += factor
                continue
            divisor = self._next(re.compile(r"/\s*\d+(?:\.\d+)?"))
            if divisor is not None:
                below = _number(divisor.lstrip("/ "))
                if below == 0:
                    raise ValueError("a constraint must not divide by 0")
                factor /= below
            for d, value in enumerate(self._variable(word)):
                coefficients[d] += factor * value

    def _variable(self, word: str) -> list[Fraction]:
        known = [f"B{d + 1}" for d in range(self.dims)]
        if word in known:
            return [Fraction(d == known.index(word)) for d in range(self.dims)]
        if word == "total":
            return [Fraction(1)] * self.dims
        if word == "cost":
            if self.rates is None:
                raise ValueError("a constraint on cost must have prices")
            return list(self.rates)
        if re.fullmatch(r"[Bb]\d+", word):
            names = known[0] if len(known) == 1 else f"{known[0]}..{known[-1]}"
            raise ValueError(f"unknown dim {word!r}: the network has {names}")
        raise ValueError(f"unknown name {word!r}{nearest(word, [*known, 'total', 'cost'])}")

    def _wrong(self) -> ValueError:
        rest = self.text[self.at :].strip()
        found = shown(rest) if rest else "the end"
        return ValueError(f"a constraint must be a sum such as '2 B1 + B2', not {found}")


def _number(text: str) -> Fraction:
    head, _, below = text.partition("/")
    if below and not int(below):
        raise ValueError("a constraint must not divide by 0")
    return parse_number(head) / (parse_number(below) if below else 1)


def parse_constraint(
    text: str,
    dims: int,
    rates: Sequence[Fraction] | None = None,
    *,
    path: str | None = None,
    line: int | None = None,
    column: int | None = None,
) -> Constraint:
    """Read one.

    Parameters
    ----------
    dims : how many there are
    rates : by dim, dollars for a GB/s, for ``cost``; None where nothing is priced
    path, line, column : where it stands

    Raises
    ------
    InputError
        there: for a dim that does not exist, a name that is not known, what is no linear relation,
        and for what leaves a dim no bandwidth.
    """
    try:
        relations = _RELATION.findall(text)
        if len(relations) != 1 or relations[0] in ("<", ">"):
            found = shown(text) if len(relations) != 1 else repr(relations[0])
            raise ValueError(
                f"a constraint must have one relation, which is =, <= or >=, not {found}"
            )
        left, right = _RELATION.split(text)
        here, there = (_Side(side, dims, rates).read() for side in (left, right))
        coefficients = [a - b for a, b in zip(here[0], there[0], strict=True)]
        constant = there[1] - here[1]
        if not any(coefficients):
            raise ValueError(f"a constraint must name a bandwidth such as B1, not {shown(text)}")
        if relations[0] in (">=", "≥"):
            coefficients, constant = [-c for c in coefficients], -constant
        row = Row(tuple(coefficients), constant, equal=relations[0] in ("=", "=="))
        named = [d for d, c in enumerate(coefficients) if c]
        d = named[0]
        if (
            len(named) == 1
            and constant / coefficients[d] <= 0
            and (row.equal or coefficients[d] > 0)
        ):
            limit = float(constant / coefficients[d])
            raise ValueError(f"the bandwidth of a dim must be above 0: {text!r} leaves B{d + 1} "
                             f"{limit:g} GB/s")  # fmt: skip
    except ValueError as error:
        raise InputError(str(error), path=path, line=line, column=column) from None
    return Constraint(text, row, path, line, column)


def check_constraints(constraints: Sequence[Constraint], minimum: Fraction, dims: int) -> None:
    """Refuse constraints that cannot all hold.

    Raises
    ------
    InputError
        at the first that clashes, names a smallest set of them that do.
    """
    floors = [Row(tuple(Fraction(-(i == d)) for i in range(dims)), -minimum) for d in range(dims)]
    clash = minimal_clash([c.row for c in constraints], dims, floors)
    if not clash:
        return
    named = [constraints[k] for k in clash]
    # The message points into the file of the first.
    titles = [
        str(c) + (f" of {c.path}" if c.path != named[0].path and c.path else "") for c in named
    ]
    rest = f"every bandwidth is at least {float(minimum):g} GB/s"
    if len(named) == 1:
        raise named[0].error(f"the constraint {named[0]} cannot hold: {rest}")
    listed = ", ".join(titles[:-1]) + f" and {titles[-1]}"
    raise named[0].error(
        f"the constraints {listed} cannot all hold ({rest}); without any one of them the others can"
    )
