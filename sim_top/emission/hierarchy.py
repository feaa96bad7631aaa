"""Cutting an elaborated design at the signatures of its components.

Amaranth by itself names the ports of an inner module after whichever net reaches them, propagates
constants into it and drops what the parent leaves unread: two instances of one component become two
different modules. Here every component is converted on its own, with the ports of its signature,
and instantiated by its parent, so equal components become equal modules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from amaranth.back import rtlil
from amaranth.hdl import Elaboratable, Fragment, Instance
from amaranth.hdl._ast import Signal, SignalDict, Value, ValueCastable
from amaranth.hdl._ir import Design, PortDirection
from amaranth.lib import wiring

__all__ = ["Port", "component_ports", "convert_hierarchy", "module_name", "port_names"]


_PORT = re.compile(r"^(  wire width \d+ (?:input|output)) \d+ (?: signed)? \\(\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Port:
    """One port of a component's module: its Verilog name, its signal and whether it is driven from
    outside."""

    name: str
    signal: Signal
    is_input: bool


def component_ports(component: wiring.Component) -> list[Port]:
    """The ports of ``component`` in the order of its signature.

    The name is the path through the signature joined with ``__``, as everywhere in Amaranth: the
    stream ``i`` has the ports ``i__payload``, ``i__valid`` and ``i__ready``; the second element of
    an array ``links`` of streams has ``links__1__payload``. A payload with a layout is one port;
    members of zero bits have none.

    Raises
    ------
    ValueError
        where two members come out with the same name.
    """
    ports: list[Port] = []
    names: set[str] = set()
    for path, member, value in component.signature.flatten(component):
        if isinstance(value, ValueCastable):
            value = value.as_value()
        if not isinstance(value, Value) or len(value) == 0:
            continue
        name = "__".join(map(str, path))
        if name in names:
            raise ValueError(
                f"port name {name!r} of {type(component).__name__} must be that of one member only"
            )
        names.add(name)
        ports.append(Port(name, value, member.flow == wiring.In))
    return ports


def port_names(component: wiring.Component) -> list[str]:
    """Names of the module's ports, without clock and reset (see :func:`component_ports`)."""
    return [port.name for port in component_ports(component)]


def module_name(component: Elaboratable) -> str:
    """The wanted name of a component's module: its attribute ``module_name`` if it has one, else
    its class in snake case (``FredMicroSwitch`` becomes ``fred_micro_switch``)."""
    wanted = getattr(component, "module_name", None)
    if isinstance(wanted, str):
        return wanted
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type(component).__name__)
    return re.sub(r"\W", "_", name).strip("_").lower()


def convert_hierarchy(
    component: wiring.Component,
    *,
    name: str,
    ports: dict[str, tuple[Value, PortDirection]] | None,
    on_module: Callable[[str, str], str],
) -> None:
    """Elaborate ``component`` and convert each component in it to RTLIL, leaves first.

    Parameters
    ----------
    component : the design
    name : name of its module
    ports : ports of the top module where they are not those of the signature, as for
        ``amaranth.back.rtlil.convert``
    on_module : called with the wanted name and the RTLIL text (the module and any submodules that
        are not components) of each; returns the name under which the parent instantiates it
    """
    if ports is None:
        ports = {port.name: (port.signal, _direction(port)) for port in component_ports(component)}
    fragment = Fragment.get(component, None)
    design = fragment.prepare(ports=ports, hierarchy=(name,))
    _Cutter(design, on_module).convert_top(name)


def _direction(port: Port) -> PortDirection:
    return PortDirection.Input if port.is_input else PortDirection.Output


class _Cutter:
    """Walks the lowered design from its leaves to its root."""

    def __init__(self, design: Design, on_module: Callable[[str, str], str]) -> None:
        self._design = design
        self._on_module = on_module

    def convert_top(self, name: str) -> None:
        top = self._design.fragment
        fragment, renames = self._replace_children(top)
        clocks = SignalDict((clock, None) for clock in self._clocks(top))
        ports = sorted(self._design.ports, key=lambda port: port[1] not in clocks)
        self._convert(fragment, ports, name, renames)

    def _convert(
        self,
        fragment: Fragment,
        ports: list[tuple[str, Signal, PortDirection]],
        name: str,
        renames: SignalDict,
    ) -> str:
        for port_name, signal, _direction in ports:
            renames[signal] = port_name
        with _renamed(renames):
            text, _ = rtlil.convert_fragment(
                Design(fragment, ports, hierarchy=(name,)), ports, name, emit_src=False
            )
        return self._on_module(name, _number_ports(text, [port_name for port_name, _, _ in ports]))

    def _replace_children(self, fragment: Fragment) -> tuple[Fragment, SignalDict]:
        """A copy of ``fragment`` with instances in place of the components below it, and the names
        that their ports should have in it."""
        renames = SignalDict()
        if type(fragment) is not Fragment or not fragment.subfragments:
            return fragment, renames
        copy = Fragment(src_loc=fragment.src_loc)
        copy.statements = fragment.statements
        copy.domains = fragment.domains
        copy.attrs = fragment.attrs
        for index, (child, child_name, src_loc) in enumerate(fragment.subfragments):
            component = self._component_of(child)
            inner, inner_renames = self._replace_children(child)
            instance_name = child_name or (
                f"{module_name(component)}_{index}" if component is not None else f"part_{index}"
            )
            if component is None:
                renames.update(inner_renames.items())
                copy.add_subfragment(inner, instance_name, src_loc=src_loc)
                continue
            ports = [Port(clock.name, clock, True) for clock in self._clocks(child)]
            ports += component_ports(component)
            connections = {
                ("i_" if port.is_input else "o_") + port.name: port.signal for port in ports
            }
            module_ports = [(port.name, port.signal, _direction(port)) for port in ports]
            module = self._convert(inner, module_ports, module_name(component), inner_renames)
            copy.add_subfragment(Instance(module, **connections), instance_name, src_loc=src_loc)
            for port in component_ports(component):
                renames.setdefault(port.signal, f"{instance_name}_{port.name}")
        return copy, renames

    def _component_of(self, fragment: Fragment) -> wiring.Component | None:
        """The component that ``fragment`` was elaborated from, if its signature is all that crosses
        its boundary; a submodule that its parent reaches into stays part of the parent's text."""
        if type(fragment) is not Fragment or not fragment.origins:
            return None
        component = fragment.origins[0]
        if not isinstance(component, wiring.Component):
            return None
        own = [port.signal for port in component_ports(component)]
        if not own or any(not isinstance(signal, Signal) for signal in own):
            return None
        allowed = SignalDict((signal, None) for signal in own)
        if len(allowed) != len(own):
            return None
        for clock in self._clocks(fragment):
            allowed[clock] = None
        info = self._design.fragments[fragment]
        for signal in info.used_signals:
            lca = self._design.fragments[self._design.signal_lca[signal]]
            if lca.depth < info.depth and signal not in allowed:
                return None
        return component

    def _clocks(self, fragment: Fragment) -> Iterator[Signal]:
        """Clock and reset signals that ``fragment`` takes from outside."""
        used = self._design.fragments[fragment].used_signals
        for domain in fragment.domains.values():
            for signal in (domain.clk, domain.rst):
                if signal is not None and signal in used:
                    yield signal


def _number_ports(text: str, order: list[str]) -> str:
    """Put the ports of the first module in the given order; in those below it (which are no
    components) the clock comes first. Amaranth puts all inputs in front of all outputs."""
    parts = text.split("\nend\n")
    for index, part in enumerate(parts):
        names = [match.group(2) for match in _PORT.finditer(part)]
        wanted = order if index == 0 else sorted(names, key=lambda name: name not in ("clk", "rst"))
        place = {name: number for number, name in enumerate(wanted, start=1)}

        def numbered(match: re.Match[str], place: dict[str, int] = place) -> str:
            return f"{match.group(1)} {place[match.group(2)]} \\{match.group(2)}"

        parts[index] = _PORT.sub(numbered, part)
    return "\nend\n".join(parts)


@contextmanager
def _renamed(names: SignalDict) -> Iterator[None]:
    """Give signals other names while the block runs."""
    saved = [(signal, signal.name) for signal in names]
    try:
        for signal, name in names.items():
            signal.name = name
        yield
    finally:
        for signal, name in saved:
            signal.name = name
