"""Port names for other people's flows."""

from __future__ import annotations

from amaranth.hdl import Value
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring

__all__ = ["field_ports"]


def field_ports(component: wiring.Component) -> dict[str, tuple[Value, PortDirection]]:
    """The ports of a component with each path joined by one ``_``, as AXI's names are written.

    Raises
    ------
    ValueError
        where two ports come out with the same name.
    """
    ports: dict[str, tuple[Value, PortDirection]] = {}
    for path, member, value in component.signature.flatten(component):
        name = "_".join(map(str, path))
        if name in ports:
            raise ValueError(f"name of a port must be unique, not {name!r} twice")
        direction = PortDirection.Input if member.flow is wiring.In else PortDirection.Output
        ports[name] = (Value.cast(value), direction)
    return ports
