"""What one phase costs on its dim: bytes both ways, steps, and how much of the port it can use.

`sw_model.collective.traffic` counts the bytes of an algorithm. Here the dim's kind joins in: the
same algorithm costs differently on different wires (decided here, by counting the messages on
the busiest link):

* A Ring has one link per NPU and direction of travel. The ring algorithm sends to the neighbour
  only. Direct messages go round it: a message over d hops takes d links, so a reduce-scatter, an
  all-gather or an all-to-all by direct messages carries P (P - 1) / 2 shards over every link. The
  same holds for an all-to-all that forwards from neighbour to neighbour, in P - 1 steps.
* A FullyConnected dim has P - 1 links per NPU, which share its bandwidth. Only direct messages use
  them all; the other algorithms talk to one peer at a time and use one.
* A Switch or Fred port reaches everybody at its full bandwidth.
* A Mesh2D NPU has four links, which share its bandwidth, and a ring of neighbours uses one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from sw_model.collective.plan import Algorithm, Operation
from sw_model.collective.traffic import phase_traffic
from sw_model.errors import InputError, nearest
from sw_model.topology import Dim, DimKind

__all__ = ["ALGORITHMS", "PhaseCost", "algorithm_of", "algorithms_of", "phase_cost"]

#: Algorithms that a dim of a kind can run.
ALGORITHMS: dict[DimKind, tuple[Algorithm, ...]] = {
    DimKind.RING: (Algorithm.RING, Algorithm.DIRECT),
    DimKind.FULLY_CONNECTED: (Algorithm.DIRECT, Algorithm.RING, Algorithm.HALVING_DOUBLING),
    DimKind.SWITCH: (Algorithm.HALVING_DOUBLING, Algorithm.DIRECT, Algorithm.RING),
    DimKind.FRED: (
        Algorithm.IN_NETWORK,
        Algorithm.HALVING_DOUBLING,
        Algorithm.DIRECT,
        Algorithm.RING,
    ),
    DimKind.MESH2D: (Algorithm.RING,),
}


@dataclass(frozen=True)
class PhaseCost:
    """One phase on one dim, seen from one NPU.

    Attributes
    ----------
    sent, received : what its port carries, in the payload's unit; forwarded messages included
    steps : hops that the data waits for one after another, each of one dim latency
    share : of the NPU's bandwidth on the dim that the algorithm can use
    """

    sent: Fraction
    received: Fraction
    steps: int
    share: Fraction

    @property
    def port(self) -> Fraction:
        """The larger direction, divided by the share: what holds the dim, at its full bandwidth."""
        return max(self.sent, self.received) / self.share


def algorithm_of(dim: Dim, operation: Operation, wanted: Algorithm | None = None) -> Algorithm:
    """The algorithm of a collective on a dim: ``wanted``, or the best of its kind.

    An all-to-all reduces nothing and has no halving: on a Switch or Fred dim it is direct, also
    where another algorithm was wanted for it. Halving-doubling is for powers of two; a Switch of
    another size is direct.

    Raises
    ------
    InputError
        where the dim cannot run what is wanted.
    """
    power_of_two = dim.size & (dim.size - 1) == 0
    known = ALGORITHMS[dim.kind]
    if wanted is not None and wanted not in known:
        names = ", ".join(a.value for a in known)
        raise InputError(f"a {dim.kind.value} dim runs {names}, not {wanted.value!r}")
    if wanted is Algorithm.HALVING_DOUBLING and not power_of_two:
        raise InputError(
            f"halving-doubling must have a power of two of NPUs, not {dim.size} on a "
            f"{dim.kind.value} dim"
        )
    chosen = wanted or known[0]
    if wanted is None and chosen is Algorithm.HALVING_DOUBLING and not power_of_two:
        return Algorithm.DIRECT
    halves = chosen in (Algorithm.HALVING_DOUBLING, Algorithm.IN_NETWORK)
    if operation is Operation.ALL_TO_ALL and halves:
        return Algorithm.DIRECT
    return chosen


def algorithms_of(
    dims: Sequence[Dim], operation: Operation, names: str | None
) -> tuple[Algorithm, ...]:
    """An algorithm for each dim, from a text such as ``ring`` or ``ring,direct,in-network``.

    Parameters
    ----------
    names : one for all dims that can run it (at least one must), or one a dim; None: the defaults

    Raises
    ------
    InputError
        for an unknown name, a number of names that is not that of the dims, or an algorithm that
        its dim cannot run.
    """
    if names is None:
        return tuple(algorithm_of(dim, operation) for dim in dims)
    known = {a.value: a for a in Algorithm}
    words = [word.strip() for word in names.split(",")]
    for word in words:
        if word not in known:
            raise InputError(f"unknown algorithm {word!r}{nearest(word, known)}")
    wanted = [known[word] for word in words]
    if len(wanted) == 1:
        return tuple(algorithm_of(dim, operation, wanted[0]) for dim in dims)
    if len(wanted) != len(dims):
        raise InputError(
            f"--algorithm must name one algorithm, or one for each of the {len(dims)} dims, "
            f"not {len(wanted)}"
        )
    return tuple(algorithm_of(d, operation, w) for d, w in zip(dims, wanted, strict=True))


@lru_cache(maxsize=65536)
def phase_cost(
    dim: Dim, operation: Operation, algorithm: Algorithm, payload: Fraction | int
) -> PhaseCost:
    """Cost of ``operation`` on ``dim``.

    Parameters
    ----------
    payload : as for :func:`sw_model.collective.traffic.phase_traffic`
    """
    size = dim.size
    traffic = phase_traffic(operation, algorithm, size, payload)
    sent, received, steps = traffic.sent, traffic.received, traffic.steps
    share = Fraction(1)
    if size == 1:
        return PhaseCost(sent, received, 0, share)
    if operation is Operation.ALL_TO_ALL and algorithm is not Algorithm.RING:
        steps = 1
    if dim.kind is DimKind.RING:
        around = algorithm is Algorithm.DIRECT or operation is Operation.ALL_TO_ALL
        if around:
            sent = received = sent * size / 2
        if algorithm is Algorithm.DIRECT:
            steps *= size - 1  # the farthest peer of a ring in one direction
    elif dim.kind is DimKind.MESH2D:
        share = Fraction(1, 4)
        if operation is Operation.ALL_TO_ALL:
            sent = received = sent * size / 2
    elif dim.kind is DimKind.FULLY_CONNECTED and algorithm is not Algorithm.DIRECT:
        share = Fraction(1, size - 1)
    return PhaseCost(sent, received, steps, share)
