"""What the benchmarks of the engine must be: a figure out of its bounds is an error."""

from __future__ import annotations

from collections.abc import Sequence

from sim_top.bench.bounds import disagreements, refuse
from sim_top.bench.registry import Result

__all__ = ["LEAST_SHARE", "check", "point"]

LEAST_SHARE = 0.97
"""Of what the bottleneck could carry, what it must carry in the steady state. Decided here."""

_BOTTLENECK = "ace.link_utilisation.4x2x2"
_SCARCE = f"{_BOTTLENECK}.memory_128"


def point(chunks: int, contexts: int) -> str:
    """The benchmark of one engine of the design space."""
    return f"ace.design.chunks_{chunks}.contexts_{contexts}"


def check(results: Sequence[Result]) -> None:
    """Hold figures to their bounds.

    The bottleneck must be full to :data:`LEAST_SHARE`, or to that part of what its memory allows;
    RTL and model must agree (:mod:`sim_top.bench.bounds`); every payload byte must be read once and
    written once.

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
    wrong += disagreements(results)
    for kind in ("reads", "writes"):
        name = f"ace.memory_{kind}_per_payload_byte"
        if found[name] != 1:
            wrong.append(f"{name} must be 1, not {found[name]:.4f}")
    refuse(wrong)
