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


def warn_of_keys(system: SystemConfig) -> None:
    """One warning for all keys of a system file that are known and change nothing here."""
    if system.without_effect:
        warn(f"{system.path}: without effect here: {', '.join(system.without_effect)}")
