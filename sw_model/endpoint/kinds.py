"""What carries out collectives at an endpoint, and what that leaves to compute (ACE, ISCA 2021,
section 5; the platform has 900 GB/s of memory bandwidth and 80 SMs).

Bandwidths are budgets of reads; writes have as much again.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sw_model.errors import InputError, nearest

__all__ = ["KINDS", "EndpointKind", "endpoint_kind"]

_GB = 10**9


@dataclass(frozen=True)
class EndpointKind:
    """One configuration.

    Parameters
    ----------
    name : on the command line
    memory_bandwidth : bytes per second that communication may read, and write; None where it is
        free
    sms : streaming multiprocessors that communicate
    compute_bandwidth, compute_sms : what compute has meanwhile
    engine : an engine carries out collectives out of its own SRAM
    overlaps : compute and communication run side by side
    """

    name: str
    memory_bandwidth: Fraction | None
    sms: int
    compute_bandwidth: Fraction
    compute_sms: int
    engine: bool = False
    overlaps: bool = True


def _gb(value: int) -> Fraction:
    return Fraction(value * _GB)


#: By name.
KINDS = {
    kind.name: kind
    for kind in (
        EndpointKind("ideal", None, 0, _gb(900), 80),
        EndpointKind("baseline-no-overlap", _gb(900), 80, _gb(900), 80, overlaps=False),
        EndpointKind("baseline-comm-opt", _gb(450), 6, _gb(450), 74),
        EndpointKind("baseline-comp-opt", _gb(128), 2, _gb(772), 78),
        EndpointKind("ace", _gb(128), 0, _gb(772), 80, engine=True),
    )
}


def endpoint_kind(name: str) -> EndpointKind:
    """The kind of a name.

    Raises
    ------
    InputError
        for an unknown one.
    """
    if name not in KINDS:
        raise InputError(f"unknown endpoint {name!r}{nearest(name, KINDS)}")
    return KINDS[name]
