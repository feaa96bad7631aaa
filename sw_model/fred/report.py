"""What ``antiphon route`` says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sw_model.fred.configuration import Configuration, parse_flow
from sw_model.fred.construction import check_size, construct
from sw_model.fred.reduction import reduction_trees
from sw_model.fred.routing import route, split

__all__ = ["route_report"]


def route_report(ports: int, middle_copies: int, flows: Sequence[str]) -> dict[str, Any]:
    """Route flows through FRED_m(P).

    Parameters
    ----------
    ports, middle_copies : P and m
    flows : ``0,1,2`` (an all-reduce) or ``0,4>1,3`` (inputs > outputs)

    Returns
    -------
    dict
        ``routable`` in one configuration, ``reason`` where it is not (else None),
        ``configurations``, the number needed, ``microswitches``, ``stages``, ``mode_bits``, and
        ``plan``: for every configuration its flows, each with the order of its reduction.

    Raises
    ------
    ValueError
        where the size is no FRED switch, no flow is given, or a flow is malformed, out of range
        or overlaps another.
    """
    check_size(ports, middle_copies)
    if not flows:
        raise ValueError("at least one flow must be given, such as 0,1,2 or 0,4>1,3")
    parsed = [parse_flow(text) for text in flows]
    outcome = route(ports, middle_copies, parsed)
    routable = isinstance(outcome, Configuration)
    configurations = (
        (outcome,) if isinstance(outcome, Configuration) else split(ports, middle_copies, parsed)
    )
    construction = construct(ports, middle_copies)
    return {
        "ports": ports,
        "middle_copies": middle_copies,
        "routable": routable,
        "reason": None if routable else str(outcome),
        "configurations": len(configurations),
        "microswitches": construction.count,
        "stages": construction.stages,
        "mode_bits": construction.mode_bits,
        "plan": [
            [
                {
                    "inputs": list(flow.inputs),
                    "outputs": list(flow.outputs),
                    "order": _spelled(tree),
                }
                for flow, tree in reduction_trees(configuration).items()
            ]
            for configuration in configurations
        ],
    }


def _spelled(tree: Any) -> str:
    """A reduction tree as (0 + 1) + 2."""
    if isinstance(tree, int):
        return str(tree)
    return " + ".join(
        _spelled(side) if isinstance(side, int) else f"({_spelled(side)})" for side in tree
    )
