"""Readers of LIBRA's own files: network, communicators, prices and workload, as they are.

Two generations are known. The public repository has YAML (``Topology``, ``NpusCount``,
``CostDimension``; ``Forward``, ``InputGrad``, ``WeightGrad`` with -1 for a dim that is not spanned;
``InterPackage: {Link: 4.0, ...}``) and a workload text without header. The artifact of its
predecessor has JSON (``npus-count``, ``topology``, ``network-type``, ``total-bandwidth``; prices of
``Tile``, ``Package``, ``Node`` and ``Pod``) and a text with the header of ASTRA-sim 1.0. All
bandwidths are GB/s per NPU, prices dollars for a GB/s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from sw_model.document import Node
from sw_model.errors import InputError
from sw_model.optimize.demand import Communicator
from sw_model.optimize.network import KINDS, OpenDim, OpenNetwork, Tier
from sw_model.optimize.prices import Prices, TierPrices
from sw_model.schema import Choice, Key, ListOf, Number, Quantity, Record, Whole
from sw_model.topology import DimKind
from sw_model.units import parse_time_ps
from sw_model.workload import astra_text
from sw_model.workload.layers import Mode, Pass, Workload

__all__ = [
    "COMMUNICATORS",
    "LIBRA_COMMUNICATORS",
    "NETWORK",
    "PRICES",
    "GroupSizes",
    "network_at",
    "prices_at",
    "read_communicators",
    "read_workload",
]

_LARGEST_NETWORK = 2**24
_LIBRA_KINDS = {k.value: k for k in (DimKind.RING, DimKind.FULLY_CONNECTED, DimKind.SWITCH)}
_LIBRA_TIERS = {
    "InterChiplet": Tier.INTER_CHIPLET,
    "InterPackage": Tier.INTER_PACKAGE,
    "InterNode": Tier.INTER_NODE,
    "InterPod": Tier.INTER_POD,
}
_ARTIFACT_TIERS = {
    "Tile": Tier.INTER_CHIPLET,
    "Package": Tier.INTER_PACKAGE,
    "Node": Tier.INTER_NODE,
    "Pod": Tier.INTER_POD,
}


def _same_lengths(**lists: tuple[Any, ...]) -> None:
    (first, kinds), *others = lists.items()
    for name, values in others:
        if len(values) != len(kinds):
            raise ValueError(
                f"{name} must have {len(kinds)} entries, one for each dim of {first}, "
                f"not {len(values)}"
            )


def _network(
    kinds: tuple[DimKind, ...],
    sizes: tuple[int, ...],
    tiers: tuple[Tier, ...],
    total: Fraction | None = None,
) -> OpenNetwork:
    dims = zip(kinds, sizes, tiers, strict=True)
    return OpenNetwork(
        dims=tuple(OpenDim(kind=kind, size=size, tier=tier) for kind, size, tier in dims),
        total=total,
    )


def _libra(
    Topology: tuple[DimKind, ...],  # noqa: N803 (a key of the format)
    NpusCount: tuple[int, ...],  # noqa: N803
    CostDimension: tuple[Tier, ...],  # noqa: N803
) -> OpenNetwork:
    _same_lengths(Topology=Topology, NpusCount=NpusCount, CostDimension=CostDimension)
    return _network(Topology, NpusCount, CostDimension)


def _artifact(**lists: Any) -> OpenNetwork:
    total = lists.pop("total-bandwidth", None)
    _same_lengths(**{name: lists[name] for name in ("topology", "npus-count", "network-type")})
    return _network(lists["topology"], lists["npus-count"], lists["network-type"], total)


_LIBRA = Record(
    _libra,
    (
        Key("Topology", ListOf(Choice(_LIBRA_KINDS)), "kind of each dim", required=True),
        Key("NpusCount", ListOf(Whole(1)), "size of each dim", required=True),
        Key("CostDimension", ListOf(Choice(_LIBRA_TIERS)), "tier of each dim", required=True),
    ),
)
_ARTIFACT = Record(
    _artifact,
    (
        Key("topology", ListOf(Choice(_LIBRA_KINDS)), "kind of each dim", required=True),
        Key("npus-count", ListOf(Whole(1)), "size of each dim", required=True),
        Key("network-type", ListOf(Choice(_ARTIFACT_TIERS)), "tier of each dim", required=True),
        Key("total-bandwidth", Number(), "GB/s of an NPU over all dims"),
    ),
)
_DIM = Record(
    OpenDim,
    (
        Key("kind", Choice({k.value: k for k in KINDS}), "what joins the NPUs", required=True),
        Key("size", Whole(1), "NPUs in one group of the dim", required=True),
        Key("tier", Choice({t.value: t for t in Tier}), "what its links join, for the prices"),
        Key(
            "latency",
            Quantity(parse_time_ps, "500 ns"),
            "of one hop, in the simulation only",
            field="latency_ps",
        ),
    ),
)
#: Our own network without bandwidths.
NETWORK = Record(OpenNetwork, (Key("dims", ListOf(_DIM), "innermost first", required=True),))


def _names(node: Node) -> set[str]:
    return {key.text for key, _ in node.items()} if node.kind == "mapping" else set()


def network_at(node: Node) -> OpenNetwork:
    """Read a network of any of the three kinds at ``node``.

    Raises
    ------
    InputError
        with file, line and column.
    """
    names = _names(node)
    reader = NETWORK
    if "Topology" in names:
        reader = _LIBRA
    elif {"npus-count", "network-type"} & names:
        reader = _ARTIFACT
    elif node.kind == "mapping" and "dims" not in names:
        raise node.error(
            f"{node.key or 'a network'} must have the key 'dims' (our own description), 'Topology' "
            "(LIBRA's) or 'npus-count' (its artifact's)"
        )
    network: OpenNetwork = reader.read(node)
    if network.npus > _LARGEST_NETWORK:
        raise node.error(f"a network must have at most {_LARGEST_NETWORK} NPUs, not {network.npus}")
    return network


def _tier_prices(capital: bool) -> Record:
    parts = ("link", "of links"), ("switch", "of switches"), ("nic", "of NICs")
    return Record(
        TierPrices,
        tuple(
            Key(
                name.capitalize() if capital else name,
                Number(),
                f"{what}, $ for a GB/s",
                required=name == "link",
                field=name,
            )
            for name, what in parts
        ),
    )


def _tiers(names: Mapping[str, Tier], *, capital: bool, shared_links: bool) -> Record:
    def build(**tiers: TierPrices) -> Prices:
        known = {tier.value: tier for tier in Tier}
        return Prices(
            tiers={known[name]: prices for name, prices in tiers.items()},
            shared_links=shared_links,
        )

    return Record(
        build,
        tuple(
            Key(name, _tier_prices(capital), f"of {tier.value} dims", field=tier.value)
            for name, tier in names.items()
        ),
    )


#: Our own prices.
PRICES = _tiers({tier.value: tier for tier in Tier}, capital=False, shared_links=False)
_LIBRA_PRICES = _tiers(_LIBRA_TIERS, capital=True, shared_links=False)
_ARTIFACT_PRICES = _tiers(_ARTIFACT_TIERS, capital=True, shared_links=True)


def prices_at(node: Node) -> Prices:
    """Read prices of any of the three kinds at ``node``; those of the artifact share links.

    Raises
    ------
    InputError
        with file, line and column.
    """
    names = _names(node)
    reader = PRICES
    if names & set(_LIBRA_TIERS):
        reader = _LIBRA_PRICES
    elif names & set(_ARTIFACT_TIERS):
        reader = _ARTIFACT_PRICES
    prices: Prices = reader.read(node)
    return prices


class _Members:
    """NPUs of a dim that a group has, or -1 where it does not span the dim."""

    def read(self, node: Node) -> int:
        rule = "a whole number of NPUs, or -1 where the dim is not spanned"
        if node.kind == "scalar" and node.text == "-1":
            return 1
        try:
            return Whole(1, _LARGEST_NETWORK).read(node)
        except InputError:
            raise node.error(f"{node.key} must be {rule}, not {node.describe()}") from None

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": -1}


@dataclass(frozen=True, kw_only=True)
class GroupSizes:
    """By pass, the members of a group on every dim."""

    forward: tuple[int, ...]
    input_gradient: tuple[int, ...]
    weight_gradient: tuple[int, ...]

    def communicators(self, network: OpenNetwork) -> dict[Pass, Communicator]:
        """On a network. The groups of the weight gradients are those outside the others where a
        dim is divided.

        Raises
        ------
        ValueError
            begins with the name of a pass that does not fit.
        """
        out = {}
        for part in Pass:
            name = part.name.lower()
            sizes = getattr(self, name)
            if len(sizes) != len(network.dims):
                raise ValueError(
                    f"{name} must have {len(network.dims)} entries, one for each dim of the "
                    f"network, not {len(sizes)}"
                )
            for number, (size, dim) in enumerate(zip(sizes, network.dims, strict=True), start=1):
                if dim.size % size:
                    raise ValueError(
                        f"{name} must divide the {dim.size} NPUs of dim {number}, not {size}"
                    )
            inside = [1] * len(sizes)
            if part is Pass.WEIGHT_GRADIENT:
                inside = [
                    dim.size // size if size > 1 else 1
                    for size, dim in zip(sizes, network.dims, strict=True)
                ]
            out[part] = Communicator(tuple(sizes), tuple(inside))
        return out


def _group_sizes(names: Mapping[str, str]) -> Record:
    return Record(
        GroupSizes,
        tuple(
            Key(name, ListOf(_Members()), "NPUs of a group on each dim", required=True, field=field)
            for name, field in names.items()
        ),
    )


#: Our own communicators.
COMMUNICATORS = _group_sizes({part.name.lower(): part.name.lower() for part in Pass})
#: LIBRA's.
LIBRA_COMMUNICATORS = _group_sizes(
    {"Forward": "forward", "InputGrad": "input_gradient", "WeightGrad": "weight_gradient"}
)


def read_communicators(node: Node) -> GroupSizes:
    """Read communicators of either kind.

    Raises
    ------
    InputError
        with file, line and column.
    """
    libra = bool({"Forward", "InputGrad", "WeightGrad"} & _names(node))
    sizes: GroupSizes = (LIBRA_COMMUNICATORS if libra else COMMUNICATORS).read(node)
    return sizes


def read_workload(path: Path) -> tuple[Workload, bool]:
    """A workload text, and whether it has a header, which says what its groups are.

    Raises
    ------
    InputError
        with file and line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return astra_text.read(path), True  # says what is wrong
    first = next((line.split() for line in text.splitlines() if line.split()), [])
    header = len(first) < 11 or first[0] in {mode.value for mode in Mode}
    mode = None if header else Mode.DATA
    return astra_text.parse(text, str(path), headerless_mode=mode), header
