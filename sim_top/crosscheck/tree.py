"""What is cross-checked on a small wafer: two L1 switches of two NPUs below one L2 switch."""

from __future__ import annotations

from fractions import Fraction

from sw_model.collective.plan import Collective, Operation
from sw_model.fred.tree.shape import TreeShape
from sw_model.platform import TRAFFIC_CLASSES, EngineParameters, Partition, Platform
from sw_model.topology import Dim, DimKind, Topology

__all__ = ["tree_collectives", "tree_platform", "tree_shards"]

_EVERYONE = (0,)
_BELOW_ONE = ((0, 1), (2, 3))  # an L1 switch
_ACROSS = ((0, 2), (1, 3))


def tree_platform(classes: tuple[str, ...] = TRAFFIC_CLASSES) -> Platform:
    """With a channel of its own for each of ``classes``, or one for all where there are none."""
    shape = TreeShape(ranks=2, ups=2, tops=1)
    dim = Dim(DimKind.FRED, 4, Fraction(20 * 10**9), 8_000, tree=shape)
    engine = EngineParameters(
        partitions=(Partition(8, 256), Partition(8, 256)), classes=classes, data_types=("fp16",)
    )
    return Platform.from_topology(Topology((dim,)), engine=engine)


def tree_collectives() -> tuple[Collective, ...]:
    """All-reduces and sends of groups: everyone, the NPUs below each L1 switch, and pairs across
    both."""
    reduce, send = Operation.ALL_REDUCE, Operation.SEND
    return (
        Collective(reduce, 8, dims=_EVERYONE, name="a flit of everyone"),
        Collective(reduce, 16384, dims=_EVERYONE, name="all-reduce of everyone"),
        Collective(reduce, 8192, groups=_BELOW_ONE, traffic_class="mp", name="below"),
        Collective(reduce, 8192, groups=_ACROSS, name="across"),
        Collective(reduce, 999, groups=((1, 2),), name="of two alone"),
        Collective(
            send, 4100, groups=_ACROSS, root=0, target=1, traffic_class="pp", name="sent up"
        ),
        Collective(
            send, 1, groups=_BELOW_ONE, root=1, target=0, traffic_class="pp", name="sent back"
        ),
    )


def tree_shards() -> tuple[Collective, ...]:
    """Of everyone. The flows of an all-gather leave no up links for other groups (docs/fred.md)."""
    return (
        Collective(Operation.REDUCE_SCATTER, 8 * 4 * 40, dims=_EVERYONE, name="reduce-scatter"),
        Collective(Operation.ALL_GATHER, 8 * 40, dims=_EVERYONE, name="all-gather"),
    )
