"""What the benchmarks of the engine must be: a figure out of its bounds is an error."""

from __future__ import annotations

from collections.abc import Sequence

from sim_top.bench.registry import BenchError, Result

__all__ = ["AGREEMENT", "LEAST_SHARE", "check", "point"]

LEAST_SHARE = 0.97
"""Of what the bottleneck could carry, what it must carry in the steady state. Decided here."""

AGREEMENT = 0.01
"""Of the RTL's cycles, how far the transaction-level model's may be off: no bank is short here, so
it is a third of what docs/validation.md allows to a single case."""

_BOTTLENECK = "ace.link_utilisation.4x2x2"
_SCARCE = f"{_BOTTLENECK}.memory_128"


def point(chunks: int, contexts: int) -> str:
    """The benchmark of one engine of the design space."""
    return f"ace.design.chunks_{chunks}.contexts_{contexts}"


def check(results: Sequence[Result]) -> None:
    """Hold figures to their bounds.

    The bottleneck must be full to :data:`LEAST_SHARE`, or to that part of what its memory allows;
    wherever there are cycles of the model beside those of the RTL (a name and the name with
    ``.tlm`` behind it) they must agree within :data:`AGREEMENT`; every payload byte must be read
    once and written once.

    Raises
    ------
    BenchError
        naming all figures that are out of their bounds.
    """
    found = {result.name: result.value for result in results}
    wrong = []
    for name, least in (
        (_BOTTLENECK, LEAST_SHARE),
        (_SCARCE, LEAST_SHARE * found[f"{_SCARCE}.bound"]),
    ):
        if not found[name] >= least:
            wrong.append(f"{name} must be at least {least:.4f}, not {found[name]:.4f}")
    for result in results:
        model = found.get(f"{result.name}.tlm")
        if model is None or result.unit != "cycles":
            continue
        if abs(result.value - model) > AGREEMENT * result.value:
            wrong.append(
                f"{result.name} must be within {AGREEMENT:.0%} of the TLM's {model:,.0f} cycles, "
                f"not {result.value:,.0f}"
            )
    for kind in ("reads", "writes"):
        name = f"ace.memory_{kind}_per_payload_byte"
        if found[name] != 1:
            wrong.append(f"{name} must be 1, not {found[name]:.4f}")
    if wrong:
        raise BenchError("; ".join(wrong))
