"""Readers of network descriptions: ASTRA-sim's yml and our own YAML.

ASTRA-sim's (astra-network-analytical) has one list a property, and its ``bandwidth`` is of one
*link*, one direction, in units of 2^30 bytes per second, whatever the file calls it; its
``latency`` is nanoseconds per hop. Per NPU a Ring and a Switch have one link's bandwidth, a
FullyConnected dim of P has P - 1 links'.

Our own says per NPU what it means, with the unit in the value::

    dims:
      - {kind: Ring, size: 4, bandwidth_per_npu: 20 GB/s, latency: 16 ns}
      - {kind: Fred, size: 4, bandwidth_per_npu: 15 GB/s, latency: 24 ns}
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from os import PathLike

from sw_model.document import Document, Node
from sw_model.errors import InputError
from sw_model.fred.tree.shape import TreePorts, TreeShape
from sw_model.schema import Choice, Key, ListOf, Number, Quantity, Record, Whole
from sw_model.topology import Dim, DimKind, Topology
from sw_model.units import parse_bandwidth, parse_time_ps

__all__ = ["ASTRA_NETWORK", "NETWORK", "check_ranks", "read_network", "topology_at"]

_LINK_UNIT = 2**30
#: More NPUs than any network has; some results are kept for each of them.
_LARGEST_NETWORK = 2**20
_KINDS = {kind.value: kind for kind in DimKind}
_ASTRA_KINDS = {
    kind.value: kind for kind in (DimKind.RING, DimKind.FULLY_CONNECTED, DimKind.SWITCH)
}


def _dim(**values: object) -> Dim:
    for name in ("middle_copies", "tree"):
        if name in values and values["kind"] is not DimKind.FRED:
            raise ValueError(f"{name} is for a Fred dim only")
    dim = Dim(**values)  # type: ignore[arg-type]
    if dim.tree is not None:
        TreePorts(dim.tree.tree(dim.size), dim.middle_copies)
    return dim


TREE = Record(
    TreeShape,
    (
        Key("ranks", Whole(1), "NPUs below each L1 switch", required=True),
        Key("ups", Whole(1), "up links of each L1 switch", required=True),
        Key("tops", Whole(1), "L2 switches that share the up links", required=True),
    ),
)


DIM = Record(
    _dim,
    (
        Key("kind", Choice(_KINDS), "what joins the NPUs", required=True),
        Key("size", Whole(1), "NPUs in one group of the dim", required=True),
        Key(
            "bandwidth_per_npu",
            Quantity(parse_bandwidth, "150 GB/s"),
            "of one NPU in one direction",
            required=True,
            field="bandwidth",
        ),
        Key(
            "latency",
            Quantity(parse_time_ps, "500 ns"),
            "of one hop",
            required=True,
            field="latency_ps",
        ),
        Key("middle_copies", Whole(2), "the m of FRED_m(P), for a Fred dim"),
        Key("tree", TREE, "two levels of switches in the place of one, for a Fred dim"),
    ),
)

#: Our own description.
NETWORK = Record(Topology, (Key("dims", ListOf(DIM), "innermost first", required=True),))


def _astra(
    topology: tuple[DimKind, ...],
    npus_count: tuple[int, ...],
    bandwidth: tuple[Fraction, ...],
    latency: tuple[Fraction, ...],
) -> Topology:
    for name, values in (
        ("npus_count", npus_count),
        ("bandwidth", bandwidth),
        ("latency", latency),
    ):
        if len(values) != len(topology):
            raise ValueError(
                f"{name} must have {len(topology)} entries, one for each dim of topology, "
                f"not {len(values)}"
            )
    dims = []
    for kind, size, per_link, nanoseconds in zip(
        topology, npus_count, bandwidth, latency, strict=True
    ):
        links = max(1, size - 1) if kind is DimKind.FULLY_CONNECTED else 1
        picoseconds = nanoseconds * 1000
        if picoseconds < 0 or picoseconds.denominator != 1:
            raise ValueError(
                f"latency must be whole picoseconds, at least 0, not {float(nanoseconds):g} ns"
            )
        dims.append(
            Dim(
                kind=kind,
                size=size,
                bandwidth=per_link * _LINK_UNIT * links,
                latency_ps=int(picoseconds),
            )
        )
    return Topology(tuple(dims))


#: ASTRA-sim's description.
ASTRA_NETWORK = Record(
    _astra,
    (
        Key("topology", ListOf(Choice(_ASTRA_KINDS)), "kind of each dim", required=True),
        Key("npus_count", ListOf(Whole(1)), "size of each dim", required=True),
        Key("bandwidth", ListOf(Number()), "of a link, in 2^30 B/s", required=True),
        Key("latency", ListOf(Number(above=None)), "of a hop, in ns", required=True),
    ),
)


def topology_at(node: Node) -> Topology:
    """Read a description of either kind at ``node``: ours has ``dims``, ASTRA-sim's ``topology``.

    Raises
    ------
    InputError
        with file, line and column.
    """
    names: Mapping[str, object] = {}
    if node.kind == "mapping":
        names = {key.text: None for key, _ in node.items()}
        if "dims" not in names and "topology" not in names:
            raise node.error(
                f"{node.key or 'a network'} must have the key 'dims' (our own description) or "
                "'topology' (ASTRA-sim's)"
            )
    topology = (ASTRA_NETWORK if "topology" in names else NETWORK).read(node)
    assert isinstance(topology, Topology)
    if topology.npus > _LARGEST_NETWORK:
        raise node.error(
            f"a network must have at most {_LARGEST_NETWORK} NPUs, not {topology.npus}"
        )
    count = len(topology.dims)
    if count > 1 and any(dim.tree is not None for dim in topology.dims):
        raise node.error(f"a tree of FRED switches must be the only dim, not one of {count}")
    return topology


def read_network(path: str | PathLike[str]) -> Topology:
    """Read a network file of either kind.

    Raises
    ------
    InputError
        with file, line and column.
    """
    return topology_at(Document(path).root)


def check_ranks(topology: Topology, ranks: int, *, path: str, line: int | None) -> None:
    """Refuse a network whose sizes do not multiply to ``ranks``.

    Raises
    ------
    InputError
        at the given position.
    """
    if topology.npus != ranks:
        sizes = " x ".join(str(dim.size) for dim in topology.dims)
        raise InputError(
            f"the sizes of the network must multiply to the {ranks} ranks of the workload, "
            f"not {sizes} = {topology.npus}",
            path=path,
            line=line,
        )
