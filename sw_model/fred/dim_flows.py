"""What the switches of a FRED dim are configured for (decided here).

All members of a dim's group take part in every op, so a configuration holds one flow: the
all-reduce, a step of a reduce-scatter, or a step of an all-gather. Only the unicasts of messages
from NPU to NPU run side by side: a *rotation* holds one from every port, all to the port as far on.
"""

from __future__ import annotations

__all__ = ["Ports", "dim_flows"]

Ports = tuple[tuple[int, ...], tuple[int, ...]]
"""Inputs and outputs of a flow."""


def dim_flows(ports: int) -> list[tuple[Ports, ...]]:
    """The flows of every configuration of a switch of ``ports``: 1 all-reduce, P reduces, P
    multicasts, P - 1 rotations."""
    everyone = tuple(range(ports))
    return [
        ((everyone, everyone),),
        *(((everyone, (port,)),) for port in everyone),
        *((((port,), everyone),) for port in everyone),
        *(
            tuple(((port,), ((port + distance) % ports,)) for port in everyone)
            for distance in range(1, ports)
        ),
    ]
