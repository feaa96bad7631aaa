"""In what order a tree of switches combines what it reduces, read off its configurations.

What comes out of the switches of one level goes into those of the next, wire by wire, as
`sw_model.fred.reduction` reads the modes of one. It knows nothing of how they were found.
"""

from __future__ import annotations

from collections.abc import Mapping

from sw_model.fred.configuration import Configuration
from sw_model.fred.reduction import RoutingError, Tree, evaluate
from sw_model.fred.tree.shape import TreePorts

__all__ = ["heard"]


def heard(
    ports: TreePorts, entry: Mapping[tuple[str, int], Configuration], sources: tuple[int, ...]
) -> dict[int, Tree]:
    """What every rank hears, as a tree over ranks, where just ``sources`` send under an entry.

    Raises
    ------
    RoutingError
        where a switch drops or lacks something, or what has come down would go up again.
    """
    tree = ports.tree
    coming: dict[tuple[str, int], dict[int, Tree]] = {}
    for rank in sources:
        switch, port = ports.down(rank)
        coming.setdefault(("L1", switch), {})[port] = rank
    out: dict[int, Tree] = {}

    def through(switch: tuple[str, int], values: dict[int, Tree]) -> dict[int, Tree]:
        configuration = entry.get(switch)
        if configuration is None:
            raise RoutingError(f"{switch[0]} switch {switch[1]} has no flows in this entry")
        return evaluate(configuration, values, lambda left, right: (left, right))

    def down(switch: int, values: dict[int, Tree]) -> dict[int, Tree]:
        """Deliver what goes to NPUs; the rest goes up."""
        rest = {}
        for port, value in values.items():
            if port < tree.ranks:
                out[switch * tree.ranks + port] = value
            else:
                rest[port - tree.ranks] = value
        return rest

    above: dict[int, dict[int, Tree]] = {}
    places: dict[tuple[int, int], tuple[int, int]] = {}
    for switch in range(tree.switches):
        for link in range(tree.ups):
            top, port = ports.top(switch, link)
            places[top, port] = (switch, link)
    for (_, switch), values in coming.items():
        for link, value in down(switch, through(("L1", switch), values)).items():
            top, port = ports.top(switch, link)
            above.setdefault(top, {})[port] = value
    below: dict[int, dict[int, Tree]] = {}
    for top, values in above.items():
        for port, value in through(("L2", top), values).items():
            switch, link = places[top, port]
            below.setdefault(switch, {})[ports.up(link)] = value
    for switch, values in below.items():
        if down(switch, through(("L1", switch), values)):
            raise RoutingError(f"L1 switch {switch} must not send up what has come down")
    return out
