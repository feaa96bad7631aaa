"""The networks on which Themis was evaluated: 1,024 NPUs each (Themis, ISCA 2022, table 2)."""

from __future__ import annotations

from fractions import Fraction

from sw_model.collective.cost import algorithms_of
from sw_model.collective.plan import Collective, Operation
from sw_model.schedule.phases import Turn
from sw_model.schedule.single import Instance
from sw_model.topology import Dim, DimKind, Topology

__all__ = ["NETWORKS", "evaluation_instance", "evaluation_network"]

_RING, _FULL, _SWITCH = DimKind.RING, DimKind.FULLY_CONNECTED, DimKind.SWITCH

#: Kind, size, bandwidth of one NPU (its figures fit units of 2^30 B/s), step latency in ns.
NETWORKS: dict[str, tuple[tuple[DimKind, int, int, int], ...]] = {
    "2D-SW_SW": ((_SWITCH, 16, 150, 700), (_SWITCH, 64, 100, 1700)),
    "3D-SW_SW_SW_homo": (
        (_SWITCH, 16, 100, 700),
        (_SWITCH, 8, 100, 700),
        (_SWITCH, 8, 100, 1700),
    ),
    "3D-SW_SW_SW_hetero": (
        (_SWITCH, 16, 200, 700),
        (_SWITCH, 8, 100, 700),
        (_SWITCH, 8, 50, 1700),
    ),
    "3D-FC_Ring_SW": ((_FULL, 8, 175, 700), (_RING, 16, 100, 700), (_SWITCH, 8, 50, 1700)),
    "4D-Ring_SW_SW_SW": (
        (_RING, 4, 250, 20),
        (_SWITCH, 4, 200, 700),
        (_SWITCH, 8, 100, 700),
        (_SWITCH, 8, 50, 1700),
    ),
    "4D-Ring_FC_Ring_SW": (
        (_RING, 4, 375, 20),
        (_FULL, 8, 175, 700),
        (_RING, 4, 150, 700),
        (_SWITCH, 8, 100, 1700),
    ),
}


def evaluation_network(name: str, *, latencies: bool = False) -> Topology:
    """One of :data:`NETWORKS`. Without step latencies unless they are asked for: in the published
    inputs links have 1 ns."""
    return Topology(
        tuple(
            Dim(kind, size, Fraction(bandwidth * 2**30), latency * 1000 if latencies else 0)
            for kind, size, bandwidth, latency in NETWORKS[name]
        )
    )


def evaluation_instance(
    name: str,
    size: int,
    *,
    operation: Operation = Operation.ALL_REDUCE,
    latencies: bool = False,
    serial: bool = False,
) -> Instance:
    """A collective of ``size`` bytes of FP16 on one of them, without merged turning points."""
    topology = evaluation_network(name, latencies=latencies)
    dims = tuple(range(len(topology.dims)))
    return Instance(
        Collective(operation, size // 2, dims=dims),
        topology,
        algorithms_of(topology.dims, operation, None),
        turn=Turn.SPLIT,
        serial_latency=serial,
    )
