"""Deliberate faults: a module of ``rtl`` with one line of its source changed."""

import importlib
import types

__all__ = ["mutant"]


def mutant(name: str, old: str, new: str) -> types.ModuleType:
    """A second copy of the module ``name`` in which ``old``, found exactly once, reads ``new``."""
    original = importlib.import_module(name)
    assert original.__file__ is not None
    with open(original.__file__) as file:
        source = file.read()
    assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in {name}"
    copy = types.ModuleType(name)
    copy.__file__ = original.__file__
    exec(compile(source.replace(old, new), original.__file__, "exec"), copy.__dict__)
    return copy
