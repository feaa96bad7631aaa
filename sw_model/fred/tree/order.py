"""Whether what a rank hears through a tree of FRED switches can come in one order only."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sw_model.collective.plan import Collective
from sw_model.errors import InputError
from sw_model.fred.tree.placement import flow_sets
from sw_model.fred.tree.routing import GroupFlow

__all__ = ["check_order"]


def check_order(
    collectives: Iterable[Collective], npus: int, channel_of: Callable[[str], int]
) -> None:
    """Refuse collectives whose messages to one rank could overtake each other.

    A flow that a rank feeds cannot come before what the rank did earlier. One that it only hears
    can come as soon as its senders send: then a sender must have a part in everything else that
    the rank hears in that channel, since its own messages leave in the plan's order (decided here;
    a message for an op that has not started stops its channel, docs/plan.md, *Deadlock*).

    Parameters
    ----------
    collectives : all that may run; of equal ones one is enough
    npus : ranks below the tree
    channel_of : the channel of a class of traffic

    Raises
    ------
    InputError
        naming a rank, and two collectives without an order.
    """
    heard: dict[tuple[int, int], dict[GroupFlow, str]] = {}
    for one in collectives:
        channel = channel_of(one.traffic_class)
        name = f"{one.operation.value} of class {one.traffic_class.upper()}"
        for flow in (flow for flows in flow_sets(one, npus) for flow in flows):
            for rank in flow.sinks:
                heard.setdefault((channel, rank), {})[flow] = name
    for (_, rank), flows in sorted(heard.items()):
        for flow, name in flows.items():
            if rank in flow.sources:
                continue
            for other, other_name in flows.items():
                if not set(flow.sources) & set(other.group):
                    raise InputError(
                        f"rank {rank} hears the {name} from {_ranks(flow.sources)} and the "
                        f"{other_name} of {_ranks(other.group)}, in one channel of the tree: which "
                        "comes first is left to chance; give them classes of their own "
                        "(engine.classes), or let the sender take part in both"
                    )


def _ranks(ranks: tuple[int, ...]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
