"""The command ``antiphon``. Each command is a module here; `frame` runs them.

A command is imported only when it is asked for, and imports what it runs only then, so that
``antiphon --help`` and bad arguments answer at once.
"""

from sim_top.cli.frame import main

__all__ = ["main"]
