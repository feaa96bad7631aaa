"""The command ``antiphon``. Each command is a module here; `frame` runs them.

A command is imported only when it is asked for, and imports what it runs only then, so that
``antiphon --help`` and bad arguments answer at once.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """See `sim_top.cli.frame.main`, which is imported here: who interrupts even that gets the same
    short answer."""
    try:
        from sim_top.cli import frame

        return frame.main(arguments)
    except KeyboardInterrupt:
        import sys

        sys.stderr.write("antiphon: interrupted\n")
        return 130
