"""Bounds of what is measured on the RTL and on the transaction-level model."""

from __future__ import annotations

from collections.abc import Sequence

from sim_top.bench.registry import BenchError, Result

__all__ = ["AGREEMENT", "agree", "disagreements", "refuse", "too_high", "too_low"]

AGREEMENT = 0.01
"""Of the RTL's cycles, how far the transaction-level model's may be off: no bank is short in what
is measured, so it is a third of what docs/validation.md allows to a single case."""


def agree(rtl: float, model: float) -> bool:
    """Whether these cycles are within :data:`AGREEMENT` of each other."""
    return abs(rtl - model) <= AGREEMENT * rtl


def disagreements(results: Sequence[Result]) -> list[str]:
    """Wherever there are cycles of the model beside those of the RTL (a name and the name with
    ``.tlm`` behind it), what is wrong with those that differ by more than :data:`AGREEMENT`."""
    found = {result.name: result.value for result in results}
    wrong = []
    for result in results:
        model = found.get(f"{result.name}.tlm")
        if model is None or result.unit != "cycles":
            continue
        if not agree(result.value, model):
            wrong.append(
                f"{result.name} must be within {AGREEMENT:.0%} of the TLM's {model:,.0f} cycles, "
                f"not {result.value:,.0f}"
            )
    return wrong


def too_low(results: Sequence[Result], name: str, least: float, digits: int = 4) -> list[str]:
    """What is wrong with the figure of this name where it must be at least so much; shown with so
    many digits behind the point."""
    value = _value(results, name)
    if value >= least:
        return []
    return [f"{name} must be at least {least:,}, not {value:,.{digits}f}"]


def too_high(results: Sequence[Result], name: str, most: float, digits: int = 1) -> list[str]:
    """Likewise, where it must be at most so much."""
    value = _value(results, name)
    if value <= most:
        return []
    return [f"{name} must be at most {most:,}, not {value:,.{digits}f}"]


def _value(results: Sequence[Result], name: str) -> float:
    return next(result.value for result in results if result.name == name)


def refuse(wrong: Sequence[str]) -> None:
    """Raise a :class:`BenchError` that names all of ``wrong``, if there is anything."""
    if wrong:
        raise BenchError("; ".join(wrong))
