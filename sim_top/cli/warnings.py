"""Warnings: one line each, on standard error."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sw_model.astra.system import SystemConfig

__all__ = ["warn", "warn_of_keys"]


def warn(message: str) -> None:
    """Something a user should know, which is no error."""
    sys.stderr.write(f"antiphon: warning: {message}\n")


def warn_of_keys(system: SystemConfig, semantics: str) -> None:
    """One warning for each key of a system file that is known and changes nothing here."""
    for key in system.without_effect(semantics):
        warn(f"{system.path}:{system.lines[key]}: {key} has no effect with {semantics} semantics")
