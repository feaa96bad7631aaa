"""Rows as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

__all__ = ["csv_text"]


def csv_text(rows: Sequence[dict[str, Any]]) -> str:
    """A header line with the keys of the first row, then a line for each; empty without rows."""
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return text.getvalue()
