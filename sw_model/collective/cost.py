"""What one phase costs on its dim: bytes both ways, steps, and how much of the port it can use.

`sw_model.collective.traffic` counts the bytes of an algorithm. Here the dim's kind joins in: the
same algorithm costs differently on different wires (decided here, by counting the messages on
the busiest link):

* A Ring has one link per NPU and direction of travel. The ring algorithm sends to the neighbour
  only. Direct messages go round it: a message over d hops takes d links, so a reduce-scatter, an
  all-gather or an all-to-all by direct messages carries P (P - 1) / 2 shards over every link. The
  same holds for an all-to-all that forwards from neighbour to neighbour, in P - 1 steps.
* A Ring that runs the bidirectional ring has two links per NPU, one each way, which share its
  bandwidth: no faster, but in half the steps. An all-to-all takes the shorter way, which halves its
  bytes.
* A FullyConnected dim has P - 1 links per NPU, which share its bandwidth. Only direct messages use
  them all; a ring uses one, halving-doubling one at a time, both ways round two. Both trees of a
  double binary tree share some pairs of NPUs, so that a link carries up to half of the payload of a
  broadcast, all of an all-reduce.
* A Switch or Fred port reaches everybody at its full bandwidth.
* A Mesh2D NPU has four links, which share its bandwidth, and a ring of neighbours uses one of them,
  both ways round two. Where no ring of neighbours exists (a line, odd by odd), the way back goes
  across. Direct messages go X first, then Y.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import overload

from sw_model.collective.plan import Algorithm, AnyAlgorithm, Operation
from sw_model.collective.traffic import phase_traffic
from sw_model.collective.written import WrittenAlgorithm
from sw_model.errors import InputError, nearest
from sw_model.topology import Dim, DimKind, mesh_has_cycle, mesh_shape

__all__ = [
    "ALGORITHMS",
    "PhaseCost",
    "algorithm_of",
    "algorithms_of",
    "check_tree",
    "phase_cost",
]

_MORE = (Algorithm.BIDIRECTIONAL_RING, Algorithm.DOUBLE_BINARY_TREE)

#: Algorithms that a dim of a kind can run.
ALGORITHMS: dict[DimKind, tuple[Algorithm, ...]] = {
    DimKind.RING: (Algorithm.RING, Algorithm.DIRECT, Algorithm.BIDIRECTIONAL_RING),
    DimKind.FULLY_CONNECTED: (Algorithm.DIRECT, Algorithm.RING, Algorithm.HALVING_DOUBLING, *_MORE),
    DimKind.SWITCH: (Algorithm.HALVING_DOUBLING, Algorithm.DIRECT, Algorithm.RING, *_MORE),
    DimKind.FRED: (
        Algorithm.IN_NETWORK,
        Algorithm.HALVING_DOUBLING,
        Algorithm.DIRECT,
        Algorithm.RING,
        *_MORE,
    ),
    DimKind.MESH2D: (Algorithm.RING, Algorithm.DIRECT, Algorithm.BIDIRECTIONAL_RING),
}

_TREE_OPERATIONS = (Operation.ALL_REDUCE, Operation.BROADCAST, Operation.REDUCE)


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


@overload
def algorithm_of(dim: Dim, operation: Operation, wanted: Algorithm | None = None) -> Algorithm: ...


@overload
def algorithm_of(dim: Dim, operation: Operation, wanted: WrittenAlgorithm) -> AnyAlgorithm: ...


def algorithm_of(
    dim: Dim, operation: Operation, wanted: AnyAlgorithm | None = None
) -> AnyAlgorithm:
    """The algorithm of a collective on a dim: ``wanted``, or the best of its kind.

    An all-to-all reduces nothing and has no halving: on a Switch or Fred dim it is direct, also
    where another algorithm was wanted for it. Halving-doubling is for powers of two; a Switch of
    another size is direct. A send has nothing to choose: it goes along the ring, or directly.
    Broadcast and reduce on a FullyConnected or a Switch dim are direct unless told otherwise. A
    written algorithm is for FullyConnected dims of its size; what it has no moves for is direct.

    Raises
    ------
    InputError
        where the dim cannot run what is wanted.
    """
    power_of_two = dim.size & (dim.size - 1) == 0
    known = ALGORITHMS[dim.kind]
    if isinstance(wanted, WrittenAlgorithm):
        if (dim.kind, dim.size) != (DimKind.FULLY_CONNECTED, wanted.size):
            raise InputError(
                f"{wanted.value} must be on a FullyConnected dim of {wanted.size} NPUs, "
                f"not on a {dim.kind.value} one of {dim.size}"
            )
        return wanted if operation.reorders else Algorithm.DIRECT
    if wanted is not None and wanted not in known:
        names = ", ".join(a.value for a in known)
        raise InputError(f"a {dim.kind.value} dim runs {names}, not {wanted.value!r}")
    if wanted is Algorithm.HALVING_DOUBLING and not power_of_two:
        raise InputError(
            f"halving-doubling must have a power of two of NPUs, not {dim.size} on a "
            f"{dim.kind.value} dim"
        )
    if wanted is Algorithm.DOUBLE_BINARY_TREE and operation not in _TREE_OPERATIONS:
        does = ", ".join(o.value for o in _TREE_OPERATIONS)
        raise InputError(f"double-binary-tree does {does}, not {operation.value}")
    mesh = dim.kind is DimKind.MESH2D and operation in (Operation.BROADCAST, Operation.REDUCE)
    if mesh and wanted is Algorithm.DIRECT:
        raise InputError(f"a {operation.value} on a Mesh2D dim goes along a ring, not 'direct'")
    chosen = wanted or known[0]
    if operation is Operation.SEND:
        ring = dim.kind is DimKind.RING and wanted is not Algorithm.DIRECT
        return Algorithm.RING if ring else Algorithm.DIRECT
    if wanted is None and operation.rooted and chosen is Algorithm.HALVING_DOUBLING:
        return Algorithm.DIRECT
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
        wanted *= len(dims)
    if len(wanted) != len(dims):
        raise InputError(
            f"--algorithm must name one algorithm, or one for each of the {len(dims)} dims, "
            f"not {len(wanted)}"
        )
    chosen = (algorithm_of(d, operation, w) for d, w in zip(dims, wanted, strict=True))
    return tuple(check_tree(dims, k, operation, one) for k, one in enumerate(chosen))


def check_tree(
    dims: Sequence[Dim], k: int, operation: Operation, algorithm: Algorithm
) -> Algorithm:
    """``algorithm``, on dim ``k`` of a collective on all of ``dims``.

    A double binary tree makes whole all-reduces, so in an all-reduce of several dims it is for the
    outermost one, where every chunk of the baseline turns. Other schedulers then keep its order.

    Raises
    ------
    InputError
        where it is wanted on another dim.
    """
    outermost = max((d for d, dim in enumerate(dims) if dim.size > 1), default=k)
    tree = algorithm is Algorithm.DOUBLE_BINARY_TREE and operation is Operation.ALL_REDUCE
    if tree and dims[k].size > 1 and k != outermost:
        raise InputError(
            "double-binary-tree makes whole all-reduces: of several dims it is for the "
            f"outermost, dim {outermost + 1}, not for dim {k + 1}"
        )
    return algorithm


@lru_cache(maxsize=65536)
def phase_cost(
    dim: Dim, operation: Operation, algorithm: AnyAlgorithm, payload: Fraction | int
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
    if operation is Operation.ALL_TO_ALL:
        if algorithm is Algorithm.BIDIRECTIONAL_RING:  # others' messages, the shorter way
            sent = received = Fraction(payload) * (size * size // 4) / size
        elif algorithm is Algorithm.RING:
            sent = received = sent * size / 2
        else:
            steps = 1
    match dim.kind:
        case DimKind.RING if algorithm is Algorithm.DIRECT:
            steps *= size - 1  # the farthest peer of a ring in one direction
            if operation is not Operation.SEND:
                sent = received = sent * size / 2
        case DimKind.FULLY_CONNECTED if algorithm is not Algorithm.DIRECT:
            share = _link_share(
                operation, algorithm, size, sent / payload if payload else Fraction(1)
            )
        case DimKind.FULLY_CONNECTED if operation is Operation.SEND:
            share = Fraction(1, size - 1)
        case DimKind.MESH2D:
            return _mesh_cost(dim, operation, algorithm, PhaseCost(sent, received, steps, share))
    return PhaseCost(sent, received, steps, share)


def _link_share(
    operation: Operation, algorithm: AnyAlgorithm, size: int, per_byte: Fraction
) -> Fraction:
    """Of a FullyConnected NPU's bandwidth, by any algorithm but direct messages."""
    links = Fraction(1)
    if isinstance(algorithm, WrittenAlgorithm):
        # Shards of its busiest NPU over those of the busiest links, round by round.
        links = Fraction(max(algorithm.most_sent, size - 1), algorithm.link_shards)
        if operation is Operation.ALL_REDUCE:
            links = Fraction(algorithm.most_sent + size - 1, 2 * algorithm.link_shards)
    elif algorithm is Algorithm.BIDIRECTIONAL_RING and size > 2:
        links = Fraction(2)
    elif algorithm is Algorithm.DOUBLE_BINARY_TREE:
        # Its bytes over those of its busiest link.
        whole = operation is Operation.ALL_REDUCE or size == 2
        links = per_byte if whole else 2 * per_byte
    return links / (size - 1)


def _mesh_cost(
    dim: Dim, operation: Operation, algorithm: AnyAlgorithm, flat: PhaseCost
) -> PhaseCost:
    """On a mesh; ``flat`` is what it would cost where everybody reaches everybody."""
    rows, columns = mesh_shape(dim.size)
    if algorithm is not Algorithm.DIRECT:
        cycle = mesh_has_cycle(dim.size)
        hops = 1 if cycle else rows + columns - 2
        both = algorithm is Algorithm.BIDIRECTIONAL_RING and cycle and dim.size > 2
        return replace(flat, steps=flat.steps * hops, share=Fraction(2 if both else 1, 4))
    hops = rows + columns - 2
    if operation is Operation.SEND:
        return replace(flat, steps=flat.steps * hops, share=Fraction(1, 4))
    shard = flat.sent / (dim.size - 1)
    # Right and left of column c, and likewise down and up: what the busiest link and NPU carry.
    across = [rows * (c + 1) * (columns - c - 1) for c in range(columns)]
    down = [columns * (r + 1) * (rows - r - 1) for r in range(rows)]
    busiest = max(across + down)
    most = sum(max(x + y for x, y in zip(a, [0, *a], strict=False)) for a in (across, down))
    return PhaseCost(shard * most, shard * most, flat.steps * hops, Fraction(most, 4 * busiest))
