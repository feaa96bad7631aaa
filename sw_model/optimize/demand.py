"""What a collective loads every dim with: LIBRA's time model, exactly.

A collective of m bytes over a group of g_d NPUs on dim d goes dim by dim, all dims at once on
different pieces, and takes as long as the dim that is slowest: max over d of traffic_d /
bandwidth_d. With the size m before it:

* all-reduce, going up: 2 m (g - 1)/g on each dim, m divided by g after it;
* reduce-scatter, going up: m (g - 1)/g;
* all-gather, going down: m (g - 1), m multiplied by g after it;
* all-to-all, going up: m (g - 1)/g, m unchanged;
* a message to the next pipeline stage (decided here): m on the innermost dim of its group; a
  FullyConnected dim has one link to each of the g - 1 others, and a message uses one of them.

On a Fred dim the bytes are those of reduction and multicast in the network
(`sw_model.collective.cost`): an all-reduce that turns there takes m.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, prod

from sw_model.collective.cost import algorithms_of
from sw_model.collective.plan import Operation
from sw_model.errors import InputError
from sw_model.optimize.network import OpenNetwork
from sw_model.schedule.bound import OrderCosts
from sw_model.topology import Dim, DimKind

__all__ = ["Communicator", "Demand", "order_costs", "split_groups", "traffic"]


_KNOWN = (
    Operation.ALL_REDUCE,
    Operation.REDUCE_SCATTER,
    Operation.ALL_GATHER,
    Operation.ALL_TO_ALL,
)


@dataclass(frozen=True)
class Communicator:
    """The groups of one kind of collective, the same on the whole network.

    Attributes
    ----------
    sizes : by dim, how many NPUs of it a group has; 1 for a dim that it does not span
    inside : by dim, how far apart its members are: NPUs of the dim that other groups take first.
        Only the simulation needs it; 1 on all dims by default
    """

    sizes: tuple[int, ...]
    inside: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.inside:
            object.__setattr__(self, "inside", (1,) * len(self.sizes))

    @property
    def ranks(self) -> int:
        """Of a group."""
        return prod(self.sizes)


@dataclass(frozen=True)
class Demand:
    """A collective, or with ``operation`` None a message to the next pipeline stage.

    ``bytes`` as in the workload: of one rank, before the collective.
    """

    operation: Operation | None
    bytes: int
    communicator: Communicator

    def __post_init__(self) -> None:
        if self.operation is not None and self.operation not in _KNOWN:
            names = ", ".join(operation.value for operation in _KNOWN)
            raise ValueError(f"operation must be one of {names}, not {self.operation.value!r}")

    @property
    def idle(self) -> bool:
        """Whether there is nothing to send."""
        return self.bytes == 0 or self.communicator.ranks == 1


def split_groups(
    network: OpenNetwork, sizes: Sequence[int], names: Sequence[str]
) -> tuple[Communicator, ...]:
    """Groups of ``sizes`` ranks one outside the other: each fills the dims from where the one
    before it ended, and may end inside a dim.

    Raises
    ------
    InputError
        where a size does not divide what is left of the dim it ends in.
    """
    left = [dim.size for dim in network.dims]
    used = [1] * len(left)
    out = []
    for size, name in zip(sizes, names, strict=True):
        wanted, taken = size, [1] * len(left)
        for d in range(len(left)):
            taken[d] = gcd(left[d], wanted)
            if left[d] > 1 and wanted > 1 and taken[d] not in (left[d], wanted):
                raise InputError(
                    f"{name} must fill the network from inside, or divide what is left of the dim "
                    f"it ends in: {size} leaves {wanted} for {left[d]} of dim {d + 1}"
                )
            wanted //= taken[d]
        if wanted > 1:
            raise InputError(
                f"{name} must be at most the NPUs that are left to it, not {size} of {network.name}"
            )
        out.append(Communicator(tuple(taken), tuple(used)))
        left = [a // b for a, b in zip(left, taken, strict=True)]
        used = [a * b for a, b in zip(used, taken, strict=True)]
    return tuple(out)


def order_costs(
    network: OpenNetwork, demand: Demand, bandwidths: Sequence[Fraction] | None = None
) -> OrderCosts:
    """What the orders of a reduce-scatter, all-gather or all-reduce cost on the dims of its group;
    ``bandwidths`` in GB/s and so times in ns for a byte, 1 where there are none."""
    assert demand.operation is not None
    dims = tuple(
        Dim(dim.kind, size, Fraction(1) if bandwidths is None else bandwidths[d], 0)
        for d, (dim, size) in enumerate(zip(network.dims, demand.communicator.sizes, strict=True))
    )
    return OrderCosts(dims, demand.operation, algorithms_of(dims, demand.operation, None))


def traffic(network: OpenNetwork, demand: Demand) -> tuple[Fraction, ...]:
    """By dim, the bytes of one NPU in the fixed order: up, and back down."""
    sizes = demand.communicator.sizes
    none = [Fraction(0)] * len(sizes)
    if demand.idle:
        return tuple(none)
    spanned = [d for d, size in enumerate(sizes) if size > 1]
    if demand.operation is None:
        inner = spanned[0]
        apart = sizes[inner] - 1 if network.dims[inner].kind is DimKind.FULLY_CONNECTED else 1
        none[inner] = Fraction(demand.bytes * apart)
        return tuple(none)
    if demand.operation is Operation.ALL_TO_ALL:
        return tuple(Fraction(demand.bytes * (size - 1), size) for size in sizes)
    scatter = () if demand.operation is Operation.ALL_GATHER else tuple(spanned)
    gather = () if demand.operation is Operation.REDUCE_SCATTER else tuple(reversed(spanned))
    largest = demand.bytes * (
        demand.communicator.ranks if demand.operation is Operation.ALL_GATHER else 1
    )
    costs = order_costs(network, demand)
    return tuple(largest * load for load in costs.loads((scatter, gather)))
