"""Cutting a design at the signatures of its components, while it is elaborated.

Amaranth by itself names the ports of an inner module after whichever net reaches them, propagates
constants into it and drops what the parent leaves unread: two instances of one component become two
different modules. Here every component is converted on its own, with the ports of its signature,
and instantiated by its parent; and of components that are equal before they are elaborated (see
:mod:`sim_top.emission.identity`) only the first is elaborated at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from amaranth.back import rtlil
from amaranth.hdl import (
    ClockSignal,
    DomainRenamer,
    Elaboratable,
    Fragment,
    Instance,
    ResetSignal,
)
from amaranth.hdl._ast import Signal, SignalDict, SignalSet, Value, ValueCastable
from amaranth.hdl._ir import Design, PortDirection
from amaranth.hdl._xfrm import DomainCollector, TransformedElaboratable
from amaranth.lib import wiring

from sim_top.emission.identity import identity, inner_components, inner_signals

__all__ = ["Port", "component_ports", "convert_hierarchy", "module_name", "port_names"]

_PORT = re.compile(r"^(  wire width \d+ (?:input|output)) \d+ (?: signed)? \\(\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Port:
    """One port of a component's module: its Verilog name, its signal and whether it is driven from
    outside."""

    name: str
    signal: Signal
    is_input: bool

    @property
    def direction(self) -> PortDirection:
        """The same for Amaranth."""
        return PortDirection.Input if self.is_input else PortDirection.Output


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


PortMap = dict[str, tuple[Value, PortDirection]]


def convert_hierarchy(
    component: wiring.Component,
    *,
    name: str,
    ports: PortMap | None,
    make_library: Callable[[], Callable[[str, str], str]],
) -> None:
    """Elaborate ``component`` and convert each distinct component in it to RTLIL, leaves first.

    A component whose inner signals are read or driven from outside, past its signature, cannot be
    cut off; its class is found out by a first attempt and left in its parent by the next.

    Parameters
    ----------
    component : the design
    name : name of its module
    ports : ports of the top module where they are not those of the signature, as for
        ``amaranth.back.rtlil.convert``
    make_library : called at the start of each attempt; returns what is called with the wanted name
        and the RTLIL text (the module and any submodules that are not components) of each, and
        returns the name under which it is instantiated
    """
    if ports is None:
        ports = {port.name: (port.signal, port.direction) for port in component_ports(component)}
    inlined: set[type] = set()
    while True:
        cutter = _Cutter(make_library(), inlined)
        cutter.convert_top(component, name, ports)
        crossed = cutter.crossed()
        if not crossed:
            return
        inlined |= crossed


@dataclass(eq=False)
class _Unit:
    """One module on its way: what it was elaborated from, and the names its signals should have."""

    component: wiring.Component
    parent: _Unit | None
    names: SignalDict = field(default_factory=SignalDict)
    children: list[wiring.Component] = field(default_factory=list)
    used: SignalSet = field(default_factory=SignalSet)


@dataclass(frozen=True)
class _Module:
    """A module that has been converted, as its instances need it."""

    name: str
    domains: Sequence[str]


class _Cutter:
    """One elaboration of a design.

    While it runs, ``Fragment.get`` (through which Amaranth elaborates every submodule) returns an
    instance for each component.
    """

    def __init__(self, on_module: Callable[[str, str], str], inlined: set[type]) -> None:
        self._on_module = on_module
        self._inlined = inlined
        self._modules: dict[object, _Module] = {}
        self._units: list[_Unit] = []
        self._skipped: list[wiring.Component] = []
        self._unit: _Unit | None = None
        self._whole = False
        self._elaborate = Fragment.get

    def convert_top(self, component: wiring.Component, name: str, ports: PortMap) -> None:
        Fragment.get = staticmethod(self._get)
        try:
            self._convert(component, name, ports)
        finally:
            Fragment.get = staticmethod(self._elaborate)

    def _get(self, obj: object, platform: object) -> Fragment:
        if self._whole:
            return self._elaborate(obj, platform)
        if isinstance(obj, TransformedElaboratable):
            if all(isinstance(t, DomainRenamer) for t in obj._transforms_):
                # It renames the domains of an instance's clocks and resets, too.
                obj._MustUse__used = True
                fragment = self._get(obj._elaboratable_, platform)
                for transform in obj._transforms_:
                    fragment = transform(fragment)
                return fragment
            # Others would have no effect on an instance.
            self._whole = True
            try:
                return self._elaborate(obj, platform)
            finally:
                self._whole = False
        if not isinstance(obj, wiring.Component) or type(obj) in self._inlined:
            return self._elaborate(obj, platform)
        ports = component_ports(obj)
        if not ports or not all(isinstance(port.signal, Signal) for port in ports):
            return self._elaborate(obj, platform)
        assert self._unit is not None
        self._unit.children.append(obj)

        key = identity(obj)
        module = None if key is None else self._modules.get(key)
        if module is None:
            port_map = {port.name: (port.signal, port.direction) for port in ports}
            module = self._convert(obj, module_name(obj), port_map)
            if key is not None:
                self._modules[key] = module
        else:
            self._skipped.append(obj)
            for component in inner_components(obj):
                component._MustUse__used = True  # by the first of its kind
        connections = {}
        for domain in module.domains:
            prefix = "" if domain == "sync" else f"{domain}_"
            connections[f"i_{prefix}clk"] = ClockSignal(domain)
            connections[f"i_{prefix}rst"] = ResetSignal(domain, allow_reset_less=True)
        for port in ports:
            connections[("i_" if port.is_input else "o_") + port.name] = port.signal
        return Instance(module.name, **connections)

    def _convert(self, component: wiring.Component, wanted: str, ports: PortMap) -> _Module:
        unit = _Unit(component, parent=self._unit)
        self._units.append(unit)
        self._unit = unit
        try:
            fragment = self._elaborate(component, None)
        finally:
            self._unit = unit.parent
        collector = DomainCollector()
        collector(fragment)
        domains = sorted(collector.used_domains - collector.defined_domains - {"comb"})
        design = fragment.prepare(ports=ports, hierarchy=(wanted,))
        self._name_signals(unit, design, ports)
        unit.used = SignalSet(design.fragments[design.fragment].used_signals)
        text = self._text(unit, design, wanted)
        order = [name for name, _, _ in design.ports]
        clocks = [name for name in order if name not in ports]
        return _Module(self._on_module(wanted, _number_ports(text, [*clocks, *ports])), domains)

    def _text(self, unit: _Unit, design: Design, name: str) -> str:
        """RTLIL with the signals named after the ports they belong to."""
        with _renamed(unit.names):
            renamed = Design(design.fragment, design.ports, hierarchy=(name,))
            text, _ = rtlil.convert_fragment(renamed, renamed.ports, name, emit_src=False)
        return text

    def _name_signals(self, unit: _Unit, design: Design, ports: PortMap) -> None:
        for name, (signal, _) in ports.items():
            unit.names[signal] = name
        instances = {}
        pending = [design.fragment]
        while pending:
            for child, name, _ in pending.pop().subfragments:
                if type(child) is Instance:
                    instances[id(child)] = name
                    for port, (value, _) in child.ports.items():
                        if isinstance(value, Signal) and name is not None:
                            unit.names.setdefault(value, f"{name}_{port}")
                else:
                    pending.append(child)
        for domain in design.fragment.domains.values():
            for clock in (domain.clk, domain.rst):
                if clock is not None:
                    unit.names.pop(clock, None)

    def crossed(self) -> set[type]:
        """Classes of components whose signals are used outside their module, past their ports."""
        owner: SignalDict = SignalDict()
        crossed: set[type] = set()
        for unit in self._units:
            own = SignalSet(port.signal for port in component_ports(unit.component))
            for child in unit.children:
                own.update(port.signal for port in component_ports(child))
            for signal in unit.used:
                if signal in own:
                    continue
                other = owner.setdefault(signal, unit)
                if other is not unit:
                    # The module of a component comes before those of what it contains.
                    crossed |= _below(other, unit) or {
                        type(unit.component),
                        type(other.component),
                    }
        hidden = SignalDict()
        for component in self._skipped:
            for signal in inner_signals(component):
                hidden[signal] = type(component)
        for unit in self._units:
            crossed |= {hidden[signal] for signal in unit.used if signal in hidden}
        return crossed - self._inlined


def _below(ancestor: _Unit, unit: _Unit) -> set[type]:
    """Classes on the way from ``ancestor`` down to ``unit``, without the ancestor's own; nothing
    if it is none."""
    classes = set()
    walk: _Unit | None = unit
    while walk is not None and walk is not ancestor:
        classes.add(type(walk.component))
        walk = walk.parent
    return classes if walk is ancestor else set()


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
