"""When two components are equal before they are elaborated.

``elaborate`` is a function of the component's class and attributes. So two components of one class
whose attributes are equal, signals of equal shape standing in equal places, elaborate to the same
module. Anything that cannot be compared with certainty makes a component equal to no other, which
costs time and nothing else.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
from collections.abc import Iterator
from fractions import Fraction

from amaranth.hdl import Const, Signal, Value
from amaranth.hdl._ast import Shape, ShapeCastable, SignalDict, ValueCastable
from amaranth.lib import data, wiring

__all__ = ["identity", "inner_components", "inner_signals"]

_PLAIN = (bool, int, float, complex, str, bytes, Fraction, enum.Enum, type(None), type, range)
_OWN_PACKAGES = ("rtl", "sim_top", "testbenches", "tests")


class _NotComparableError(Exception):
    """An attribute whose equality says nothing certain."""


def identity(component: wiring.Component) -> object:
    """A hashable value that equal components share, or None for one that equals no other."""
    try:
        return _Walk().component(component)
    except _NotComparableError:
        return None


def inner_components(component: wiring.Component) -> list[wiring.Component]:
    """``component`` and those that can be reached through its attributes."""
    return [part for part in _walked(component).objects if isinstance(part, wiring.Component)]


def inner_signals(component: wiring.Component) -> Iterator[Signal]:
    """Signals that can be reached through the component's attributes but are no ports of it."""
    own = SignalDict()
    for _, _, value in component.signature.flatten(component):
        if isinstance(value, ValueCastable):
            value = value.as_value()
        if isinstance(value, Signal):
            own[value] = None
    yield from (signal for signal in _walked(component).signals if signal not in own)


def _walked(component: wiring.Component) -> _Walk:
    """A walk to the end, or to the first attribute that cannot be compared."""
    walk = _Walk()
    with contextlib.suppress(_NotComparableError):
        walk.component(component)
    return walk


class _Walk:
    """One walk through a component's attributes; signals and objects are numbered in order."""

    def __init__(self) -> None:
        self.signals: SignalDict = SignalDict()
        self.objects: list[object] = []
        self._numbers: dict[int, int] = {}

    def component(self, component: wiring.Component) -> object:
        """Class, signature and attributes."""
        return self._object(component, (*self._signature(component.signature),))

    def _signature(self, signature: wiring.Signature) -> Iterator[object]:
        for path, member in signature.members.flatten():
            yield (
                path,
                member.flow,
                *((repr(member.shape), member.init) if member.is_port else ("signature",)),
            )

    def _object(self, value: object, *extra: object) -> object:
        if id(value) in self._numbers:
            return "again", self._numbers[id(value)]
        self._numbers[id(value)] = len(self._numbers)
        self.objects.append(value)
        attributes = (
            (name, self.value(item))
            for name, item in sorted(vars(value).items())
            if not name.startswith("_MustUse__")  # Amaranth's note of where it was made
        )
        return (type(value), *extra, *attributes)

    def value(self, value: object) -> object:
        """A hashable stand-in for any attribute."""
        if isinstance(value, _PLAIN):
            return type(value), value
        if isinstance(value, Signal):
            number = self.signals.setdefault(value, len(self.signals))
            return "signal", number, len(value), value.name, repr(value.init), value.reset_less
        if isinstance(value, Const):
            return "const", value.value, len(value)
        if isinstance(value, data.View):
            return "view", repr(value.shape()), self.value(value.as_value())
        if isinstance(value, (Shape, ShapeCastable)):
            return "shape", type(value), repr(value)
        if isinstance(value, (tuple, list)):
            return type(value), *(self.value(item) for item in value)
        if isinstance(value, dict):
            return "dict", *((self.value(key), self.value(item)) for key, item in value.items())
        if isinstance(value, (set, frozenset)):
            return "set", frozenset(self.value(item) for item in value)
        if isinstance(value, wiring.Signature):
            return "signature", type(value), *self._signature(value)
        if isinstance(value, wiring.FlippedSignature):
            return "flipped", self.value(value.flip())
        if isinstance(value, wiring.SignatureMembers):
            return "members", *self._signature(wiring.Signature(value))
        if isinstance(value, wiring.FlippedInterface):
            return "flipped", self.value(wiring.flipped(value))
        if isinstance(value, (Value, ValueCastable)):
            raise _NotComparableError
        if isinstance(value, wiring.Component):
            return self.component(value)
        if isinstance(getattr(value, "signature", None), wiring.Signature):  # an interface object
            return self._object(value)
        if dataclasses.is_dataclass(value) or type(value).__module__.startswith(_OWN_PACKAGES):
            return self._object(value) if hasattr(value, "__dict__") else self._slots(value)
        raise _NotComparableError

    def _slots(self, value: object) -> object:
        if not dataclasses.is_dataclass(value):
            raise _NotComparableError
        fields = dataclasses.fields(value)
        return (type(value), *(self.value(getattr(value, field.name)) for field in fields))
