"""What carries out collectives at an endpoint, and what that leaves to compute (ACE, ISCA 2021,
section 5; the platform has 900 GB/s of memory bandwidth and 80 SMs).

Bandwidths are budgets of reads; writes have as much again.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sw_model.errors import InputError, nearest

__all__ = [
    "IDEAL",
    "KINDS",
    "LIMITS_OF_PASSES",
    "EndpointKind",
    "EndpointSettings",
    "endpoint_kind",
]

_GB = 10**9
_SMS = 80
_BANDWIDTH = Fraction(900 * _GB)

#: What a pass may be limited by whose trace tells only its time.
LIMITS_OF_PASSES = ("operations", "memory")


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
    overlaps : compute and communication run side by side; otherwise collectives are put off until
        the NPU has nothing left to compute, and it computes nothing until they have ended
    """

    name: str
    memory_bandwidth: Fraction | None
    sms: int
    compute_bandwidth: Fraction
    compute_sms: int
    engine: bool = False
    overlaps: bool = True

    @property
    def compute_share(self) -> Fraction:
        """Of the SMs, what computes while collectives run."""
        return Fraction(self.compute_sms, _SMS)

    @property
    def memory_share(self) -> Fraction:
        """Of the memory bandwidth, what compute has."""
        return self.compute_bandwidth / _BANDWIDTH

    def pass_time(self, time: int, memory: Fraction | int) -> Fraction:
        """How long a pass takes on what the kind leaves: a roofline.

        Parameters
        ----------
        time : that it takes on the whole NPU, in any unit
        memory : that its bytes alone take there
        """
        return max(time / self.compute_share, min(memory, time) / self.memory_share)

    @staticmethod
    def memory_ns(size: int) -> Fraction:
        """Nanoseconds in which the whole memory bandwidth moves ``size`` bytes."""
        return size * 10**9 / _BANDWIDTH


@dataclass(frozen=True, kw_only=True)
class EndpointSettings:
    """The endpoints of a run.

    Parameters
    ----------
    kind : a name of `KINDS`; None where the platform's own engines carry out collectives
    passes : what limits passes whose trace tells only their time: "operations" or "memory"
    """

    kind: str | None = None
    passes: str = "operations"


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


IDEAL = KINDS["ideal"]


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
