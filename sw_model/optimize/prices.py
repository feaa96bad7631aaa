"""What a network costs: dollars for a GB/s of links, switches and NICs, by tier.

Source: the cost models of the public LIBRA repository. An NPU of a Ring or a FullyConnected dim
pays bandwidth x link, of a Switch bandwidth x (link + switch + NIC). The work's earlier artifact
counts half the links of a Ring or FullyConnected dim, each of which two NPUs share
(`Prices.shared_links`). A Fred dim pays as a Switch does (decided here: no price of one is known).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sw_model.optimize.network import OpenDim, OpenNetwork, Tier
from sw_model.topology import DimKind

__all__ = ["Prices", "TierPrices"]

_DIRECT = (DimKind.RING, DimKind.FULLY_CONNECTED)


@dataclass(frozen=True, kw_only=True)
class TierPrices:
    """Dollars for a GB/s; None where a tier has no such part.

    Raises
    ------
    ValueError
        for a price that is not positive.
    """

    link: Fraction
    switch: Fraction | None = None
    nic: Fraction | None = None

    def __post_init__(self) -> None:
        for name in ("link", "switch", "nic"):
            price = getattr(self, name)
            if price is not None and price <= 0:
                raise ValueError(f"{name} must be a positive price, not {float(price):g}")


@dataclass(frozen=True, kw_only=True)
class Prices:
    """Prices of all tiers.

    Parameters
    ----------
    tiers : by tier
    shared_links : a link of a Ring or FullyConnected dim is paid by two NPUs, half each
    """

    tiers: Mapping[Tier, TierPrices]
    shared_links: bool = False

    def per_npu(self, dim: OpenDim, number: int) -> Fraction:
        """Dollars for a GB/s of one NPU on ``dim``, which people call dim ``number``.

        Raises
        ------
        ValueError
            names the tier or the part that has no price.
        """
        if dim.tier is None:
            raise ValueError(f"dim {number} must have a tier, by which it is priced")
        prices = self.tiers.get(dim.tier)
        if prices is None:
            raise ValueError(f"prices must have {dim.tier.value}, the tier of dim {number}")
        if dim.kind in _DIRECT:
            return prices.link / 2 if self.shared_links else prices.link
        parts = {"switch": prices.switch}
        if dim.tier is Tier.INTER_POD:
            parts["nic"] = prices.nic
        for name, price in parts.items():
            if price is None:
                raise ValueError(
                    f"prices must have {name} for {dim.tier.value}: dim {number} is a "
                    f"{dim.kind.value}"
                )
        return prices.link + (prices.switch or 0) + (prices.nic or 0)

    def rates(self, network: OpenNetwork) -> tuple[Fraction, ...]:
        """By dim, dollars of the whole network for a GB/s of every NPU.

        Raises
        ------
        ValueError
            as `per_npu`.
        """
        return tuple(
            network.npus * self.per_npu(dim, number)
            for number, dim in enumerate(network.dims, start=1)
        )

    def cost(self, network: OpenNetwork, bandwidths: Sequence[Fraction]) -> Fraction:
        """Dollars of the whole network with ``bandwidths`` in GB/s."""
        rates = self.rates(network)
        return sum((r * b for r, b in zip(rates, bandwidths, strict=True)), Fraction(0))
